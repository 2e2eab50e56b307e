// Fold: the first step of `reconcile`. It writes the outcomes of actions and the observations into the job, if they
// change anything. It only decides which of them to believe.

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
import { attemptOf, failureOf, lastAllocation, openAttempt } from '../model/job.ts';
import type { Allocation, AllocationFields, Attempt, CloudError, Host, Job, WorkerTask } from '../model/job.ts';
import type {
  AllocationObservation,
  AllocationStatus,
  Known,
  Observation,
  Outcome,
  OutcomeResult,
} from '../model/observation.ts';
import { wasRefusedSinceObserved } from './phase.ts';
import type { WorkerId } from '../model/spec.ts';
import type { Duration, Instant } from '../model/time.ts';

/** Outcomes come first: no observation is older than an outcome of the same pass. */
export function fold(job: Job, observation: Observation, now: Instant): Change {
  return chain(
    unchanged(job),
    ...(observation.unansweredRequests ?? []).map(
      (ordinal) => (next: Job) => unchanged(withAllocation(next, ordinal, { hasUnansweredRequest: true })),
    ),
    // The clock may have been set back since the outcome was stored.
    ...observation.outcomes.map(
      (outcome) => (next: Job) => foldOutcome(next, { ...outcome, at: Math.min(outcome.at, now) }, now),
    ),
    ...observation.allocations.map((fact) => (next: Job) => foldAllocation(next, fact, now)),
    (next) => foldReachability(next, observation, now),
  );
}

// ------------------------------------------------------------------------------------------ outcomes

/** An outcome for an allocation that is gone or an attempt that has ended changes nothing. */
function foldOutcome(job: Job, { subject, attempt, at, result }: Outcome, now: Instant): Change {
  switch (subject.kind) {
    case 'request':
    case 'release':
      return foldCloudOutcome(job, subject.kind, job.allocations[subject.allocation - 1], at, result, now);
    case 'step':
      return foldStepOutcome(job, attempt, subject, at, result, now);
    case 'start':
      return foldStartOutcome(job, subject.attempt, subject.worker, at, result);
    case 'stop':
      return foldStopOutcome(job, subject.attempt, subject.worker, at, result);
  }
}

function foldCloudOutcome(
  job: Job,
  kind: 'request' | 'release',
  allocation: Allocation | undefined,
  at: Instant,
  result: OutcomeResult,
  now: Instant,
): Change {
  if (allocation === undefined || allocation.lifecycle === 'gone') return unchanged(job);
  if ((kind === 'release') !== (allocation.lifecycle === 'releasing')) return unchanged(job);
  // An accepted allocation is not requested again, so this outcome belongs to an earlier request, perhaps of another
  // controller. If the allocation does not exist after all, later observations miss it.
  if (kind === 'request' && result.kind !== 'done' && (allocation.readyAt !== null || allocation.confirmedAt !== null))
    return unchanged(job);
  const { ordinal } = allocation;
  const replied = kind === 'request' && allocation.isRequestInFlight === true ? { isRequestInFlight: false } : {};
  if (result.kind === 'done')
    return unchanged(withAllocation(job, ordinal, { confirmedAt: at, firstMissedAt: null, ...replied }));
  const failed = withAllocation(withCloudError(job, allocation, at, errorOf(result)), ordinal, replied);
  // The request may have succeeded although its reply was lost.
  if (kind === 'request' && result.kind === 'unclear')
    return unchanged(withAllocation(failed, ordinal, { hasUnansweredRequest: true }));
  // A failed release has no event: it is repeated until the allocation is deleted.
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
  const { message, raw = '' } = result.evidence;
  switch (result.kind) {
    case 'unclear':
      return { kind: 'unreachable', message, raw };
    case 'failed':
      return result.error ?? { kind: 'internal', message, raw };
    case 'refused': {
      const error = result.error ?? { kind: 'invalid', message, raw };
      return isPermanent(error.kind) ? error : { ...error, kind: 'invalid' };
    }
  }
}

/** A step takes minutes. Its failure counts in its own attempt, even if a later attempt is open by then. */
function foldStepOutcome(
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
  const { message } = result.evidence;
  const where = { attempt: ordinal, allocation, worker, step };
  return withEvents(failed, now, { kind: 'step_failed', ...where, tries, message });
}

function foldStartOutcome(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ordinal !== ordinal || result.kind === 'done') return unchanged(job);
  return unchanged(withTaskFailure(job, attempt, { kind: 'start', worker }, at, result));
}

function foldStopOutcome(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined || attempt.ending === null) return unchanged(job);
  if (result.kind !== 'done') return unchanged(withTaskFailure(job, attempt, { kind: 'stop', worker }, at, result));
  const { ending } = attempt;
  if (ending.stopConfirmedBy.includes(worker)) return unchanged(job);
  const stopConfirmedBy = [...ending.stopConfirmedBy, worker];
  return unchanged(withAttempt(job, ordinal, { ending: { ...ending, stopConfirmedBy } }));
}

/** A task with a lost reply may have succeeded, so it counts as no try and only delays the next one. A stop always counts. */
function withTaskFailure(
  job: Job,
  attempt: Attempt,
  task: WorkerTask,
  at: Instant,
  result: Exclude<OutcomeResult, { kind: 'done' }>,
): Job {
  const before = failureOf(attempt, task);
  const isNoFailure = result.kind === 'unclear' && task.kind !== 'stop';
  const { message, pattern } = result.evidence;
  const failure = {
    task,
    tries: (before?.tries ?? 0) + (isNoFailure ? 0 : 1),
    lastAt: at,
    message,
    ...(pattern === undefined ? {} : { pattern }),
    ...(result.kind === 'refused' && { isFinal: true as const }),
  };
  const { failures } = attempt;
  return withAttempt(job, attempt.ordinal, {
    failures: before === undefined ? [...failures, failure] : failures.map((one) => (one === before ? failure : one)),
  });
}

// ------------------------------------------------------------------------------------------ observations of allocations

function foldAllocation(job: Job, { allocation: ordinal, observed }: AllocationObservation, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  if (allocation === undefined || allocation.lifecycle === 'gone') return unchanged(job);
  // A persistent TPU that is created again keeps its name. Until the old one is deleted, the observation is about it.
  if (releasingAllocations(job).some((one) => one.ordinal < ordinal && one.name === allocation.name))
    return unchanged(job);
  if (observed.kind === 'unknown') return unchanged(job);
  if (allocation.lifecycle === 'releasing') return foldReleasing(job, allocation, observed, now);
  switch (observed.value.state) {
    case 'absent':
      return foldMissing(job, allocation, observed, now);
    case 'foreign':
      return foldForeign(job, allocation, observed.value, now);
    default:
      return foldPresent(job, allocation, observed.value, now);
  }
}

type AllocationSeen = Known<AllocationStatus>;

/** It counts as deleted once its release is confirmed and a second observation misses it too. */
function foldReleasing(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const { value: status, observedAt } = seen;
  const { ordinal } = allocation;
  const isMissed = status.state === 'absent' || status.state === 'foreign';
  if (!isMissed) return recordObserved(withAllocation(job, ordinal, { firstMissedAt: null }), ordinal, status, now);
  if (!isMissConfirmed(allocation, observedAt, releaseConfirmationDelay) || allocation.confirmedAt === null)
    return recordMiss(job, allocation, observedAt);
  return recordGone(job, ordinal, now);
}

/** A list may lag or be partial, so only the second observation that misses the allocation counts. */
function foldMissing(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const { value: status, observedAt } = seen;
  const { ordinal, confirmedAt, readyAt } = allocation;
  // The request is not confirmed yet.
  if (confirmedAt === null && readyAt === null && mayCreate(job, allocation)) return unchanged(job);
  // The cloud reports why the accepted request failed.
  if (status.error !== undefined && readyAt === null && mayCreate(job, allocation)) {
    return recordRefusal(withCloudError(job, allocation, now, status.error), ordinal, now);
  }
  if (!isMissConfirmed(allocation, observedAt)) return recordMiss(job, allocation, observedAt);
  // A persistent TPU that does not exist needs no release.
  if (!mayCreate(job, allocation)) {
    const error: CloudError = { kind: 'not_found', message: `there is no TPU ${allocation.name}`, raw: '' };
    const missing = readyAt === null ? withAllocation(job, ordinal, { lastError: { at: now, error } }) : job;
    return chain(recordObserved(missing, ordinal, status, now), (next) => recordGone(next, ordinal, now));
  }
  if (readyAt === null) {
    const message = 'the request was accepted, but two checks did not find the TPU';
    const failed = withCloudError(job, allocation, now, { kind: 'internal', message, raw: status.detail });
    return recordRefusal(withAllocation(failed, ordinal, { firstMissedAt: null }), ordinal, now);
  }
  return recordObserved(job, ordinal, status, now);
}

function recordMiss(job: Job, { ordinal, firstMissedAt }: Allocation, seenAt: Instant): Change {
  return unchanged(withAllocation(job, ordinal, { firstMissedAt: firstMissedAt ?? seenAt }));
}

function isMissConfirmed(allocation: Allocation, seenAt: Instant, after: Duration = confirmationDelay): boolean {
  return allocation.firstMissedAt !== null && seenAt >= allocation.firstMissedAt + after;
}

/** Another resource has the name, so this allocation does not exist. jobman does not touch the other resource. */
function foldForeign(job: Job, allocation: Allocation, status: AllocationStatus, now: Instant): Change {
  const message = `another resource named ${allocation.name} exists, and it does not belong to this job`;
  const error: CloudError = { kind: 'invalid', message, raw: status.detail };
  const failed = withAllocation(job, allocation.ordinal, { lastError: { at: now, error } });
  const { ordinal } = allocation;
  return chain(recordObserved(failed, ordinal, status, now), (next) => recordGone(next, ordinal, now));
}

function foldPresent(job: Job, allocation: Allocation, status: AllocationStatus, now: Instant): Change {
  const { ordinal } = allocation;
  const isFailure = status.state === 'lost' && allocation.readyAt === null;
  const patch: Partial<AllocationFields> = {
    firstMissedAt: null,
    confirmedAt: allocation.confirmedAt ?? now,
    ...(status.state === 'ready' && readyFields(allocation, status, now)),
    ...(isFailure && { lastError: newLastError(allocation, status, now) }),
  };
  // A resource with our label was requested by this job, even if a restored database does not contain the request.
  return chain(
    recordRequested(job, ordinal, now),
    (next) => unchanged(withAllocation(next, ordinal, patch)),
    (next) => recordObserved(next, ordinal, status, now),
  );
}

function readyFields(
  allocation: Allocation,
  { workers, hosts, creationTime }: AllocationStatus,
  now: Instant,
): Partial<AllocationFields> {
  return {
    readyAt: allocation.readyAt ?? now,
    workers: Math.max(1, workers ?? allocation.workers ?? 1),
    errorCount: 0,
    lastError: null,
    ...(creationTime !== undefined && { creationTime: allocation.creationTime ?? creationTime }),
    ...(hosts !== undefined && { hosts: areSameHosts(allocation.hosts, hosts) ? allocation.hosts : hosts }),
  };
}

function newLastError(allocation: Allocation, status: AllocationStatus, now: Instant): Allocation['lastError'] {
  if (allocation.lastObserved?.state === 'lost') return allocation.lastError;
  const error: CloudError = { kind: 'internal', message: 'it failed before it was ready', raw: status.detail };
  return { at: now, error: status.error ?? error };
}

function areSameHosts(before: readonly Host[] | null, hosts: readonly Host[]): boolean {
  const addresses = (all: readonly Host[]): string => all.map((one) => `${one.internalIp} ${one.externalIp}`).join();
  return before !== null && addresses(before) === addresses(hosts);
}

function recordObserved(job: Job, ordinal: number, { state, detail }: AllocationStatus, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  const seen = allocation?.lastObserved;
  if (allocation === undefined) return unchanged(job);
  // After a refusal, the same state belongs to a new request.
  const isSame = seen?.state === state && seen.detail === detail && !wasRefusedSinceObserved(allocation);
  if (isSame) return unchanged(job);
  const workers = state === 'ready' && allocation.workers !== null ? { workers: allocation.workers } : {};
  const next = withAllocation(job, ordinal, { lastObserved: { state, detail, at: now } });
  return withEvents(next, now, { kind: 'allocation_seen', allocation: ordinal, state, message: detail, ...workers });
}

// ------------------------------------------------------------------------------------------ silence

/**
 * Records the party that does not answer, and the start of its silence. If the cloud answers again but a worker still
 * does not, the silence starts again: until then the connection of this machine was at fault. A silence never starts
 * before the longest one that still lasts: if two workers fall silent one after the other, their times do not add up.
 */
function foldReachability(job: Job, observation: Observation, now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.lifecycle === 'releasing' || allocation.lifecycle === 'gone')
    return unchanged(job);
  const { ordinal, unreachableAt, unreachableWho } = allocation;
  const isWatched = openAttempt(job) !== undefined;
  const outage = isWatched ? outageOf(observation, allocation) : undefined;
  if (outage === undefined) {
    if (unreachableAt === null) return unchanged(job);
    const reachable = withAllocation(job, ordinal, { unreachableAt: null, unreachableWho: null });
    // Without an open attempt the allocation is no longer observed, so it did not answer.
    if (!isWatched) return unchanged(reachable);
    const who = unreachableWho === 'worker' ? { who: 'workers' as const } : {};
    return withEvents(reachable, now, { kind: 'reachable', allocation: ordinal, ...who });
  }
  if (outage.who === unreachableWho) {
    const isLater = unreachableAt !== null && outage.since !== undefined && outage.since > unreachableAt;
    return isLater ? unchanged(withAllocation(job, ordinal, { unreachableAt: outage.since })) : unchanged(job);
  }
  const isSameOutage = outage.who !== 'worker' && unreachableAt !== null;
  const since = isSameOutage ? unreachableAt : now;
  const next = withAllocation(job, ordinal, { unreachableAt: since, unreachableWho: outage.who });
  // The owner can fix a missing login, so its beginning and its end are events even during an outage.
  if (isSameOutage && outage.who !== 'login' && unreachableWho !== 'login') return unchanged(next);
  const { who: _who, since: _since, ...facts } = outage;
  return withEvents(next, now, { kind: 'unreachable', allocation: ordinal, ...facts });
}

interface Outage {
  readonly who: 'cloud' | 'worker' | 'login';
  readonly message: string;
  readonly worker?: WorkerId;
  /** For a worker: since when every check of it has failed. */
  readonly since?: Instant;
}

function outageOf(observation: Observation, allocation: Allocation): Outage | undefined {
  const { ordinal } = allocation;
  const observed = observation.allocations.find((one) => one.allocation === ordinal)?.observed;
  // If the allocation cannot exist yet, a refusal counts as an answer: the request will show the cloud's message.
  if (observed?.kind === 'unknown' && !isUnobservable(observed, allocation))
    return { who: observed.noLogin === true ? 'login' : 'cloud', message: observed.reason };
  const isReady = observed?.kind === 'known' && observed.value.state === 'ready';
  let longest: Outage | undefined;
  for (const { allocation: of, worker, observed } of observation.workers) {
    if (observed.kind !== 'unknown' || (worker !== 'controller' && (!isReady || of !== ordinal))) continue;
    if (longest?.since === undefined || observed.since < longest.since)
      longest = { who: 'worker', worker, message: observed.reason, since: observed.since };
  }
  return longest;
}
