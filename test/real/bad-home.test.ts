/** The home is mounted read-only, or the disk is full: said in a sentence, nothing lost, nothing done twice. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** Mounts something on a folder of the world until its end; false, and the test skipped, where that is not allowed. */
function mount(t: TestContext, world: JobWorld, at: string, ...words: readonly string[]): boolean {
  mkdirSync(at, { recursive: true });
  const { status } = spawnSync('mount', [...words, at]);
  if (!requireReal(t, 'right to mount a file system', status === 0)) return false;
  world.atEnd(async () => {
    await world.endParts();
    assert.ok(await eventually(() => spawnSync('umount', [at]).status === 0), `${at} can be unmounted`);
  });
  return true;
}

test('in a home that is mounted read-only jobs can be looked at, and every change says why it cannot be', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('echo seen before'));
  await world.settled(id);
  await world.well(['controller', 'stop']);
  const home = join(world.folder, 'closed');
  if (!mount(t, world, home, '--bind', world.home)) return;
  assert.equal(spawnSync('mount', ['-o', 'remount,bind,ro', home]).status, 0);
  const closed = { env: { JOBMAN_HOME: home } };

  assert.match((await world.well(['list'], closed)).stdout, /000001 .* succeeded/);
  assert.match((await world.well(['show', id], closed)).stdout, /exit code 0/);
  assert.equal((await world.well(['logs', id], closed)).stdout, '[0] seen before\n');
  assert.match((await world.well(['wait', id], closed)).stdout, /succeeded/);

  for (const words of [
    ['create', world.localManifest('true')],
    ['create', world.localManifest('true'), '--follow'],
    ['create', world.cloudManifest('true')],
    ['rerun', id],
    ['delete', id],
    ['clean', id],
    ['controller', 'start'],
    ['controller', 'run'],
    ['emulator', 'start'],
  ]) {
    const { code, stdout, stderr } = await world.jobman(words, closed);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^jobman: \S+ cannot be written: \S+ is read-only or belongs to somebody else\. Nothing was changed\.\n/m,
    );
    assert.match(
      stderr,
      /\n {2}Set JOBMAN_HOME to a folder of yours that can be written, or make this one writable\.\n$/,
    );
  }
  assert.deepEqual(world.runningIn('main.ts controller run'), []);

  // One that runs cannot find a word to leave in its folder, and is told all the same.
  await world.well(['controller', 'start']);
  assert.match((await world.well(['controller', 'stop'], closed)).stdout, /The controller was stopped/);
  assert.ok(await eventually(() => world.runningIn('main.ts controller run').length === 0));
});

test('a disk that is full while a job runs loses nothing, and nothing is done twice when there is room again', async (t) => {
  const world = openJobWorld(t);
  const starts = join(world.folder, 'starts');
  const go = join(world.folder, 'go');
  if (!mount(t, world, world.home, '-t', 'tmpfs', '-o', 'size=8m,mode=700', 'jobman-test')) return;
  // It writes its last lines when it is told to, which is when there is room again.
  const manifest = world.localManifest(
    `echo began; echo start >>${starts}; until [ -e ${go} ]; do sleep 0.1; done; echo done`,
  );
  const id = await world.create(manifest);
  const other = await world.create(world.localManifest('sleep 2; exit 3'));
  await world.until(id, (job) => job.phase === 'running' && job.workers[0]?.lastLine === 'began');
  await world.becomes(other, 'running');

  const filler = join(world.home, 'filler');
  const room = openSync(filler, 'w');
  // Small pieces at the end take the last bytes too.
  for (const piece of [Buffer.alloc(65_536), Buffer.alloc(512)]) {
    assert.throws(
      () => {
        for (;;) writeSync(room, piece);
      },
      { code: 'ENOSPC' },
    );
  }
  closeSync(room);

  for (const words of [
    ['create', manifest],
    ['create', manifest, '--follow'],
    ['stop', id],
  ]) {
    const { code, stdout, stderr } = await world.jobman(words);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^jobman: The disk is full: \S+ could not be written\. Free some space and try again\.\n$/);
  }
  assert.match(await world.says('list'), /000001 .* running/);
  // The second program ends meanwhile, and the controller cannot write it down.
  assert.ok(
    await eventually(() => /The disk is full/.test(readFileSync(join(world.home, 'controller.log'), 'utf8')), {
      withinMs: 30_000,
    }),
    'the controller says so in its log',
  );
  const pid = world.runningIn('controller run').map((one) => one.pid);
  assert.equal(pid.length, 1, 'it waits for room and does not give up');

  rmSync(filler);
  const failed = await world.settled(other, 1);
  assert.equal(failed.attempts.at(-1)?.evidence?.exitCode, 3);
  spawnSync('touch', [go]);
  await world.settled(id);
  assert.equal(readFileSync(starts, 'utf8'), 'start\n');
  assert.equal(world.logOf(id).toString(), 'began\ndone\n');
  assert.deepEqual(
    world.runningIn('controller run').map((one) => one.pid),
    pid,
  );
  const rows = (await world.says('list', '--json', '--all')).trimEnd().split('\n');
  assert.equal(rows.length, 2, 'what was refused is not there');
});

test('on a disk that is full from the beginning nothing is made, and that is said', async (t) => {
  const world = openJobWorld(t);
  if (!mount(t, world, world.home, '-t', 'tmpfs', '-o', 'size=64k,mode=700', 'jobman-test')) return;
  const room = openSync(join(world.home, 'filler'), 'w');
  assert.throws(() => {
    for (;;) writeSync(room, Buffer.alloc(4_096));
  });
  closeSync(room);
  for (const words of [
    ['create', world.localManifest('true')],
    ['create', world.cloudManifest('true')],
    ['controller', 'start'],
  ]) {
    const { code, stdout, stderr } = await world.jobman(words);
    assert.notEqual(code, 0);
    assert.equal(stdout, '');
    assert.match(stderr, /disk is full|ENOSPC|SQLITE_FULL/i, words.join(' '));
    assert.doesNotMatch(stderr, /mistake of its own/);
  }
  assert.match((await world.well(['list'])).stderr, /No jobs yet/);
});
