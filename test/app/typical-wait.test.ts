// The typical wait from past waits.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isLongerThanTypical,
  typicalWaitOf,
  formatTypicalWait,
  typicalWaitFor,
  waitsOf,
  mayWaitLong,
  withLongWaits,
} from '../../src/app/typical-wait.ts';
import { jobRow } from '../../src/app/views.ts';
import type { Job } from '../../src/core/model/job.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { aJob, endedAttempt, withAttempts, localSpec, noon, readyAllocation, tpuSpec } from '../support/builders.ts';

test('the typical wait needs five waits; its median and 90th percentile are waits that happened', () => {
  const minutes = (...all: number[]) => typicalWaitOf(all.map((one) => one * minute));
  assert.equal(minutes(1, 2, 3, 4), null);
  assert.deepEqual(minutes(5, 1, 4, 2, 3), { median: 3 * minute, percentile90: 5 * minute, samples: 5 });
  assert.deepEqual(minutes(1, 2, 3, 4, 5, 6, 7, 8, 9, 100), {
    median: 5 * minute,
    percentile90: 9 * minute,
    samples: 10,
  });
});

test('an attempt waits from its request until its allocation is ready, and not for existing capacity', () => {
  const job = withAttempts(
    aJob(),
    [
      { ...readyAllocation, readyAt: noon + minute },
      {},
      { ...readyAllocation, readyAt: noon + 2 * hour },
      { ...readyAllocation, ownership: 'persistent' },
    ],
    [
      { allocation: 1 },
      // Resumed on the same allocation.
      { allocation: 1, createdAt: noon + hour },
      // Still waiting.
      { allocation: 2 },
      { allocation: 3, createdAt: noon + hour, notBeforeAt: noon + hour + 10 * second },
      { allocation: 4 },
    ],
  );
  assert.deepEqual(waitsOf(job), [minute, hour - 10 * second]);
});

/** A job on a persistent TPU that was deleted and is created again; `at`: the time it was ready. */
const madeAgain = (at: number | null): Job =>
  withAttempts(
    aJob(tpuSpec({}, { ownership: 'persistent' })),
    [{ ...readyAllocation, releasedAt: noon }, at === null ? {} : { ...readyAllocation, readyAt: at }],
    [{ allocation: 1, ...endedAttempt('preempted', { message: '' }) }, { allocation: 2 }],
  );

test('a persistent TPU has a wait only while it is created again', async () => {
  assert.deepEqual(waitsOf(madeAgain(noon + 7 * minute)), [7 * minute]);
  assert.deepEqual(waitsOf(madeAgain(null)), []);
  const past = [3, 4, 5, 6, 7].map((minutes) => madeAgain(noon + minutes * minute));
  const store = { similarJobs: () => Promise.resolve(past) };
  assert.equal((await typicalWaitFor(store, madeAgain(null), noon))?.median, 5 * minute);
  assert.equal(await typicalWaitFor(store, madeAgain(noon + minute), noon), null, 'it is there');
  assert.equal(await isLongerThanTypical(store, madeAgain(null), noon + 7 * minute), false);
  assert.equal(await isLongerThanTypical(store, madeAgain(null), noon + 8 * minute), true);
  assert.equal(await isLongerThanTypical(store, madeAgain(noon + minute), noon + 8 * minute), false);
  const few = { similarJobs: () => Promise.resolve(past.slice(1)) };
  assert.equal(await isLongerThanTypical(few, madeAgain(null), noon + 8 * minute), false, 'four waits are too few');
});

test('waits of the TPU emulator never count for Google, and a local job has none', async () => {
  const waited = (project: string): Job =>
    withAttempts(aJob(tpuSpec({}, { project })), [{ ...readyAllocation, readyAt: noon + 41 * minute }], [{}]);
  const similar = [
    ...Array.from({ length: 4 }, () => waited('lab')),
    ...Array.from({ length: 9 }, () => waited('emulator')),
  ];
  const requests: object[] = [];
  const store = {
    similarJobs(...question: readonly [object, number, number]) {
      requests.push(question[0]);
      return Promise.resolve(similar);
    },
  };
  assert.equal(await typicalWaitFor(store, aJob(), noon), null);
  assert.equal((await typicalWaitFor(store, aJob(tpuSpec({}, { project: 'emulator' })), noon))?.samples, 9);
  assert.deepEqual(requests[0], { accelerator: 'v5litepod-16', zone: 'us-west4-a', pricing: 'spot' });
  assert.equal(await typicalWaitFor(store, aJob(localSpec()), noon), null);
  assert.equal(await typicalWaitFor(store, aJob(tpuSpec({}, { ownership: 'persistent' })), noon), null);
  assert.equal(requests.length, 2);
});

test('the typical wait is shown with the number of samples', () => {
  assert.equal(
    formatTypicalWait({ median: 41 * minute, percentile90: 130 * minute, samples: 12 }, 130 * minute),
    '41m (median of 12 waits in 30 days; 9 of 10 within 2h10m)',
  );
  assert.equal(
    formatTypicalWait({ median: 2 * minute, percentile90: 4 * minute, samples: 12 }, 42 * minute),
    '2m (median of 12 waits in 30 days; 9 of 10 within 4m); this wait of 42m is longer than usual',
  );
});

test('a row needs attention once its job has waited for longer than 9 of 10 similar ones, and their waits are read once', async () => {
  const past = [3, 4, 5, 6, 20].map((minutes) => madeAgain(noon + minutes * minute));
  let reads = 0;
  const store = {
    similarJobs: () => {
      reads += 1;
      return Promise.resolve(past);
    },
  };
  const job = madeAgain(null);
  const attentionAt = async (now: number) => {
    const rows = await withLongWaits(store, [jobRow(job, now)], [job, job], now);
    return rows.map(({ attention }) => attention);
  };
  assert.deepEqual(await attentionAt(noon + 20 * minute), [null]);
  assert.deepEqual(await attentionAt(noon + 20 * minute + 1), ['long_wait']);
  assert.equal(reads, 1);
  assert.equal(mayWaitLong(job, noon + 9 * minute), false);
  assert.equal(mayWaitLong(job, noon + 10 * minute), true);
});
