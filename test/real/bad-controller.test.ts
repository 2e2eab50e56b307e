/** The controller is killed, doubled or of another version, and the built-in cloud dies: jobs do not notice. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStore } from '../../src/store/store.ts';
import { version } from '../../src/version.ts';
import { eventually } from '../support/eventually.ts';
import { root } from '../support/root.ts';
import { end, openJobWorld, type JobWorld } from '../support/jobs.ts';

/** A whole jobman of another version: the same sources, saying another number. */
function olderJobman(world: JobWorld): (words: readonly string[]) => ReturnType<typeof spawnSync> {
  const folder = join(world.folder, 'older');
  mkdirSync(folder);
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const file = join(folder, 'src', 'version.ts');
  writeFileSync(file, readFileSync(file, 'utf8').replace(version, '0.0.1'));
  return (words) =>
    spawnSync(process.execPath, [join(folder, 'src', 'main.ts'), ...words], { env: world.env, encoding: 'utf8' });
}

const controllerFile = (world: JobWorld) =>
  JSON.parse(readFileSync(join(world.home, 'controller.json'), 'utf8')) as { pid: number; version: string };

test('a controller of an older version gives way to the newer command, and its jobs go on', async (t) => {
  const world = openJobWorld(t);
  const older = olderJobman(world);
  const starts = join(world.folder, 'starts');
  const go = join(world.folder, 'go');
  const waits = (name: string) =>
    world.localManifest(`echo ${name} >>${starts}; until [ -e ${go} ]; do sleep 0.1; done; echo ${name}`, { name });
  assert.equal(older(['create', waits('old')]).status, 0);
  assert.match(String(older(['controller', 'status']).stdout), /version 0\.0\.1/);
  await world.until('1', (job) => job.phase === 'running');
  const before = controllerFile(world);
  // A look alone does not change who is at work.
  assert.equal(before.version, '0.0.1');

  const { stderr } = await world.well(['create', waits('new')]);
  assert.match(stderr, /^Started the controller \(process \d+\); it goes on without this terminal\.$/m);
  const after = controllerFile(world);
  assert.equal(after.version, version);
  assert.notEqual(after.pid, before.pid);
  assert.equal(world.runningIn('controller run').length, 1);
  assert.match(
    readFileSync(join(world.home, 'controller.log'), 'utf8'),
    new RegExp(`asked to leave by jobman ${version}`),
  );

  await world.until('2', (job) => job.phase === 'running');
  writeFileSync(go, '');
  for (const [id, word] of [
    ['1', 'old'],
    ['2', 'new'],
  ] as const) {
    const job = await world.settled(id);
    assert.equal(job.attempts.length, 1);
    assert.equal(world.logOf(job.id).toString(), `${word}\n`);
  }
  assert.equal(readFileSync(starts, 'utf8'), 'old\nnew\n', 'each was started once');
});

test('two controllers of one home cannot run', async (t) => {
  const world = openJobWorld(t);
  await world.well(['controller', 'start']);
  const { pid } = controllerFile(world);
  const second = await world.jobman(['controller', 'run']);
  assert.equal(second.code, 4);
  assert.match(
    second.stderr,
    new RegExp(
      `^jobman: A controller of \\S+ runs already: process ${pid}, version \\S+\\. There is one at most\\.\\n`,
    ),
  );
  assert.match(second.stderr, /\n {2}To run it here instead: jobman controller stop\n$/);
  const again = await world.well(['controller', 'start']);
  assert.equal(again.stdout, `The controller runs already: process ${pid}.\n`);
  assert.deepEqual(
    world.runningIn('controller run').map((one) => one.pid),
    [pid],
  );
  await world.well(['controller', 'stop']);
  assert.equal((await world.jobman(['controller', 'status'])).code, 1);
  assert.ok(!existsSync(join(world.home, 'controller.json')));
});

test('settings that cannot be read are said by whoever starts the controller, as by every other command', async (t) => {
  const world = openJobWorld(t);
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'settings.json'), '{ "local": ');
  const said = await world.jobman(['controller', 'start']);
  const others = await world.jobman(['create', world.localManifest('true')]);
  assert.equal(said.code, 2);
  assert.match(said.stderr, /^jobman: \S+settings\.json is not valid JSON\./);
  assert.deepEqual([said.code, said.stderr], [others.code, others.stderr]);
});

test('a job whose create was ended before it could start the controller is taken up by the next look', async (t) => {
  const world = openJobWorld(t);
  const first = await world.create(world.localManifest('true'));
  await world.settled(first);
  await world.well(['controller', 'stop']);
  const store = openStore({ file: join(world.home, 'state.db') });
  const one = await store.load(first);
  assert.ok(one);
  const { owner, spec } = one.job;
  const { job } = await store.insert({ owner, spec, manifest: '', at: Date.now() });
  await store.close();

  // Stopped by its owner's word, it is not brought back by a look.
  await world.well(['list']);
  assert.equal(world.runningIn('controller run').length, 0);
  // This is how far `create` had come: committed, and knocked.
  writeFileSync(join(world.home, 'wake', job.id), '');
  assert.match((await world.well(['list'])).stderr, /Started the controller/);
  await world.settled(job.id);
});

// Random moments, of a seed that is said: what goes wrong can be looked for again.
const seed = Number(process.env['JOBMAN_TEST_SEED'] ?? Date.now() % 100_000);

function randomNumbers(from: number): () => number {
  let state = from;
  // A linear congruential generator (constants of Numerical Recipes) is random enough for a length of sleep.
  return () => (state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32;
}

test(`the controller is killed twenty times during one job of two workers, which notice nothing (seed ${seed})`, async (t) => {
  const world = openJobWorld(t);
  const random = randomNumbers(seed);
  const run = [
    `echo "$JOBMAN_WORKER $JOBMAN_ATTEMPT $JOBMAN_STAGE" >>~/bucket/starts`,
    `for line in $(seq 1 2000); do echo "$JOBMAN_WORKER $line"; done`,
    `until [ -e ~/bucket/go ]; do sleep 0.05; echo $((ticks = ticks + 1)); done`,
    `exit 0`,
  ].join('\n');
  const id = await world.create(world.cloudManifest(run));
  const looks = [['list'], ['show', id], ['why', id], ['history', id], ['logs', id, '--tail', '1']];
  let kills = 0;
  for (let turn = 0; kills < 20; turn += 1) {
    assert.ok(turn < 25, 'a look brings the controller back');
    await sleep(random() * 700);
    if (await world.killController()) kills += 1;
    await world.jobman(kills === 16 ? ['controller', 'start'] : (looks[turn % looks.length] ?? []));
    // The program ends while the controller is being killed too.
    if (kills === 14) {
      mkdirSync(world.bucket(), { recursive: true });
      writeFileSync(world.bucket('go'), '');
    }
  }
  await world.well(['controller', 'start']);
  const job = await world.settled(id);
  assert.equal(job.attempts.length, 1, JSON.stringify(job.attempts));
  assert.deepEqual(readFileSync(world.bucket('starts'), 'utf8').trimEnd().split('\n').toSorted(), ['0 1 0', '1 1 0']);
  for (const worker of [0, 1]) {
    const lines = world.logOf(id, worker).toString().trimEnd().split('\n');
    assert.deepEqual(
      lines.slice(0, 2_000),
      Array.from({ length: 2_000 }, (_, at) => `${worker} ${at + 1}`),
    );
    // Then it counted, and no line of that is missing or there twice.
    assert.deepEqual(
      lines.slice(2_000),
      Array.from({ length: lines.length - 2_000 }, (_, at) => String(at + 1)),
    );
  }
  const { stdout } = await world.well(['history', id, '--json']);
  const kinds = stdout
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { kind: string }).kind);
  for (const once of [
    'created',
    'allocation_requested',
    'attempt_created',
    'attempt_started',
    'attempt_ended',
    'settled',
  ]) {
    assert.equal(kinds.filter((kind) => kind === once).length, 1, `${once} in ${kinds.join(' ')}`);
  }
  const isEmpty = async () => /"nodes":\[\]/.test(await world.says('emulator', 'status', '--json'));
  assert.ok(await eventually(isEmpty), 'its TPU was released');
});

test('the built-in cloud is killed in the middle: not knowing is not absent, and the job goes on', async (t) => {
  const world = openJobWorld(t);
  const run = `echo "$JOBMAN_WORKER" >>~/bucket/starts; until [ -e ~/bucket/go ]; do sleep 0.05; done; echo done`;
  const id = await world.create(world.cloudManifest(run));
  await world.becomes(id, 'running');
  for (let times = 0; times < 2; times += 1) {
    // One that was killed, or that found the port taken, may take a moment to be gone.
    assert.ok(await eventually(() => world.runningIn('emulator serve').length === 1, { withinMs: 30_000 }));
    const found = world.runningIn('emulator serve');
    for (const { pid } of found) end(pid, 'SIGKILL');
    const another = () => world.runningIn('emulator serve').some(({ pid }) => pid !== found[0]?.pid);
    assert.ok(await eventually(another, { withinMs: 30_000 }), 'the controller starts the cloud again');
    const { phase, attempts } = await world.show(id);
    assert.ok(phase === 'running' || phase === 'recovering', phase);
    assert.equal(attempts.length, 1);
  }
  writeFileSync(world.bucket('go'), '');
  const job = await world.settled(id);
  assert.equal(job.attempts.length, 1);
  assert.equal(job.allocations.length, 1);
  assert.deepEqual(readFileSync(world.bucket('starts'), 'utf8').split('\n').toSorted(), ['', '0', '1']);
  assert.equal(readFileSync(world.jobFolder(id, 'logs', 'command_worker_1.log'), 'utf8'), 'done\n');
});
