// Clock set back: the record's moments are by the clock of the machine that jobman runs on, and people and time servers set
// that clock right. What was noted while it was ahead lies ahead of now afterwards: a backoff, a grace or a limit that counts
// from there would last for as long as the clock was wrong. How long ago it really was nobody can say, so it counts anew
// from now. No wait is cut short by that, and none is more than doubled.
//
// This is the one place that knows of it. Whatever runs after it in a pass may take every moment of the record as past.

import { told, unchanged } from './change.ts';
import type { Change } from './change.ts';
import { openAttempt, withLife } from './job.ts';
import type { Allocation, AllocationFields, Attempt, Job } from './job.ts';
import type { Fact, Observation } from './observation.ts';
import { second } from './time.ts';
import type { Instant } from './time.ts';

/** A step smaller than this is the clock being kept right, and makes no wait noticeably longer. */
const stepLeast = second;

/** Brings every moment that something may be counted from back to now, where it lies ahead, and tells that once. */
export function setRight(job: Job, now: Instant): Change {
  const begun = openAttempt(job)?.createdAt;
  let isAhead = false;
  const right: Right = (moment) => {
    if (moment > now + stepLeast) isAhead = true;
    return rightMoment(moment, now, begun);
  };
  const next: Job = {
    ...job,
    allocations: job.allocations.map((one) => withLife({ ...one, ...allocationRight(one, right) })),
    attempts: job.attempts.map((one) => ({ ...one, ...attemptRight(one, right, now) })),
    settled: job.settled === null ? null : { ...job.settled, at: right(job.settled.at) },
  };
  return isAhead ? told(next, now, { kind: 'clock_set_back' }) : unchanged(job);
}

/** The same observation with no time later than now: a clock set back twice leaves such times, and silences would seem long. */
export function notAhead(observation: Observation, now: Instant): Observation {
  return {
    ...observation,
    allocations: observation.allocations.map((one) => ({ ...one, fact: factNotAhead(one.fact, now) })),
    workers: observation.workers.map((one) => ({ ...one, fact: factNotAhead(one.fact, now) })),
  };
}

function factNotAhead<T>(fact: Fact<T>, now: Instant): Fact<T> {
  if (fact.kind === 'known') return fact.seenAt > now ? { ...fact, seenAt: now } : fact;
  return fact.since > now ? { ...fact, since: now } : fact;
}

/** A time that is not ahead of now; what was before the open attempt `begun` stays before it, since times tell whose it is. */
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

/** Of what is gone only that it was asked for sets a pace any more; the rest is history. */
function allocationRight(allocation: Allocation, right: Right): Partial<AllocationFields> {
  const { lastFailure, seen } = allocation;
  const asked: Partial<AllocationFields> = { requestedAt: orNull(allocation.requestedAt, right) };
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
function attemptRight(attempt: Attempt, right: Right, now: Instant): Partial<Attempt> {
  const { ending, movedAt, placesPassed } = attempt;
  const stopping = {
    failures: attempt.failures.map((one) => ({ ...one, lastAt: right(one.lastAt) })),
    ending: ending === null ? null : { ...ending, stopAskedAt: orNull(ending.stopAskedAt, right) },
  };
  if (attempt.endedAt !== null) return stopping;
  return {
    ...stopping,
    createdAt: right(attempt.createdAt),
    ...(movedAt !== undefined && { movedAt: right(movedAt) }),
    ...(placesPassed !== undefined && { placesPassed: placesPassed.map((one) => ({ ...one, at: right(one.at) })) }),
    notBefore: rightBackoff(attempt, now),
    startedAt: orNull(attempt.startedAt, right),
    runningAt: orNull(attempt.runningAt, right),
    ending: stopping.ending === null ? null : { ...stopping.ending, since: right(stopping.ending.since) },
  };
}
