/** Grants: their periods and the budgets of users in them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { warningsFor } from '../../src/app/confirmation.ts';
import { unpricedBudgets } from '../../src/app/grants.ts';
import { currentCapacity, ownerSpendingOf, periodStarts, type Grant } from '../../src/core/policy/grants.ts';
import { day, hour } from '../../src/core/model/time.ts';
import { aJob, localSpec, noon, readyAllocation, tpuCapacity, tpuSpec, withAttempts } from '../support/builders.ts';

const capacity = tpuCapacity({ zone: 'us-west4-a', accelerator: 'v5litepod-16', pricing: 'spot' });
const spent = { owners: ['ada', 'ada1'], zone: 'us-west4-a', accelerator: 'v5litepod-16', pricing: 'spot' } as const;
const spending = [
  { ...spent, simulated: false, spentUsd: { day: 1, week: 2, month: 3 }, rateUsd: 4 },
  { ...spent, zone: 'us-east5-b', simulated: false, spentUsd: { day: 10, week: 20, month: 30 }, rateUsd: 40 },
];

test('a week begins on Monday, and each period at midnight in UTC', () => {
  for (const [now, ...starts] of [
    ['2026-11-22T23:59:59.999Z', '2026-11-22', '2026-11-16', '2026-11-01'],
    ['2026-11-23T00:00:00Z', '2026-11-23', '2026-11-23', '2026-11-01'],
    ['2027-01-01T12:00:00Z', '2027-01-01', '2026-12-28', '2027-01-01'],
    ['2028-02-29T12:00:00Z', '2028-02-29', '2028-02-28', '2028-02-01'],
  ] as const) {
    const found = Object.values(periodStarts(Date.parse(now))).map((at) => new Date(at).toISOString().slice(0, 10));
    assert.deepEqual(found, starts, now);
  }
});

test('each grant with a budget that matches limits the job; an ended one limits nothing', () => {
  const grants: readonly Grant[] = [
    { accelerator: 'v5e', budgetUsd: 500 },
    { zone: 'us-west4-a', pricing: 'spot', budgetUsd: 5, budgetPeriod: 'day' },
    { budgetUsd: 50, budgetPeriod: 'week' },
    { accelerator: 'v4-*', budgetUsd: 1 },
    { accelerator: 'v5e', chips: 16 },
    { budgetUsd: 1, until: '2026-11-19' },
  ];
  const found = ownerSpendingOf(grants, 'ada', [capacity], spending, noon);
  assert.deepEqual(
    found.map(({ ownerBudget: { grant, endsAt }, spentUsd, budgetUsd, rateUsd }) => [
      grant,
      spentUsd,
      budgetUsd,
      rateUsd,
      new Date(endsAt).toISOString().slice(0, 10),
    ]),
    [
      ['v5e', 33, 500, 44, '2026-12-01'],
      ['spot TPUs in us-west4-a', 1, 5, 4, '2026-11-21'],
      ['all TPUs', 22, 50, 44, '2026-11-23'],
    ],
  );
  assert.deepEqual(ownerSpendingOf(grants, 'ada1', [capacity], spending, noon), found, 'a login of the user');
  assert.deepEqual(ownerSpendingOf(grants, 'bob', [capacity], spending, noon)[0]?.spentUsd, 0);
  assert.deepEqual(ownerSpendingOf(grants, 'ada', [{ ...capacity, ownership: 'persistent' }], spending, noon), []);
});

test('a new job is warned about each budget of which 80 % is spent, with the start of the next period', () => {
  const grants: readonly Grant[] = [
    { accelerator: 'v5e', budgetUsd: 41 },
    { pricing: 'spot', budgetUsd: 1_000 },
    { budgetUsd: 27.5, budgetPeriod: 'week' },
  ];
  const spec = { ...tpuSpec(), capacity };
  const warnings = (owner: string) => {
    const budgets = ownerSpendingOf(grants, owner, [capacity], spending, noon);
    return warningsFor({ owner, spec, job: null }, { reasons: [], onTpu: [], onCheckpoints: [], budgets }, noon);
  };
  assert.deepEqual(warnings('ada'), [
    'the budget of ada for v5e is nearly used up: $33.00 of $41.00 have been spent this month; the next month begins on 1 Dec (UTC)',
    'the budget of ada for all TPUs is nearly used up: $22.00 of $27.50 have been spent this week; the next week begins on 23 Nov (UTC)',
  ]);
  assert.deepEqual(warnings('bob'), []);
});

test('a running job is limited by the capacity that it holds, not by its other alternatives', () => {
  const { alternatives: _none, ...others } = capacity;
  const alternatives = [
    { zone: 'us-east5-b', accelerator: 'v6e-8', pricing: 'spot', runtimeVersion: 'x', pricePerHourUsd: 1 },
  ] as const;
  const spec = { ...tpuSpec(), capacity: { ...others, alternatives } };
  const job = withAttempts(aJob(spec), [{ ...readyAllocation, alternative: 1 }], []);
  assert.deepEqual(
    currentCapacity(job).map(({ accelerator }) => accelerator),
    ['v6e-8'],
  );
});

test('a budget without a price is a warning with the setting that adds one', () => {
  const limits = { ...localSpec().limits, budgetUsd: 5 };
  const none = { grants: [], prices: [] };
  const own = { grants: [], prices: [{ host: 'localhost', usdPerHour: 1 }] };
  const inGrant = { grants: [{ budgetUsd: 5 }], prices: [] };
  const unknown = { ...tpuSpec(), capacity: { ...capacity, accelerator: 'v99-8' } };
  const messages = (...given: Parameters<typeof unpricedBudgets>) =>
    unpricedBudgets(...given).map((one) => one.message);
  const advice = 'Add yours to the setting prices, such as';
  const here = `jobman has no price for this machine. ${advice} {"host":"localhost","usdPerHour":1.5}`;
  const there = `jobman has no price for v99-8 spot in us-west4-a. ${advice} {"accelerator":"v99-8","usdPerChipHour":1.5}`;
  assert.deepEqual(messages(none, localSpec({ limits }), noon), [`is not enforced: ${here}`]);
  assert.deepEqual(messages(none, localSpec(), noon), []);
  assert.deepEqual(messages(own, localSpec({ limits }), noon), []);
  assert.deepEqual(messages(none, { ...unknown, limits }, noon), [`is not enforced: ${there}`]);
  assert.deepEqual(messages(inGrant, unknown, noon), [`no budget of a grant can count the cost of this job: ${there}`]);
  assert.deepEqual(messages(inGrant, { ...tpuSpec(), capacity, limits }, noon + day + hour), []);
});
