// Given up: how long something waits for a worker that does not answer although the cloud calls its machine ready, and
// will therefore neither be set up nor ever confirm that its program has ended.

import { allocationOf } from './job.ts';
import type { Attempt, Job } from './job.ts';
import type { Duration, Instant } from './time.ts';

/** How many graces what is to be kept, or is not ours to replace, waits for a silent worker: time for its owner to see to it. */
export const keptGraces = 10;

/**
 * True while the attempt that its owner asked for has tried nothing yet, on capacity that an earlier one had used: what is
 * silent there was held for it, and to find that out is no try at the command. One of just the command wants that capacity
 * and no other.
 */
export function isOnHeld(job: Job, attempt: Attempt): boolean {
  if (!attempt.asked || attempt.startedAt !== null || attempt.commandOnly === true) return false;
  return job.attempts.some(({ ordinal, allocation }) => ordinal < attempt.ordinal && allocation === attempt.allocation);
}

/**
 * How long a silent worker may keep the attempt from being started, or from being known to run. Held capacity of the job's
 * own has another in its place after that; a standing one has none, and is waited for longer.
 */
export function silencePatience(job: Job, attempt: Attempt): Duration {
  const { unreachableGrace } = job.spec.recovery;
  const isStanding = allocationOf(job, attempt.allocation).ownership === 'standing';
  return isStanding && isOnHeld(job, attempt) ? keptGraces * unreachableGrace : unreachableGrace;
}

/**
 * When a silent worker of a standing allocation is waited for no longer. The allocation is nobody's to let go, so the job
 * ends without it, and a program there that nobody hears of is left to itself: whatever is started there next ends it first.
 * Undefined while all answer, while the cloud itself is silent, and for what is the job's own.
 */
export function standingGivenUpAt(job: Job, attempt: Attempt): Instant | undefined {
  const { ownership, silentSince, silentWho, releasedAt } = allocationOf(job, attempt.allocation);
  if (ownership !== 'standing' || releasedAt !== null) return undefined;
  if (attempt.ending === null || silentSince === null || silentWho !== 'worker') return undefined;
  return silentSince + keptGraces * job.spec.recovery.unreachableGrace;
}
