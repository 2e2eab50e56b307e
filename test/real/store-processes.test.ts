// Several real processes on one database, and processes that are killed during a write: nothing is lost.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';
import { localSpec, noon } from '../support/builders.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld, type World } from '../support/world.ts';

const script = join(import.meta.dirname, 'store-writer.ts');
const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index + 1);

interface Writer {
  readonly lines: () => readonly string[];
  readonly kill: () => void;
  readonly ended: Promise<number | null>;
  /** Resolves when it has printed that many lines. */
  waitForLines(count: number): Promise<void>;
}

function startWriter(world: World, ...args: readonly string[]): Writer {
  const child = spawn(process.execPath, [script, ...args], { env: world.env, cwd: world.folder });
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
    waitForLines: (wanted) =>
      new Promise((resolve) => {
        heard = () => {
          if (lines().length >= wanted || child.exitCode !== null) resolve();
        };
        heard();
      }),
  };
}

/** SQLite's own check of the file. */
function integrity(file: string): unknown {
  const db = new DatabaseSync(file, { readOnly: true });
  const checked = db.prepare('pragma integrity_check').get();
  db.close();
  return checked?.['integrity_check'];
}

test('four processes that create a database together write every job exactly once', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const each = 50;
  const writers = ['ada', 'bob', 'cid', 'dot'].map((owner) => startWriter(world, 'jobs', file, owner, `${each}`));
  assert.deepEqual(await Promise.all(writers.map((writer) => writer.ended)), [0, 0, 0, 0]);

  const lines = writers.flatMap((writer) => writer.lines());
  assert.equal(lines.length, 4 * each);
  assert.equal(new Set(lines).size, 4 * each);
  assert.ok(lines.every((line) => line.endsWith(' committed')));

  const store = openStore({ file });
  world.atEnd(() => store.close());
  const { jobs } = await store.list({ maxFinished: null });
  const ids = upTo(4 * each).map((number) => String(number).padStart(6, '0'));
  assert.deepEqual(jobs.map((job) => job.id).toReversed(), ids);
  assert.equal(new Set(jobs.map((job) => job.installation)).size, 1);
  assert.equal(integrity(file), 'ok');
});

test('every write that a killed process reported is complete, and the other processes continue', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const lines: string[] = [];
  for (let round = 0; round < 8; round += 1) {
    const doomed = startWriter(world, 'jobs', file, 'ada', '10000');
    const steady = startWriter(world, 'jobs', file, 'bob', '5');
    // Wait a different time in each round, so that the kill hits different steps.
    await doomed.waitForLines(1 + round * 3);
    doomed.kill();
    await doomed.ended;
    assert.equal(await steady.ended, 0);
    lines.push(...doomed.lines(), ...steady.lines());
  }

  const store = openStore({ file });
  world.atEnd(() => store.close());
  for (const line of lines) {
    const [id = ''] = line.split(' ');
    assert.equal((await store.load(id))?.job.desired, 'stopped', `job ${id} was reported as committed`);
    const kinds = (await store.events(id, 0)).map(({ event }) => event.kind);
    assert.deepEqual(kinds, ['created', 'command_received']);
  }
  // A job that was not yet reported may exist too, but then completely: with its first event, and readable.
  const { jobs } = await store.list({ maxFinished: null });
  assert.ok(jobs.length >= lines.length);
  for (const { id } of jobs) assert.equal((await store.events(id, 0)).length, (await store.load(id))?.revision);
  assert.equal(integrity(file), 'ok');
});

test('a hundred processes at once lose no window of the lab, and no number is given twice', async (t) => {
  const world = openWorld(t);
  const file = join(world.home, 'state.db');
  const store = openStore({ file });
  world.atEnd(() => store.close());
  await store.lab.addUser(aUser('xibo'));
  const jobs: string[] = [];
  for (let count = 0; count < 100; count += 1) {
    const { job } = await store.insert({ owner: 'xibo', spec: localSpec(), manifest: '', at: noon });
    await store.lab.addJob(aLabJob(job.id, 'xibo'));
    jobs.push(job.id);
  }
  const writers = jobs.map((job, index) => startWriter(world, 'lab', file, `${index + 1}`, job));
  assert.deepEqual(new Set(await Promise.all(writers.map((writer) => writer.ended))), new Set([0]));

  const [user] = await store.lab.users();
  assert.equal(Object.keys(user?.directories ?? {}).length, 100);
  assert.equal(user?.nextWindow, 101);
  const windows = await store.lab.windows({ user: 'xibo' });
  const numbers = windows.map(({ window }) => window.window);
  assert.deepEqual(numbers, upTo(100));
  assert.equal(new Set(windows.map(({ job }) => job.job)).size, 100);
  for (const { window } of windows) {
    assert.equal(window.report?.logFolder, `/srv/logs/${jobs.indexOf(window.job) + 1}`);
    assert.notEqual(window.finishedAt, null);
  }
  assert.equal((await store.lab.tpuAliases()).size, 100);
});

test('two dozen commands of a lab at once, each a separate process, all succeed and lose nothing', async (t) => {
  const world = openWorld(t, { patienceMs: 10_000 });
  const tpu = (line: string) => jobman(world, ['tpu', ...line.split(' ')]);
  assert.equal((await tpu('add-user ada')).code, 0);
  const numbers = upTo(6);
  const ended = await Promise.all(
    numbers.flatMap((number) => [
      tpu(`set-dir ${world.folder} ${number} ada`),
      tpu(`-a mom${number} config.momentum${number} ada`),
      tpu(`add-user user-${number}`),
      tpu(`-ta v2-8-${number} lab-tpu-v2-8-${number} zone=us-central1-b`),
    ]),
  );
  for (const { code, stderr } of ended) assert.equal(code, 0, stderr);

  const store = openStore({ file: join(world.home, 'state.db'), readOnly: true });
  world.atEnd(() => store.close());
  const users = await store.lab.users();
  const { directories = {}, aliases = {} } = users.find(({ name }) => name === 'ada') ?? {};
  assert.equal(Object.keys(directories).length, 6);
  assert.equal(Object.keys(aliases).filter((alias) => alias.startsWith('mom')).length, 6);
  assert.deepEqual(new Set(users.map(({ id }) => id)), new Set([0, ...numbers]));
  assert.equal((await store.lab.tpuAliases()).size, 6);
  assert.equal((await store.lab.tpus()).length, 6);
});
