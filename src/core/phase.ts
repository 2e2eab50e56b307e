// Phase: the one word shown for a job, always computed and never stored.

import { allocationOf, heldAllocations, openAttempt } from './job.ts';
import type { Job } from './job.ts';

/** In the order in which a job usually goes through them. */
export const phases = [
  'queued',
  'provisioning',
  'setup',
  'running',
  'recovering',
  'stopping',
  'succeeded',
  'failed',
  'stopped',
  'cancelled',
] as const;

export type Phase = (typeof phases)[number];

/** The word for a job as its record stands. */
export function phaseOf(job: Job): Phase {
  const isLeaving = heldAllocations(job).some((allocation) => allocation.releasedAt !== null);
  if (job.settled !== null && job.wish === null)
    return isLeaving && job.desired !== 'run' ? 'stopping' : job.settled.verdict;
  const attempt = openAttempt(job);
  if (job.desired !== 'run')
    return attempt === undefined && !isLeaving ? (job.cancelled ? 'cancelled' : 'stopped') : 'stopping';
  if (attempt === undefined) return job.attempts.length === 0 || job.wish !== null ? 'queued' : 'recovering';
  if (attempt.ending !== null) return 'recovering';
  if (attempt.runningAt !== null) return 'running';
  if (!attempt.asked) return 'recovering';
  const allocation = allocationOf(job, attempt.allocation);
  if (allocation.readyAt !== null) return 'setup';
  const isMade = allocation.seen?.state === 'provisioning' || allocation.seen?.state === 'interrupted';
  return isMade ? 'provisioning' : 'queued';
}
