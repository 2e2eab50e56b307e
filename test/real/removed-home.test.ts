/** A home that is removed, or whose record is replaced, while a controller works in it: that controller leaves. */
import assert from 'node:assert/strict';
import { readFileSync, renameSync, rmSync, copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';

/** Whoever works in it may put a file into a folder that is just being removed. */
const removing = { recursive: true, force: true, maxRetries: 20, retryDelay: 50 } as const;

/** Counts aloud, more lines than any test waits for; ends when a file of that name is there. */
const counting = (stop: string) =>
  `i=0; while [ $i -lt 300 ] && [ ! -e ${stop} ]; do echo "$JOBMAN_JOB_ID says $i"; i=$((i+1)); sleep 0.1; done`;

test('a controller whose home was removed leaves what came after it alone', async (t) => {
  const world = openJobWorld(t);
  const stop = join(world.folder, 'stop');
  // Programs of forgotten jobs run on; these end by a word of the test.
  world.atEnd(async () => writeFileSync(stop, ''));
  await world.create(world.localManifest(counting(stop)));
  const second = await world.create(world.localManifest(counting(stop)));
  await world.becomes(second, 'running');
  const [old] = world.runningIn('controller run');
  assert.ok(old);

  rmSync(world.home, removing);
  // The record begins anew, maybe with a number that the old controller works on.
  const again = await world.create(world.localManifest('echo the new one'));
  await world.settled(again);
  const isGone = async () => world.runningIn('controller run').every(({ pid }) => pid !== old.pid);
  assert.ok(await eventually(isGone, { withinMs: 30_000 }), 'the old controller has left');

  assert.ok((await world.says('controller', 'status')).includes('runs'), 'and the new one is still known');
  assert.equal(readFileSync(world.jobFolder(again, 'logs', 'command_worker_0.log'), 'utf8'), 'the new one\n');
  await world.well(['rerun', again]);
  assert.equal((await world.settled(again)).attempts.length, 2);
  assert.ok((await world.says('list')).includes(again), 'the new record is whole');
});

test('a controller whose record was replaced by a copy leaves, and the next one reads the copy', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('echo before'));
  await world.settled(id);
  await world.well(['controller', 'stop']);
  const record = join(world.home, 'state.db');
  const copy = join(world.folder, 'copy.db');
  copyFileSync(record, copy);
  // Begins the controller that is about to lose its record.
  await world.settled(await world.create(world.localManifest('true')));
  const [old] = world.runningIn('controller run');
  assert.ok(old);

  for (const file of [record, `${record}-wal`, `${record}-shm`]) rmSync(file, { force: true });
  renameSync(copy, record);
  const isGone = async () => world.runningIn('controller run').every(({ pid }) => pid !== old.pid);
  assert.ok(await eventually(isGone, { withinMs: 30_000 }), 'the old controller has left');
  const after = await world.create(world.localManifest('echo after'));
  await world.settled(after);
  assert.match(readFileSync(join(world.home, 'controller.log'), 'utf8'), /taken away/);
});

test('a cloud whose home was removed ends, and its machines with it', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.cloudManifest('while sleep 1; do echo on; done'));
  await world.becomes(id, 'running');
  assert.equal(world.runningIn('emulator serve').length, 1);
  rmSync(world.home, removing);
  const isOver = () => world.runningIn('').length === 0;
  assert.ok(
    await eventually(isOver, { withinMs: 90_000 }),
    `nothing of it runs on: ${JSON.stringify(world.runningIn(''))}`,
  );
});
