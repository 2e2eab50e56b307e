// The controller's clock was a day ahead and was then set back: no wait lasts a day.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subjectKey } from '../../src/core/model/decision.ts';
import { correctBackoff, correctTime, correctTimes } from '../../src/core/decide/clock.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { lastAttempt } from '../../src/core/model/job.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { presets } from '../../src/core/policy/presets.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { World, spec } from './world.ts';

const day = 24 * hour;

test('a job whose times are at most a second in the future stays the same', () => {
  const world = new World();
  world.runUntilIdle();
  assert.equal(correctTimes(world.job, world.now).job, world.job);
  const { requestedAt } = world.job.allocations[0] ?? {};
  assert.equal(correctTimes(world.job, (requestedAt ?? 0) - 900).job, world.job);
});

test('a backoff keeps its length, and times before an attempt stay before it', () => {
  assert.equal(correctBackoff({ createdAt: 1_000, notBeforeAt: 1_500 }, 1_200), 1_500);
  assert.equal(correctBackoff({ createdAt: 1_000, notBeforeAt: 1_500 }, 400), 900);
  assert.equal(correctBackoff({ createdAt: 100, movedAt: 1_000, notBeforeAt: 1_500 }, 400), 900);
  assert.equal(correctTime(1_000, 400, undefined), 400);
  assert.equal(correctTime(1_000, 400, 900), 400);
  assert.equal(correctTime(800, 400, 900), 399);
  assert.equal(correctTime(300, 400, 900), 300);
});

test('if the clock is set back during a pass, a silence that it observes first begins then', () => {
  const world = new World();
  world.runUntilIdle();
  const worker = world.node.workers[1];
  assert.ok(worker !== undefined);
  worker.isAnswering = false;
  world.now += day;
  const before = world.observe();
  world.now -= day;
  world.pass(before);
  assert.equal(lastAttempt(world.job)?.ending, null);
  assert.deepEqual(
    [world.job.allocations[0]?.unreachableWho, world.job.allocations[0]?.unreachableAt],
    ['worker', world.now],
  );
  worker.isAnswering = true;
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'running');
});

test('a request that was refused while the clock was ahead is sent again after its delay, and not a day later', () => {
  const world = new World();
  world.refusal = {
    kind: 'failed',
    evidence: { message: 'none left' },
    error: { kind: 'stockout', message: 'none left', raw: 'none' },
  };
  world.runUntilIdle();
  world.now -= day;
  const asked: number[] = [];
  const perform = world.perform.bind(world);
  world.perform = (action) => {
    if (subjectKey(action) === 'request/1') asked.push(world.now);
    return perform(action);
  };
  const since = world.now;
  world.runUntil(() => asked.length > 0, hour);
  assert.ok((asked[0] ?? 0) >= since + 22 * second, 'it was sent before the delay of its refusal was over');
  assert.ok((asked[0] ?? Infinity) <= since + minute);
  world.refusal = null;
  world.runUntilRunning();
});

test('a worker that became silent while the clock was ahead is lost after its grace', () => {
  const world = new World();
  world.runUntilIdle();
  const worker = world.node.workers[1];
  assert.ok(worker);
  worker.isAnswering = false;
  world.runUntil(() => false, minute);
  world.now -= day;
  // A controller reports the length of a silence that it has measured; after its clock was set back it starts again.
  worker.unreachableSince = world.now;
  const since = world.now;
  world.runUntil(() => lastAttempt(world.job)?.ordinal === 2, hour);
  assert.equal(world.job.attempts[0]?.ending?.reason, 'unreachable');
  assert.ok(world.now >= since + spec().recovery.unreachableGraceMs, 'it was lost before its grace was over');
});

test('a program that was stopped while the clock was ahead has its grace, and is killed after it', () => {
  const world = new World();
  world.runUntilIdle();
  world.ignoresStop = true;
  world.job = { ...world.job, desired: 'stopped' };
  world.runUntilIdle();
  world.now -= day;
  const since = world.now;
  world.runUntil(() => world.run(0, 1).ended !== null, hour);
  assert.notEqual(world.run(0, 1).ended, null);
  assert.equal(world.now, since + spec().stop.graceMs);
});

test('a command that started while the clock was ahead runs no longer than its limit', () => {
  const given = spec();
  const world = new World({ ...given, limits: { ...given.limits, maxRuntimeMs: hour } });
  world.runUntilIdle();
  world.now -= day;
  const since = world.now;
  world.runUntilFinished(3 * hour);
  assert.equal(world.job.finish?.reason, 'timed_out');
  assert.ok(world.now >= since + hour);
});

test('after the clock was set back, a backoff is shortened, and the events reproduce the state', () => {
  const given = spec();
  const world = new World({ ...given, recovery: { ...given.recovery, rules: presets['loop: failures'] } });
  world.runUntilIdle();
  world.run(0, 1).ended = { exitCode: 1, at: world.now };
  world.runUntil(() => lastAttempt(world.job)?.ordinal === 2, hour);
  world.now -= day;
  world.runUntilRunning();
  assert.equal(world.eventKinds().filter((kind) => kind === 'clock_set_back').length, 1);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});
