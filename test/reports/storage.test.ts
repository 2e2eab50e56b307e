/** Growth of a bucket, and the order and total of the rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { day } from '../../src/core/model/time.ts';
import { storageRows, storageTotal, type DailyPoint, type ProjectStorage } from '../../src/reports/storage.ts';
import { noon } from '../support/builders.ts';

const points = (...values: readonly (number | null)[]): readonly DailyPoint[] =>
  values.flatMap((value, age) => (value === null ? [] : [{ at: noon - age * day, value }]));

function project(bytes: readonly DailyPoint[], createdAt: number | null = noon - 365 * day): ProjectStorage {
  return {
    project: 'lab',
    buckets: [{ name: 'a', location: null, storageClass: null, createdAt }],
    metrics: new Map([['a', { bytes, objects: [], location: null }]]),
    counts: new Map(),
    isComplete: true,
    countedAt: noon,
    zones: ['us-west4-a'],
    simulated: false,
  };
}

const growth = (...parameters: Parameters<typeof project>): number | null =>
  storageRows([project(...parameters)])[0]?.growth7dBytes ?? null;

test('growth compares with the day a week ago, or a neighbour of it, and never with another day', () => {
  const week = [100, 99, 98, 97, 96, 95, 94];
  assert.equal(growth(points(...week, 40)), 60);
  assert.equal(growth(points(...week.slice(0, 6), null, null, 30)), 70);
  assert.equal(growth(points(...week.slice(0, 6), null, null, null, 20)), null);
  assert.equal(growth(points(5, null, null, null, null, null, null, 8)), -3, 'a bucket may shrink');
  assert.equal(growth(points(7)), null);
  assert.equal(growth(points()), null);
});

test('a bucket that did not exist then has grown by its whole size', () => {
  assert.equal(growth(points(7), noon - 3 * day), 7);
  assert.equal(growth(points(7), null), null, 'without a date this is not known');
});

test('what is unknown is in no sum and after everything else', () => {
  const counted = {
    ...project([]),
    counts: new Map([['a', { bytes: 0, objects: 0, newestAt: null, isPartial: true }]]),
  };
  const rows = storageRows([project([]), counted]);
  assert.deepEqual(
    rows.map(({ bytes, measuredAt, zonesOutside }) => [bytes, measuredAt, zonesOutside]),
    [
      [0, noon, []],
      [null, null, []],
    ],
  );
  assert.deepEqual(storageTotal(rows), {
    buckets: 2,
    unmeasured: 1,
    bytes: 0,
    objects: 0,
    growth7dBytes: null,
    growth30dBytes: null,
    partial: true,
  });
});
