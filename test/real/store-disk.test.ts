// A disk that is full and a home that is mounted read-only, as real small file systems.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { StoreError } from '../../src/app/errors.ts';
import { createLogFiles } from '../../src/app/log-files.ts';
import type { Store } from '../../src/app/ports.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { requireReal } from '../support/real.ts';
import { openWorld, type World } from '../support/world.ts';

const job = { owner: 'ada', spec: localSpec(), manifest: 'job: {}\n', at: noon };

/** A world whose home is a file system of its own, or undefined (and the test skipped) where none can be mounted. */
function mountedWorld(
  t: TestContext,
  size: string,
): { readonly world: World; readonly remount: (how: string) => void } | undefined {
  const world = openWorld(t);
  mkdirSync(world.home);
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'jobman-test', world.home]);
  if (!requireReal(t, 'right to mount a file system', status === 0)) return undefined;
  world.atEnd(() => {
    assert.equal(spawnSync('umount', [world.home]).status, 0);
  });
  return {
    world,
    remount(how) {
      const remounted = spawnSync('mount', ['-o', `remount,${how}`, world.home]);
      assert.equal(remounted.status, 0, String(remounted.stderr));
    },
  };
}

function open(world: World): Store {
  const store = openStore({ file: join(world.home, 'state.db') });
  world.atEnd(() => store.close());
  return store;
}

const isTrouble = (trouble: string) => (error: unknown) => error instanceof StoreError && error.trouble === trouble;

test('a record on a read-only file system can be read, and a write says why it cannot be', async (t) => {
  const mounted = mountedWorld(t, '4m');
  if (mounted === undefined) return;
  const { world, remount } = mounted;
  const writer = open(world);
  await writer.insert(job);
  await writer.close();
  assert.deepEqual(readdirSync(world.home), ['state.db']);
  remount('ro');

  const store = open(world);
  assert.equal((await store.list({ settledMost: null })).jobs.length, 1);
  assert.equal((await store.load('000001'))?.revision, 1);
  await assert.rejects(store.insert(job), isTrouble('read_only'));
  const loaded = await store.load('000001');
  assert.ok(loaded);
  await assert.rejects(
    createLogFiles({ home: world.home, history: (id, after) => store.events(id, after) }).note(
      loaded.job,
      'job',
      noon,
      'x',
    ),
    isTrouble('read_only'),
  );
  await store.close();
});

test('a record whose log was not merged when the file system became read-only is read whole', async (t) => {
  const mounted = mountedWorld(t, '4m');
  if (mounted === undefined) return;
  const { world, remount } = mounted;
  const writer = open(world);
  await writer.insert(job);
  await writer.insert(job);
  // The writer is still there, as after a power cut its files would be.
  const names = readdirSync(world.home).toSorted();
  assert.deepEqual(names, ['state.db', 'state.db-shm', 'state.db-wal']);
  const copy = join(world.folder, 'copy');
  spawnSync('cp', ['-a', world.home, copy]);
  await writer.close();
  spawnSync('sh', ['-c', `rm -f ${world.home}/* && cp -a ${copy}/. ${world.home}/`]);
  rmSync(copy, { recursive: true });
  remount('ro');

  const store = open(world);
  assert.equal((await store.list({ settledMost: null })).jobs.length, 2);
  await store.close();
});

test('a full disk drops the whole write, and after that the record is as it was', async (t) => {
  const mounted = mountedWorld(t, '1m');
  if (mounted === undefined) return;
  const { world } = mounted;
  const store = open(world);
  let stored = 0;
  const fill = async () => {
    for (; stored < 10_000; stored += 1) await store.insert({ ...job, manifest: 'm'.repeat(5_000) });
  };
  await assert.rejects(fill(), isTrouble('full'));
  assert.equal((await store.list({ settledMost: null })).jobs.length, stored);
  await store.close();

  const again = open(world);
  const { jobs } = await again.list({ settledMost: null });
  assert.equal(jobs.length, stored);
  assert.equal((await again.events(jobs[0]?.id ?? '', 0)).length, 1);
});

test('a log that meets a full disk says so, and its length tells what was written', async (t) => {
  const mounted = mountedWorld(t, '1m');
  if (mounted === undefined) return;
  const { world } = mounted;
  const store = open(world);
  const { job: stored } = await store.insert(job);
  const logFiles = createLogFiles({ home: world.home, history: (id, after) => store.events(id, after) });
  const chunk = Buffer.alloc(100_000, 'x');
  const fill = async () => {
    for (let chunks = 0; chunks < 100; chunks += 1) await logFiles.append(stored, 1, 0, chunk);
  };
  await assert.rejects(fill(), isTrouble('full'));
  const held = await logFiles.length(stored, 1, 0);
  assert.ok(held > 0 && held < 1_000_000);
  assert.equal((await logFiles.last(stored, 1, 0, 10)).length, 10);
  // Room again: it goes on where it stopped.
  writeFileSync(join(world.home, 'jobs/ada/000001/logs/attempt_1/command_worker_0.log'), '');
  await logFiles.append(stored, 1, 0, chunk);
  assert.equal(await logFiles.length(stored, 1, 0), chunk.length);
});
