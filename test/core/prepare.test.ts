// What is handed over when a command starts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastAttempt } from '../../src/core/job.ts';
import { launchFor, stepFor } from '../../src/core/prepare.ts';
import { nodeNameMark } from '../../src/core/spec.ts';
import { minute } from '../../src/core/time.ts';
import { World, local, spec, step } from './world.ts';

const command = {
  ...spec().command,
  script: `train --node ${nodeNameMark} --twice ${nodeNameMark}`,
  env: { LR: '0.01', NODE: nodeNameMark, JOBMAN_STAGE: '99' },
  workdir: `/work/${nodeNameMark}`,
  checkpointDir: `/bucket/${nodeNameMark}`,
};

test('marks are filled in with the name of the node, and the words of jobman cannot be overruled', () => {
  const world = new World(spec({ command }));
  world.settleNow();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  const launch = launchFor(world.job, attempt, 1);
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

test('a resumed attempt says so, with its stage and its own node', () => {
  const world = new World(spec({ command }));
  world.settleNow();
  world.preempt();
  world.live(() => world.job.attempts[1]?.startedAt !== null && world.job.attempts.length === 2, 10 * minute);
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  const { env, resume } = launchFor(world.job, attempt, 0);
  assert.deepEqual(
    [resume, env['JOBMAN_STAGE'], env['JOBMAN_ATTEMPT'], env['JOBMAN_NODE_NAME']],
    [true, '1', '2', 'iris-000001-2'],
  );
});

test('on this machine there is no node to name', () => {
  const world = new World(spec({ capacity: local, steps: [] }));
  world.settleNow();
  const attempt = lastAttempt(world.job);
  assert.ok(attempt !== undefined);
  assert.equal('JOBMAN_NODE_NAME' in launchFor(world.job, attempt, 0).env, false);
});

test('a step is told the name of the node and keeps its key', () => {
  const world = new World();
  world.settleNow();
  const [allocation] = world.job.allocations;
  assert.ok(allocation !== undefined);
  const given = { ...step('ssh'), check: `test ${nodeNameMark}`, apply: `touch ${nodeNameMark}` };
  const { check, apply, key } = stepFor(given, allocation, world.job);
  assert.deepEqual([check, apply, key], ['test iris-000001-1', 'touch iris-000001-1', 'ssh-1']);
});
