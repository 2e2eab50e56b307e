// Record orphan: writes into a job's usage that a TPU exists, or no longer exists, which no pass of the job observes.

import { isOrphaned, recordOrphan } from '../core/decide/orphans.ts';
import { capacityOf } from '../core/model/job.ts';
import type { SliceState } from '../core/model/ready-periods.ts';
import type { Instant } from '../core/model/time.ts';
import { locationPrefix, type Commit, type Orphan, type Store } from './ports.ts';

/**
 * Nothing for an allocation that its job still observes, that is not in the database, or that is now elsewhere. If the
 * job changes meanwhile, nothing is written: the next observation repeats it.
 */
export async function recordOrphanUsage(
  store: Pick<Store, 'load' | 'wakeAt' | 'commit'>,
  { job: id, allocation: ordinal, resource }: Pick<Orphan, 'job' | 'allocation'> & Partial<Pick<Orphan, 'resource'>>,
  slices: readonly SliceState[],
  at: Instant,
  epoch: Commit['epoch'] = null,
): Promise<void> {
  const stored = await store.load(id);
  const allocation = stored?.job.allocations[ordinal - 1];
  if (stored === undefined || allocation === undefined || !isOrphaned(stored.job, ordinal)) return;
  const prefix = locationPrefix(capacityOf(stored.job, allocation));
  if (prefix === null || resource?.startsWith(prefix) === false) return;
  const { job, events } = recordOrphan(stored.job, ordinal, slices, at);
  if (events.length === 0) return;
  // Read after the job: if a pass changed it in between, the revision differs.
  const wakeAt = await store.wakeAt(id);
  await store.commit({ job, revision: stored.revision, events, foldedOutcomes: [], wakeAt, epoch });
}
