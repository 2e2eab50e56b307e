/**
 * A short chaos run: a few jobs of every kind with real processes, while the controller is killed, hosts die and the
 * emulator is killed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawPlan } from '../../tools/chaos/plan.ts';
import { runChaosTest } from '../../tools/chaos/run.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';

test('a short chaos run loses nothing and does nothing twice', { timeout: 900_000 }, async (t) => {
  if (!requireReal(t, 'flock', findProgram('flock')) || !requireReal(t, 'bash', findProgram('bash'))) return;
  const world = openWorld(t, { patienceMs: 30_000 });
  const plan = drawPlan({
    seed: 4,
    kinds: ['controller', 'hosts', 'preemptions', 'cloud'],
    jobs: 4,
    times: { controller: 8, hosts: 1, preemptions: 1, cloud: 1 },
    maxDurationMs: 3_000,
  });
  const { violations, traces } = await runChaosTest(world, plan, (line) => t.diagnostic(line));
  assert.deepEqual(violations, [], `Traces: ${traces ?? 'none'}`);
});
