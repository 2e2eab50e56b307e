// Cost: the report of what jobs have used, from the usage ledger.

import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { Instant } from '../core/model/time.ts';
import { costReport, firstJobs, reportOf, type CostReport } from '../reports/cost.ts';
import type { UsageRow } from '../reports/usage.ts';
import type { CostRequest, UsageJob } from './client.ts';
import type { Store, UsageFilter } from './ports.ts';

type Ledger = Pick<Store, 'usage' | 'usageByJob' | 'usageSums'>;

/** The database adds up what it can: a ledger has tens of thousands of rows. */
export async function costOf(store: Ledger, request: CostRequest, now: Instant): Promise<CostReport> {
  const { owner, jobs, ...query } = request;
  const { by, since, until, limit } = query;
  const filter: UsageFilter = omitUndefined({ owner, since, until, jobs: jobs?.map(({ job }) => job) });
  if (jobs !== undefined || by === 'tag' || by === 'day') {
    const rows = await store.usage(filter);
    const wanted = jobs === undefined ? rows : rows.filter((row) => jobs.some((job) => isOf(row, job)));
    return costReport(wanted, query, now);
  }
  if (by !== 'job' || limit === undefined) return reportOf(await store.usageSums(filter, by, now), query, now);
  const { subjects, restCounts } = firstJobs(await store.usageByJob(filter, now), limit);
  const [sums, rest] = await Promise.all([
    store.usageSums({ ...filter, subjects }, by, now),
    store.usageSums({ ...filter, exceptSubjects: subjects }, null, now),
  ]);
  return reportOf(sums, query, now, { rest, restCounts });
}

/** Two clusters may have a job of one name. */
function isOf({ job, source, location }: UsageRow, wanted: UsageJob): boolean {
  return job === wanted.job && wanted.cluster === (source === 'kubernetes' ? location : null);
}
