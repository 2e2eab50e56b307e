// Bad homes: each problem is reported in a sentence, no database is replaced silently, and no command ends with an
// internal error.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test, type TestContext } from 'node:test';
import { jobmanCommand, jobman, startJobman, type JobmanResult } from '../support/jobman.ts';
import { openWorld, type World } from '../support/world.ts';

function open(t: TestContext): World {
  const world = openWorld(t, { patienceMs: 20_000 });
  world.atEnd(async () => {
    await jobman(world, ['controller', 'stop']);
  });
  writeFileSync(join(world.folder, 'l.yaml'), 'job: {name: l}\nlocal: {}\ncommand: {cmd: "true"}\n');
  writeFileSync(join(world.folder, 's.yaml'), 'job: {name: s}\nlocal: {}\ncommand: {cmd: "sleep 600"}\n');
  return world;
}

function assertPrinted({ stderr }: JobmanResult, expected: RegExp): void {
  assert.match(stderr, expected);
  assert.doesNotMatch(stderr, /failed because of a bug/);
}

/** A home with one finished job, and no controller. */
async function withJob(world: World): Promise<void> {
  for (const args of [
    ['create', 'l.yaml'],
    ['wait', '1'],
    ['controller', 'stop'],
  ]) {
    const { code, stderr } = await jobman(world, args);
    assert.equal(code, 0, stderr);
  }
}

suite('a home', { timeout: 180_000 }, () => {
  test('whose path is a loop of links, or has a name that is too long', async (t) => {
    const world = open(t);
    symlinkSync('loop', join(world.folder, 'loop'));
    for (const home of [join(world.folder, 'loop'), join(world.folder, 'x'.repeat(300))]) {
      for (const args of [['list'], ['create', 'l.yaml']]) {
        const ended = await jobman(world, args, { env: { JOBMAN_HOME: home } });
        assert.equal(ended.code, 5);
        assertPrinted(ended, /cannot be used: E(LOOP|NAMETOOLONG)/);
      }
    }
  });

  test('whose files are damaged', async (t) => {
    const world = open(t);
    await withJob(world);
    const lock = join(world.home, 'controller.lock');
    writeFileSync(lock, Buffer.alloc(3_000, 'noise '));
    const ended = await jobman(world, ['create', 'l.yaml']);
    assertPrinted(
      ended,
      /controller\.lock is damaged, so jobman cannot check whether a controller is running\.\n.*delete it: rm/,
    );
    assert.equal(ended.code, 5);
    for (const verb of ['start', 'resume', 'rerun']) {
      const refused = await jobman(world, [verb, '1', '--yes']);
      assertPrinted(refused, /controller\.lock is damaged/);
      assert.equal(refused.code, 5);
    }
    rmSync(lock);
    assert.doesNotMatch((await jobman(world, ['history', '1'])).stdout, /asked|attempt 2/, 'no request was stored');

    mkdirSync(join(world.home, 'controller.json'));
    const { code, stdout, stderr } = await jobman(world, ['create', 'l.yaml']);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Created job 000002 /, 'the refused job was not stored');
    await jobman(world, ['controller', 'stop']);

    // jobman's own writes leave no journal, but SQLite reads an existing one.
    writeFileSync(join(world.home, 'state.db-journal'), Buffer.alloc(3_000, 'noise '));
    const list = await jobman(world, ['list', '--all']);
    assert.equal(list.code, 0, list.stderr);
    assert.match(list.stdout, /000001/);

    const record = new DatabaseSync(join(world.home, 'state.db'));
    record.exec("update job set status = 'null' where number = 1; delete from list_row where job = 1");
    record.close();
    for (const args of [
      ['list', '--all'],
      ['show', '1'],
      ['why', '1'],
    ]) {
      const damaged = await jobman(world, args);
      assert.equal(damaged.code, 5);
      assertPrinted(damaged, /The database \S+ is damaged \(a row holds null\)/);
    }
  });

  test('that is a copy of an existing home changes nothing', async (t) => {
    const world = open(t);
    assert.equal((await jobman(world, ['create', 's.yaml'])).code, 0);
    await jobman(world, ['tpu', 'register', 'lab-tpu-v4-8-1', 'zone=us-central2-b']);
    const copy = join(world.folder, 'copy');
    cpSync(world.home, copy, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    const env = { JOBMAN_HOME: copy };
    for (const args of [
      ['cancel', '1'],
      ['create', 'l.yaml'],
      ['controller', 'start'],
      ['exec', '1', '--', 'true'],
      ['ssh', '1', 'true'],
      ['tpu', 'restart', 'lab-tpu-v4-8-1', '--yes'],
    ]) {
      const ended = await jobman(world, args, { env });
      assert.notEqual(ended.code, 0, args.join(' '));
      assertPrinted(ended, /copy is a copy of \S+, which still exists/);
    }
    assert.match((await jobman(world, ['list'], { env })).stdout, /000001/, 'reading is allowed');
    const { stdout } = await jobman(world, ['list']);
    assert.doesNotMatch(stdout, /cancel|failed/);
    assert.equal((await jobman(world, ['cancel', '1'])).code, 0);
    await jobman(world, ['controller', 'stop']);

    // A moved home is the same home.
    const moved = join(world.folder, 'moved');
    renameSync(world.home, moved);
    const there = await jobman(world, ['create', 'l.yaml'], { env: { JOBMAN_HOME: moved } });
    assert.equal(there.code, 0, there.stderr);
    await jobman(world, ['controller', 'stop'], { env: { JOBMAN_HOME: moved } });
    renameSync(moved, world.home);
  });

  test('that others may write to, under an open umask', async (t) => {
    const world = open(t);
    const home = join(world.folder, 'open');
    mkdirSync(home);
    chmodSync(home, 0o777);
    const env = { ...world.env, JOBMAN_HOME: home };
    const command = jobmanCommand.map((arg) => `'${arg}'`).join(' ');
    const call = (line: string) =>
      spawnSync('/bin/sh', ['-c', `umask 000; ${command} ${line}`], { env, cwd: world.folder, encoding: 'utf8' });
    assert.equal(call('create l.yaml').status, 0);
    call('wait 1');
    const openOnes = readdirSync(home, { recursive: true, encoding: 'utf8' })
      .map((name) => [name, (statSync(join(home, name), { throwIfNoEntry: false })?.mode ?? 0) & 0o777] as const)
      .filter(([, mode]) => (mode & 0o077) !== 0);
    assert.deepEqual(openOnes, []);
    assert.equal(statSync(home).mode & 0o777, 0o755);
    call('controller stop');

    const sticky = join(world.folder, 'sticky');
    mkdirSync(sticky);
    chmodSync(sticky, 0o1777);
    const refused = await jobman(world, ['create', 'l.yaml'], { env: { JOBMAN_HOME: sticky } });
    assert.equal(refused.code, 5);
    assertPrinted(refused, /Other users can write to \S+sticky\. jobman stores no jobs there/);
    assert.deepEqual(readdirSync(sticky), [], 'nothing was written there');
  });

  test('with too low a limit of open files', async (t) => {
    const world = open(t);
    const command = jobmanCommand.map((arg) => `'${arg}'`).join(' ');
    const { status, stderr } = spawnSync('/bin/sh', ['-c', `ulimit -n 100; ${command} create l.yaml`], {
      env: world.env,
      cwd: world.folder,
      encoding: 'utf8',
    });
    assert.notEqual(status, 0);
    assert.match(stderr, /The controller needs 256 open files at once, but the limit is 100\. It was not started\./);
    assert.match((await jobman(world, ['controller', 'status'])).stdout, /does not run/);
  });

  test('exits with the code of the signal', async (t) => {
    const world = open(t);
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGHUP', 129],
      ['SIGINT', 130],
    ] as const) {
      const running = startJobman(world, ['create', 's.yaml', '--follow']);
      await running.waitForOutput(/queued|setup|running/);
      running.child.kill(signal);
      assert.equal((await running.result).code, code, signal);
    }
    for (const id of ['1', '2', '3']) await jobman(world, ['cancel', id]);
  });
});
