// The schedule and the clock watch get the time as an argument, so their tests need not wait.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createAdmission,
  createClockWatch,
  createSchedule,
  mustStoreWake,
  hasJumped,
  createWorkqueue,
} from '../../src/controller/schedule.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { aJob, localSpec, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';

const noon = Date.UTC(2026, 0, 1, 12);

test('jobs that are due within one interval are due together, and none later than its own time', () => {
  const schedule = createSchedule();
  for (const [id, wait] of [
    ['a', 21 * second],
    ['b', 24 * second],
    ['c', 3 * hour + 1],
  ] as const)
    schedule.set(id, noon + wait, noon);
  assert.equal(schedule.firstDueAt, noon + 20 * second);
  assert.deepEqual(schedule.takeDue(noon + 19 * second), []);
  assert.deepEqual(schedule.takeDue(noon + 20 * second), ['a', 'b']);
  assert.equal(schedule.firstDueAt, noon + 3 * hour);
});

test('a short wait is not shortened', () => {
  const schedule = createSchedule();
  schedule.set('a', noon + 1_234, noon);
  assert.ok(schedule.firstDueAt >= noon + 1_234 && schedule.firstDueAt <= noon + 1_400);
});

test('when the clock is set back every job is due at once', () => {
  const schedule = createSchedule();
  schedule.set('a', noon + hour, noon);
  const watch = createClockWatch(noon);
  assert.equal(watch.tick(noon + 10 * second), false);
  assert.equal(watch.tick(noon - hour), true);
  schedule.makeAllDue(noon - hour);
  assert.deepEqual(schedule.takeDue(noon - hour), ['a']);
});

test('a step of more than a minute is a jump, and no timeout counts it', () => {
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

test('the store gets a distant time once, and again only after a large change', () => {
  assert.equal(mustStoreWake(noon, noon + minute, noon), false);
  assert.equal(mustStoreWake(noon, noon + hour, noon), true);
  assert.equal(mustStoreWake(noon + hour, noon + hour + minute, noon), false);
  // A job without a next check is never due, and this is stored once.
  assert.deepEqual([mustStoreWake(noon, undefined, noon), mustStoreWake(null, undefined, noon)], [true, false]);
});

/** A queue whose passes end when the test ends them. */
function scripted(most: number) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  let quiet = 0;
  const queue = createWorkqueue({
    maxConcurrent: most,
    work(id) {
      begun.push(id);
      return new Promise((resolve) => ends.set(id, resolve));
    },
    onDrained: () => {
      quiet += 1;
    },
  });
  const end = async (id: string): Promise<void> => {
    ends.get(id)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { queue, begun, end, quietTimes: () => quiet };
}

test('a job has one pass at a time, and one more if it was woken during the pass', async () => {
  const { queue, begun, end, quietTimes } = scripted(4);
  queue.add('a');
  queue.add('a');
  queue.add('a');
  assert.deepEqual(begun, ['a']);
  await end('a');
  assert.deepEqual(begun, ['a', 'a']);
  await end('a');
  assert.deepEqual(begun, ['a', 'a']);
  assert.equal(queue.size, 0);
  assert.equal(quietTimes(), 1);
});

test('no more passes at once than allowed, in the order of their requests', async () => {
  const { queue, begun, end } = scripted(2);
  for (const id of ['a', 'b', 'c', 'd']) queue.add(id);
  assert.deepEqual(begun, ['a', 'b']);
  await end('b');
  assert.deepEqual(begun, ['a', 'b', 'c']);
  await end('a');
  await end('c');
  await end('d');
  assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
});

test('after stop nothing begins any more, and whenIdle waits for the running passes', async () => {
  const { queue, begun, end } = scripted(1);
  queue.add('a');
  queue.add('b');
  queue.stop();
  queue.add('c');
  let isIdle = false;
  const idle = queue.whenIdle().then(() => {
    isIdle = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isIdle, false);
  await end('a');
  await idle;
  assert.deepEqual(begun, ['a']);
});

test('a job that waits for a TPU is woken, also when a client has taken it from the job that used it', () => {
  const woken: string[] = [];
  const admission = createAdmission({ pools: [], wake: (id) => woken.push(id), now: () => noon + hour });
  const made = aJob(tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' }));
  const using = { ...withAttempts(made, [{}], [runningAttempt]), id: '000001' };
  const startRequest = made.startRequest && { ...made.startRequest, waitsForTpu: true as const };
  admission.load([using, { ...made, id: '000002', startRequest }]);
  woken.length = 0;
  // As the next pass loads it after `delete --force`.
  admission.admit({ ...using, removed: true, desired: 'deleted' });
  assert.deepEqual(woken, ['000002']);
});

test('a job that waits for a slot is woken if the end of its backoff is ahead: the clock was set back, and it has no due time', () => {
  const woken: string[] = [];
  const pools = [{ name: 'localhost', slots: 1, gpus: null }];
  let now = noon + hour;
  const admission = createAdmission({ pools, wake: (id) => woken.push(id), now: () => now });
  const backoff = { createdAt: noon, notBeforeAt: noon + 10 * minute };
  const waiting = { ...withAttempts(aJob(localSpec()), [readyAllocation], [backoff]), id: '000002' };
  const using = { ...withAttempts(aJob(localSpec()), [readyAllocation], [runningAttempt]), id: '000001' };
  admission.load([using, waiting]);
  admission.wakeDelayed();
  assert.deepEqual(woken.includes('000002'), false);
  now = noon - 24 * hour;
  admission.wakeDelayed();
  assert.deepEqual(woken.at(-1), '000002');
});
