// Phase: the state of a job that people see. Always computed from the job and never stored.

import { lastAttempt, openAttempt, type Allocation, type Attempt, type Ending, type Job } from '../model/job.ts';
import { continuationOf } from './recover.ts';
import type { Instant } from '../model/time.ts';

/** In the usual order. */
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

/** True if nothing more happens to a job in that phase without a new command. */
export function isFinishedPhase(phase: Phase): boolean {
  return phase === 'succeeded' || phase === 'failed' || phase === 'stopped' || phase === 'cancelled';
}

/**
 * `running`: the command was seen running. `recovering`: an attempt ended or is ending, a rule continues the job, and
 * the next attempt does not run yet. A stopped job may hold capacity; the phase does not show it.
 */
export function phaseOf(job: Job): Phase {
  if (job.finish !== null) return job.finish.verdict;
  if (job.removed) return 'cancelled';
  if (job.desired !== 'running') return 'stopping';
  const attempt = openAttempt(job);
  if (attempt === undefined) return 'queued';
  if (attempt.ending !== null) return endingPhase(job, attempt, attempt.ending.startedAt);
  if (attempt.runningAt !== null) return 'running';
  if (isRecovery(job, attempt)) return 'recovering';
  return startingPhase(attempt, job.allocations[attempt.allocation - 1]);
}

/** The time at which the job entered its phase, as far as it is stored. */
export function phaseSince(job: Job): Instant {
  if (job.finish !== null) return job.finish.at;
  if (job.desired !== 'running') return job.desiredAt;
  const attempt = openAttempt(job);
  if (attempt === undefined) return job.startRequest?.at ?? lastAttempt(job)?.endedAt ?? job.createdAt;
  if (attempt.ending !== null) return attempt.ending.startedAt;
  if (attempt.runningAt !== null) return attempt.runningAt;
  const before = job.attempts[attempt.ordinal - 2];
  if (isRecovery(job, attempt)) return before?.ending?.startedAt ?? attempt.createdAt;
  const allocation = job.allocations[attempt.allocation - 1];
  switch (startingPhase(attempt, allocation)) {
    case 'setup':
      return Math.max(attempt.createdAt, allocation?.readyAt ?? 0);
    case 'provisioning':
      return Math.max(attempt.createdAt, allocation?.lastObserved?.at ?? 0);
    default:
      return attempt.createdAt;
  }
}

/** Judged at the time of the ending: the phase must not change while nothing happens. */
function endingPhase(job: Job, attempt: Attempt, since: Instant): Phase {
  const continuation = continuationOf(job, attempt, since);
  return continuation.next === 'attempt' ? 'recovering' : 'stopping';
}

/** True if a rule created this attempt after an attempt whose command had started, since the owner's last start. */
function isRecovery(job: Job, attempt: Attempt): boolean {
  if (attempt.startedByOwner) return false;
  return attemptsBefore(job, attempt).some((one) => one.startedAt !== null);
}

/** Since the owner's last start. */
function attemptsBefore({ attempts }: Job, { ordinal }: Attempt): readonly Attempt[] {
  const newestByOwner = attempts.findLastIndex((one) => one.startedByOwner);
  return attempts.slice(Math.max(0, newestByOwner), ordinal - 1);
}

/** The end that this attempt recovers from: that of the newest command before it. Undefined for no recovery. */
export function recoveredFrom(job: Job, attempt: Attempt): Ending | undefined {
  if (attempt.startedByOwner) return undefined;
  return attemptsBefore(job, attempt).findLast((one) => one.startedAt !== null)?.ending ?? undefined;
}

function startingPhase(attempt: Attempt, allocation: Allocation | undefined): 'queued' | 'provisioning' | 'setup' {
  if (attempt.startedAt !== null || allocation?.lastObserved?.state === 'ready') return 'setup';
  const isProvisioning =
    allocation?.lastObserved?.state === 'provisioning' || allocation?.lastObserved?.state === 'interrupted';
  return isProvisioning && !wasRefusedSinceObserved(allocation) ? 'provisioning' : 'queued';
}

/** True if the request was refused since the allocation was last seen, so that capacity is awaited again. */
export function wasRefusedSinceObserved({ lastObserved, readyAt, releasedAt, lastError }: Allocation): boolean {
  if (readyAt !== null || releasedAt !== null || lastObserved === null || lastError === null) return false;
  return lastError.at > lastObserved.at;
}
