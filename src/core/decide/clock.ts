// Clock: the times of a job come from the clock of this machine. If that clock is set back, stored times may be in the
// future, and every wait that counts from one would last too long. A pass replaces such a time by now before anything
// else: this shortens no wait and at most doubles it. All later code may assume that no time is in the future.

import { withoutEvents, withEvents } from '../model/decision.ts';
import type { Change } from '../model/decision.ts';
import { openAttempt, withLifecycle } from '../model/job.ts';
import type { Allocation, AllocationFields, Attempt, Job } from '../model/job.ts';
import type { Observation, Observed } from '../model/observation.ts';
import { second } from '../model/time.ts';
import type { Instant } from '../model/time.ts';

/** Time servers adjust the clock by less than this, which does not prolong a wait noticeably. */
const clockTolerance = second;

/** Replaces every future time from which a wait counts by now, and records one event. */
export function correctTimes(job: Job, now: Instant): Change {
  const attemptStart = openAttempt(job)?.createdAt;
  let isAhead = false;
  // Also notes whether any time is ahead.
  const correct: TimeCorrection = (time) => {
    if (time > now + clockTolerance) isAhead = true;
    return correctTime(time, now, attemptStart);
  };
  const next: Job = {
    ...job,
    allocations: job.allocations.map((one) => withLifecycle({ ...one, ...correctedAllocation(one, correct) })),
    attempts: job.attempts.map((one) => ({ ...one, ...correctedAttempt(one, correct, now) })),
    finish: job.finish === null ? null : { ...job.finish, at: correct(job.finish.at) },
  };
  return isAhead ? withEvents(next, now, { kind: 'clock_set_back' }) : withoutEvents(job);
}

export function withoutFutureTimes(observation: Observation, now: Instant): Observation {
  return {
    ...observation,
    allocations: observation.allocations.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
    workers: observation.workers.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
    outcomes: observation.outcomes.map((one) => ({ ...one, at: Math.min(one.at, now) })),
  };
}

function clampObservedTime<T>(observed: Observed<T>, now: Instant): Observed<T> {
  if (observed.kind === 'known') return observed.observedAt > now ? { ...observed, observedAt: now } : observed;
  return observed.since > now ? { ...observed, since: now } : observed;
}

/** Never later than now. A time before the start of the open attempt stays before it, as `failedRequests` requires. */
export function correctTime(time: Instant, now: Instant, attemptStart: Instant | undefined): Instant {
  if (time <= now) return time;
  return attemptStart !== undefined && time < attemptStart ? now - 1 : now;
}

/** The end of the backoff: its length is kept if its start is corrected. */
export function correctBackoff(
  { createdAt, movedAt, notBeforeAt }: Pick<Attempt, 'createdAt' | 'movedAt' | 'notBeforeAt'>,
  now: Instant,
): Instant {
  const since = movedAt ?? createdAt;
  return since > now ? now + Math.max(0, notBeforeAt - since) : notBeforeAt;
}

type TimeCorrection = (time: Instant) => Instant;

/** These fields of a value, corrected. */
function correctedTimes<Key extends string>(
  value: Readonly<Record<Key, Instant | null>>,
  keys: readonly Key[],
  correct: TimeCorrection,
): Readonly<Record<Key, Instant | null>> {
  const pairs = keys.map((key) => [key, value[key] === null ? null : correct(value[key])]);
  return Object.fromEntries(pairs) as Record<Key, Instant | null>;
}

const allocationTimes = ['confirmedAt', 'readyAt', 'firstMissedAt', 'unreachableAt', 'releasedAt'] as const;

/** No wait counts from the other times of an allocation that is gone. */
function correctedAllocation(allocation: Allocation, correct: TimeCorrection): Partial<AllocationFields> {
  const { lastError, lastObserved } = allocation;
  const requested = correctedTimes(allocation, ['requestedAt'], correct);
  if (allocation.goneAt !== null) return requested;
  return {
    ...requested,
    ...correctedTimes(allocation, allocationTimes, correct),
    lastError: lastError === null ? null : { ...lastError, at: correct(lastError.at) },
    lastObserved: lastObserved === null ? null : { ...lastObserved, at: correct(lastObserved.at) },
  };
}

/** After its end an attempt may still have processes to stop, but no wait counts from its other times. */
function correctedAttempt(attempt: Attempt, correct: TimeCorrection, now: Instant): Partial<Attempt> {
  const { ending, movedAt, alternativesTried } = attempt;
  const stopping = {
    failures: attempt.failures.map((one) => ({ ...one, lastAt: correct(one.lastAt) })),
    ending: ending === null ? null : { ...ending, ...correctedTimes(ending, ['stopRequestedAt'], correct) },
  };
  if (attempt.endedAt !== null) return stopping;
  return {
    ...stopping,
    createdAt: correct(attempt.createdAt),
    ...(movedAt !== undefined && { movedAt: correct(movedAt) }),
    ...(alternativesTried !== undefined && {
      alternativesTried: alternativesTried.map((one) => ({ ...one, at: correct(one.at) })),
    }),
    notBeforeAt: correctBackoff(attempt, now),
    ...correctedTimes(attempt, ['startedAt', 'runningAt'], correct),
    ending: stopping.ending === null ? null : { ...stopping.ending, startedAt: correct(stopping.ending.startedAt) },
  };
}
