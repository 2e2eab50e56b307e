// Whose turn it is on this machine.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { admit, isAdmitted, turnOf } from '../../src/core/admit.ts';
import type { Job } from '../../src/core/job.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { World, freshJob, local, spec, t0 } from './world.ts';

function waiting(id: string, at: number): Job {
  return { ...freshJob(spec({ capacity: local })).job, id, wish: { how: 'fresh', at } };
}

function holding(id: string): Job {
  const world = new World(spec({ capacity: local, steps: [] }));
  world.settleNow();
  return { ...world.job, id };
}

test('those who hold a slot keep it, and the longest waiting get what is left', () => {
  const jobs = [waiting('000003', 30), holding('000009'), waiting('000002', 20), waiting('000001', 40)];
  assert.deepEqual([...admit(2, jobs, 100)], ['000009', '000002']);
});

test('of two that came at one moment the lower number goes first', () => {
  assert.deepEqual([...admit(1, [waiting('000005', 1), waiting('000004', 1)], 100)], ['000004']);
});

test('more holders than slots, after the limit was lowered, all go on', () => {
  assert.deepEqual(
    [...admit(1, [holding('000001'), holding('000002'), waiting('000003', 1)], 100)],
    ['000001', '000002'],
  );
});

test('where a job stands: how many slots are taken, and how many jobs come before it', () => {
  const jobs = [waiting('000003', 30), holding('000009'), waiting('000002', 20), waiting('000001', 40)];
  const turns = jobs.map((job) => turnOf(2, jobs, job));
  assert.deepEqual(turns, [
    { slots: 2, taken: 1, ahead: 1 },
    undefined,
    { slots: 2, taken: 1, ahead: 0 },
    { slots: 2, taken: 1, ahead: 2 },
  ]);
});

test('a job of a cloud takes no turn, and one of this machine waits for its own', () => {
  assert.equal(isAdmitted(new Set(), freshJob().job), true);
  assert.equal(isAdmitted(new Set(), waiting('000001', 1)), false);
  assert.equal(isAdmitted(new Set(['000001']), waiting('000001', 1)), true);
});

/** Its first attempt has failed, and the next one pauses for so long. */
function pausing(id: string, pause: number): Job {
  const job = holding(id);
  const attempts = job.attempts.map((one) => ({
    ...one,
    startedAt: null,
    runningAt: null,
    createdAt: t0,
    notBefore: t0 + pause,
  }));
  return { ...job, attempts };
}

test('a long pause gives its slot away, and a short one keeps it', () => {
  const other = waiting('000002', t0);
  assert.deepEqual([...admit(1, [pausing('000001', 10 * minute), other], t0 + second)], ['000002']);
  assert.deepEqual([...admit(1, [pausing('000001', 30 * second), other], t0 + second)], ['000001']);
});

test('after its pause a job goes before whoever came later, and behind who was told to go on', () => {
  const jobs = [waiting('000002', t0 + hour), pausing('000001', 10 * minute)];
  const now = t0 + 11 * minute;
  assert.deepEqual([...admit(1, jobs, now)], ['000001']);
  assert.deepEqual([...admit(1, jobs, now, new Set(['000002']))], ['000002']);
});

test('a pause is waited out although there is no slot, and then the job waits for its turn', () => {
  const world = new World(spec({ capacity: local, steps: [], preset: 'loop: failures' }));
  world.settleNow();
  world.exitAll(1);
  world.admitted = false;
  world.settleNow();
  const notBefore = world.job.attempts.at(-1)?.notBefore ?? 0;
  assert.equal(world.job.attempts.length, 2);
  assert.ok(notBefore > world.now);
  assert.ok((world.decision?.wakeAt ?? Infinity) <= notBefore, 'nobody looks when the pause is over');
  world.now = notBefore;
  world.settleNow();
  assert.equal(world.decision?.wakeAt, undefined);
  assert.equal(world.job.attempts.at(-1)?.startedAt, null);
  world.admitted = true;
  world.settleNow();
  assert.notEqual(world.job.attempts.at(-1)?.startedAt, null);
});
