// Cost: the report of what jobs have used, from the usage ledger.

import type { Instant } from '../core/model/time.ts';
import { ownersLike } from '../core/model/user.ts';
import { reportOf, type CostReport } from '../reports/cost.ts';
import type { CostRequest } from './client.ts';
import type { Store, UsageFilter, UserStore } from './ports.ts';
import { nameFilter } from './refs.ts';

/** The database adds up the usage, because a ledger has tens of thousands of rows. */
export async function costOf(
  store: Pick<Store, 'costliestJobs' | 'usageSums'> & UserStore,
  request: CostRequest,
  now: Instant,
): Promise<CostReport> {
  const { by, limit, name, user, ...others } = request;
  const owners = user === undefined ? {} : { owners: ownersLike(user, await store.users()) };
  const filter: UsageFilter = { ...others, ...nameFilter(name), ...owners };
  if (by === 'job' && limit !== undefined) {
    const { jobs: first, restCounts } = await store.costliestJobs(filter, limit, now);
    const [sums, rest] = await Promise.all([
      store.usageSums({ ...filter, jobs: first }, by, now),
      store.usageSums({ ...filter, exceptJobs: first }, null, now),
    ]);
    return reportOf(sums, request, now, { rest, restCounts });
  }
  const sums = await store.usageSums(filter, by, now);
  return reportOf(sums, request, now, by === 'tag' ? { totals: await store.usageSums(filter, null, now) } : {});
}
