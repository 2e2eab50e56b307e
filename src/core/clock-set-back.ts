// Clock set back: the record's moments are by the clock of the machine that jobman runs on, and people and time servers set
// that clock right. What was noted while it was ahead lies ahead of now afterwards: a backoff, a grace or a limit that counts
// from there would last for as long as the clock was wrong. How long ago it really was nobody can say, so it counts anew
// from now. No wait is cut short by that, and none is more than doubled.
//
// This is the one place that knows of it. Whatever runs after it in a pass may take every moment of the record as past.

import { told, unchanged, withAllocation, withAttempt } from './change.ts';
import type { Change } from './change.ts';
import { openAttempt } from './job.ts';
import type { Allocation, Attempt, Job, StepFailure } from './job.ts';
import { planted } from './plant.ts';
import { second } from './time.ts';
import type { Instant } from './time.ts';

/** A step smaller than this is the clock being kept right, and makes no wait noticeably longer. */
const stepLeast = second;

/** Brings every moment that something may be counted from back to now, where it lies ahead, and tells that once. */
export function setRight(job: Job, now: Instant): Change {
  if (planted('clock-believed') || !momentsOf(job).some((moment) => moment > now + stepLeast)) return unchanged(job);
  const begun = openAttempt(job)?.createdAt;
  const right = (moment: Instant): Instant => rightMoment(moment, now, begun);
  let next = job;
  for (const allocation of job.allocations)
    next = withAllocation(next, allocation.ordinal, allocationRight(allocation, right));
  for (const attempt of job.attempts) next = withAttempt(next, attempt.ordinal, attemptRight(attempt, right));
  if (next.settled !== null) next = { ...next, settled: { ...next.settled, at: right(next.settled.at) } };
  return told(next, now, { kind: 'clock_set_back' });
}

/**
 * A moment that does not lie ahead of now. What was asked for before the open attempt `begun` stays before it: which requests
 * are an attempt's own is told by their moments.
 */
export function rightMoment(moment: Instant, now: Instant, begun: Instant | undefined): Instant {
  if (moment <= now) return moment;
  return begun !== undefined && moment < begun ? now - 1 : now;
}

/** A backoff lasts as long as it was to last, from the moment at which it counts now. */
export function rightBackoff(
  { createdAt, movedAt, notBefore }: Pick<Attempt, 'createdAt' | 'movedAt' | 'notBefore'>,
  now: Instant,
): Instant {
  const since = movedAt ?? createdAt;
  return since > now ? now + Math.max(0, notBefore - since) : notBefore;
}

type Right = (moment: Instant) => Instant;

function orNull(moment: Instant | null, right: Right): Instant | null {
  return moment === null ? null : right(moment);
}

/** Of what is gone only that it was asked for, and passed over, sets a pace any more; the rest is history. */
function allocationRight(allocation: Allocation, right: Right): Partial<Allocation> {
  const { passedOver, lastFailure, seen } = allocation;
  const asked: Partial<Allocation> = {
    requestedAt: orNull(allocation.requestedAt, right),
    ...(passedOver === undefined || right(passedOver.at) === passedOver.at
      ? {}
      : { passedOver: { ...passedOver, at: right(passedOver.at) } }),
  };
  if (allocation.goneAt !== null) return asked;
  return {
    ...asked,
    acceptedAt: orNull(allocation.acceptedAt, right),
    readyAt: orNull(allocation.readyAt, right),
    missedAt: orNull(allocation.missedAt, right),
    silentSince: orNull(allocation.silentSince, right),
    releasedAt: orNull(allocation.releasedAt, right),
    lastFailure: lastFailure === null ? null : { ...lastFailure, at: right(lastFailure.at) },
    seen: seen === null ? null : { ...seen, at: right(seen.at) },
  };
}

/** Of an attempt that has ended, what is left of its program may still have to be stopped; the rest is history. */
function attemptRight(attempt: Attempt, right: Right): Partial<Attempt> {
  const { ending, stepFailures, movedAt } = attempt;
  const failures = Object.entries(stepFailures).map(([key, failure]): [string, StepFailure] => [
    key,
    { ...failure, lastAt: right(failure.lastAt) },
  ]);
  const stopping: Partial<Attempt> = {
    stepFailures: Object.fromEntries(failures),
    ending: ending === null ? null : { ...ending, stopAskedAt: orNull(ending.stopAskedAt, right) },
  };
  if (attempt.endedAt !== null) return stopping;
  return {
    createdAt: right(attempt.createdAt),
    ...(movedAt !== undefined && { movedAt: right(movedAt) }),
    notBefore: rightBackoff(attempt, right(Infinity)),
    startedAt: orNull(attempt.startedAt, right),
    runningAt: orNull(attempt.runningAt, right),
    stepFailures: Object.fromEntries(failures),
    ending:
      ending === null
        ? null
        : { ...ending, since: right(ending.since), stopAskedAt: orNull(ending.stopAskedAt, right) },
  };
}

/** Every moment of the record that something is counted from. */
function momentsOf({ attempts, allocations, settled }: Job): readonly Instant[] {
  const noted: (Instant | null | undefined)[] = [settled?.at];
  for (const one of allocations) {
    noted.push(one.requestedAt, one.passedOver?.at);
    if (one.goneAt !== null) continue;
    noted.push(one.acceptedAt, one.readyAt, one.missedAt, one.silentSince, one.releasedAt);
    noted.push(one.lastFailure?.at, one.seen?.at);
  }
  for (const one of attempts) {
    noted.push(one.ending?.stopAskedAt, ...Object.values(one.stepFailures).map(({ lastAt }) => lastAt));
    if (one.endedAt !== null) continue;
    noted.push(one.createdAt, one.movedAt, one.startedAt, one.runningAt, one.ending?.since);
  }
  return noted.filter((moment) => moment !== null && moment !== undefined);
}
