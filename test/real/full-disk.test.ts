/**
 * Full disks and read-only homes, as real small file systems: a clear message, nothing lost, nothing done twice. For
 * the store and the logs, for whole jobs, and for a command whose output cannot be written or whose folder was removed.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { StoreError } from '../../src/app/errors.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { Store } from '../../src/app/ports.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { jobmanCommand } from '../support/jobman.ts';
import { requireReal } from '../support/real.ts';

/** Mounts a file system on a folder of the world; false when that is not allowed, and the test is skipped. */
function mount(t: TestContext, world: JobWorld, at: string, ...args: readonly string[]): boolean {
  mkdirSync(at, { recursive: true });
  const { status } = spawnSync('mount', [...args, at]);
  if (!requireReal(t, 'right to mount a file system', status === 0)) return false;
  world.atEnd(async () => {
    await world.stopServices();
    assert.ok(await eventually(() => spawnSync('umount', [at]).status === 0), `${at} can be unmounted`);
  });
  return true;
}

/** Takes the last byte of the file system of the folder. Returns a function that frees them. */
function fillDisk(folder: string): () => void {
  const filler = join(folder, 'filler');
  const room = openSync(filler, 'w');
  // Write small pieces at the end to take the last bytes too.
  for (const piece of [Buffer.alloc(65_536), Buffer.alloc(512)]) {
    assert.throws(
      () => {
        for (;;) writeSync(room, piece);
      },
      { code: 'ENOSPC' },
    );
  }
  closeSync(room);
  return () => rmSync(filler);
}

test('in a read-only home, jobs can be read, and every change says why it fails', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('echo seen before'));
  await world.waitForFinish(id);
  await world.runOk(['controller', 'stop']);
  const home = join(world.folder, 'closed');
  if (!mount(t, world, home, '--bind', world.home)) return;
  assert.equal(spawnSync('mount', ['-o', 'remount,bind,ro', home]).status, 0);
  const closed = { env: { JOBMAN_HOME: home } };

  assert.match((await world.runOk(['list'], closed)).stdout, /000001 .* succeeded/);
  assert.match((await world.runOk(['show', id], closed)).stdout, /exit code 0/);
  assert.equal((await world.runOk(['logs', id], closed)).stdout, '[0] seen before\n');
  assert.match((await world.runOk(['wait', id], closed)).stdout, /succeeded/);

  for (const args of [
    ['create', world.localManifest('true')],
    ['create', world.localManifest('true'), '--follow'],
    ['create', world.tpuManifest('true')],
    ['rerun', id],
    ['delete', id],
    ['clean', id],
    ['controller', 'start'],
    ['controller', 'run'],
    ['emulator', 'start'],
  ]) {
    const { code, stdout, stderr } = await world.jobman(args, closed);
    assert.equal(code, 5, stderr);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^jobman: \S+ cannot be written: \S+ is read-only or belongs to another user\. Nothing was changed\.\n/m,
    );
    assert.match(stderr, /\n {2}Set JOBMAN_HOME to a writable folder, or make this one writable\.\n$/);
  }
  assert.deepEqual(world.processesMatching('main.ts controller run'), []);

  // A running command cannot leave a request in its folder, and must still be ended.
  await world.runOk(['controller', 'start']);
  assert.match((await world.runOk(['controller', 'stop'], closed)).stdout, /Stopped the controller/);
  assert.ok(await eventually(() => world.processesMatching('main.ts controller run').length === 0));
});

test('a disk that is full during a job loses nothing, and nothing is done twice after there is space again', async (t) => {
  const world = openJobWorld(t);
  const starts = join(world.folder, 'starts');
  const go = join(world.folder, 'go');
  if (!mount(t, world, world.home, '-t', 'tmpfs', '-o', 'size=8m,mode=700', 'jobman-test')) return;
  // The program writes its last lines on the test's signal, after there is space again.
  const manifest = world.localManifest(
    `echo began; echo start >>${starts}; until [ -e ${go} ]; do sleep 0.1; done; echo done`,
  );
  const id = await world.create(manifest);
  const other = await world.create(world.localManifest('sleep 2; exit 3'));
  await world.waitUntil(id, (job) => job.phase === 'running' && job.workers[0]?.lastLine === 'began');
  await world.waitForPhase(other, 'running');

  const free = fillDisk(world.home);

  for (const args of [
    ['create', manifest],
    ['create', manifest, '--follow'],
    ['stop', id],
  ]) {
    await world.runRefused(
      5,
      /^jobman: The disk is full: \S+ could not be written\. Free some space and try again\.\n$/,
      args,
    );
  }
  assert.match(await world.output('list'), /000001 .* running/);
  // The second program ends meanwhile, and the controller cannot record it.
  assert.ok(
    await eventually(() => /The disk is full/.test(readFileSync(join(world.home, 'controller.log'), 'utf8')), {
      withinMs: 30_000,
    }),
    'the controller logs it',
  );
  const pid = world.processesMatching('controller run').map((one) => one.pid);
  assert.equal(pid.length, 1, 'the controller waits for space and does not give up');

  free();
  const failed = await world.waitForFinish(other, 1);
  assert.equal(failed.attempts.at(-1)?.evidence?.exitCode, 3);
  spawnSync('touch', [go]);
  await world.waitForFinish(id);
  assert.equal(readFileSync(starts, 'utf8'), 'start\n');
  assert.equal(world.readLog(id).toString(), 'began\ndone\n');
  assert.deepEqual(
    world.processesMatching('controller run').map((one) => one.pid),
    pid,
  );
  const rows = (await world.output('list', '--json', '--all')).trimEnd().split('\n');
  assert.equal(rows.length, 2, 'the refused job does not exist');
});

test('a server on a full disk refuses changes, answers reads, and continues once there is space, without a loss', async (t) => {
  const world = openJobWorld(t);
  if (!mount(t, world, world.home, '-t', 'tmpfs', '-o', 'size=8m,mode=700', 'jobman-test')) return;
  const token = (await world.output('token', 'create')).trim();
  const server = world.start(['server', '--listen', '127.0.0.1:0'], { withinMs: 280_000 });
  world.atEnd(async () => {
    server.child.kill('SIGTERM');
    await server.result;
  });
  await server.waitForOutput(/The server runs at \S+\./);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const remote = { env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: token, JOBMAN_HOME: join(world.folder, 'elsewhere') } };
  const output = async (...argv: readonly string[]): Promise<string> => (await world.runOk(argv, remote)).stdout;
  const idsOf = (text: string) => text.split('\n').flatMap((line) => /^\d{6}/.exec(line)?.[0] ?? []);
  const go = join(world.folder, 'go');
  const run = `echo began; until [ -e ${go} ]; do sleep 0.1; done; seq 1 1000; echo done`;
  const [id = ''] = idsOf(await output('create', world.localManifest(run), '--quiet', '--yes'));
  assert.ok(await eventually(async () => (await output('logs', id)).includes('began')));
  const follower = world.start(['logs', '-f', id], remote);
  await follower.waitForOutput('began');
  const changes = async () => idsOf(await output('list', '--all')).length;
  const before = { jobs: await changes(), audit: await output('audit', '--json', '--limit', '1000') };

  const free = fillDisk(world.home);
  mkdirSync(join(world.folder, 'code'));
  writeFileSync(join(world.folder, 'code/train.py'), 'x'.repeat(200_000));
  const withFiles = world.localManifest('true', { job: { workdir: join(world.folder, 'code') } });
  const value = join(world.folder, 'value');
  writeFileSync(value, 'a secret value');
  const refused: readonly (readonly string[])[] = [
    ['create', world.localManifest('true'), '--yes'],
    ['create', withFiles, '--yes'],
    ['stop', id],
    ['secret', 'set', 'wandb', '--file', value],
    ['user', 'add', 'ada', '--role', 'member'],
    ['token', 'create', '--name', 'other'],
  ];
  for (const argv of refused)
    await world.runRefused(
      5,
      /^jobman: The disk is full: \S+ could not be written\. Free some space and try again\.\n$/m,
      argv,
      remote,
    );
  const authorization = { authorization: `Bearer ${token}` };
  const stopped = await fetch(`${url}/v1/jobs/${id}/commands/stop`, {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: '{}',
  });
  assert.deepEqual([stopped.status, stopped.headers.get('retry-after')], [503, null], await stopped.text());
  assert.match(await output('show', id), /running/);
  // The program prints meanwhile, and the controller copies the rest of its log once there is space.
  spawnSync('touch', [go]);

  free();
  const lines = ['began', ...Array.from({ length: 1_000 }, (_, index) => `${index + 1}`), 'done'];
  const followed = await follower.result;
  assert.deepEqual([followed.code, followed.stdout], [0, lines.map((line) => `[0] ${line}\n`).join('')]);
  assert.equal(await changes(), before.jobs, 'the refused jobs do not exist');
  assert.deepEqual(await output('audit', '--json', '--limit', '1000'), before.audit, 'nor their audit rows');
  for (const argv of refused.filter(([verb]) => verb !== 'stop')) await output(...argv);
  const [, created = ''] = idsOf(await output('list', '--all')).toReversed();
  await world.runOk(['wait', created], remote);
  assert.doesNotMatch(server.stdout + server.stderr, /incident|bug/);
});

test('on a full disk nothing is created, and the message says so', async (t) => {
  const world = openJobWorld(t);
  if (!mount(t, world, world.home, '-t', 'tmpfs', '-o', 'size=64k,mode=700', 'jobman-test')) return;
  const room = openSync(join(world.home, 'filler'), 'w');
  assert.throws(() => {
    for (;;) writeSync(room, Buffer.alloc(4_096));
  });
  closeSync(room);
  for (const args of [
    ['create', world.localManifest('true')],
    ['create', world.tpuManifest('true')],
    ['controller', 'start'],
  ]) {
    const { code, stdout, stderr } = await world.jobman(args);
    assert.notEqual(code, 0);
    assert.equal(stdout, '');
    assert.match(stderr, /disk (?:of \S+ )?is full|ENOSPC|SQLITE_FULL/i, args.join(' '));
    assert.doesNotMatch(stderr, /failed because of a bug/);
  }
  assert.match((await world.runOk(['list'])).stderr, /No jobs yet/);
});

const [program, ...args] = jobmanCommand;

/** Runs a command with its output in a file. */
function intoFile(world: JobWorld, output: number | 'pipe', argv: readonly string[]) {
  return spawnSync(program, [...args, ...argv], {
    cwd: world.folder,
    env: world.env,
    stdio: ['ignore', output, 'pipe'],
    encoding: 'utf8',
  });
}

const sentence = /^jobman: The output is incomplete: no space left on device\.\n$/m;

test('output into a full device ends with a message and exit code 1', (t) => {
  const world = openJobWorld(t);
  const full = openSync('/dev/full', 'w');
  try {
    for (const argv of [['--help'], ['schema'], ['settings']]) {
      const { status, stderr } = intoFile(world, full, argv);
      assert.match(stderr, sentence, argv.join(' '));
      assert.equal(status, 1, argv.join(' '));
    }
    // The same output into a pipe works: the device was the reason, not the command.
    assert.equal(intoFile(world, 'pipe', ['schema']).status, 0);
  } finally {
    closeSync(full);
  }
});

test('output into a file on a full disk does the same, wherever it fails', (t: TestContext) => {
  const world = openJobWorld(t);
  const disk = join(world.folder, 'disk');
  if (!mount(t, world, disk, '-t', 'tmpfs', '-o', 'size=64k', 'jobman-test')) return;
  const file = openSync(join(disk, 'out'), 'w');
  try {
    writeSync(file, Buffer.alloc(60 * 1024));
    const { status, stderr } = intoFile(world, file, ['schema']);
    assert.match(stderr, sentence);
    assert.equal(status, 1);
  } finally {
    closeSync(file);
  }
});

const job = { owner: 'ada', spec: localSpec(), manifest: 'job: {}\n', at: noon };

/** A world whose home is a file system; undefined (and the test skipped) when none can be mounted. */
function mountedWorld(t: TestContext, size: string): JobWorld | undefined {
  const world = openJobWorld(t);
  return mount(t, world, world.home, '-t', 'tmpfs', '-o', `size=${size},mode=700`, 'jobman-test') ? world : undefined;
}

function open(world: JobWorld): Store {
  const store = openStore({ file: join(world.home, 'state.db') });
  world.atEnd(() => store.close());
  return store;
}

const logFilesOf = ({ home }: JobWorld, store: Store) =>
  createLogFiles({ home, history: (id, after) => store.events(id, after) });

const isTrouble = (trouble: string) => (error: unknown) => error instanceof StoreError && error.kind === trouble;

test('a read-only database is read with its write-ahead log, and refuses writes', async (t) => {
  const world = mountedWorld(t, '4m');
  if (world === undefined) return;
  const writer = open(world);
  await writer.insert(job);
  await writer.insert(job);
  // The writer still runs, so its files are as after a power cut.
  const names = readdirSync(world.home).toSorted();
  assert.deepEqual(names, ['state.db', 'state.db-shm', 'state.db-wal']);
  const copy = join(world.folder, 'copy');
  spawnSync('cp', ['-a', world.home, copy]);
  await writer.close();
  spawnSync('sh', ['-c', `rm -f ${world.home}/* && cp -a ${copy}/. ${world.home}/`]);
  rmSync(copy, { recursive: true });
  assert.equal(spawnSync('mount', ['-o', 'remount,ro', world.home]).status, 0);

  const store = open(world);
  const { jobs } = await store.list({ maxFinished: null });
  assert.equal(jobs.length, 2);
  await assert.rejects(store.insert(job), isTrouble('read_only'));
  const loaded = await store.load('000001');
  assert.ok(loaded?.revision === 1);
  await assert.rejects(logFilesOf(world, store).note(loaded.job, 'job', noon, 'x'), isTrouble('read_only'));
  await store.close();
});

test('a full disk drops the whole transaction, and the database stays intact', async (t) => {
  const world = mountedWorld(t, '1m');
  if (world === undefined) return;
  const store = open(world);
  let stored = 0;
  const fill = async () => {
    for (; stored < 10_000; stored += 1) await store.insert({ ...job, manifest: 'm'.repeat(5_000) });
  };
  await assert.rejects(fill(), isTrouble('full'));
  assert.equal((await store.list({ maxFinished: null })).jobs.length, stored);
  await store.close();

  const again = open(world);
  const { jobs } = await again.list({ maxFinished: null });
  assert.equal(jobs.length, stored);
  assert.equal((await again.events(jobs[0]?.id ?? '', 0)).length, 1);
});

test('a log on a full disk reports it, and its length is what was written', async (t) => {
  const world = mountedWorld(t, '1m');
  if (world === undefined) return;
  const store = open(world);
  const { job: stored } = await store.insert(job);
  const logFiles = logFilesOf(world, store);
  const chunk = Buffer.alloc(100_000, 'x');
  const fill = async () => {
    for (let chunks = 0; chunks < 100; chunks += 1)
      await logFiles.append(stored, { attempt: 1, worker: 0, file: 'log' }, chunk);
  };
  await assert.rejects(fill(), isTrouble('full'));
  const held = await logFiles.length(stored, { attempt: 1, worker: 0, file: 'log' });
  assert.ok(held > 0 && held < 1_000_000);
  assert.equal((await logFiles.readEnd(stored, 1, 0, 10)).length, 10);
  // After there is space again, the log continues.
  writeFileSync(join(world.home, 'jobs/ada/000001/logs/attempt_1/command_worker_0.log'), '');
  await logFiles.append(stored, { attempt: 1, worker: 0, file: 'log' }, chunk);
  assert.equal(await logFiles.length(stored, { attempt: 1, worker: 0, file: 'log' }), chunk.length);
});
