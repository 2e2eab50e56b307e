// Owner spending: what the owner of a job has spent of each budget, of a grant or of the user's limits, from the usage
// ledger.

import { messageOf } from '../app/errors.ts';
import { currentCapacity, ownerSpendingOf, periodStarts } from '../core/policy/grants.ts';
import type { Clock, Store } from '../app/ports.ts';
import type { Grant } from '../core/policy/grants.ts';
import { withDailyBudget, type DailyBudget } from '../core/policy/limits.ts';
import { isLimited } from '../core/decide/spending.ts';
import type { Job } from '../core/model/job.ts';
import { known, unknown, type Observation, type Observed } from '../core/model/observation.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';

/**
 * All passes within this time share one reading. The rules add what was spent since. A budget that was read before the job
 * started does not count, because the start may have needed a higher one.
 */
const readInterval: Duration = 10 * second;

export function createOwnerSpending({
  store,
  grants,
  dailyBudgets,
  clock,
}: {
  readonly store: Pick<Store, 'spending'>;
  readonly grants: readonly Grant[];
  readonly dailyBudgets?: () => Promise<readonly DailyBudget[]>;
  readonly clock: Clock;
}): (job: Job) => Promise<Observation['ownerSpending']> {
  const readBudgets = dailyBudgets === undefined ? undefined : shared(dailyBudgets);
  const readSpending = shared((now) => store.spending(periodStarts(now), now));

  return async (job) => {
    const now = clock.now();
    if (!isLimited(job)) return undefined;
    const capacity = currentCapacity(job);
    const budgets = await readBudgets?.(now, newestStart(job));
    if (budgets?.kind === 'unknown') return budgets;
    const limiting = withDailyBudget(grants, budgets?.value ?? [], job.owner);
    if (ownerSpendingOf(limiting, job.owner, capacity, [], now).length === 0) return undefined;
    const reading = await readSpending(now);
    if (reading.kind === 'unknown') return reading;
    const { value, observedAt } = reading;
    return known(ownerSpendingOf(limiting, job.owner, capacity, value, observedAt), observedAt);
  };
}

function newestStart({ startRequest, attempts, createdAt }: Job): Instant {
  return startRequest?.at ?? attempts.findLast(({ startedByOwner }) => startedByOwner)?.createdAt ?? createdAt;
}

function shared<T>(read: (now: Instant) => Promise<T>): (now: Instant, notBefore?: Instant) => Promise<Observed<T>> {
  let newest: { readonly at: Instant; readonly reading: Promise<Observed<T>> } | undefined;

  async function observe(now: Instant): Promise<Observed<T>> {
    try {
      return known(await read(now), now);
    } catch (error) {
      return unknown(messageOf(error), now);
    }
  }

  return (now, notBefore = now - readInterval) => {
    if (newest === undefined || now < newest.at || now - newest.at >= readInterval || newest.at < notBefore)
      newest = { at: now, reading: observe(now) };
    return newest.reading;
  };
}
