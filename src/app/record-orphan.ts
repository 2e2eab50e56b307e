// Record orphan: writes into a job's usage that a TPU exists, or no longer exists, which no pass of the job observes.

import { isOrphaned, recordLateTpu, recordOrphan } from '../core/decide/orphans.ts';
import { chain, withoutEvents } from '../core/model/decision.ts';
import type { Allocation, Job } from '../core/model/job.ts';
import type { SliceState } from '../core/model/ready-periods.ts';
import { alternativeCount, alternativeOf, capacityAt, isOfType } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { locationPrefix, type Commit, type CommitResult, type Orphan, type Store } from './ports.ts';

/** `resource` may be only the prefix of a location (`locationPrefix`). */
type ObservedOrphan = Pick<Orphan, 'job' | 'allocation' | 'resource' | 'accelerator' | 'pricing'>;

/** A pass, and the collection of another location, may change the same job. */
const maxTries = 5;

/**
 * Records the usage of an orphan. Records nothing for a TPU that its job still observes, or that is not in the
 * database. Without slices, the allocation no longer has a TPU at that location. If the job changes meanwhile, the
 * observation is recorded in the changed job, because the next one comes minutes later.
 */
export async function recordOrphanUsage(
  store: Pick<Store, 'load' | 'commit'>,
  orphan: ObservedOrphan,
  slices: readonly SliceState[],
  at: Instant,
  epoch: Commit['epoch'] = null,
): Promise<void> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    const result = await tryRecord(store, orphan, slices, at, epoch);
    if (result !== 'stale') return;
  }
}

/** Undefined if there is nothing to write. */
async function tryRecord(
  store: Pick<Store, 'load' | 'commit'>,
  orphan: ObservedOrphan,
  slices: readonly SliceState[],
  at: Instant,
  epoch: Commit['epoch'],
): Promise<CommitResult | undefined> {
  const { job: id, allocation: ordinal } = orphan;
  const stored = await store.load(id);
  const allocation = stored?.job.allocations[ordinal - 1];
  if (stored === undefined || allocation === undefined) return undefined;
  const found = alternativesAt(stored.job, allocation, orphan);
  const observed = slices.length === 0 ? found : found.slice(0, 1);
  const { job, events } = chain(
    withoutEvents(stored.job),
    ...observed.map((alternative) => (next: Job) => {
      if (alternative !== (allocation.alternative ?? 0)) return recordLateTpu(next, ordinal, alternative, slices, at);
      if (isOrphaned(next, ordinal)) return recordOrphan(next, ordinal, slices, at);
      // The job has come back to this alternative, and observes the TPU as its own if it is ready.
      return slices.includes('ready') ? withoutEvents(next) : recordLateTpu(next, ordinal, alternative, slices, at);
    }),
  );
  if (events.length === 0) return undefined;
  const { revision, wakeAt } = stored;
  return store.commit({ job, revision, events, foldedOutcomes: [], wakeAt, epoch });
}

/** The alternatives of the job at the location of the resource, the most likely one first. */
function alternativesAt(
  job: Job,
  { ordinal, alternative: current = 0, readyAt }: Allocation,
  orphan: ObservedOrphan,
): readonly number[] {
  const all = Array.from({ length: alternativeCount(job.spec.capacity) }, (_, alternative) => ({
    alternative,
    capacity: capacityAt(job.spec.capacity, alternative),
  })).filter(({ capacity }) => orphan.resource.startsWith(locationPrefix(capacity) ?? '\0'));
  const ofType = all.filter(({ capacity }) => capacity.kind === 'tpu' && isOfType(capacity, orphan));
  // A job that uses a TPU observes it, whatever its type.
  const own = readyAt === null ? alternativeOf(job.spec.capacity, current, orphan) : current;
  const likely = [
    ...(isOrphaned(job, ordinal) ? ofType : []),
    ...all.filter(({ alternative }) => alternative === own),
    ...ofType,
    ...all,
  ];
  return [...new Set(likely.map(({ alternative }) => alternative))];
}
