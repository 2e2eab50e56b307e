// Several real processes at one record, and processes that are killed in the middle of writing: no job is ever lost.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

interface Writer {
  readonly lines: () => readonly string[];
  readonly kill: () => void;
  readonly ended: Promise<number | null>;
  /** Resolves when it has said that many lines. */
  said(count: number): Promise<void>;
}

function startWriter(world: World, file: string, owner: string, count: number): Writer {
  const script = join(root, 'test/real/store-writer.ts');
  const child = spawn(process.execPath, [script, file, owner, `${count}`], { env: world.env, cwd: world.folder });
  let output = '';
  let problems = '';
  let heard = () => {};
  child.stderr.setEncoding('utf8').on('data', (text: string) => (problems += text));
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    heard();
  });
  const ended = new Promise<number | null>((resolve) => {
    child.on('close', (code, signal) => {
      heard();
      if (code !== 0 && signal === null) process.stderr.write(problems);
      resolve(code);
    });
  });
  const lines = () => output.split('\n').slice(0, -1);
  return {
    lines,
    ended,
    kill: () => child.kill('SIGKILL'),
    said: (wanted) =>
      new Promise((resolve) => {
        heard = () => {
          if (lines().length >= wanted || child.exitCode !== null) resolve();
        };
        heard();
      }),
  };
}

/** What SQLite itself says of the file. */
function integrity(file: string): unknown {
  const db = new DatabaseSync(file, { readOnly: true });
  const said = db.prepare('pragma integrity_check').get();
  db.close();
  return said?.['integrity_check'];
}

test('four processes that begin a record together write every job exactly once', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const each = 50;
  const writers = ['ada', 'bob', 'cid', 'dot'].map((owner) => startWriter(world, file, owner, each));
  assert.deepEqual(await Promise.all(writers.map((writer) => writer.ended)), [0, 0, 0, 0]);

  const said = writers.flatMap((writer) => writer.lines());
  assert.equal(said.length, 4 * each);
  assert.equal(new Set(said).size, 4 * each);
  assert.ok(said.every((line) => line.endsWith(' committed')));

  const store = openStore({ file });
  world.atEnd(() => store.close());
  const { jobs } = await store.list({ settledMost: null });
  assert.deepEqual(
    jobs.map((job) => job.id),
    Array.from({ length: 4 * each }, (_, index) => String(4 * each - index).padStart(6, '0')),
  );
  assert.equal(new Set(jobs.map((job) => job.installation)).size, 1);
  assert.equal(integrity(file), 'ok');
});

test('what a killed process had said is there, whole, and the others go on', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const said: string[] = [];
  for (let round = 0; round < 8; round += 1) {
    const doomed = startWriter(world, file, 'ada', 10_000);
    const steady = startWriter(world, file, 'bob', 5);
    // Not the same moment in each round: the kill meets the process at another place of its work.
    await doomed.said(1 + round * 3);
    doomed.kill();
    await doomed.ended;
    assert.equal(await steady.ended, 0);
    said.push(...doomed.lines(), ...steady.lines());
  }

  const store = openStore({ file });
  world.atEnd(() => store.close());
  for (const line of said) {
    const [id = ''] = line.split(' ');
    const stored = await store.load(id);
    assert.equal(stored?.job.desired, 'hold', `job ${id} was said to be committed`);
    const kinds = (await store.events(id, 0)).map(({ event }) => event.kind);
    assert.deepEqual(kinds, ['created', 'asked']);
  }
  // A job that was made and not yet said may be there too, but then whole: with its first event, and readable.
  const { jobs } = await store.list({ settledMost: null });
  assert.ok(jobs.length >= said.length);
  for (const job of jobs) {
    const stored = await store.load(job.id);
    const events = await store.events(job.id, 0);
    assert.equal(events.length, stored?.revision);
  }
  assert.equal(integrity(file), 'ok');
});
