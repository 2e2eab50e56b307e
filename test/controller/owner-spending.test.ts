// The budgets of a job's owner, as the controller reads them: of grants, and the dollars per day of the user.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOwnerSpending } from '../../src/controller/owner-spending.ts';
import type { DailyBudget } from '../../src/core/policy/limits.ts';
import type { Job } from '../../src/core/model/job.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { aJob, noon, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';

const spec = tpuSpec({}, { ownership: 'ephemeral', project: 'lab' });
const running = (owner: string) => withAttempts(aJob(spec, { owner }), [readyAllocation], [runningAttempt]);
const spent = { zone: 'us-west4-a', accelerator: 'v5litepod-16', pricing: 'spot', simulated: false } as const;

test('the dollars per day of a user limit the jobs of all names of the user, and a change counts soon', async () => {
  let now = noon;
  let budgets: readonly DailyBudget[] = [];
  const reads = { budgets: 0, spending: 0 };
  const observe = createOwnerSpending({
    grants: [],
    clock: { now: () => now, at: () => () => undefined },
    async dailyBudgets() {
      reads.budgets += 1;
      return budgets;
    },
    store: {
      async spending() {
        reads.spending += 1;
        return [{ ...spent, owners: ['ada', 'ada1'], spentUsd: { day: 5, week: 6, month: 7 }, rateUsd: 2 }];
      },
    },
  });
  assert.equal(await observe(running('ada')), undefined);
  assert.deepEqual(reads, { budgets: 1, spending: 0 }, 'without a budget the ledger is not read');
  budgets = [{ owners: ['ada', 'ada1'], usdPerDay: 4 }];
  assert.equal(await observe(running('ada')), undefined, 'passes of ten seconds share a reading');
  now += 10 * second;
  for (const owner of ['ada', 'ada1']) {
    const observed = await observe(running(owner));
    assert.ok(observed?.kind === 'known');
    assert.deepEqual(
      observed.value.map(({ spentUsd, budgetUsd, ownerBudget }) => [spentUsd, budgetUsd, ownerBudget.period]),
      [[5, 4, 'day']],
    );
  }
  assert.equal(await observe(running('eve')), undefined);
  assert.deepEqual(reads, { budgets: 2, spending: 1 });
  budgets = [];
  now += minute;
  assert.equal(await observe(running('ada')), undefined);
});

test('a job that starts after its user got a higher limit is not ended by the former limit', async () => {
  let now = noon;
  let usdPerDay = 4;
  const observe = createOwnerSpending({
    grants: [],
    clock: { now: () => now, at: () => () => undefined },
    dailyBudgets: async () => [{ owners: ['ada'], usdPerDay }],
    store: {
      spending: async () => [{ ...spent, owners: ['ada'], spentUsd: { day: 5, week: 6, month: 7 }, rateUsd: 2 }],
    },
  });
  const budgetOf = async (job: Job) => {
    const observed = await observe(job);
    assert.ok(observed?.kind === 'known');
    return observed.value.map(({ budgetUsd }) => budgetUsd);
  };
  const before = running('ada');
  assert.deepEqual(await budgetOf(before), [4]);
  now += second;
  usdPerDay = 8;
  const attempt = { ...runningAttempt, createdAt: now, startedByOwner: true };
  const created = withAttempts(aJob(spec, { owner: 'ada' }), [readyAllocation], [attempt]);
  assert.deepEqual([await budgetOf(created), await budgetOf(before)], [[8], [8]]);
  now += second;
  usdPerDay = 16;
  assert.deepEqual(await budgetOf({ ...before, startRequest: { startMode: 'resume', at: now } }), [16]);
});
