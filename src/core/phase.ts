// Phase: the one word shown for a job, always computed from its record and never stored.

import { lastAttempt, openAttempt } from './job.ts';
import type { Allocation, Attempt, Job } from './job.ts';
import { whatFollows } from './recover.ts';
import type { Instant } from './time.ts';

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

/** Whether nothing more happens to a job in that phase until somebody says so. */
export function isSettledPhase(phase: Phase): boolean {
  return phase === 'succeeded' || phase === 'failed' || phase === 'stopped' || phase === 'cancelled';
}

/**
 * The word for a job. `running` means that the command was started and has been seen running; `recovering`, that an
 * attempt was under way, a rule goes on after its end, and the next one does not run yet. What a stopped job still holds
 * is said beside the word, not by it.
 */
export function phaseOf(job: Job): Phase {
  if (job.settled !== null) return job.settled.verdict;
  if (job.removed) return 'cancelled';
  if (job.desired !== 'run') return 'stopping';
  const attempt = openAttempt(job);
  if (attempt === undefined) return 'queued';
  if (attempt.ending !== null) return endingPhase(job, attempt, attempt.ending.since);
  if (attempt.runningAt !== null) return 'running';
  if (isRecovery(job, attempt)) return 'recovering';
  return comingPhase(attempt, job.allocations[attempt.allocation - 1]);
}

/** Since when it has been in that phase, as far as the record tells. */
export function phaseSince(job: Job): Instant {
  if (job.settled !== null) return job.settled.at;
  if (job.desired !== 'run') return job.desiredAt;
  const attempt = openAttempt(job);
  if (attempt === undefined) return job.wish?.at ?? lastAttempt(job)?.endedAt ?? job.createdAt;
  if (attempt.ending !== null) return attempt.ending.since;
  if (attempt.runningAt !== null) return attempt.runningAt;
  const before = job.attempts[attempt.ordinal - 2];
  if (isRecovery(job, attempt)) return before?.ending?.since ?? attempt.createdAt;
  const allocation = job.allocations[attempt.allocation - 1];
  switch (comingPhase(attempt, allocation)) {
    case 'setup':
      return Math.max(attempt.createdAt, allocation?.readyAt ?? 0);
    case 'provisioning':
      return Math.max(attempt.createdAt, allocation?.seen?.at ?? 0);
    default:
      return attempt.createdAt;
  }
}

/** As of the ending, so that the phase does not change by the passing of time alone. */
function endingPhase(job: Job, attempt: Attempt, since: Instant): Phase {
  const following = whatFollows(job, attempt, since);
  return following.next === 'attempt' ? 'recovering' : 'stopping';
}

/** The owner asked for an earlier one, it had begun, and this one goes on in its place. */
function isRecovery(job: Job, attempt: Attempt): boolean {
  if (attempt.asked) return false;
  const chance = job.attempts.findLastIndex((one) => one.asked);
  return job.attempts.slice(Math.max(0, chance), attempt.ordinal - 1).some((one) => one.startedAt !== null);
}

function comingPhase(attempt: Attempt, allocation: Allocation | undefined): 'queued' | 'provisioning' | 'setup' {
  if (attempt.startedAt !== null || allocation?.seen?.state === 'ready') return 'setup';
  const isBeingMade = allocation?.seen?.state === 'provisioning' || allocation?.seen?.state === 'interrupted';
  return isBeingMade && !isRefusedSince(allocation) ? 'provisioning' : 'queued';
}

/** True where the request was refused after it was last seen in the making: until the next one is seen, capacity is awaited. */
export function isRefusedSince({ seen, readyAt, releasedAt, lastFailure }: Allocation): boolean {
  if (readyAt !== null || releasedAt !== null || seen === null || lastFailure === null) return false;
  return lastFailure.at > seen.at;
}
