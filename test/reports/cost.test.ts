// The cost report: sums, borders of periods and days, capacity without a price, simulated capacity.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { suite, test } from 'node:test';
import type { Job } from '../../src/core/model/job.ts';
import { day, hour, minute } from '../../src/core/model/time.ts';
import { costReport, jobCost, usageUses, type CostSplit } from '../../src/reports/cost.ts';
import type { UsageRow } from '../../src/reports/usage.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { aJob, noon, readyAllocation, tpuSpec, usageRow as usage, withAttempts } from '../support/builders.ts';

const midnight = Date.UTC(2026, 10, 20);
const now = midnight + 10 * day;

const close = (actual: number | null | undefined, expected: number): void => {
  assert.ok(Math.abs((actual ?? Number.NaN) - expected) < 1e-6, `${actual} instead of ${expected}`);
};

test('each use has its time, chip-hours and dollars, and only waiting is outside the held time', () => {
  const rows = [
    usage({ use: 'waiting', pricePerHourUsd: 0, until: midnight + 2 * hour }),
    usage({ use: 'setup', from: midnight + 2 * hour, until: midnight + 2.5 * hour }),
    usage({ from: midnight + 2.5 * hour, until: midnight + 4 * hour }),
    usage({ use: 'lost', from: midnight + 4 * hour, until: midnight + 4.25 * hour }),
  ];
  const { groups, totals, prices, beginsAt, endsAt } = costReport(rows, { by: 'job' }, now);
  const [group] = groups;
  assert.deepEqual(
    [group?.key, group?.name, group?.owner, group?.cluster, group?.simulated],
    ['000001', 'vit', 'ada', null, false],
  );
  assert.deepEqual(group?.useful, {
    durationMs: 1.5 * hour,
    chipMs: 24 * hour,
    estimateUsd: 12,
    unpricedMs: 0,
    freeMs: 0,
  });
  assert.deepEqual(group.lost, { durationMs: 0.25 * hour, chipMs: 4 * hour, estimateUsd: 2, unpricedMs: 0, freeMs: 0 });
  assert.deepEqual(group.waiting, {
    durationMs: 2 * hour,
    chipMs: 32 * hour,
    estimateUsd: 0,
    unpricedMs: 0,
    freeMs: 0,
  });
  assert.deepEqual(group.held, {
    durationMs: 2.25 * hour,
    chipMs: 36 * hour,
    estimateUsd: 18,
    unpricedMs: 0,
    freeMs: 0,
  });
  assert.deepEqual(totals[0]?.held, group.held);
  assert.deepEqual([prices, beginsAt, endsAt], [['2026-08-01'], midnight, now]);
});

test('the borders of the period cut usage exactly, and usage that continues ends now', () => {
  const row = usage({ from: midnight - hour, until: null });
  const hours = (since?: number, until?: number): number => {
    const query = {
      by: 'job' as const,
      ...(since === undefined ? {} : { since }),
      ...(until === undefined ? {} : { until }),
    };
    return (costReport([row], query, now).totals[0]?.held.durationMs ?? 0) / hour;
  };
  assert.equal(hours(), 241);
  assert.equal(hours(midnight, midnight + 90 * minute), 1.5);
  assert.equal(hours(midnight, now + day), 240);
  assert.equal(hours(now), 0);
  assert.equal(hours(undefined, midnight - hour), 0);
});

test('by day, usage is cut at midnight in UTC', () => {
  const row = usage({ from: midnight - 2 * hour, until: midnight + day + 3 * hour });
  const { groups } = costReport([row, usage({ simulated: true })], { by: 'day' }, now);
  assert.deepEqual(
    groups.map(({ key, held, simulated }) => [key, held.durationMs / hour, simulated]),
    [
      ['2026-11-19', 2, false],
      ['2026-11-20', 24, false],
      ['2026-11-21', 3, false],
      ['2026-11-20', 1, true],
    ],
  );
});

test('a job with two tags counts in both, and once in the total', () => {
  const rows = [usage({ tags: ['sweep', 'vit', 'vit'] }), usage({ job: '000002' })];
  const { groups, totals, overlapping } = costReport(rows, { by: 'tag' }, now);
  assert.deepEqual(
    groups.map(({ key, held }) => [key, held.estimateUsd]),
    [
      [null, 8],
      ['sweep', 8],
      ['vit', 8],
    ],
  );
  assert.equal(totals[0]?.held.estimateUsd, 16);
  assert.equal(overlapping, true);
});

test('capacity without a price is never zero dollars', () => {
  const machine = {
    source: 'hosts',
    location: null,
    accelerator: null,
    chips: null,
    pricePerHourUsd: null,
    pricesOf: null,
  } as const;
  const rows = [usage({ owner: 'bob' }), usage({ ...machine, owner: 'bob' }), usage({ ...machine, owner: 'eve' })];
  const { groups } = costReport(rows, { by: 'user' }, now);
  assert.deepEqual(
    groups.map(({ key, held }) => [key, held]),
    [
      ['bob', { durationMs: 2 * hour, chipMs: 16 * hour, estimateUsd: 8, unpricedMs: hour, freeMs: 0 }],
      ['eve', { durationMs: hour, chipMs: 0, estimateUsd: null, unpricedMs: hour, freeMs: 0 }],
    ],
  );
});

test('simulated capacity has its own groups and its own total', () => {
  const { groups, totals } = costReport([usage({ simulated: true }), usage()], { by: 'zone' }, now);
  assert.deepEqual(
    groups.map(({ key, simulated }) => [key, simulated]),
    [
      ['us-west4-a', false],
      ['us-west4-a', true],
    ],
  );
  assert.deepEqual(
    totals.map(({ simulated, held }) => [simulated, held.estimateUsd]),
    [
      [false, 8],
      [true, 8],
    ],
  );
});

test('jobs of one name in clusters are groups of their own', () => {
  const cluster = { job: 'train', source: 'kubernetes', pricePerHourUsd: null } as const;
  const rows = [
    usage({ ...cluster, uid: 'a', location: 'hpc/vision' }),
    usage({ ...cluster, uid: 'b', location: 'hpc/speech' }),
    usage({ ...cluster, uid: 'c', location: 'hpc/vision' }),
    usage({ ...cluster, uid: 'a', location: 'hpc/vision', use: 'lost' }),
  ];
  assert.deepEqual(
    costReport(rows, { by: 'job' }, now).groups.map(({ key, cluster: where, uid }) => [key, where, uid]),
    [
      ['train', 'hpc/vision', 'a'],
      ['train', 'hpc/speech', 'b'],
      ['train', 'hpc/vision', 'c'],
    ],
  );
});

test('usage before the date of its prices is reported', () => {
  const early = usage({ from: Date.parse('2026-07-01'), until: Date.parse('2026-07-02') });
  assert.equal(costReport([early], { by: 'job' }, now).olderThanPrices, true);
  assert.equal(costReport([early], { by: 'job', since: midnight }, now).olderThanPrices, false);
  assert.equal(costReport([{ ...early, pricesOf: 'settings' }], { by: 'job' }, now).olderThanPrices, false);
});

const rowArbitrary: fc.Arbitrary<UsageRow> = fc
  .record({
    job: fc.constantFrom('000001', '000002', '000003'),
    owner: fc.constantFrom('ada', 'bob', null),
    tags: fc.subarray(['a', 'b']),
    accelerator: fc.constantFrom('v4-8', 'v6e-8', null),
    location: fc.constantFrom('us-central2-b', null),
    chips: fc.constantFrom(4, 8, null),
    use: fc.constantFrom(...usageUses),
    from: fc.integer({ min: midnight - 3 * day, max: now }),
    duration: fc.option(fc.integer({ min: 0, max: 5 * day })),
    pricePerHourUsd: fc.constantFrom(0, 3.5, null),
    simulated: fc.boolean(),
  })
  .map(({ duration, ...fields }) => usage({ ...fields, until: duration === null ? null : fields.from + duration }));

/** The fields of all amounts of a split, added up. */
function checksum(splits: readonly CostSplit[]): readonly number[] {
  const sums = [0, 0, 0, 0];
  for (const split of splits) {
    for (const use of usageUses) {
      const { durationMs, chipMs, estimateUsd, unpricedMs } = split[use];
      [durationMs, chipMs, estimateUsd ?? 0, unpricedMs].forEach((value, at) => (sums[at] = (sums[at] ?? 0) + value));
    }
  }
  return sums;
}

test('groups and the rest add up to the totals, and two periods to one', () => {
  const properties = fc.property(
    fc.array(rowArbitrary, { maxLength: 20 }),
    fc.constantFrom('job' as const, 'user' as const, 'accelerator' as const, 'zone' as const, 'day' as const),
    fc.integer({ min: 0, max: 4 }),
    fc.integer({ min: midnight - 4 * day, max: now }),
    (rows, by, limit, border) => {
      const { groups, rest, totals } = costReport(rows, { by, limit }, now);
      const before = costReport(rows, { by, until: border }, now);
      const after = costReport(rows, { by, since: border }, now);
      const expected = checksum(totals);
      checksum([...groups, ...rest]).forEach((sum, at) => close(sum, expected[at] ?? 0));
      checksum([...before.totals, ...after.totals]).forEach((sum, at) => close(sum, expected[at] ?? 0));
    },
  );
  fc.assert(properties, { seed: 16, numRuns: 300 });
});

suite('the cost of one job', () => {
  const unpriced = tpuSpec({}, { pricePerHourUsd: null });
  const readyAtNoon = { ...readyAllocation, readyAt: noon };
  const spent = (job: Job, at: number): number | null => jobCost(usageOf(job), at).held.estimateUsd;

  test('counts held capacity until now, deleted capacity until its deletion', () => {
    assert.equal(spent(withAttempts(aJob(), [readyAtNoon], []), noon + 3 * hour), 12);
    const gone = { ...readyAtNoon, releasedAt: noon + hour, goneAt: noon + 2 * hour };
    assert.equal(spent(withAttempts(aJob(), [gone], []), noon + 30 * hour), 8);
  });

  test('is unknown without a price, and nothing without ready capacity', () => {
    assert.equal(spent(withAttempts(aJob(unpriced), [readyAtNoon], []), noon + hour), null);
    assert.equal(spent(withAttempts(aJob(), [{ ...readyAllocation, readyAt: null }], []), noon + hour), 0);
  });
});
