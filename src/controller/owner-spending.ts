// Owner spending: what the owner of a job has spent of each budget of a grant, from the usage ledger.

import { messageOf } from '../app/errors.ts';
import { currentCapacity, ownerSpendingOf, periodStarts, type UserSpending } from '../core/policy/grants.ts';
import type { Clock, Store } from '../app/ports.ts';
import type { Grant } from '../core/policy/grants.ts';
import { isLimited } from '../core/decide/spending.ts';
import type { Job } from '../core/model/job.ts';
import { known, unknown, type Observation, type Observed } from '../core/model/observation.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';

/** All passes within this time share one reading of the ledger. The rules add what was spent since. */
const readInterval: Duration = 10 * second;

export function createOwnerSpending({
  store,
  grants,
  clock,
}: {
  readonly store: Pick<Store, 'spending'>;
  readonly grants: readonly Grant[];
  readonly clock: Clock;
}): (job: Job) => Promise<Observation['ownerSpending']> {
  let newest: { readonly at: Instant; readonly reading: Promise<Observed<readonly UserSpending[]>> } | undefined;

  async function read(now: Instant): Promise<Observed<readonly UserSpending[]>> {
    try {
      return known(await store.spending(periodStarts(now), now), now);
    } catch (error) {
      return unknown(messageOf(error), now);
    }
  }

  return async (job) => {
    const now = clock.now();
    if (!isLimited(job)) return undefined;
    const capacity = currentCapacity(job);
    if (ownerSpendingOf(grants, job.owner, capacity, [], now).length === 0) return undefined;
    if (newest === undefined || now < newest.at || now - newest.at >= readInterval)
      newest = { at: now, reading: read(now) };
    const reading = await newest.reading;
    if (reading.kind === 'unknown') return reading;
    const { value, observedAt } = reading;
    return known(ownerSpendingOf(grants, job.owner, capacity, value, observedAt), observedAt);
  };
}
