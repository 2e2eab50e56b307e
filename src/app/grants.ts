// Grants: the capacity that each entry of the setting `grants` allows, and the budget that it sets for each user. Every
// budget that matches a job limits it, so that another grant cannot lift a limit of money.
//
// Persistent TPUs cost a job nothing and need no grant. The dollars of the TPU emulator count separately: a user can try a
// budget there without spending it.

import { matchesGlob } from 'node:path';
import { generationOf } from '../catalogue/accelerators.ts';
import { heldAllocations, openAttempt, allocationOf, type BudgetPeriod, type Job } from '../core/model/job.ts';
import { isNearlyUsed, periodPhrases } from '../core/decide/spending.ts';
import type { UserName } from '../core/model/user.ts';
import type { OwnerSpending } from '../core/model/observation.ts';
import {
  alternativesOf,
  capacityAt,
  type CapacitySpec,
  type JobSpec,
  type Pricing,
  type TpuSpec,
} from '../core/model/spec.ts';
import { day, type Instant } from '../core/model/time.ts';
import { capacityPrice } from '../reports/prices.ts';
import { formatDate, formatUsdOf } from './format.ts';
import { isSimulated } from './phrases.ts';
import type { Store } from './ports.ts';
import { grantEnd, type Grant, type Settings } from './settings.ts';

/** The part of a capacity that decides whether a grant matches it. */
type GrantedCapacity = Pick<TpuSpec, 'zone' | 'accelerator' | 'pricing'>;

/** The spending of a user on one kind of capacity, in US dollars. */
export interface UserSpending {
  /** Every owner name of the user. */
  readonly owners: readonly UserName[];
  readonly accelerator: string;
  readonly zone: string;
  readonly pricing: Pricing;
  readonly simulated: boolean;
  /** Since the start of each current period. */
  readonly spentUsd: Readonly<Record<BudgetPeriod, number>>;
  /** Per hour, now. */
  readonly rateUsd: number;
}

export function grantMatches(grant: Grant, { zone, accelerator, pricing }: GrantedCapacity): boolean {
  return (
    (grant.zone === undefined || matchesGlob(zone, grant.zone)) &&
    (grant.pricing === undefined || grant.pricing === pricing) &&
    (grant.accelerator === undefined ||
      matchesGlob(accelerator, grant.accelerator) ||
      generationOf(accelerator)?.name === grant.accelerator)
  );
}

export function isGrantValid({ until }: Grant, now: Instant): boolean {
  return until === undefined || now < grantEnd(until);
}

/** `spot v4-* in us-*`, `all TPUs`. */
function formatGrant({ accelerator, zone, pricing }: Grant): string {
  const type = [pricing, accelerator].filter((part) => part !== undefined).join(' ');
  const where = zone === undefined ? '' : ` in ${zone}`;
  return `${accelerator === undefined ? `${type === '' ? 'all' : type} TPUs` : type}${where}`;
}

// ------------------------------------------------------------------------------------------ budgets of users

/** The start of the current periods of the calendar, in UTC. A week begins on Monday. */
export function periodStarts(now: Instant): Readonly<Record<BudgetPeriod, Instant>> {
  const today = now - (now % day);
  const date = new Date(today);
  const sinceMonday = (date.getUTCDay() + 6) % 7;
  return { day: today, week: today - sinceMonday * day, month: Date.UTC(date.getUTCFullYear(), date.getUTCMonth()) };
}

function periodEnd(period: BudgetPeriod, now: Instant): Instant {
  const start = periodStarts(now)[period];
  if (period !== 'month') return start + (period === 'day' ? day : 7 * day);
  const date = new Date(start);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}

/** The owner's spending for each budget that matches one of these TPUs. `spending` was read at `now`. */
export function ownerSpendingOf(
  grants: readonly Grant[],
  owner: string,
  capacity: readonly TpuSpec[],
  spending: readonly UserSpending[],
  now: Instant,
): readonly OwnerSpending[] {
  return grants.flatMap((grant) => {
    const { budgetUsd, budgetPeriod: period = 'month' } = grant;
    const limited = capacity.find((one) => one.ownership === 'ephemeral' && grantMatches(grant, one));
    if (budgetUsd === undefined || limited === undefined || !isGrantValid(grant, now)) return [];
    const counted = spending.filter(
      (one) => one.owners.includes(owner) && one.simulated === isSimulated(limited) && grantMatches(grant, one),
    );
    const sum = (amountOf: (one: UserSpending) => number) => counted.reduce((total, one) => total + amountOf(one), 0);
    return {
      spentUsd: sum(({ spentUsd }) => spentUsd[period]),
      budgetUsd,
      rateUsd: sum(({ rateUsd }) => rateUsd),
      ownerBudget: { grant: formatGrant(grant), period, endsAt: periodEnd(period, now) },
    };
  });
}

/** The TPUs that a job holds or requests now. */
export function currentCapacity(job: Job): readonly TpuSpec[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return [];
  const attempt = openAttempt(job);
  const current = attempt === undefined ? [] : [allocationOf(job, attempt.allocation)];
  const used = new Set([...heldAllocations(job), ...current].map(({ alternative = 0 }) => alternative));
  return [...used].map((alternative) => capacityAt(capacity, alternative));
}

/** All TPUs that a job with this spec may request. */
export function possibleCapacity({ capacity }: JobSpec): readonly TpuSpec[] {
  if (capacity.kind !== 'tpu') return [];
  return [...alternativesOf(capacity).keys()].map((alternative) => capacityAt(capacity, alternative));
}

/** True if a budget of any owner matches one of these TPUs. */
export function hasBudget(grants: readonly Grant[], capacity: readonly TpuSpec[], now: Instant): boolean {
  return ownerSpendingOf(grants, '', capacity, [], now).length > 0;
}

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
  const subject = first.kind === 'tpu' ? `${first.accelerator} ${first.pricing} in ${first.zone}` : 'this machine';
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

/** The warnings for a new job about each budget that is nearly used up. */
export async function nearlyUsedBudgets(
  store: Pick<Store, 'spending'>,
  grants: readonly Grant[],
  owner: string,
  spec: JobSpec,
  now: Instant,
): Promise<readonly string[]> {
  const budgets = await readOwnerSpending(store, grants, owner, possibleCapacity(spec), now);
  return budgets
    .filter(isNearlyUsed)
    .map(
      (one) => `the budget of ${owner} for ${one.ownerBudget.grant} is nearly used up: ${formatBudgetSpent(one, now)}`,
    );
}
