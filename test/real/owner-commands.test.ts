/** Every command of the owner on a job of the TPU emulator: its effect, its output and its refusals. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** Runs a command that must succeed, and returns its output. */
async function runOk(world: JobWorld, ...args: readonly string[]): Promise<string> {
  return (await world.runOk(args)).stdout.trimEnd();
}

/** Runs a command that must be refused with that code, and returns its message. */
async function refused(world: JobWorld, code: number, ...args: readonly string[]): Promise<string> {
  const ended = await world.jobman(args);
  assert.equal(ended.code, code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`);
  assert.equal(ended.stdout, '');
  return ended.stderr.trimEnd();
}

const nodesOf = async (world: JobWorld): Promise<readonly { readonly name: string }[]> =>
  (JSON.parse(await runOk(world, 'emulator', 'status', '--json')) as { tpus: { name: string }[] }).tpus;

const train = [
  'mkdir -p "$JOBMAN_CHECKPOINT_DIR/step_$JOBMAN_ATTEMPT" "$JOBMAN_CHECKPOINT_DIR/step_9.tmp"',
  'echo "$JOBMAN_ATTEMPT $JOBMAN_STAGE ${JOBMAN_RESUME_FROM##*/}" >>~/bucket/starts',
  'while :; do sleep 0.1; done',
].join('\n');

test('stop, start, resume, cancel, rerun and delete, each with the kept capacity and its cost', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(
    world.tpuManifest(train, {
      name: 'cycle',
      job: { checkpoint_dir: '~/bucket/ck' },
      tpu: { accelerator: 'v4-8' },
    }),
  );
  const starts = () => readFileSync(world.bucketPath('starts'), 'utf8').replace(/\n$/, '').split('\n');
  const running = async (attempt: number) => {
    const job = await world.waitUntil(id, (one) => one.phase === 'running' && one.attempt === attempt);
    assert.ok(await eventually(() => starts().length === attempt));
    return job;
  };
  await running(1);

  assert.match(await refused(world, 4, 'start', id), /^jobman: Job 000001 \(cycle\) is already active \(running\)\.$/);
  assert.match(await refused(world, 4, 'resume', id), /is already active \(running\); stop it first to resume it\.$/);
  assert.match(await refused(world, 4, 'clean', id), /has not finished; cancel it first\.$/);

  const held =
    /^Stopping job 000001 \(cycle\)\. It keeps its v4-8, which costs about \$\d+\.\d\d\/h on Google Cloud \(simulated: free\)\. Release it: jobman stop 1 --release$/;
  assert.match(await runOk(world, 'stop', id), held);
  const stopped = await world.waitForPhase(id, 'stopped');
  assert.equal(stopped.heldCapacity, 'v4-8');
  assert.ok((stopped.pricePerHourUsd ?? 0) > 1);
  assert.deepEqual(world.processesMatching(join('attempt_1', 'script')), [], 'the program has ended');
  assert.match(
    await runOk(world, 'why', id),
    /It keeps its v4-8, which costs about \$\d+\.\d\d\/h on Google Cloud \(simulated: free\)\.\n/,
  );

  assert.match(await runOk(world, 'start', id), /^Starting job 000001 \(cycle\)\.$/);
  assert.equal((await running(2)).allocations.length, 1, 'on what it held');
  await runOk(world, 'stop', id);
  await world.waitForPhase(id, 'stopped');
  assert.match(await runOk(world, 'resume', id), /^Resuming job .* from its last checkpoint\.$/);
  assert.equal((await running(3)).stage, 1);

  assert.match(await runOk(world, 'stop', id, '--release'), /^Stopping job .* Its TPU is being released\.$/);
  await world.waitUntil(
    id,
    (job) => job.phase === 'stopped' && job.allocations.every(({ goneAt: gone }) => gone !== null),
  );
  assert.deepEqual(await nodesOf(world), []);
  assert.match(await runOk(world, 'resume', id), /^Resuming job .* from its last checkpoint\.$/);
  assert.equal((await running(4)).allocations.length, 2, 'on new capacity');

  assert.match(await runOk(world, 'cancel', id), /^Cancelling job 000001 \(cycle\)\. Its TPU is being released\.$/);
  await world.waitUntil(
    id,
    (job) => job.phase === 'cancelled' && job.allocations.every(({ goneAt: gone }) => gone !== null),
  );
  assert.match(await runOk(world, 'resume', id), /^Resuming job .* from its last checkpoint\.$/);
  assert.equal((await running(5)).stage, 3);

  await runOk(world, 'stop', id);
  await world.waitForPhase(id, 'stopped');
  assert.match(await runOk(world, 'rerun', id), /^Rerunning job .* from the beginning\.$/);
  assert.equal((await running(6)).stage, 0);
  // Incomplete checkpoints are skipped; a fresh start and a rerun get none.
  assert.deepEqual(starts(), ['1 0 ', '2 0 ', '3 1 step_2', '4 2 step_3', '5 3 step_4', '6 0 ']);

  const question = await refused(world, 4, 'delete', id);
  assert.match(
    question,
    /^jobman: Job 000001 \(cycle\) holds v4-8, which costs about \$\d+\.\d\d\/h on Google Cloud \(simulated: free\)\. It was not deleted\. Confirm with --yes\.$/,
  );
  assert.match(
    await runOk(world, 'delete', id, '--yes'),
    /^Deleting job .* It leaves the list once its TPU is released\.$/,
  );
  assert.match(await refused(world, 4, 'stop', id), /is already being deleted\.$/);
  const isListed = async () => (await runOk(world, 'list', '--all', '--json')).includes('"id":"000001"');
  // The job is listed as long as its node exists.
  await eventually(
    async () => {
      const nodes = await nodesOf(world);
      if (nodes.length === 0) return true;
      return !(await isListed()) && assert.fail(`not listed while ${JSON.stringify(nodes)} exists`);
    },
    { withinMs: 60_000 },
  );
  assert.ok(await eventually(async () => !(await isListed()), { withinMs: 60_000 }));
  assert.deepEqual(world.processesMatching('script'), []);
  assert.match(await refused(world, 4, 'delete', id, '--yes'), /has already been deleted\.$/);
  assert.match(await refused(world, 4, 'resume', id), /was deleted; create a new one\.$/);
  // Its history is kept; its files are deleted on request.
  assert.match(await runOk(world, 'history', id), /removed from the list; its history and logs are kept$/);
  assert.match(await runOk(world, 'clean', id), /^Removed the files of job 000001 \(cycle\)\.$/);
  assert.throws(() => readFileSync(world.jobFolder(id, 'config.yaml')), { code: 'ENOENT' });
});

test('a finished job keeps its TPU for keep_for; gc releases a TPU that a forced delete has left', async (t) => {
  const world = openJobWorld(t);
  const kept = await world.create(
    world.tpuManifest('true', {
      name: 'kept',
      job: { on_finish: 'keep', keep_for: '10s' },
      tpu: { accelerator: 'v4-8' },
    }),
  );
  const left = await world.create(
    world.tpuManifest('while :; do sleep 0.1; done', { name: 'left', tpu: { accelerator: 'v4-8' } }),
  );
  const done = await world.waitForFinish(kept);
  assert.equal(done.heldCapacity, 'v4-8');
  assert.match(
    await runOk(world, 'why', kept),
    /It keeps its v4-8, which costs about \$\d+\.\d\d\/h on Google Cloud \(simulated: free\)\.\n(.*\n)*next +The controller releases its v4-8 \(in \d+s\)\. Release it now: jobman stop 1 --release$/,
  );
  await world.waitForPhase(left, 'running');

  const answer = await runOk(world, 'delete', left, '--force', '--yes');
  assert.match(
    answer,
    /^Deleted job 000002 \(left\)\..* Its TPU may still exist .*\(\S+\/left-000002-1\)\. Release it: jobman gc$/,
  );
  assert.doesNotMatch(await runOk(world, 'list', '--all'), /000002/);
  const isThere = async () => JSON.stringify(await nodesOf(world)).includes('left-000002-1');
  assert.match(await runOk(world, 'gc'), /^000002 +(READY|ACTIVE) +left-000002-1 +projects\/emulator\//m);
  assert.ok(await isThere(), 'listing releases nothing');
  const lastUsage = async () => {
    const store = openStore({ file: join(world.home, 'state.db'), readOnly: true });
    try {
      const { use, until } = (await store.usage({})).findLast(({ job }) => job === '000002') ?? {};
      return { use, isOpen: until === null };
    } finally {
      await store.close();
    }
  };
  assert.deepEqual(await lastUsage(), { use: 'idle', isOpen: true }, 'it still costs money');
  assert.match(await runOk(world, 'gc', '--yes'), /left-000002-1 is deleted\.$/m);
  assert.ok(!(await isThere()));
  assert.deepEqual(await lastUsage(), { use: 'idle', isOpen: false });
  assert.equal(await runOk(world, 'gc'), '');
  const released = await world.waitUntil(kept, (job) => job.allocations.every(({ goneAt: gone }) => gone !== null));
  assert.equal(released.heldCapacity, null);
  assert.match(await runOk(world, 'history', kept), /allocation 1 released: /);
});

test('a command on several jobs prints one line per job and exits with the worst code', async (t) => {
  const world = openJobWorld(t);
  const never = 'while :; do sleep 0.1; done';
  const going = await world.create(world.localManifest(never, { name: 'going' }));
  const over = await world.create(world.localManifest('true', { name: 'over' }));
  await world.waitForFinish(over);
  await world.waitForPhase(going, 'running');
  // Another user of the same database.
  const store = openStore({ file: join(world.home, 'state.db') });
  const mine = await store.load(going);
  assert.ok(mine);
  const { job: other } = await store.insert({
    owner: 'grace',
    spec: { ...mine.job.spec, name: 'theirs' },
    manifest: '',
    at: Date.now(),
  });
  await store.close();

  const { code, stdout, stderr } = await world.jobman(['stop', going, over, '77', other.id, 'missing']);
  assert.equal(code, 4);
  assert.equal(stdout, 'Stopping job 000001 (going).\n');
  assert.deepEqual(stderr.trimEnd().split('\n'), [
    'jobman: Job 000002 (over) is not running: it has succeeded and holds no capacity.',
    'jobman: There is no job 000077. List all jobs: jobman list --all',
    'jobman: Job 000003 (theirs) belongs to grace. Nothing was done. To stop it in the name of grace, confirm with --yes.',
    'jobman: There is no job named "missing". List all jobs: jobman list --all',
  ]);
  await world.waitForPhase(going, 'stopped');
  for (const verb of ['delete', 'clean', 'cancel']) {
    await world.runRefused(4, /belongs to grace/, [verb, other.id]);
  }
});
