// Spending: what a job's own capacity has cost since its owner's newest start, and the budgets that limit it: the job's
// own (`job.budget`), and its owner's in a period (setting `grants`), which all of the owner's jobs share.
// The cost is an estimate by the price of the spec. Capacity without a price and persistent TPUs cost nothing here.

import { chain, withEvents, withoutEvents, type Change } from '../model/decision.ts';
import { budgetUsdOf, capacityOf, heldAllocations, lateAllocations, openAttempt } from '../model/job.ts';
import type { Allocation, BudgetPeriod, Evidence, Job, Spending } from '../model/job.ts';
import type { Observation } from '../model/observation.ts';
import { readyPeriodsOf, type ReadyPeriod } from '../model/ready-periods.ts';
import { earliest, hour, inFuture, type Instant } from '../model/time.ts';

/** The part of a budget at which the owner is warned. */
const warningShare = 0.8;

/** The current period in a sentence. */
export const periodPhrases: Readonly<Record<BudgetPeriod, string>> = {
  day: 'today',
  week: 'this week',
  month: 'this month',
};

/** A budget that limits a job, with its spending now. */
export interface Budget extends Spending {
  /** US dollars per hour that are being spent now. */
  readonly rateUsd: number;
}

/** US dollars that the job's own capacity has cost from `since` to `now`. */
export function spentUsd(job: Job, since: Instant, now: Instant): number {
  let spent = 0;
  for (const allocation of job.allocations.flatMap((one) => [one, ...lateAllocations(one)])) {
    const price = slicePrice(job, allocation);
    for (const { from, until } of chargedPeriods(job, allocation))
      spent += (price * Math.max(0, Math.min(until ?? now, now) - Math.max(from, since))) / hour;
  }
  return spent;
}

/** US dollars per hour of everything that is charged now. */
function currentRate(job: Job): number {
  return job.allocations.reduce((sum, allocation) => {
    const current = chargedPeriods(job, allocation).filter(({ until }) => until === null);
    return sum + current.length * slicePrice(job, allocation);
  }, 0);
}

/** US dollars per hour of one slice. */
function slicePrice(job: Job, allocation: Allocation): number {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind === 'hosts') return capacity.pricePerHourUsd ?? 0;
  return allocation.ownership === 'persistent' ? 0 : (capacity.pricePerHourUsd ?? 0) / (capacity.nodeCount ?? 1);
}

type Period = Pick<ReadyPeriod, 'from' | 'until'>;

/** The periods in which the allocation costs money, as in the usage ledger (src/reports/usage.ts). */
function chargedPeriods(job: Job, allocation: Allocation): readonly Period[] {
  const ready = readyPeriodsOf(allocation).filter(({ free }) => free !== true);
  if (capacityOf(job, allocation).kind === 'tpu') return ready;
  // This machine exists before and after the job. The job pays for each attempt until its end or, if a rule adds another
  // attempt, until the creation of that one.
  return job.attempts
    .filter((attempt) => attempt.allocation === allocation.ordinal)
    .flatMap(({ ordinal, createdAt, endedAt }) => {
      const next = job.attempts[ordinal];
      const until = next === undefined || next.startedByOwner ? endedAt : next.createdAt;
      return ready.map((one) => commonPeriod(one, { from: createdAt, until }));
    });
}

function commonPeriod(one: Period, other: Period): Period {
  const until = Math.min(one.until ?? Infinity, other.until ?? Infinity);
  return { from: Math.max(one.from, other.from), until: until === Infinity ? null : until };
}

/**
 * The spending of `job.budget`; undefined without one. Like the budgets of recovery rules, it counts from the owner's
 * newest start.
 */
export function spendingOf(job: Job, now: Instant): Spending | undefined {
  const budgetUsd = budgetUsdOf(job);
  if (budgetUsd === undefined) return undefined;
  const first = job.attempts.findLastIndex(({ startedByOwner }) => startedByOwner);
  // If the clock was set back, an ended attempt may have been created in the future.
  const since = Math.min(now, ...job.attempts.slice(Math.max(0, first)).map(({ createdAt }) => createdAt));
  return { spentUsd: spentUsd(job, since, now), budgetUsd };
}

/** True while the job has an attempt or keeps capacity, so that budgets limit it. */
export function isLimited(job: Job): boolean {
  return !job.removed && (openAttempt(job) !== undefined || keepsCapacity(job));
}

function keepsCapacity(job: Job): boolean {
  return heldAllocations(job).some(({ releasedAt, ownership }) => releasedAt === null && ownership === 'ephemeral');
}

/** The budgets that limit the job now. While the owner's spending is unknown, its budgets limit nothing. */
export function budgetsOf(job: Job, ownerSpending: Observation['ownerSpending'], now: Instant): readonly Budget[] {
  if (!isLimited(job)) return [];
  const own = spendingOf(job, now);
  const ofJob = own === undefined ? [] : [{ ...own, rateUsd: currentRate(job) }];
  if (ownerSpending?.kind !== 'known') return ofJob;
  const current = ownerSpending.value.filter(({ ownerBudget }) => now < ownerBudget.endsAt);
  // The ledger is read once for many passes, so add what was spent since.
  const hours = Math.max(0, now - ownerSpending.observedAt) / hour;
  return [...ofJob, ...current.map((one) => ({ ...one, spentUsd: one.spentUsd + one.rateUsd * hours }))];
}

/** The first budget that is used up. */
export function usedBudgetOf(budgets: readonly Budget[]): Budget | undefined {
  return budgets.find((one) => one.spentUsd >= one.budgetUsd);
}

/** The evidence of an end as `budget`: a message for people, and the amounts. */
export function budgetEvidence({ ownerBudget, ...amounts }: Spending, owner: string): Evidence {
  const budget = {
    spentUsd: rounded(amounts.spentUsd),
    budgetUsd: amounts.budgetUsd,
    ...(ownerBudget && { ownerBudget }),
  };
  if (ownerBudget === undefined) return { message: 'its capacity has cost as much as job.budget allows', budget };
  const { grant, period, endsAt } = ownerBudget;
  // Periods end at midnight.
  const nextDay = new Date(endsAt).toISOString().slice(0, 10);
  const message = `the budget of ${owner} for ${grant} is used up until the next ${period} begins on ${nextDay} (UTC)`;
  return { message, budget };
}

/** Four decimals: no noise of floating point. Cents would hide the difference from a budget below a dollar. */
function rounded(usd: number): number {
  return Math.round(usd * 10_000) / 10_000;
}

/** The time at which the budget is used up if nothing changes. Undefined while nothing is charged, and once it is used up. */
export function budgetEnd(budget: Budget, now: Instant): Instant | undefined {
  return spendingTime(budget, 1, now);
}

/** The next time at which a warning or an end is due. Undefined while nothing is charged, and after the end. */
export function nextBudgetTime(job: Job, budgets: readonly Budget[], now: Instant): Instant | undefined {
  return earliest(
    ...budgets.map((one) => {
      const warning = isWarned(job, one) ? undefined : spendingTime(one, warningShare, now);
      return warning ?? budgetEnd(one, now);
    }),
  );
}

/** The time at which that share of the budget is used, at least a second from now. Undefined if it is used already. */
function spendingTime(budget: Budget, share: number, now: Instant): Instant | undefined {
  const { spentUsd, budgetUsd, rateUsd, ownerBudget } = budget;
  const missing = budgetUsd * share - spentUsd;
  if (rateUsd === 0 || missing <= 0) return undefined;
  const at = now + Math.ceil((missing / rateUsd) * hour);
  // The next period begins with nothing spent.
  return ownerBudget !== undefined && at >= ownerBudget.endsAt ? undefined : inFuture(at, now);
}

/** True once most of the budget is used, so that jobman warns the owner. */
export function isNearlyUsed({ spentUsd, budgetUsd }: Spending): boolean {
  return spentUsd >= budgetUsd * warningShare;
}

function isWarned({ budgetWarning, ownerBudgetWarnings = [] }: Job, { ownerBudget }: Budget): boolean {
  if (ownerBudget === undefined) return budgetWarning !== undefined;
  return ownerBudgetWarnings.some(
    ({ grant, period, endsAt }) =>
      grant === ownerBudget.grant && period === ownerBudget.period && endsAt === ownerBudget.endsAt,
  );
}

/**
 * Warns once about each budget after each start by the owner and in each period, even if a finished job only keeps its
 * capacity.
 */
export function warnOfBudgets(job: Job, budgets: readonly Budget[], now: Instant): Change {
  const attempt = openAttempt(job);
  const mayContinue = attempt === undefined ? job.finish !== null : attempt.ending === null;
  if (!mayContinue || job.startRequest !== null) return withoutEvents(job);
  const due = budgets.filter((one) => isNearlyUsed(one) && !isWarned(job, one));
  return chain(withoutEvents(job), ...due.map((one) => (next: Job) => warn(next, one, now)));
}

function warn(job: Job, { spentUsd, budgetUsd, ownerBudget }: Budget, now: Instant): Change {
  const amounts = { spentUsd: rounded(spentUsd), budgetUsd };
  if (ownerBudget === undefined)
    return withEvents({ ...job, budgetWarning: amounts }, now, { kind: 'budget_warning', ...amounts });
  const current = (job.ownerBudgetWarnings ?? []).filter(({ endsAt }) => endsAt > now);
  const next = { ...job, ownerBudgetWarnings: [...current, ownerBudget] };
  return withEvents(next, now, { kind: 'budget_warning', ...amounts, ownerBudget });
}
