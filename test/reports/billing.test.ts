// The billing report: groups, currencies, and the comparison with the usage ledger.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { day, hour } from '../../src/core/model/time.ts';
import { billingReport, type BilledRow, type BillingParts } from '../../src/reports/billing.ts';
import { usageRow } from '../support/builders.ts';

const since = Date.UTC(2026, 10, 18);
const now = since + 5 * day + 9 * hour;

function billed(changes: Partial<BilledRow> = {}): BilledRow {
  return {
    day: '2026-11-20',
    service: 'Cloud TPU',
    sku: 'TPU v5e',
    project: 'lab',
    installation: 'abc123',
    job: '000001',
    currency: 'USD',
    cost: 30,
    credits: -6,
    netUsd: 24,
    ...changes,
  };
}

const storage = billed({
  service: 'Cloud Storage',
  sku: 'Standard',
  installation: null,
  job: null,
  cost: 3,
  credits: 0,
  netUsd: 3,
});

function report(parts: Partial<BillingParts> & { readonly rows?: readonly BilledRow[] }) {
  const { rows = [], ...others } = parts;
  return billingReport({
    by: ['day'],
    since,
    until: since + 6 * day,
    exported: { rows, firstUsageAt: since + hour, exportedAt: now },
    usage: [],
    installation: 'abc123',
    now,
    ...others,
  });
}

/** $8 an hour from midnight of 20 November, for three hours. */
const usage = [usageRow({ from: since + 2 * day, until: since + 2 * day + 3 * hour, pricePerHourUsd: 8 })];

test('a day has its net cost, the part of jobs, their estimate and the difference', () => {
  const {
    groups,
    billed: total,
    comparison,
    prices,
  } = report({
    rows: [storage, billed(), billed({ day: '2026-11-19', cost: 1, credits: 0, netUsd: 1, job: null })],
    usage,
  });
  assert.deepEqual(
    groups.map((group) => [group.day, group.billed, group.comparison]),
    [
      ['2026-11-19', [{ currency: 'USD', costAmount: 1, creditsAmount: 0, netAmount: 1 }], null],
      [
        '2026-11-20',
        [{ currency: 'USD', costAmount: 33, creditsAmount: -6, netAmount: 27 }],
        { billedUsd: 24, estimateUsd: 24, unpricedMs: 0, differenceUsd: 0 },
      ],
    ],
  );
  assert.deepEqual(total, [{ currency: 'USD', costAmount: 34, creditsAmount: -6, netAmount: 28 }]);
  assert.deepEqual(comparison, { billedUsd: 24, estimateUsd: 24, unpricedMs: 0, differenceUsd: 0 });
  assert.deepEqual(prices, ['2026-08-01']);
});

test('charges are joined to jobs and users of this installation only', () => {
  const rows = [billed(), billed({ installation: 'other1', cost: 5, credits: 0, netUsd: 5 }), storage];
  const byJob = report({ by: ['job'], rows, usage });
  assert.deepEqual(
    byJob.groups.map(({ job, name, billed: [amount] }) => [job, name, amount?.netAmount]),
    [
      ['000001', 'vit', 24],
      [null, null, 8],
    ],
  );
  const byUser = report({ by: ['user'], rows, usage });
  assert.deepEqual(
    byUser.groups.map(({ user, billed: [amount] }) => [user, amount?.netAmount]),
    [
      ['ada', 24],
      [null, 8],
    ],
  );
  const before = report({ by: ['job'], rows, usage, installation: null });
  assert.deepEqual(
    before.groups.map(({ job }) => job),
    [null, '000001'],
    'the second is an estimate',
  );
});

test('services and SKUs have no estimate; the total still has the comparison', () => {
  const { groups, comparison } = report({ by: ['service', 'sku'], rows: [storage, billed()], usage });
  assert.deepEqual(
    groups.map((group) => [group.service, group.sku, group.comparison]),
    [
      ['Cloud TPU', 'TPU v5e', null],
      ['Cloud Storage', 'Standard', null],
    ],
  );
  assert.equal(comparison?.differenceUsd, 0);
});

test('two currencies are never added; the difference uses the rate of the export', () => {
  const rows = [billed(), billed({ currency: 'EUR', cost: 9, credits: 0, netUsd: 10 })];
  const { groups, billed: total, comparison } = report({ rows, usage });
  const both = [
    { currency: 'USD', costAmount: 30, creditsAmount: -6, netAmount: 24 },
    { currency: 'EUR', costAmount: 9, creditsAmount: 0, netAmount: 9 },
  ];
  assert.deepEqual(groups[0]?.billed, both);
  assert.deepEqual(total, both);
  assert.deepEqual(comparison, { billedUsd: 34, estimateUsd: 24, unpricedMs: 0, differenceUsd: 10 });
  const without = report({ rows: [billed({ currency: 'EUR', netUsd: null })], usage }).comparison;
  assert.deepEqual(without, { billedUsd: null, estimateUsd: 24, unpricedMs: 0, differenceUsd: null });
});

test('only days that the export has completely are compared', () => {
  const rows = [billed({ day: '2026-11-22' }), billed({ day: '2026-11-21' })];
  const later = [usageRow({ from: since + 3 * day, until: null, pricePerHourUsd: 1 })];
  const { groups, compared, comparison } = report({ rows, usage: later });
  assert.deepEqual(compared, { since, until: since + 4 * day }, 'exported on the 23rd: complete up to the 21st');
  assert.deepEqual(
    groups.map((group) => [group.day, group.comparison?.estimateUsd]),
    [
      ['2026-11-21', 24],
      ['2026-11-22', undefined],
    ],
  );
  assert.equal(comparison?.billedUsd, 24);
});

test('days before the first usage in the export are not compared', () => {
  const exported = { rows: [], firstUsageAt: since + 3 * day + hour, exportedAt: now };
  const { compared, comparison } = report({ exported, usage });
  assert.deepEqual(compared, { since: since + 3 * day, until: since + 4 * day });
  assert.equal(comparison?.estimateUsd, 0);
  const empty = report({ exported: { rows: [], firstUsageAt: null, exportedAt: null }, usage });
  assert.deepEqual([empty.compared, empty.comparison, empty.groups], [null, null, []]);
});

test('an estimate without a charge, and usage without a price, are shown as such', () => {
  const unpriced = usageRow({ ...usage[0], job: '000002', jobName: 'new', pricePerHourUsd: null, pricesOf: null });
  const { groups, comparison } = report({ by: ['job'], usage: [...usage, unpriced] });
  assert.deepEqual(
    groups.map((group) => [group.job, group.billed, group.comparison]),
    [
      ['000001', [], { billedUsd: 0, estimateUsd: 24, unpricedMs: 0, differenceUsd: -24 }],
      ['000002', [], { billedUsd: 0, estimateUsd: null, unpricedMs: 3 * hour, differenceUsd: null }],
    ],
  );
  assert.equal(comparison?.unpricedMs, 3 * hour);
});

test('this machine, clusters and the TPU emulator are on no bill of Google that has our labels', () => {
  const [row] = usage;
  const { groups } = report({
    usage: [
      usageRow({ ...row, simulated: true }),
      usageRow({ ...row, source: 'hosts' }),
      usageRow({ ...row, source: 'kubernetes' }),
      usageRow({ ...row, use: 'waiting', pricePerHourUsd: 0 }),
    ],
  });
  assert.deepEqual(groups, []);
});

test('without an export there are estimates of the whole period', () => {
  const { groups, billed: total, comparison } = report({ exported: null, by: ['user'], usage });
  assert.deepEqual(total, []);
  assert.deepEqual(comparison, { billedUsd: null, estimateUsd: 24, unpricedMs: 0, differenceUsd: null });
  assert.deepEqual(groups[0]?.user, 'ada');
});
