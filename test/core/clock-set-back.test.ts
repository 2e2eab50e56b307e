// The controller's clock was a day ahead, something was to be waited for, and the clock was set right: nothing waits a day.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actionKey } from '../../src/core/decision.ts';
import { lastAttempt } from '../../src/core/job.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { waitEnd } from '../../src/core/pace.ts';
import { presets } from '../../src/core/recover.ts';
import { hour, minute } from '../../src/core/time.ts';
import { World, spec } from './world.ts';

const day = 24 * hour;

test('a wait that began later than now is over, and any other ends where it would', () => {
  assert.equal(waitEnd(1_000, 500, 1_200), 1_500);
  assert.equal(waitEnd(1_000, 500, 9_000), 1_500);
  assert.equal(waitEnd(1_000, 500, 999), 999);
});

test('a request that was refused while the clock was ahead is sent again at once, and then at its pace', () => {
  const world = new World();
  world.refusal = {
    kind: 'failed',
    evidence: { detail: 'none left' },
    error: { kind: 'stockout', message: 'none left', raw: 'none' },
  };
  world.settleNow();
  world.now -= day;
  const asked: number[] = [];
  const perform = world.perform.bind(world);
  world.perform = (action) => {
    if (actionKey(action) === 'request/1') asked.push(world.now);
    return perform(action);
  };
  world.settleNow();
  assert.deepEqual(asked, [world.now]);
  world.refusal = null;
  world.live(() => phaseOf(world.job) === 'running', hour);
  assert.equal(phaseOf(world.job), 'running');
});

test('an attempt that was made while the clock was ahead does not wait for its backoff for a day', () => {
  const given = spec();
  const world = new World({ ...given, recovery: { ...given.recovery, rules: presets['loop: failures'] } });
  world.settleNow();
  world.run(0, 1).ended = { exitCode: 1, at: world.now };
  world.live(() => lastAttempt(world.job)?.ordinal === 2, hour);
  world.now -= day;
  world.live(() => phaseOf(world.job) === 'running', hour);
  assert.equal(phaseOf(world.job), 'running');
});

test('a worker that fell silent while the clock was ahead is lost after its grace', () => {
  const world = new World();
  world.settleNow();
  const worker = world.node.workers[1];
  assert.ok(worker);
  worker.isAnswering = false;
  world.live(() => false, minute);
  world.now -= day;
  // A controller says how long it has found the silence to be; one whose clock was set back begins anew.
  worker.silentSince = world.now;
  const since = world.now;
  world.live(() => lastAttempt(world.job)?.ordinal === 2, hour);
  assert.equal(world.job.attempts[0]?.ending?.reason, 'unreachable');
  assert.ok(world.now >= since + spec().recovery.unreachableGrace, 'it was lost before its grace was over');
});

test('a program that was asked to stop while the clock was ahead has its grace, and is killed after it', () => {
  const world = new World();
  world.settleNow();
  world.isStubborn = true;
  world.job = { ...world.job, desired: 'hold' };
  world.settleNow();
  world.now -= day;
  const since = world.now;
  world.live(() => world.run(0, 1).ended !== null, hour);
  assert.notEqual(world.run(0, 1).ended, null);
  assert.equal(world.now, since + spec().stop.grace);
});
