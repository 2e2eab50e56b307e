// The input of a start, and setup.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastAttempt } from '../../src/core/model/job.ts';
import type { Allocation, Attempt } from '../../src/core/model/job.ts';
import { launchOf, resolvedStep, checkpointFolder, checkpointOwner } from '../../src/core/decide/launch.ts';
import { nodeNamePlaceholder } from '../../src/core/model/spec.ts';
import { minute } from '../../src/core/model/time.ts';
import { World, local, spec, step } from './world.ts';
import { applyCommand } from '../../src/core/decide/commands.ts';

const command = {
  ...spec().command,
  script: `train --node ${nodeNamePlaceholder} --twice ${nodeNamePlaceholder}`,
  env: { LR: '0.01', NODE: nodeNamePlaceholder, JOBMAN_STAGE: '99' },
  workdir: `/work/${nodeNamePlaceholder}`,
  checkpointDir: `/bucket/${nodeNamePlaceholder}`,
};

test("placeholders become the name of the node, and a manifest cannot override jobman's variables", () => {
  const world = new World(spec({ command }));
  world.runUntilIdle();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  const launch = launchOf(world.job, attempt, 1);
  assert.equal(launch.script, 'train --node iris-000001-1 --twice iris-000001-1');
  assert.deepEqual(launch.env, {
    LR: '0.01',
    NODE: 'iris-000001-1',
    JOBMAN_JOB_ID: '000001',
    JOBMAN_ATTEMPT: '1',
    JOBMAN_STAGE: '0',
    JOBMAN_WORKER: '1',
    JOBMAN_WORKERS: '2',
    JOBMAN_NODE_NAME: 'iris-000001-1',
    JOBMAN_CHECKPOINT_DIR: '/bucket/iris-000001-1',
  });
  assert.deepEqual(
    [launch.workdir, launch.checkpointDir, launch.resume],
    ['/work/iris-000001-1', '/bucket/iris-000001-1', false],
  );
});

test('a resumed attempt has its stage and its own node', () => {
  const world = new World(spec({ command }));
  world.runUntilIdle();
  world.preempt();
  world.runUntil(() => world.job.attempts[1]?.startedAt !== null && world.job.attempts.length === 2, 10 * minute);
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  const { env, resume } = launchOf(world.job, attempt, 0);
  assert.deepEqual(
    [resume, env['JOBMAN_STAGE'], env['JOBMAN_ATTEMPT'], env['JOBMAN_NODE_NAME']],
    [true, '1', '2', 'iris-000001-2'],
  );
});

test('the workers get the addresses of all workers that run the command, and of the coordinator', () => {
  const world = new World(spec({ command }));
  world.runUntilIdle();
  const { job } = world;
  const attempt = lastAttempt(job);
  const [allocation] = job.allocations;
  assert.ok(attempt !== undefined && allocation !== undefined);
  const envWith = (addresses: readonly (string | null)[], workers: 'all' | readonly number[] = 'all') => {
    const hosts = addresses.map((internalIp) => ({ internalIp, externalIp: '203.0.113.7' }));
    const changed = {
      ...job,
      spec: { ...job.spec, command: { ...command, workers } },
      allocations: [{ ...allocation, hosts } as Allocation],
    };
    const { env } = launchOf(changed, attempt, 1);
    return [env['JOBMAN_WORKER_HOSTS'], env['JOBMAN_COORDINATOR_ADDRESS']];
  };
  assert.deepEqual(envWith(['10.0.0.5', '10.0.0.6']), ['10.0.0.5,10.0.0.6', '10.0.0.5:8476']);
  assert.deepEqual(envWith(['10.0.0.5', '10.0.0.6'], [1]), ['10.0.0.6', '10.0.0.6:8476']);
  assert.deepEqual(envWith(['fd00::5', 'fd00::6']), ['fd00::5,fd00::6', '[fd00::5]:8476']);
  assert.deepEqual(envWith(['10.0.0.5', null]), [undefined, undefined], 'half of the addresses would mislead');
});

test('on this machine there is no node name', () => {
  const world = new World(spec({ capacity: local, steps: [] }));
  world.runUntilIdle();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  assert.equal('JOBMAN_NODE_NAME' in launchOf(world.job, attempt, 0).env, false);
});

test('a step gets the name of the node and keeps its key', () => {
  const world = new World();
  world.runUntilIdle();
  const [allocation] = world.job.allocations;
  assert.ok(allocation !== undefined);
  const given = { ...step('ssh'), check: `test ${nodeNamePlaceholder}`, apply: `touch ${nodeNamePlaceholder}` };
  const { check, apply, key } = resolvedStep(given, allocation, world.job);
  assert.deepEqual([check, apply, key], ['test iris-000001-1', 'touch iris-000001-1', 'ssh-1']);
});

const own = { ...spec().command, checkpointDir: '/bucket/1', checkpoints: 'own' } as const;
const named = { ...own, checkpoints: 'named' } as const;

function ownerOf(world: World, attempt: number): string {
  const found = world.job.attempts[attempt - 1] as Attempt;
  return launchOf(world.job, found, 0).checkpointOwner ?? 'any';
}

test('attempts that resume continue the newest start from the beginning that has started', () => {
  const world = new World(spec({ command: named }));
  world.runUntilIdle();
  world.preempt();
  world.runUntil(() => world.job.attempts[1]?.startedAt !== null && world.job.attempts.length === 2, 10 * minute);
  assert.equal(ownerOf(world, 1), 'abc123/000001/1');
  assert.equal(ownerOf(world, 2), 'abc123/000001/1');
  const job = world.job;
  const [first, second] = job.attempts as readonly [Attempt, Attempt];
  const rerun: Attempt = { ...first, ordinal: 3, startMode: 'rerun', startedAt: null };
  const resumed: Attempt = { ...second, ordinal: 4, stage: 2 };
  const after = { ...job, attempts: [first, second, rerun, resumed] };
  assert.equal(checkpointOwner(after, rerun), 'abc123/000001/3');
  assert.equal(checkpointOwner(after, resumed), 'abc123/000001/1', 'the rerun never started');
  const begun = { ...job, attempts: [first, second, { ...rerun, startedAt: 5 }, resumed] };
  assert.equal(checkpointOwner(begun, resumed), 'abc123/000001/3');
});

test('each later start from the beginning has its own folder, unless the manifest names the folder', () => {
  const world = new World(spec({ command: own }));
  world.runUntilIdle();
  const { job } = world;
  const first = job.attempts[0] as Attempt;
  const attempts: readonly Attempt[] = [
    { ...first, startedAt: null },
    { ...first, ordinal: 2, startedAt: 5 },
    { ...first, ordinal: 3, startMode: 'resume', stage: 1, startedAt: 6 },
    { ...first, ordinal: 4, startMode: 'rerun', startedAt: null },
    { ...first, ordinal: 5, startMode: 'resume', stage: 2, startedAt: null },
    { ...first, ordinal: 6, startMode: 'rerun', startedAt: 7 },
    { ...first, ordinal: 7, startMode: 'resume', stage: 1, startedAt: 8 },
  ];
  const folders = (command: typeof own | typeof named): readonly (string | null)[] =>
    attempts.map((one) => checkpointFolder({ ...job, attempts, spec: { ...job.spec, command } }, one));
  const [one, four, six] = ['/bucket/1', '/bucket/1-4', '/bucket/1-6'];
  assert.deepEqual(folders(own), [one, one, one, four, one, six, six]);
  assert.deepEqual(
    folders(named),
    Array.from(attempts, () => one),
  );
  assert.equal(ownerOf(world, 1), 'any', 'all its entries count');
});

test('if the folder is shared, or the job is from an earlier version, every entry counts', () => {
  for (const command of [
    { ...own, checkpoints: 'shared' as const },
    { ...spec().command, checkpointDir: '/b' },
  ]) {
    const world = new World(spec({ command }));
    world.runUntilIdle();
    assert.equal(ownerOf(world, 1), 'any');
  }
});

test('a job without a command succeeds when its workers are set up, starts nothing, and keeps its TPU', () => {
  const command = { ...spec().command, script: '', isSetupOnly: true } as const;
  const world = new World(spec({ command, finish: { capacity: 'keep', keepForMs: null } }));
  world.runUntilFinished(30 * minute);
  assert.equal(world.job.finish?.verdict, 'succeeded');
  assert.equal(world.job.attempts[0]?.startedAt, null);
  assert.deepEqual(world.job.attempts[0]?.ending?.evidence, { message: 'every worker is set up' });
  assert.equal(world.job.allocations[0]?.releasedAt, null);
  world.job = applyCommand(world.job, 'resume', { by: 'alice' }, world.now).job;
  world.runUntilFinished(30 * minute);
  assert.equal(world.job.attempts.length, 2);
  assert.equal(world.job.allocations.length, 1, 'on the TPU that it kept');
});

test('no rule restarts a job without a command', () => {
  const { recovery, ...base } = spec();
  const again = { reason: 'succeeded', answer: { then: 'rerun', on: 'same' } } as const;
  const world = new World({
    ...base,
    recovery: { ...recovery, rules: [again] },
    command: { ...base.command, script: '', isSetupOnly: true },
  });
  world.runUntilFinished(30 * minute);
  assert.equal(world.job.attempts.length, 1);
});
