// Whose turn it is on this machine.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { admit, isAdmitted, turnOf } from '../../src/core/admit.ts';
import type { Job } from '../../src/core/job.ts';
import { World, freshJob, local, spec } from './world.ts';

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
  assert.deepEqual([...admit(2, jobs)], ['000009', '000002']);
});

test('of two that came at one moment the lower number goes first', () => {
  assert.deepEqual([...admit(1, [waiting('000005', 1), waiting('000004', 1)])], ['000004']);
});

test('more holders than slots, after the limit was lowered, all go on', () => {
  assert.deepEqual([...admit(1, [holding('000001'), holding('000002'), waiting('000003', 1)])], ['000001', '000002']);
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
