// The schedule and the clock watch: both are told the time, so no test of them waits.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClockWatch, createSchedule, hasJumped } from '../../src/controller/schedule.ts';
import { hour, minute, second } from '../../src/core/time.ts';

const noon = Date.UTC(2026, 0, 1, 12);

test('jobs that are due within one beat are due together, and none is due later than it asked for', () => {
  const schedule = createSchedule();
  for (const [id, wait] of [
    ['a', 21 * second],
    ['b', 24 * second],
    ['c', 3 * hour + 1],
  ] as const)
    schedule.set(id, noon + wait, noon);
  assert.equal(schedule.first, noon + 20 * second);
  assert.deepEqual(schedule.takeDue(noon + 19 * second), []);
  assert.deepEqual(schedule.takeDue(noon + 20 * second), ['a', 'b']);
  assert.equal(schedule.first, noon + 3 * hour);
});

test('a short wait is not cut short', () => {
  const schedule = createSchedule();
  schedule.set('a', noon + 1_234, noon);
  assert.ok(schedule.first >= noon + 1_234 && schedule.first <= noon + 1_400);
});

test('where the clock is set back every job is due at once', () => {
  const schedule = createSchedule();
  schedule.set('a', noon + hour, noon);
  const watch = createClockWatch(noon);
  assert.equal(watch.tick(noon + 10 * second), false);
  assert.equal(watch.tick(noon - hour), true);
  schedule.makeAllDue(noon - hour);
  assert.deepEqual(schedule.takeDue(noon - hour), ['a']);
});

test('a step of more than a minute is a jump, since when patience has not been tried', () => {
  const watch = createClockWatch(noon);
  watch.tick(noon + 10 * second);
  assert.equal(watch.jumpedAt, -Infinity);
  assert.equal(watch.hasJumpedSince(noon + 2 * minute), true);
  watch.tick(noon + 2 * minute);
  assert.equal(watch.jumpedAt, noon + 2 * minute);
  assert.deepEqual(
    [hasJumped(noon, noon + minute), hasJumped(noon, noon + minute + 1), hasJumped(noon, noon - 1)],
    [false, true, true],
  );
});

test('the store learns a far time of a job, and again only when that has changed by much', () => {
  const schedule = createSchedule();
  assert.equal(schedule.isToBeWritten('a', noon + minute, noon), false);
  assert.equal(schedule.isToBeWritten('a', noon + hour, noon), true);
  schedule.wrote('a', noon + hour);
  assert.equal(schedule.isToBeWritten('a', noon + hour + minute, noon), false);
});
