// Spending: what a job's own capacity has cost since its owner's newest start, and the budget for it (`job.budget`).
// The cost is an estimate by the price of the spec. Capacity without a price and persistent capacity cost nothing here.

import { withEvents, withoutEvents } from '../model/decision.ts';
import type { Change } from '../model/decision.ts';
import { capacityOf, openAttempt } from '../model/job.ts';
import type { Allocation, Job, Spending } from '../model/job.ts';
import { readyPeriodsOf } from '../model/ready-periods.ts';
import { hour, inFuture } from '../model/time.ts';
import type { Instant } from '../model/time.ts';

/** The part of the budget at which the owner is warned. */
const warningShare = 0.8;

/** US dollars from that time on. */
export function spentUsd(job: Job, since: Instant, now: Instant): number {
  let spent = 0;
  for (const allocation of job.allocations) {
    const price = slicePrice(job, allocation);
    for (const { from, until, free } of readyPeriodsOf(allocation)) {
      if (free !== true) spent += (price * Math.max(0, Math.min(until ?? now, now) - Math.max(from, since))) / hour;
    }
  }
  return spent;
}

/** US dollars per hour of one slice. */
function slicePrice(job: Job, allocation: Allocation): number {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind !== 'tpu' || allocation.ownership === 'persistent') return 0;
  return (capacity.pricePerHourUsd ?? 0) / (capacity.nodeCount ?? 1);
}

/** US dollars per hour of everything that is ready now. */
function currentRate(job: Job): number {
  return job.allocations.reduce((sum, allocation) => {
    const ready = readyPeriodsOf(allocation).filter(({ until }) => until === null);
    return sum + ready.length * slicePrice(job, allocation);
  }, 0);
}

/** Undefined without a budget. As the other budgets, it counts from the owner's newest start. */
export function spendingOf(job: Job, now: Instant): Spending | undefined {
  const { budgetUsd } = job.spec.limits;
  if (budgetUsd === undefined) return undefined;
  const first = job.attempts.findLastIndex(({ startedByOwner }) => startedByOwner);
  // If the clock was set back, an ended attempt may have been created in the future.
  const since = Math.min(now, ...job.attempts.slice(Math.max(0, first)).map(({ createdAt }) => createdAt));
  return { spentUsd: spentUsd(job, since, now), budgetUsd };
}

export function isBudgetUsed(job: Job, now: Instant): boolean {
  const spending = spendingOf(job, now);
  return spending !== undefined && spending.spentUsd >= spending.budgetUsd;
}

/** The time at which the budget is used up if nothing changes. Undefined while nothing is charged, and after it. */
export function budgetEnd(job: Job, now: Instant): Instant | undefined {
  return spendingTime(job, now, 1);
}

/** The next time at which the warning or the end is due. Undefined while nothing is charged, and after the end. */
export function nextBudgetTime(job: Job, now: Instant): Instant | undefined {
  return spendingTime(job, now, job.budgetWarning === undefined ? warningShare : 1) ?? budgetEnd(job, now);
}

/** The time at which that share of the budget is used, at least a second from now. Undefined if it is used already. */
function spendingTime(job: Job, now: Instant, share: number): Instant | undefined {
  const spending = spendingOf(job, now);
  const rate = currentRate(job);
  if (spending === undefined || rate === 0) return undefined;
  const missing = spending.budgetUsd * share - spending.spentUsd;
  return missing <= 0 ? undefined : inFuture(now + Math.ceil((missing / rate) * hour), now);
}

/** Warns once for each start of the owner. */
export function warnOfBudget(job: Job, now: Instant): Change {
  const spending = spendingOf(job, now);
  const attempt = openAttempt(job);
  if (spending === undefined || attempt === undefined || attempt.ending !== null) return withoutEvents(job);
  if (job.budgetWarning !== undefined || job.startRequest !== null || job.removed) return withoutEvents(job);
  if (spending.spentUsd < spending.budgetUsd * warningShare) return withoutEvents(job);
  const budgetWarning = { spentUsd: Math.round(spending.spentUsd * 100) / 100, budgetUsd: spending.budgetUsd };
  return withEvents({ ...job, budgetWarning }, now, { kind: 'budget_warning', ...budgetWarning });
}
