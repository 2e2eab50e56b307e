// Fold: the first step of `reconcile`. Writes the outcomes of actions and the results of looks into the record, if they
// change anything. The only decision made here is which of them to believe.

import {
  releaseConfirmationDelay,
  isUnobservable,
  isPermanent,
  releasingAllocations,
  recordGone,
  recordRequested,
  mayCreate,
  nextCallAt,
  confirmationDelay,
} from './allocate.ts';
import { chain, withEvents, unchanged, withAllocation, withAttempt } from '../model/decision.ts';
import type { Change, Subject } from '../model/decision.ts';
import { attemptOf, failureOf, lastAllocation, openAttempt, withLifecycle } from '../model/job.ts';
import type { Allocation, AllocationFields, Attempt, CloudError, Host, Job, WorkerTask } from '../model/job.ts';
import type {
  AllocationObservation,
  AllocationStatus,
  Observation,
  Outcome,
  OutcomeResult,
  Observed,
} from '../model/observation.ts';
import { wasRefusedSinceObserved } from './phase.ts';
import type { WorkerId } from '../model/spec.ts';
import { second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';

/** Replies first, then looks: a look is never older than a reply that is folded with it. */
export function fold(job: Job, observation: Observation, now: Instant): Change {
  return chain(
    unchanged(job),
    // First, because an answer to this very pass is to a later question.
    ...(observation.unansweredRequests ?? []).map(
      (ordinal) => (next: Job) => unchanged(withAllocation(next, ordinal, { hasUnansweredRequest: true })),
    ),
    // A reply may have been noted by a clock that has been set back since.
    ...observation.outcomes.map(
      (outcome) => (next: Job) => foldOutcome(next, { ...outcome, at: Math.min(outcome.at, now) }, now),
    ),
    ...observation.allocations.map((fact) => (next: Job) => foldAllocation(next, fact, now)),
    (next) => foldReachability(next, observation, now),
  );
}

// ------------------------------------------------------------------------------------------ replies

/** A reply about something that is over changes nothing. */
function foldOutcome(job: Job, { subject, attempt, at, result }: Outcome, now: Instant): Change {
  switch (subject.kind) {
    case 'request':
    case 'release':
      return foldCloudReply(job, subject.kind, job.allocations[subject.allocation - 1], at, result, now);
    case 'step':
      return foldStepReply(job, attempt, subject, at, result, now);
    case 'start':
      return foldStartReply(job, subject.attempt, subject.worker, at, result);
    case 'stop':
      return foldStopReply(job, subject.attempt, subject.worker, at, result);
  }
}

function foldCloudReply(
  job: Job,
  kind: 'request' | 'release',
  allocation: Allocation | undefined,
  at: Instant,
  result: OutcomeResult,
  now: Instant,
): Change {
  if (allocation === undefined || allocation.lifecycle === 'gone') return unchanged(job);
  if ((kind === 'release') !== (allocation.lifecycle === 'releasing')) return unchanged(job);
  // An accepted allocation is not requested again, so a reply that says otherwise is about an earlier question, of another
  // controller perhaps. Were it wrong to pass it over, the looks that miss the thing would tell.
  if (kind === 'request' && result.kind !== 'done' && (allocation.readyAt !== null || allocation.confirmedAt !== null))
    return unchanged(job);
  const { ordinal } = allocation;
  const replied = kind === 'request' && allocation.isRequestInFlight === true ? { isRequestInFlight: false } : {};
  if (result.kind === 'done')
    return unchanged(withAllocation(job, ordinal, { confirmedAt: at, firstMissedAt: null, ...replied }));
  const failed = withAllocation(withCloudError(job, allocation, at, errorOf(result)), ordinal, replied);
  // A lost reply is no refusal: something may come of it.
  if (kind === 'request' && result.kind === 'unclear')
    return unchanged(withAllocation(failed, ordinal, { hasUnansweredRequest: true }));
  // A release is not worth a line for people each time: it only sets a pace.
  return kind === 'request' ? recordRefusal(failed, ordinal, now) : unchanged(failed);
}

function withCloudError(job: Job, allocation: Allocation, at: Instant, error: CloudError): Job {
  return withAllocation(job, allocation.ordinal, {
    confirmedAt: null,
    errorCount: allocation.errorCount + 1,
    lastError: { at, error },
  });
}

function recordRefusal(job: Job, ordinal: number, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  const error = allocation?.lastError?.error;
  if (allocation === undefined || error === undefined) return unchanged(job);
  const nextAt = isPermanent(error.kind) ? {} : { nextAt: nextCallAt(job, allocation) };
  return withEvents(job, now, { kind: 'allocation_refused', allocation: ordinal, error, ...nextAt });
}

function errorOf(result: Exclude<OutcomeResult, { kind: 'done' }>): CloudError {
  const { detail, raw = '' } = result.evidence;
  switch (result.kind) {
    case 'unclear':
      return { kind: 'unreachable', message: detail, raw };
    case 'failed':
      return result.error ?? { kind: 'internal', message: detail, raw };
    case 'refused': {
      const error = result.error ?? { kind: 'invalid', message: detail, raw };
      return isPermanent(error.kind) ? error : { ...error, kind: 'invalid' };
    }
  }
}

/** A step takes minutes: its failure counts in the attempt that it was for, also when a later one is open by then. */
function foldStepReply(
  job: Job,
  of: number | undefined,
  { allocation, worker, step }: Extract<Subject, { kind: 'step' }>,
  at: Instant,
  result: OutcomeResult,
  now: Instant,
): Change {
  const attempt = of === undefined ? openAttempt(job) : job.attempts[of - 1];
  if (attempt === undefined || attempt.allocation !== allocation || result.kind === 'done') return unchanged(job);
  const { ordinal } = attempt;
  const task = { kind: 'step', worker, step } as const;
  const failed = withTaskFailure(job, attempt, task, at, result);
  const tries = failureOf(attemptOf(failed, ordinal), task)?.tries ?? 0;
  if (result.kind === 'unclear' || job.removed) return unchanged(failed);
  const { detail } = result.evidence;
  const where = { attempt: ordinal, allocation, worker, step };
  return withEvents(failed, now, { kind: 'step_failed', ...where, tries, detail });
}

function foldStartReply(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ordinal !== ordinal || result.kind === 'done') return unchanged(job);
  return unchanged(withTaskFailure(job, attempt, { kind: 'start', worker }, at, result));
}

function foldStopReply(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined || attempt.ending === null) return unchanged(job);
  if (result.kind !== 'done') return unchanged(withTaskFailure(job, attempt, { kind: 'stop', worker }, at, result));
  const { ending } = attempt;
  if (ending.stopConfirmedBy.includes(worker)) return unchanged(job);
  return unchanged(
    withAttempt(job, ordinal, { ending: { ...ending, stopConfirmedBy: [...ending.stopConfirmedBy, worker] } }),
  );
}

/** One more failed try on one worker. A lost reply only sets the pace, for it may have happened; a failed stop always counts. */
function withTaskFailure(
  job: Job,
  attempt: Attempt,
  task: WorkerTask,
  at: Instant,
  result: Exclude<OutcomeResult, { kind: 'done' }>,
): Job {
  const before = failureOf(attempt, task);
  const isNoFailure = result.kind === 'unclear' && task.kind !== 'stop';
  const { detail, pattern } = result.evidence;
  const failure = {
    task,
    tries: (before?.tries ?? 0) + (isNoFailure ? 0 : 1),
    lastAt: at,
    detail,
    ...(pattern === undefined ? {} : { pattern }),
    ...(result.kind === 'refused' && { isFinal: true as const }),
  };
  const { failures } = attempt;
  return withAttempt(job, attempt.ordinal, {
    failures: before === undefined ? [...failures, failure] : failures.map((one) => (one === before ? failure : one)),
  });
}

// ------------------------------------------------------------------------------------------ looks at allocations

function foldAllocation(job: Job, { allocation: ordinal, observed }: AllocationObservation, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  if (allocation === undefined || allocation.lifecycle === 'gone') return unchanged(job);
  // A re-applied one has the name of the one before. While that is on its way out, what bears the name is still that.
  if (releasingAllocations(job).some((one) => one.ordinal < ordinal && one.name === allocation.name))
    return unchanged(job);
  if (observed.kind === 'unknown') return unchanged(job);
  const { value, observedAt } = observed;
  if (allocation.lifecycle === 'releasing') return foldReleasing(job, allocation, value, observedAt, now);
  switch (value.state) {
    case 'absent':
      return foldMissing(job, allocation, value, observedAt, now);
    case 'foreign':
      return foldForeign(job, allocation, value, now);
    case 'waiting':
    case 'provisioning':
    case 'ready':
    case 'interrupted':
    case 'lost':
    case 'releasing':
      return foldPresent(job, allocation, value, now);
  }
}

/** It is on its way out: gone is what a second look misses too, after somebody has confirmed the release. */
function foldReleasing(
  job: Job,
  allocation: Allocation,
  status: AllocationStatus,
  observedAt: Instant,
  now: Instant,
): Change {
  const { ordinal } = allocation;
  const isMissed = status.state === 'absent' || status.state === 'foreign';
  if (!isMissed) return recordObserved(withAllocation(job, ordinal, { firstMissedAt: null }), ordinal, status, now);
  if (!isMissConfirmed(allocation, observedAt, releaseConfirmationDelay) || allocation.confirmedAt === null) {
    return unchanged(withAllocation(job, ordinal, { firstMissedAt: firstMissedTime(allocation, observedAt) }));
  }
  return recordGone(job, ordinal, now);
}

/** One observation that misses it means little (a list lags or is partial). The second one counts, by how far it had come. */
function foldMissing(
  job: Job,
  allocation: Allocation,
  status: AllocationStatus,
  observedAt: Instant,
  now: Instant,
): Change {
  const { ordinal, confirmedAt, readyAt } = allocation;
  // Nobody has confirmed the request yet, so its absence is no news: it is, or will be, asked for.
  if (confirmedAt === null && readyAt === null && mayCreate(job, allocation)) return unchanged(job);
  // The cloud says itself why it is not there: what it had accepted came to nothing.
  if (status.error !== undefined && readyAt === null && mayCreate(job, allocation)) {
    return recordRefusal(withCloudError(job, allocation, now, status.error), ordinal, now);
  }
  if (!isMissConfirmed(allocation, observedAt)) {
    return unchanged(withAllocation(job, ordinal, { firstMissedAt: firstMissedTime(allocation, observedAt) }));
  }
  // A persistent one that is not there: nothing of ours is left to let go.
  if (!mayCreate(job, allocation)) {
    const error: CloudError = { kind: 'not_found', message: `there is no ${allocation.name}`, raw: '' };
    const missing = readyAt === null ? withAllocation(job, ordinal, { lastError: { at: now, error } }) : job;
    return chain(recordObserved(missing, ordinal, status, now), (next) => recordGone(next, ordinal, now));
  }
  if (readyAt === null) {
    const error: CloudError = {
      kind: 'internal',
      message: 'it was accepted, and was not there when looked for twice',
      raw: status.detail,
    };
    return recordRefusal(
      withAllocation(withCloudError(job, allocation, now, error), ordinal, { firstMissedAt: null }),
      ordinal,
      now,
    );
  }
  return recordObserved(job, ordinal, status, now);
}

function firstMissedTime(allocation: Allocation, seenAt: Instant): Instant {
  return allocation.firstMissedAt ?? seenAt;
}

function isMissConfirmed(allocation: Allocation, seenAt: Instant, after: Duration = confirmationDelay): boolean {
  return allocation.firstMissedAt !== null && seenAt >= allocation.firstMissedAt + after;
}

/** Something of that name exists which is not ours: then ours does not exist, and what is there is not touched. */
function foldForeign(job: Job, allocation: Allocation, status: AllocationStatus, now: Instant): Change {
  const message = `something called ${allocation.name} exists already and is not this job's`;
  const error: CloudError = { kind: 'invalid', message, raw: status.detail };
  const failed = withAllocation(job, allocation.ordinal, { lastError: { at: now, error } });
  return chain(recordObserved(failed, allocation.ordinal, status, now), (next) =>
    recordGone(next, allocation.ordinal, now),
  );
}

function foldPresent(job: Job, allocation: Allocation, status: AllocationStatus, now: Instant): Change {
  const { ordinal } = allocation;
  const isReady = status.state === 'ready';
  const patch: Partial<AllocationFields> = {
    firstMissedAt: null,
    confirmedAt: allocation.confirmedAt ?? now,
    ...(isReady
      ? { readyAt: allocation.readyAt ?? now, workers: Math.max(1, status.workers ?? allocation.workers ?? 1) }
      : {}),
    ...(isReady && status.creationTime !== undefined
      ? { creationTime: allocation.creationTime ?? status.creationTime }
      : {}),
    ...(isReady && status.hosts !== undefined ? { hosts: unchangedHosts(allocation.hosts, status.hosts) } : {}),
    ...(isReady ? { errorCount: 0, lastError: null } : {}),
    ...(status.state === 'lost' && allocation.readyAt === null
      ? { lastError: lossErrorOf(allocation, status, now) }
      : {}),
  };
  // A thing with our label exists by our doing, even if the record (restored from a copy, say) does not know of it.
  return chain(
    recordRequested(job, ordinal, now),
    (next) => unchanged(withAllocation(next, ordinal, patch)),
    (next) => recordObserved(next, ordinal, status, now),
  );
}

function lossErrorOf(allocation: Allocation, status: AllocationStatus, now: Instant): Allocation['lastError'] {
  if (allocation.lastObserved?.state === 'lost') return allocation.lastError;
  return {
    at: now,
    error: status.error ?? { kind: 'internal', message: `it failed before it was ready`, raw: status.detail },
  };
}

function unchangedHosts(before: readonly Host[] | null, hosts: readonly Host[]): readonly Host[] {
  const isSame =
    before?.length === hosts.length &&
    hosts.every((host, index) => {
      const old = before[index];
      return old?.internalIp === host.internalIp && old.externalIp === host.externalIp;
    });
  return isSame ? before : hosts;
}

function recordObserved(job: Job, ordinal: number, { state, detail }: AllocationStatus, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  const seen = allocation?.lastObserved;
  if (allocation === undefined) return unchanged(job);
  // After a refusal the same sight is about a new request.
  const isSame = seen?.state === state && seen.detail === detail && !wasRefusedSinceObserved(allocation);
  if (isSame) return unchanged(job);
  const workers = state === 'ready' && allocation.workers !== null ? { workers: allocation.workers } : {};
  const next = withAllocation(job, ordinal, { lastObserved: { state, detail, at: now } });
  return withEvents(next, now, { kind: 'allocation_seen', allocation: ordinal, state, detail, ...workers });
}

// ------------------------------------------------------------------------------------------ silence

/**
 * Who does not answer, and since when. Only what was asked and gave no answer is silent; what nobody asked is not.
 * When the cloud answers again but a worker still does not, the count begins anew: until then the line was at fault.
 * And it begins when the longest silence of those that go on began: two workers that fall silent in turn, or one that
 * answered when nobody wrote it down, have not been silent for as long as the record would have it.
 */
function foldReachability(job: Job, observation: Observation, now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.lifecycle === 'releasing' || allocation.lifecycle === 'gone')
    return unchanged(job);
  const { ordinal, unreachableSince, unreachableWho } = allocation;
  const isWatched = openAttempt(job) !== undefined;
  const outage = isWatched ? outageOf(observation, allocation) : undefined;
  if (outage === undefined) {
    if (unreachableSince === null) return unchanged(job);
    const reachable = withAllocation(job, ordinal, { unreachableSince: null, unreachableWho: null });
    // An allocation without an attempt under way has not answered; it is only no longer asked.
    if (!isWatched) return unchanged(reachable);
    const who = unreachableWho === 'worker' ? { who: 'workers' as const } : {};
    return withEvents(reachable, now, { kind: 'reachable', allocation: ordinal, ...who });
  }
  if (outage.who === unreachableWho) {
    const isLater = unreachableSince !== null && outage.since !== undefined && outage.since > unreachableSince;
    return isLater ? unchanged(withAllocation(job, ordinal, { unreachableSince: outage.since })) : unchanged(job);
  }
  const isSameOutage = outage.who !== 'worker' && unreachableSince !== null;
  const since = isSameOutage ? unreachableSince : now;
  const next = withAllocation(job, ordinal, { unreachableSince: since, unreachableWho: outage.who });
  // A login can be given by the owner, so its lack is told also in the middle of a silence, and so is its end.
  if (isSameOutage && outage.who !== 'login' && unreachableWho !== 'login') return unchanged(next);
  const { who: _who, since: _since, ...detail } = outage;
  return withEvents(next, now, { kind: 'unreachable', allocation: ordinal, ...detail });
}

interface Outage {
  readonly who: 'cloud' | 'worker' | 'login';
  readonly detail: string;
  readonly worker?: WorkerId;
  /** Of a worker: since when it has been asked without a break and without an answer. */
  readonly since?: Instant;
}

function outageOf(observation: Observation, allocation: Allocation): Outage | undefined {
  const { ordinal } = allocation;
  const observed = observation.allocations.find((one) => one.allocation === ordinal)?.observed;
  // A refusal is an answer, where nothing can be there: the request brings its words to the owner.
  if (observed?.kind === 'unknown' && !isUnobservable(observed, allocation))
    return { who: observed.noLogin === true ? 'login' : 'cloud', detail: observed.reason };
  const isReady = observed?.kind === 'known' && observed.value.state === 'ready';
  let longest: Outage | undefined;
  for (const { allocation: of, worker, observed } of observation.workers) {
    if (observed.kind !== 'unknown' || (worker !== 'controller' && (!isReady || of !== ordinal))) continue;
    if (longest?.since === undefined || observed.since < longest.since)
      longest = { who: 'worker', worker, detail: observed.reason, since: observed.since };
  }
  return longest;
}

// ------------------------------------------------------------------------------------------ a clock that was set back
//
// Times of the record are by the clock of this machine, and people and time servers set that clock right. A backoff, a grace or a
// limit that counts from a time noted while it was ahead would last for as long as the clock was wrong. How long ago it really
// was is unknown, so it counts anew from now: no wait is cut short by that, and none is more than doubled.
//
// Only this part knows of it. What runs after it in a pass may take every time of the record as past.

/** A step smaller than this is the clock being kept right, and makes no wait noticeably longer. */
const clockTolerance = second;

/** Brings every moment that something may be counted from back to now, where it lies ahead, and tells that once. */
export function correctTimes(job: Job, now: Instant): Change {
  const attemptStart = openAttempt(job)?.createdAt;
  let isAhead = false;
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
  return isAhead ? withEvents(next, now, { kind: 'clock_set_back' }) : unchanged(job);
}

/** The same observation with no time later than now: a clock set back twice leaves such times, and silences would seem long. */
export function withoutFutureTimes(observation: Observation, now: Instant): Observation {
  return {
    ...observation,
    allocations: observation.allocations.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
    workers: observation.workers.map((one) => ({ ...one, observed: clampObservedTime(one.observed, now) })),
  };
}

function clampObservedTime<T>(observed: Observed<T>, now: Instant): Observed<T> {
  if (observed.kind === 'known') return observed.observedAt > now ? { ...observed, observedAt: now } : observed;
  return observed.since > now ? { ...observed, since: now } : observed;
}

/** A time that is not ahead of now; what was before the open attempt `begun` stays before it, since times tell whose it is. */
export function correctTime(time: Instant, now: Instant, attemptStart: Instant | undefined): Instant {
  if (time <= now) return time;
  return attemptStart !== undefined && time < attemptStart ? now - 1 : now;
}

/** A backoff lasts as long as it was to last, from the moment at which it counts now. */
export function correctBackoff(
  { createdAt, movedAt, notBefore }: Pick<Attempt, 'createdAt' | 'movedAt' | 'notBefore'>,
  now: Instant,
): Instant {
  const since = movedAt ?? createdAt;
  return since > now ? now + Math.max(0, notBefore - since) : notBefore;
}

type TimeCorrection = (moment: Instant) => Instant;

function correctOrNull(time: Instant | null, right: TimeCorrection): Instant | null {
  return time === null ? null : right(time);
}

/** Of what is gone only that it was asked for sets a pace any more; the rest is history. */
function correctedAllocation(allocation: Allocation, correct: TimeCorrection): Partial<AllocationFields> {
  const { lastError, lastObserved } = allocation;
  const requested: Partial<AllocationFields> = { requestedAt: correctOrNull(allocation.requestedAt, correct) };
  if (allocation.goneAt !== null) return requested;
  return {
    ...requested,
    confirmedAt: correctOrNull(allocation.confirmedAt, correct),
    readyAt: correctOrNull(allocation.readyAt, correct),
    firstMissedAt: correctOrNull(allocation.firstMissedAt, correct),
    unreachableSince: correctOrNull(allocation.unreachableSince, correct),
    releasedAt: correctOrNull(allocation.releasedAt, correct),
    lastError: lastError === null ? null : { ...lastError, at: correct(lastError.at) },
    lastObserved: lastObserved === null ? null : { ...lastObserved, at: correct(lastObserved.at) },
  };
}

/** Of an attempt that has ended, what is left of its program may still have to be stopped; the rest is history. */
function correctedAttempt(attempt: Attempt, correct: TimeCorrection, now: Instant): Partial<Attempt> {
  const { ending, movedAt, alternativesTried } = attempt;
  const stopping = {
    failures: attempt.failures.map((one) => ({ ...one, lastAt: correct(one.lastAt) })),
    ending: ending === null ? null : { ...ending, stopRequestedAt: correctOrNull(ending.stopRequestedAt, correct) },
  };
  if (attempt.endedAt !== null) return stopping;
  return {
    ...stopping,
    createdAt: correct(attempt.createdAt),
    ...(movedAt !== undefined && { movedAt: correct(movedAt) }),
    ...(alternativesTried !== undefined && {
      alternativesTried: alternativesTried.map((one) => ({ ...one, at: correct(one.at) })),
    }),
    notBefore: correctBackoff(attempt, now),
    startedAt: correctOrNull(attempt.startedAt, correct),
    runningAt: correctOrNull(attempt.runningAt, correct),
    ending: stopping.ending === null ? null : { ...stopping.ending, since: correct(stopping.ending.since) },
  };
}
