// Orphans: TPUs of an allocation that no pass of the job observes any more. They may still be charged.

import { withAllocation, withEvents, withoutEvents, type Change } from '../model/decision.ts';
import { allocationOf, isForceRemoved, type Job } from '../model/job.ts';
import { foldLateTpu, foldRecreated, foldSlices, readyPeriodsOf, type SliceState } from '../model/ready-periods.ts';
import type { Instant } from '../model/time.ts';

/** True if the allocation was observed as deleted, or its job was removed by force. */
export function isOrphaned(job: Job, ordinal: number): boolean {
  return allocationOf(job, ordinal).goneAt !== null || isForceRemoved(job);
}

/** Records an observation of an orphaned allocation at that time; without slices, it does not exist. */
export function recordOrphan(job: Job, ordinal: number, slices: readonly SliceState[], at: Instant): Change {
  const allocation = allocationOf(job, ordinal);
  const before = readyPeriodsOf(allocation);
  const fold = allocation.goneAt === null ? foldSlices : foldRecreated;
  const readyPeriods = fold(before, slices, at);
  if (readyPeriods === before) return withoutEvents(job);
  const next = withAllocation(job, ordinal, { readyPeriods });
  return withEvents(next, at, { kind: 'orphan_seen', allocation: ordinal, slices });
}

/** Records an observation of a late TPU of the allocation in that alternative; without slices, it does not exist. */
export function recordLateTpu(
  job: Job,
  ordinal: number,
  alternative: number,
  slices: readonly SliceState[],
  at: Instant,
): Change {
  const { lateTpus: before = [] } = allocationOf(job, ordinal);
  const lateTpus = foldLateTpu(before, alternative, slices, at);
  if (lateTpus === before) return withoutEvents(job);
  const next = withAllocation(job, ordinal, { lateTpus });
  return withEvents(next, at, { kind: 'orphan_seen', allocation: ordinal, slices, alternative });
}
