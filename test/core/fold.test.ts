// The controller's clock was a day ahead, something was to be waited for, and the clock was set right: nothing waits a day.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subjectKey } from '../../src/core/decision.ts';
import { rightBackoff, rightMoment, setRight } from '../../src/core/fold.ts';
import { historyTellsTheState } from '../../sim/pass-history.ts';
import { lastAttempt } from '../../src/core/job.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { presets } from '../../src/core/recover.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { World, spec } from './world.ts';

const day = 24 * hour;

test('a record that holds nothing of later than now stays as it is, and so does one that is off by less than a second', () => {
  const world = new World();
  world.settleNow();
  assert.equal(setRight(world.job, world.now).job, world.job);
  const { requestedAt } = world.job.allocations[0] ?? {};
  assert.equal(setRight(world.job, (requestedAt ?? 0) - 900).job, world.job);
});

test('a backoff counts anew and lasts as long as it was to last, and what was asked before an attempt stays before it', () => {
  assert.equal(rightBackoff({ createdAt: 1_000, notBefore: 1_500 }, 1_200), 1_500);
  assert.equal(rightBackoff({ createdAt: 1_000, notBefore: 1_500 }, 400), 900);
  assert.equal(rightBackoff({ createdAt: 100, movedAt: 1_000, notBefore: 1_500 }, 400), 900);
  assert.equal(rightMoment(1_000, 400, undefined), 400);
  assert.equal(rightMoment(1_000, 400, 900), 400);
  assert.equal(rightMoment(800, 400, 900), 399);
  assert.equal(rightMoment(300, 400, 900), 300);
});

test('a silence that is seen first in a pass during which the clock was set back has just begun, and is not a day long', () => {
  const world = new World();
  world.settleNow();
  const worker = world.node.workers[1];
  assert.ok(worker !== undefined);
  worker.isAnswering = false;
  world.now += day;
  const before = world.observe();
  world.now -= day;
  world.pass(before);
  assert.equal(lastAttempt(world.job)?.ending, null);
  assert.deepEqual([world.job.allocations[0]?.silentWho, world.job.allocations[0]?.silentSince], ['worker', world.now]);
  worker.isAnswering = true;
  world.settleNow();
  assert.equal(phaseOf(world.job), 'running');
});

test('a request that was refused while the clock was ahead is sent again after its pace, and not a day later', () => {
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
    if (subjectKey(action) === 'request/1') asked.push(world.now);
    return perform(action);
  };
  const since = world.now;
  world.live(() => asked.length > 0, hour);
  assert.ok((asked[0] ?? 0) >= since + 22 * second, 'it was sent before the pace of its refusal was over');
  assert.ok((asked[0] ?? Infinity) <= since + minute);
  world.refusal = null;
  world.untilRunning();
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

test('a command that began while the clock was ahead runs for no longer than its limit', () => {
  const given = spec();
  const world = new World({ ...given, limits: { ...given.limits, maxRuntime: hour } });
  world.settleNow();
  world.now -= day;
  const since = world.now;
  world.untilSettled(3 * hour);
  assert.equal(world.job.settled?.reason, 'timed_out');
  assert.ok(world.now >= since + hour);
});

test('a backoff from a clock that was ahead is not waited for; that it was set back is told once, and history tells the state', () => {
  const given = spec();
  const world = new World({ ...given, recovery: { ...given.recovery, rules: presets['loop: failures'] } });
  world.settleNow();
  world.run(0, 1).ended = { exitCode: 1, at: world.now };
  world.live(() => lastAttempt(world.job)?.ordinal === 2, hour);
  world.now -= day;
  world.untilRunning();
  assert.equal(world.kinds().filter((kind) => kind === 'clock_set_back').length, 1);
  assert.deepEqual(historyTellsTheState(world.events, world.job), []);
});
