// What our own past waits say, and when they say nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLongerThanUsual, usualOf, usualText, usualWait, waitsOf } from '../../src/app/usual.ts';
import type { Job } from '../../src/core/job.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { aJob, ended, living, localSpec, noon, ready, tpuSpec } from '../support/builders.ts';

test('under five waits are no habit; of more the median and the ninetieth of a hundred are waits that there were', () => {
  const minutes = (...all: number[]) => usualOf(all.map((one) => one * minute));
  assert.equal(minutes(1, 2, 3, 4), null);
  assert.deepEqual(minutes(5, 1, 4, 2, 3), { median: 3 * minute, ninetieth: 5 * minute, waits: 5 });
  assert.deepEqual(minutes(1, 2, 3, 4, 5, 6, 7, 8, 9, 100), { median: 5 * minute, ninetieth: 9 * minute, waits: 10 });
});

test('an attempt waits from when it may ask until its allocation is ready, and not for what it was given', () => {
  const job = living(
    aJob(),
    [
      { ...ready, readyAt: noon + minute },
      {},
      { ...ready, readyAt: noon + 2 * hour },
      { ...ready, ownership: 'standing' },
    ],
    [
      { allocation: 1 },
      // Resumed on the same allocation.
      { allocation: 1, createdAt: noon + hour },
      // Still waiting.
      { allocation: 2 },
      { allocation: 3, createdAt: noon + hour, notBefore: noon + hour + 10 * second },
      { allocation: 4 },
    ],
  );
  assert.deepEqual(waitsOf(job), [minute, hour - 10 * second]);
});

/** A job on a standing TPU that was deleted and is created again; `at`: when it was ready. */
const madeAgain = (at: number | null): Job =>
  living(
    aJob(tpuSpec({}, { ownership: 'standing' })),
    [{ ...ready, releasedAt: noon }, at === null ? {} : { ...ready, readyAt: at }],
    [{ allocation: 1, ...ended('preempted', { detail: '' }) }, { allocation: 2 }],
  );

test('a standing TPU is waited for only while it is created again', async () => {
  assert.deepEqual(waitsOf(madeAgain(noon + 7 * minute)), [7 * minute]);
  assert.deepEqual(waitsOf(madeAgain(null)), []);
  const past = [3, 4, 5, 6, 7].map((minutes) => madeAgain(noon + minutes * minute));
  const store = { alike: () => Promise.resolve(past) };
  assert.equal((await usualWait(store, madeAgain(null), noon))?.median, 5 * minute);
  assert.equal(await usualWait(store, madeAgain(noon + minute), noon), null, 'it is there');
  assert.equal(await isLongerThanUsual(store, madeAgain(null), noon + 7 * minute), false);
  assert.equal(await isLongerThanUsual(store, madeAgain(null), noon + 8 * minute), true);
  assert.equal(await isLongerThanUsual(store, madeAgain(noon + minute), noon + 8 * minute), false);
  const few = { alike: () => Promise.resolve(past.slice(1)) };
  assert.equal(await isLongerThanUsual(few, madeAgain(null), noon + 8 * minute), false, 'four waits are too few');
});

test('waits of the built-in cloud are never told of Google, and a local job has none', async () => {
  const waited = (project: string): Job =>
    living(aJob(tpuSpec({}, { project })), [{ ...ready, readyAt: noon + 41 * minute }], [{}]);
  const alike = [
    ...Array.from({ length: 4 }, () => waited('lab')),
    ...Array.from({ length: 9 }, () => waited('emulator')),
  ];
  const asked: object[] = [];
  const store = {
    alike(...question: readonly [object, number, number]) {
      asked.push(question[0]);
      return Promise.resolve(alike);
    },
  };
  assert.equal(await usualWait(store, aJob(), noon), null);
  assert.equal((await usualWait(store, aJob(tpuSpec({}, { project: 'emulator' })), noon))?.waits, 9);
  assert.deepEqual(asked[0], { accelerator: 'v5litepod-16', zone: 'us-west4-a', pricing: 'spot' });
  assert.equal(await usualWait(store, aJob(localSpec()), noon), null);
  assert.equal(await usualWait(store, aJob(tpuSpec({}, { ownership: 'standing' })), noon), null);
  assert.equal(asked.length, 2);
});

test('the usual wait is told with how many waits it is made of', () => {
  assert.equal(
    usualText({ median: 41 * minute, ninetieth: 130 * minute, waits: 12 }, 130 * minute),
    '41m here (median of 12 waits in 30 days; 9 of 10 within 2h10m)',
  );
  assert.equal(
    usualText({ median: 2 * minute, ninetieth: 4 * minute, waits: 12 }, 42 * minute),
    '2m here (median of 12 waits in 30 days; 9 of 10 within 4m); 42m is longer than usual',
  );
});
