/**
 * Jobs survive a controller that is killed, started twice or replaced by another version, and a killed TPU emulator. A
 * controller whose home or database is removed exits, and so does an emulator.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStore } from '../../src/store/store.ts';
import { version } from '../../src/version.ts';
import { eventually } from '../support/eventually.ts';
import { root } from '../support/root.ts';
import { sendSignal, openJobWorld, type JobWorld } from '../support/jobs.ts';

type Edit = readonly [file: string, text: string, replacement: string];

/** A complete older jobman: the same sources with these changes. */
function olderJobman(
  world: JobWorld,
  edits: readonly Edit[],
): (args: readonly string[]) => ReturnType<typeof spawnSync> {
  const folder = join(world.folder, 'older');
  mkdirSync(folder);
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const [name, text, replacement] of edits) {
    const file = join(folder, 'src', name);
    const source = readFileSync(file, 'utf8');
    assert.ok(source.includes(text), `${name} has no ${text}`);
    writeFileSync(file, source.replace(text, replacement));
  }
  return (args) =>
    spawnSync(process.execPath, [join(folder, 'src', 'main.ts'), ...args], { env: world.env, encoding: 'utf8' });
}

const controllerFile = (world: JobWorld) =>
  JSON.parse(readFileSync(join(world.home, 'controller.json'), 'utf8')) as { pid: number; version: string };

test('a controller of an older version is replaced by the newer command, and its jobs keep running', async (t) => {
  const world = openJobWorld(t);
  const older = olderJobman(world, [['version.ts', version, '0.0.1']]);
  const starts = join(world.folder, 'starts');
  const go = join(world.folder, 'go');
  const waits = (name: string) =>
    world.localManifest(`echo ${name} >>${starts}; until [ -e ${go} ]; do sleep 0.1; done; echo ${name}`, { name });
  assert.equal(older(['create', waits('old')]).status, 0);
  assert.match(String(older(['controller', 'status']).stdout), /version 0\.0\.1/);
  await world.waitUntil('1', (job) => job.phase === 'running');
  const before = controllerFile(world);
  // A reading command does not replace the controller.
  assert.equal(before.version, '0.0.1');

  const { stderr } = await world.runOk(['create', waits('new')]);
  assert.match(stderr, /^Started the controller \(process \d+\)\. It runs in the background\.$/m);
  const after = controllerFile(world);
  assert.equal(after.version, version);
  assert.notEqual(after.pid, before.pid);
  // The old process releases its lock before it ends.
  await eventually(() => world.processesMatching('controller run').length === 1);
  assert.match(
    readFileSync(join(world.home, 'controller.log'), 'utf8'),
    new RegExp(`exit requested by jobman ${version}`),
  );

  await world.waitUntil('2', (job) => job.phase === 'running');
  writeFileSync(go, '');
  for (const [id, version] of [
    ['1', 'old'],
    ['2', 'new'],
  ] as const) {
    const job = await world.waitForFinish(id);
    assert.equal(job.attempts.length, 1);
    assert.equal(world.readLog(job.id).toString(), `${version}\n`);
  }
  assert.equal(readFileSync(starts, 'utf8'), 'old\nnew\n', 'each was started once');
});

test('a controller of the same version that knows an older database is replaced, also by a reading command', async (t) => {
  const world = openJobWorld(t);
  // As it was before controllers named their database version.
  const older = olderJobman(world, [
    [
      'controller/process.ts',
      '{ pid, version, schema, startedAt, database, isServer }',
      '{ pid, version, startedAt } as never',
    ],
    ['controller/process.ts', 'formatProgram(options)', 'version'],
  ]);
  const go = join(world.folder, 'go');
  const waits = world.localManifest(`until [ -e ${go} ]; do sleep 0.1; done`);
  for (const command of [['create', waits], ['list']]) {
    await world.jobman(['controller', 'stop']);
    assert.equal(older(['create', waits]).status, 0);
    const before = controllerFile(world);
    assert.deepEqual([before.version, 'schema' in before], [version, false]);
    const { stderr } = await world.runOk(command);
    assert.match(stderr, /Started the controller \(process \d+\)/);
    const after = controllerFile(world);
    assert.equal(after.version, version);
    assert.notEqual(after.pid, before.pid);
    await eventually(() => world.processesMatching('controller run').length === 1);
  }
  const { pid } = controllerFile(world);
  await world.runOk(['create', waits]);
  assert.equal(controllerFile(world).pid, pid, 'a controller of the same program stays');
  writeFileSync(go, '');
  for (const id of ['1', '2', '3', '4']) assert.equal((await world.waitForFinish(id)).attempts.length, 1);
});

test('a home has one controller at most', async (t) => {
  const world = openJobWorld(t);
  await world.runOk(['controller', 'start']);
  const { pid } = controllerFile(world);
  const second = await world.jobman(['controller', 'run']);
  assert.equal(second.code, 4);
  assert.match(
    second.stderr,
    new RegExp(`^jobman: A controller of \\S+ is already running: process ${pid}, version \\S+\\.\\n`),
  );
  assert.match(second.stderr, /\n {2}To run it here instead: jobman controller stop\n$/);
  const again = await world.runOk(['controller', 'start']);
  assert.equal(again.stdout, `The controller already runs (process ${pid}).\n`);
  assert.deepEqual(
    world.processesMatching('controller run').map((one) => one.pid),
    [pid],
  );
  await world.runOk(['controller', 'stop']);
  assert.equal((await world.jobman(['controller', 'status'])).code, 1);
  assert.ok(!existsSync(join(world.home, 'controller.json')));
});

test('controller stop returns once the process has ended, so that a script may remove the home next', async (t) => {
  const world = openJobWorld(t);
  const slow = olderJobman(world, [
    [
      'wiring/controller-process.ts',
      'await leases.close();\n  }\n}',
      'await new Promise((end) => setTimeout(end, 1_000));\n}}',
    ],
  ]);
  assert.equal(slow(['controller', 'start']).status, 0);
  await world.runOk(['controller', 'stop']);
  assert.deepEqual(world.processesMatching('controller run'), []);
});

test('commands name a controller that hangs, and controller stop ends it', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('sleep 600'));
  await world.waitForPhase(id, 'running');
  const { pid } = controllerFile(world);
  sendSignal(pid, 'SIGSTOP');
  utimesSync(join(world.home, 'controller.json'), 1_000_000_000, 1_000_000_000);
  const silent = `The controller (process ${pid}) has not answered since 9 Sep 2001 01:46:40 UTC. If this stays so, it hangs; replace it: jobman controller restart`;
  for (const argv of [['list'], ['why', id], ['wait', id, '--timeout', '1s'], ['cancel', id]])
    assert.ok((await world.jobman(argv)).stderr.includes(`${silent}\n`), argv.join(' '));
  assert.ok((await world.output('controller', 'status')).includes(silent));
  assert.match(await world.output('controller', 'stop'), /^Stopped the controller/);
  assert.deepEqual(world.processesMatching('controller run'), []);
  await world.runOk(['controller', 'start']);
  await world.waitForPhase(id, 'cancelled');
});

test('invalid settings are reported by a start of the controller, as by every other command', async (t) => {
  const world = openJobWorld(t);
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'settings.json'), '{ "local": ');
  const result = await world.jobman(['controller', 'start']);
  const others = await world.jobman(['create', world.localManifest('true')]);
  assert.equal(result.code, 2);
  assert.match(result.stderr, /^jobman: \S+settings\.json has invalid settings\./);
  assert.deepEqual([result.code, result.stderr], [others.code, others.stderr]);
});

test('settings that break while a controller runs are named with their position in its log and by commands that do not need them, and correct ones reach it', async (t) => {
  const world = openJobWorld(t);
  await world.runOk(['controller', 'start']);
  const { pid } = controllerFile(world);
  const log = () => readFileSync(join(world.home, 'controller.log'), 'utf8');
  // From then on it counts as running.
  assert.ok(await eventually(() => /controller \S+ started as/.test(log())));
  const set = await world.runOk(['settings', 'set', 'passes.count', '0']);
  assert.match(set.stderr, /The running controller uses the new settings at once/);
  const isRestarted = () => /the settings have changed[^]*controller \S+ started as/.test(log());
  assert.ok(await eventually(isRestarted, { withinMs: 30_000 }));
  const file = join(world.home, 'settings.json');
  writeFileSync(file, '{ "local": { "slots": 0 } }');
  const mistake = `${file}:1:23 local.slots: must be a whole number of at least 1, not 0`;
  const isLogged = () => log().includes(`keeps the previous ones: ${mistake}`);
  assert.ok(await eventually(isLogged, { withinMs: 30_000 }));
  assert.equal((await world.jobman(['controller', 'restart'])).code, 2);
  assert.equal(controllerFile(world).pid, pid);
  const warning = `warning: ${mistake}. No controller can start until the settings are repaired: jobman doctor\n`;
  for (const command of [['list', '--all'], ['cost'], ['controller', 'stop']])
    assert.ok((await world.runOk(command)).stderr.endsWith(warning), command.join(' '));
  assert.equal((await world.runOk(['list', '--quiet'])).stderr, '');
});

test('a job whose create was killed before it started the controller is started by the next reading command', async (t) => {
  const world = openJobWorld(t);
  const first = await world.create(world.localManifest('true'));
  await world.waitForFinish(first);
  await world.runOk(['controller', 'stop']);
  const store = openStore({ file: join(world.home, 'state.db') });
  const one = await store.load(first);
  assert.ok(one);
  const { owner, spec } = one.job;
  const { job } = await store.insert({ owner, spec, manifest: '', at: Date.now() });
  await store.close();

  // A controller that its owner stopped is not restarted by a reading command.
  await world.runOk(['list']);
  assert.equal(world.processesMatching('controller run').length, 0);
  // `create` got this far: it committed the job and notified the controller.
  writeFileSync(join(world.home, 'wake', job.id), '');
  assert.match((await world.runOk(['list'])).stderr, /Started the controller/);
  await world.waitForFinish(job.id);
});

// Random times from a printed seed, so that a failure can be replayed.
const seed = Number(process.env['JOBMAN_TEST_SEED'] ?? Date.now() % 100_000);

function randomNumbers(from: number): () => number {
  let state = from;
  // A linear congruential generator with the constants of Numerical Recipes is random enough for a duration.
  return () => (state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32;
}

test(`the controller is killed twenty times during a job on two workers, and the job is not affected (seed ${seed})`, async (t) => {
  const world = openJobWorld(t);
  const random = randomNumbers(seed);
  const run = [
    `echo "$JOBMAN_WORKER $JOBMAN_ATTEMPT $JOBMAN_STAGE" >>~/bucket/starts`,
    `for line in $(seq 1 2000); do echo "$JOBMAN_WORKER $line"; done`,
    `until [ -e ~/bucket/go ]; do sleep 0.05; echo $((ticks = ticks + 1)); done`,
    `exit 0`,
  ].join('\n');
  const id = await world.create(world.tpuManifest(run));
  const commands = [['list'], ['show', id], ['why', id], ['history', id], ['logs', id, '--tail', '1']];
  let kills = 0;
  for (let turn = 0; kills < 20; turn += 1) {
    assert.ok(turn < 25, 'a reading command restarts the controller');
    await sleep(random() * 700);
    if (await world.killController()) kills += 1;
    await world.jobman(kills === 16 ? ['controller', 'start'] : (commands[turn % commands.length] ?? []));
    // The program ends while the controller is being killed.
    if (kills === 14) {
      mkdirSync(world.bucketPath(), { recursive: true });
      writeFileSync(world.bucketPath('go'), '');
    }
  }
  await world.runOk(['controller', 'start']);
  const job = await world.waitForFinish(id);
  assert.equal(job.attempts.length, 1, JSON.stringify(job.attempts));
  assert.deepEqual(readFileSync(world.bucketPath('starts'), 'utf8').trimEnd().split('\n').toSorted(), [
    '0 1 0',
    '1 1 0',
  ]);
  for (const worker of [0, 1]) {
    const lines = world.readLog(id, worker).toString().trimEnd().split('\n');
    assert.deepEqual(
      lines.slice(0, 2_000),
      Array.from({ length: 2_000 }, (_, at) => `${worker} ${at + 1}`),
    );
    // Every line of its log is there once.
    assert.deepEqual(
      lines.slice(2_000),
      Array.from({ length: lines.length - 2_000 }, (_, at) => String(at + 1)),
    );
  }
  const kinds = (await world.jsonRows<{ kind: string }>('history', id, '--json')).map(({ kind }) => kind);
  for (const once of [
    'created',
    'allocation_requested',
    'attempt_created',
    'attempt_started',
    'attempt_ended',
    'finished',
  ]) {
    assert.equal(kinds.filter((kind) => kind === once).length, 1, `${once} in ${kinds.join(' ')}`);
  }
  const isEmpty = async () => /"tpus":\[\]/.test(await world.output('emulator', 'status', '--json'));
  assert.ok(await eventually(isEmpty), 'its TPU was released');
});

test('while the TPU emulator is down, the job is unknown, not absent, and keeps running', async (t) => {
  const world = openJobWorld(t);
  const run = `echo "$JOBMAN_WORKER" >>~/bucket/starts; until [ -e ~/bucket/go ]; do sleep 0.05; done; echo done`;
  const id = await world.create(world.tpuManifest(run));
  await world.waitForPhase(id, 'running');
  for (let times = 0; times < 2; times += 1) {
    // An emulator that was killed, or whose port was taken, may need a moment to exit.
    assert.ok(await eventually(() => world.processesMatching('emulator serve').length === 1, { withinMs: 30_000 }));
    const found = world.processesMatching('emulator serve');
    for (const { pid } of found) sendSignal(pid, 'SIGKILL');
    const another = () => world.processesMatching('emulator serve').some(({ pid }) => pid !== found[0]?.pid);
    assert.ok(await eventually(another, { withinMs: 30_000 }), 'the controller restarts the emulator');
    const { phase, attempts } = await world.show(id);
    assert.ok(phase === 'running' || phase === 'recovering', phase);
    assert.equal(attempts.length, 1);
  }
  writeFileSync(world.bucketPath('go'), '');
  const job = await world.waitForFinish(id);
  assert.equal(job.attempts.length, 1);
  assert.equal(job.allocations.length, 1);
  assert.deepEqual(readFileSync(world.bucketPath('starts'), 'utf8').split('\n').toSorted(), ['', '0', '1']);
  assert.equal(readFileSync(world.jobFolder(id, 'logs', 'command_worker_1.log'), 'utf8'), 'done\n');
});

test('a second emulator of one home and a used port are refused with a sentence', async (t) => {
  const world = openJobWorld(t);
  await world.runOk(['emulator', 'start']);
  const second = await world.jobman(['emulator', 'serve']);
  assert.match(second.stderr, /^jobman: Another emulator is running on .*\n$/);
  assert.equal(second.code, 4);

  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const address = taken.address();
  assert.ok(address !== null && typeof address === 'object');
  const state = ['--state', `${world.folder}/other`];
  const refused = await world.jobman(['emulator', 'serve', '--port', String(address.port), ...state]);
  await new Promise<void>((resolve) => void taken.close(() => resolve()));
  assert.match(refused.stderr, /^jobman: Port \d+ on this machine is in use\. Choose another with --port\.\n$/m);
  assert.doesNotMatch(refused.stderr, /failed because of a bug|at .*\.ts/);
  assert.equal(refused.code, 1);
});

/** A program of the home may add a file to a folder that is being removed. */
const removing = { recursive: true, force: true, maxRetries: 20, retryDelay: 50 } as const;

/** Prints numbers, more lines than any test waits for, and ends when a file of that name exists. */
const counting = (stop: string) =>
  `i=0; while [ $i -lt 300 ] && [ ! -e ${stop} ]; do echo "$JOBMAN_JOB_ID says $i"; i=$((i+1)); sleep 0.1; done`;

test('a controller whose home was removed does not touch the new home', async (t) => {
  const world = openJobWorld(t);
  const stop = join(world.folder, 'stop');
  // Programs of deleted homes keep running until the test creates their file.
  world.atEnd(async () => writeFileSync(stop, ''));
  await world.create(world.localManifest(counting(stop)));
  const second = await world.create(world.localManifest(counting(stop)));
  await world.waitForPhase(second, 'running');
  const [old] = world.processesMatching('controller run');
  assert.ok(old);

  rmSync(world.home, removing);
  // The new database reuses the job number that the old controller works on.
  const again = await world.create(world.localManifest('echo the new one'));
  await world.waitForFinish(again);
  const isGone = async () => world.processesMatching('controller run').every(({ pid }) => pid !== old.pid);
  assert.ok(await eventually(isGone, { withinMs: 30_000 }), 'the old controller exits');

  assert.ok(
    (await world.output('controller', 'status')).includes('has been running for'),
    'the new controller is still registered',
  );
  assert.equal(readFileSync(world.jobFolder(again, 'logs', 'command_worker_0.log'), 'utf8'), 'the new one\n');
  await world.runOk(['rerun', again]);
  assert.equal((await world.waitForFinish(again)).attempts.length, 2);
  assert.ok((await world.output('list')).includes(again), 'the new database is intact');
});

test('a controller whose database was replaced by a copy exits, and the next controller uses the copy', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.localManifest('echo before'));
  await world.waitForFinish(id);
  await world.runOk(['controller', 'stop']);
  const record = join(world.home, 'state.db');
  const copy = join(world.folder, 'copy.db');
  copyFileSync(record, copy);
  // Starts the controller that will lose its database.
  await world.waitForFinish(await world.create(world.localManifest('true')));
  const [old] = world.processesMatching('controller run');
  assert.ok(old);

  for (const file of [record, `${record}-wal`, `${record}-shm`]) rmSync(file, { force: true });
  renameSync(copy, record);
  const isGone = async () => world.processesMatching('controller run').every(({ pid }) => pid !== old.pid);
  assert.ok(await eventually(isGone, { withinMs: 30_000 }), 'the old controller exits');
  const after = await world.create(world.localManifest('echo after'));
  await world.waitForFinish(after);
  assert.match(readFileSync(join(world.home, 'controller.log'), 'utf8'), /removed or replaced/);
});

test('an emulator whose home was removed exits and ends its hosts', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(world.tpuManifest('while sleep 1; do echo on; done'));
  await world.waitForPhase(id, 'running');
  assert.equal(world.processesMatching('emulator serve').length, 1);
  rmSync(world.home, removing);
  const isOver = () => world.processesMatching('').length === 0;
  assert.ok(
    await eventually(isOver, { withinMs: 90_000 }),
    `these processes keep running: ${JSON.stringify(world.processesMatching(''))}`,
  );
});
