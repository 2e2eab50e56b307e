// Grants: the budgets of users, read from the ledger, and their sentences. core/policy/grants.ts has the rules.

import { periodPhrases } from '../core/decide/spending.ts';
import type { OwnerSpending } from '../core/model/observation.ts';
import { formatHosts, type CapacitySpec, type JobSpec, type TpuSpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import {
  grantMatches,
  hasBudget,
  ownerSpendingOf,
  periodStarts,
  possibleCapacity,
  type Grant,
} from '../core/policy/grants.ts';
import { capacityPrice } from '../reports/prices.ts';
import { formatDate, formatUsdOf } from './format.ts';
import type { Store } from './ports.ts';
import type { Settings } from './settings.ts';

/** As `ownerSpendingOf`, with the current spending from the store. Reads nothing if no budget matches. */
export async function readOwnerSpending(
  store: Pick<Store, 'spending'>,
  grants: readonly Grant[],
  owner: string,
  capacity: readonly TpuSpec[],
  now: Instant,
): Promise<readonly OwnerSpending[]> {
  if (!hasBudget(grants, capacity, now)) return [];
  return ownerSpendingOf(grants, owner, capacity, await store.spending(periodStarts(now), now), now);
}

/** The budgets that cannot limit a job, because a part of its capacity has no price. The messages are for warnings. */
export function unpricedBudgets(
  { grants, prices }: Pick<Settings, 'grants' | 'prices'>,
  spec: JobSpec,
  now: Instant,
): readonly { readonly key: 'budget' | null; readonly message: string }[] {
  if (spec.capacity.kind === 'tpu' && spec.capacity.ownership === 'persistent') return [];
  const all: readonly CapacitySpec[] = spec.capacity.kind === 'tpu' ? possibleCapacity(spec) : [spec.capacity];
  const unpriced = all.filter((one) => capacityPrice(prices, one, now) === null);
  const [first] = unpriced;
  if (first === undefined) return [];
  const subject =
    first.kind === 'tpu' ? `${first.accelerator} ${first.pricing} in ${first.zone}` : formatHosts(first.hosts);
  const own =
    first.kind === 'tpu'
      ? { accelerator: first.accelerator, usdPerChipHour: 1.5 }
      : { host: 'localhost', usdPerHour: 1.5 };
  const reason = `jobman has no price for ${subject}. Add yours to the setting prices, such as ${JSON.stringify(own)}`;
  const isInGrant = grants.some(
    (grant) => grant.budgetUsd !== undefined && unpriced.some((one) => one.kind === 'tpu' && grantMatches(grant, one)),
  );
  return [
    ...(spec.limits.budgetUsd === undefined ? [] : [{ key: 'budget' as const, message: `is not enforced: ${reason}` }]),
    ...(isInGrant ? [{ key: null, message: `no budget of a grant can count the cost of this job: ${reason}` }] : []),
  ];
}

/** `the budget of ada for spot v4-*: $380.00 of $500.00 are left this month; the next month begins on 1 Dec (UTC)`. */
export function formatBudgetLeft(budget: OwnerSpending, owner: string, now: Instant): string {
  const { spentUsd, budgetUsd, ownerBudget } = budget;
  const left = formatUsdOf(Math.max(0, budgetUsd - spentUsd), budgetUsd);
  return `the budget of ${owner} for ${ownerBudget.grant}: ${left} are left ${formatPeriod(budget, now)}`;
}

/** `$410.00 of $500.00 have been spent this month; the next month begins on 1 Dec (UTC)`. */
export function formatBudgetSpent(budget: OwnerSpending, now: Instant): string {
  return `${formatUsdOf(budget.spentUsd, budget.budgetUsd)} have been spent ${formatPeriod(budget, now)}`;
}

/** Periods end at midnight. */
function formatPeriod({ ownerBudget: { period, endsAt } }: OwnerSpending, now: Instant): string {
  return `${periodPhrases[period]}; the next ${period} begins on ${formatDate(endsAt, now)} (UTC)`;
}
