// Clock: the times of a job come from the clock of this machine. If that clock is set back, stored times may be in the
// future, and every wait that counts from one would last too long. A pass replaces such a time by now before anything
// else: this shortens no wait and at most doubles it. All later code may assume that no time is in the future.

import { withoutEvents, withEvents, type Change } from '../model/decision.ts';
import { allocationOf, openAttempt, withLifecycle, type Allocation, type Attempt, type Job } from '../model/job.ts';
import type { Observation, Observed } from '../model/observation.ts';
import { second, type Instant } from '../model/time.ts';

/** Time servers adjust the clock by less than this, which does not prolong a wait noticeably. */
const clockTolerance = second;

/** Replaces every future time from which a wait counts by now, and records one event. */
export function correctTimes(job: Job, now: Instant): Change {
  const attemptStart = openAttempt(job)?.createdAt;
  let isAhead = false;
  const correct: TimeCorrection = (time) => {
    if (time > now + clockTolerance) isAhead = true;
    return correctTime(time, now, attemptStart);
  };
  const next: Job = {
    ...job,
    allocations: job.allocations.map((one) => correctedAllocation(one, correct)),
    attempts: job.attempts.map((one) => {
      const { ownership, goneAt } = allocationOf(job, one.allocation);
      return correctedAttempt(one, correct, now, ownership === 'ephemeral' && goneAt === null);
    }),
    finish: job.finish && corrected(job.finish, ['at'], correct),
  };
  return isAhead ? withEvents(next, now, { kind: 'clock_set_back' }) : withoutEvents(job);
}

export function withoutFutureTimes(observation: Observation, now: Instant): Observation {
  return {
    ...observation,
    allocations: observation.allocations.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
    workers: observation.workers.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
    ...(observation.ownerSpending && { ownerSpending: clampObservedTime(observation.ownerSpending, now) }),
    outcomes: observation.outcomes.map((one) => ({ ...one, at: Math.min(one.at, now) })),
  };
}

function clampObservedTime<T>(observed: Observed<T>, now: Instant): Observed<T> {
  return observed.kind === 'known'
    ? { ...observed, observedAt: Math.min(observed.observedAt, now) }
    : { ...observed, since: Math.min(observed.since, now) };
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

/** The value with these fields corrected. A field without a time stays as it is. */
function corrected<T extends object>(value: T, keys: readonly (keyof T)[], correct: TimeCorrection): T {
  const times = keys.flatMap((key) => {
    const time = value[key];
    return typeof time === 'number' ? [[key, correct(time)]] : [];
  });
  return { ...value, ...Object.fromEntries(times) };
}

/** No wait counts from the other times of an allocation that is gone. */
function correctedAllocation(allocation: Allocation, correct: TimeCorrection): Allocation {
  const { lastError, lastObserved, goneAt, readyPeriods } = allocation;
  if (goneAt !== null) return corrected(allocation, ['requestedAt', 'waitingSince'], correct);
  return withLifecycle({
    ...corrected(
      allocation,
      ['requestedAt', 'waitingSince', 'confirmedAt', 'readyAt', 'firstMissedAt', 'unreachableAt', 'releasedAt'],
      correct,
    ),
    lastError: lastError && corrected(lastError, ['at'], correct),
    lastObserved: lastObserved && corrected(lastObserved, ['at'], correct),
    ...(readyPeriods && { readyPeriods: readyPeriods.map((one) => corrected(one, ['from', 'until'], correct)) }),
  });
}

/**
 * After its end an attempt may still have processes to stop. While the job keeps its allocation, budgets count from its
 * creation, and the usage of the allocation after its end. Nothing else counts from its other times.
 */
function correctedAttempt(attempt: Attempt, correct: TimeCorrection, now: Instant, isKept: boolean): Attempt {
  const { ending, alternativesTried } = attempt;
  const stopSentAt = ending?.stopSentAt?.map((one) => corrected(one, ['at'], correct));
  const stopping = {
    ...attempt,
    failures: attempt.failures.map((one) => corrected(one, ['lastAt'], correct)),
    ending: ending && { ...corrected(ending, ['stopRequestedAt'], correct), ...(stopSentAt && { stopSentAt }) },
  };
  if (attempt.endedAt !== null && !isKept) return stopping;
  return {
    ...corrected(stopping, ['createdAt', 'movedAt', 'startedAt', 'runningAt', 'endedAt'], correct),
    ending: stopping.ending && corrected(stopping.ending, ['startedAt'], correct),
    ...(alternativesTried && { alternativesTried: alternativesTried.map((one) => corrected(one, ['at'], correct)) }),
    notBeforeAt: correctBackoff(attempt, now),
  };
}
