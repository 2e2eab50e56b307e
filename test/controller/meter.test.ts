/** The counters of the controller for /metrics. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loseMachine } from '../../sim/world.ts';
import { createMeter } from '../../src/app/meter.ts';
import { hour } from '../../src/core/model/time.ts';
import { openSimulatedJob } from './simulated-job.ts';

test('a recovery counts once, with the reason of the end and the time until the command runs again', async () => {
  const meter = createMeter();
  const simulated = await openSimulatedJob({ meter });
  const isRunning = (ordinal: number) =>
    simulated.runUntil(({ attempts }) => typeof attempts[ordinal - 1]?.runningAt === 'number', hour);
  assert.ok(await isRunning(1));
  assert.deepEqual([...meter.series('jobman_recovery_seconds')], [], 'the first start is no recovery');
  for (const machine of simulated.world.machines) loseMachine(simulated.world, machine, 'preempted');
  assert.ok(await isRunning(2));
  const [, second] = (await simulated.job()).attempts;
  const [first] = (await simulated.job()).attempts;
  const [recovery, ...others] = [...meter.series('jobman_recovery_seconds')];
  assert.deepEqual([recovery?.labels, recovery?.count, others], [{ reason: 'preempted' }, 1, []]);
  assert.equal(recovery?.sum, ((second?.runningAt ?? 0) - (first?.ending?.startedAt ?? 0)) / 1000);

  await simulated.command('cancel');
  assert.ok(await simulated.runUntil(({ finish }) => finish !== null, hour));
  await simulated.close();
  const finished = [...meter.series('jobman_jobs_finished_total')].map(({ labels, count }) => [labels, count]);
  assert.deepEqual(finished, [[{ verdict: 'cancelled' }, 1]]);
  const actions = [...meter.series('jobman_actions_total')].map(({ labels }) => labels['action']);
  assert.ok(actions.includes('request') && actions.includes('release') && actions.includes('start'));
  assert.ok([...meter.series('jobman_observation_seconds')].every(({ labels }) => labels['backend'] === 'tpu'));
});
