// Fold: the first step of `reconcile`. It decides which outcomes and observations to believe, and writes them into the
// job.

import {
  confirmationDelay,
  isPermanent,
  isHidden,
  mayCreate,
  nextCallAt,
  recordGone,
  recordRequested,
  releaseConfirmationDelay,
  releasingAllocations,
  withSlots,
} from './allocate.ts';
import { chain, withAllocation, withAttempt, withEvents, withoutEvents } from '../model/decision.ts';
import type { Change, Subject } from '../model/decision.ts';
import { allocationOf, attemptOf, failureOf, lastAllocation, openAttempt } from '../model/job.ts';
import type { Allocation, Attempt, CloudError, Host, Job, WorkerTask } from '../model/job.ts';
import type {
  AllocationObservation,
  AllocationStatus,
  Known,
  Observation,
  Outcome,
  OutcomeResult,
} from '../model/observation.ts';
import { foldLateTpu, foldSlices, readyPeriodsOf, slicesIn, type SliceState } from '../model/ready-periods.ts';
import { wasRefusedSinceObserved } from './phase.ts';
import type { WorkerId } from '../model/spec.ts';
import type { Duration, Instant } from '../model/time.ts';

/** Outcomes come first, because no observation is older than an outcome of the same pass. */
export function fold(job: Job, observation: Observation, now: Instant): Change {
  return chain(
    withoutEvents(job),
    ...(observation.unansweredRequests ?? []).map(
      (ordinal) => (next: Job) => withoutEvents(withAllocation(next, ordinal, { hasUnansweredRequest: true })),
    ),
    ...observation.outcomes.map((outcome) => (next: Job) => foldOutcome(next, outcome, observation, now)),
    ...observation.allocations.map((observed) => (next: Job) => foldAllocation(next, observed, now)),
    (next) => foldReachability(next, observation, now),
    (next) => foldResumed(next, observation, now),
    // In a long backoff the job gives up its slots, and may then get others.
    (next) => withoutEvents(withSlots(next, observation.slots)),
  );
}

// ------------------------------------------------------------------------------------------ outcomes

/** An outcome for an allocation that is gone or an attempt that has ended changes nothing. */
function foldOutcome(job: Job, outcome: Outcome, observation: Observation, now: Instant): Change {
  const { subject, at, result } = outcome;
  switch (subject.kind) {
    case 'request':
    case 'release': {
      const allocation = job.allocations[subject.allocation - 1];
      if (allocation === undefined || allocation.lifecycle === 'gone') return withoutEvents(job);
      return subject.kind === 'request'
        ? foldRequestOutcome(job, allocation, at, result, now)
        : withoutEvents(withReleaseOutcome(job, allocation, at, result));
    }
    case 'step':
      return foldStepOutcome(job, subject, outcome, now);
    case 'start':
      return withoutEvents(withStartOutcome(job, subject, outcome, observation));
    case 'stop':
      return withoutEvents(withStopOutcome(job, subject.attempt, subject.worker, at, result, observation));
  }
}

type Failed = Exclude<OutcomeResult, { kind: 'done' }>;

function foldRequestOutcome(
  job: Job,
  { ordinal, lifecycle, readyAt, confirmedAt, isRequestInFlight }: Allocation,
  at: Instant,
  result: OutcomeResult,
  now: Instant,
): Change {
  // The release decides what becomes of the allocation.
  if (lifecycle === 'releasing') return withoutEvents(job);
  // An accepted allocation is not requested again, so this outcome belongs to an earlier request, perhaps of another
  // controller. If the allocation does not exist after all, later observations miss it.
  if (result.kind !== 'done' && (readyAt !== null || confirmedAt !== null)) return withoutEvents(job);
  const next = isRequestInFlight === true ? withAllocation(job, ordinal, { isRequestInFlight: false }) : job;
  if (result.kind === 'done')
    return withoutEvents(withAllocation(next, ordinal, { confirmedAt: at, firstMissedAt: null }));
  if (result.kind !== 'unclear') return recordRefusal(next, ordinal, at, errorOf(result), now);
  // The request may have succeeded although its reply was lost.
  const failed = withCloudError(next, ordinal, at, errorOf(result));
  return withoutEvents(withAllocation(failed, ordinal, { hasUnansweredRequest: true }));
}

/** A failed release has no event: it is repeated until the allocation is deleted. */
function withReleaseOutcome(job: Job, { ordinal, lifecycle }: Allocation, at: Instant, result: OutcomeResult): Job {
  if (lifecycle !== 'releasing') return job;
  return result.kind === 'done'
    ? withAllocation(job, ordinal, { confirmedAt: at, firstMissedAt: null })
    : withCloudError(job, ordinal, at, errorOf(result));
}

function withCloudError(job: Job, ordinal: number, at: Instant, error: CloudError): Job {
  const { errorCount } = allocationOf(job, ordinal);
  return withAllocation(job, ordinal, { confirmedAt: null, errorCount: errorCount + 1, lastError: { at, error } });
}

function recordRefusal(job: Job, ordinal: number, at: Instant, error: CloudError, now: Instant): Change {
  const refused = withCloudError(job, ordinal, at, error);
  const nextAt = isPermanent(error.kind) ? {} : { nextAt: nextCallAt(refused, allocationOf(refused, ordinal)) };
  return withEvents(refused, now, { kind: 'allocation_refused', allocation: ordinal, error, ...nextAt });
}

function errorOf(result: Failed): CloudError {
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
  { allocation, worker, step }: Extract<Subject, { kind: 'step' }>,
  { attempt: ofAttempt, at, result }: Outcome,
  now: Instant,
): Change {
  const attempt = ofAttempt === undefined ? openAttempt(job) : job.attempts[ofAttempt - 1];
  if (attempt === undefined || attempt.allocation !== allocation || result.kind === 'done') return withoutEvents(job);
  const { ordinal } = attempt;
  const task = { kind: 'step', worker, step } as const;
  const next = withTaskFailure(job, attempt, task, at, result);
  // A removed job gets no more events.
  if (next === job || result.kind === 'unclear' || job.removed) return withoutEvents(next);
  const tries = failureOf(attemptOf(next, ordinal), task)?.tries ?? 0;
  const { message } = result.evidence;
  return withEvents(next, now, { kind: 'step_failed', attempt: ordinal, allocation, worker, step, tries, message });
}

/**
 * A confirmed start whose run folder is missing right after it counts as a failed try. Otherwise a program that deletes its own
 * folder would be started again for ever.
 */
function withStartOutcome(
  job: Job,
  { attempt: ordinal, worker }: Extract<Subject, { kind: 'start' }>,
  { at, result }: Outcome,
  observation: Observation,
): Job {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ordinal !== ordinal) return job;
  if (result.kind === 'done' && !isRunMissing(attempt, worker, observation)) return job;
  const message = 'its run folder disappeared right after the start; the program may have deleted it';
  const failed = result.kind === 'done' ? ({ kind: 'failed', evidence: { message, worker } } as const) : result;
  return withTaskFailure(job, attempt, { kind: 'start', worker }, at, failed);
}

/** True if the worker answers and has no run of the attempt. */
function isRunMissing({ ordinal, allocation }: Attempt, worker: WorkerId, { workers }: Observation): boolean {
  const seen = workers.find(
    (one) => one.worker === worker && (worker === 'controller' || one.allocation === allocation),
  );
  return seen?.observed.kind === 'known' && !seen.observed.value.runs.some((run) => run.attempt === ordinal);
}

/** A stop without a reply may have reached a worker that answers otherwise, and has not reached a silent one. */
function withStopOutcome(
  job: Job,
  ordinal: number,
  worker: WorkerId,
  at: Instant,
  result: OutcomeResult,
  { workers }: Observation,
): Job {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined || attempt.ending === null) return job;
  const isDone = result.kind === 'done';
  const { ending } = attempt;
  const { stopSentAt = [], stopConfirmedBy } = ending;
  const isAnswering = workers.some((one) => one.worker === worker && one.observed.kind === 'known');
  const isSent = isDone || (result.kind === 'unclear' && isAnswering);
  const isFirst = !stopConfirmedBy.includes(worker) && !stopSentAt.some((one) => one.worker === worker);
  const changed = {
    ...(isSent && isFirst && { stopSentAt: [...stopSentAt, { worker, at }] }),
    ...(isDone && !stopConfirmedBy.includes(worker) && { stopConfirmedBy: [...stopConfirmedBy, worker] }),
  };
  const next =
    Object.keys(changed).length === 0 ? job : withAttempt(job, ordinal, { ending: { ...ending, ...changed } });
  if (isDone) return next;
  return withTaskFailure(next, next.attempts[ordinal - 1] ?? attempt, { kind: 'stop', worker }, at, result);
}

/**
 * A task with a lost reply may have succeeded, so it counts as no try and only delays the next one. A stop always counts.
 * A failure that is not newer than the last one counts already: a write whose answer was lost may arrive twice.
 */
function withTaskFailure(job: Job, attempt: Attempt, task: WorkerTask, at: Instant, result: Failed): Job {
  const before = failureOf(attempt, task);
  if (before !== undefined && before.lastAt >= at) return job;
  const isTry = result.kind !== 'unclear' || task.kind === 'stop';
  const { message, pattern } = result.evidence;
  const failure = {
    task,
    tries: (before?.tries ?? 0) + (isTry ? 1 : 0),
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
  if (allocation === undefined || allocation.lifecycle === 'gone' || observed.kind === 'unknown')
    return withoutEvents(job);
  // A persistent TPU that is created again keeps its name. Until the old one is deleted, the cloud reports the old one.
  if (releasingAllocations(job).some((one) => one.ordinal < ordinal && one.name === allocation.name))
    return withoutEvents(job);
  if (allocation.lifecycle === 'releasing') return foldReleasing(job, allocation, observed, now);
  switch (observed.value.state) {
    case 'absent':
      return foldAbsent(job, allocation, observed, now);
    case 'foreign':
      return foldForeign(job, allocation, observed.value, now);
    default:
      return foldExisting(job, allocation, observed.value, now);
  }
}

type AllocationSeen = Known<AllocationStatus>;

/** The allocation counts as deleted once its release is confirmed and a second observation misses it too. */
function foldReleasing(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const { value: status, observedAt } = seen;
  const { ordinal, confirmedAt } = allocation;
  const isMissed = status.state === 'absent' || status.state === 'foreign';
  if (!isMissed) return recordObserved(withAllocation(job, ordinal, { firstMissedAt: null }), ordinal, status, now);
  return confirmedAt !== null && isMissConfirmed(allocation, observedAt, releaseConfirmationDelay)
    ? recordGone(job, ordinal, now)
    : recordMiss(job, allocation, observedAt);
}

/** A list may lag or be partial, so only the second observation that misses the allocation counts. */
function foldAbsent(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const { value: status, observedAt } = seen;
  const { ordinal, confirmedAt, readyAt, name } = allocation;
  const isCreatable = mayCreate(job, allocation);
  // Nothing is missing before it is requested, or before the request that creates it is accepted.
  if (allocation.requestedAt === null) return withoutEvents(job);
  if (isCreatable && readyAt === null) {
    if (confirmedAt === null) return withoutEvents(job);
    // The cloud reports why the accepted request failed.
    if (status.error !== undefined) return recordRefusal(job, ordinal, now, status.error, now);
  }
  if (!isMissConfirmed(allocation, observedAt)) return recordMiss(job, allocation, observedAt);
  const missedAt = allocation.firstMissedAt ?? now;
  // A persistent TPU that does not exist needs no release.
  if (!isCreatable) {
    const error: CloudError = { kind: 'not_found', message: `there is no TPU ${name}`, raw: '' };
    const missing = readyAt === null ? withAllocation(job, ordinal, { lastError: { at: now, error } }) : job;
    return chain(recordObserved(missing, ordinal, status, now, missedAt), (next) => recordGone(next, ordinal, now));
  }
  if (readyAt !== null) return recordObserved(job, ordinal, status, now, missedAt);
  const message = 'the request was accepted, but two checks did not find the TPU';
  const error: CloudError = { kind: 'internal', message, raw: status.detail };
  return recordRefusal(withAllocation(job, ordinal, { firstMissedAt: null }), ordinal, now, error, now);
}

function recordMiss(job: Job, { ordinal, firstMissedAt }: Allocation, seenAt: Instant): Change {
  return withoutEvents(withAllocation(job, ordinal, { firstMissedAt: firstMissedAt ?? seenAt }));
}

function isMissConfirmed(allocation: Allocation, seenAt: Instant, after: Duration = confirmationDelay): boolean {
  return allocation.firstMissedAt !== null && seenAt >= allocation.firstMissedAt + after;
}

/** Another resource has the name, so this allocation does not exist. jobman does not touch the other resource. */
function foldForeign(job: Job, { ordinal, name }: Allocation, status: AllocationStatus, now: Instant): Change {
  const message = `another resource named ${name} exists, and it does not belong to this job`;
  const error: CloudError = { kind: 'invalid', message, raw: status.detail };
  const failed = withAllocation(job, ordinal, { lastError: { at: now, error } });
  return chain(recordObserved(failed, ordinal, status, now), (next) => recordGone(next, ordinal, now));
}

/** For any allocation that the cloud shows. A preempted one exists until it is deleted. */
function foldExisting(job: Job, allocation: Allocation, status: AllocationStatus, now: Instant): Change {
  const { ordinal, readyAt, confirmedAt, lastObserved } = allocation;
  // That of a lost one too, because the job releases it: another of that name may have replaced it by then.
  const { creationTime = status.state === 'ready' || status.state === 'lost' ? status.creationTime : undefined } =
    allocation;
  const patch = {
    firstMissedAt: null,
    confirmedAt: confirmedAt ?? now,
    ...(creationTime !== undefined && { creationTime }),
  };
  const isNewFailure = status.state === 'lost' && readyAt === null && lastObserved?.state !== 'lost';
  const error: CloudError = { kind: 'internal', message: 'it failed before it was ready', raw: status.detail };
  return chain(
    // A resource with our label was requested by this job, even if a restored database does not contain the request.
    recordRequested(job, ordinal, now),
    (next) => withoutEvents(withAllocation(next, ordinal, patch)),
    (next) => withoutEvents(status.state === 'ready' ? withReady(next, allocation, status, now) : next),
    (next) =>
      withoutEvents(
        isNewFailure ? withAllocation(next, ordinal, { lastError: { at: now, error: status.error ?? error } }) : next,
      ),
    (next) => recordObserved(next, ordinal, status, now),
  );
}

function withReady(job: Job, allocation: Allocation, { workers, hosts }: AllocationStatus, now: Instant): Job {
  return withAllocation(job, allocation.ordinal, {
    readyAt: allocation.readyAt ?? now,
    // Before `readyAt` changes, from which the periods of an older record follow.
    readyPeriods: readyPeriodsOf(allocation),
    workers: Math.max(1, workers ?? allocation.workers ?? 1),
    errorCount: 0,
    lastError: null,
    ...(hosts !== undefined && { hosts: areSameHosts(allocation.hosts, hosts) ? allocation.hosts : hosts }),
  });
}

function areSameHosts(before: readonly Host[] | null, hosts: readonly Host[]): boolean {
  const addresses = (all: readonly Host[]): string => all.map((one) => `${one.internalIp} ${one.externalIp}`).join();
  return before !== null && addresses(before) === addresses(hosts);
}

/** `readyUntil` is the time at which its ready periods end, if it is not ready. */
function recordObserved(
  job: Job,
  ordinal: number,
  status: AllocationStatus,
  now: Instant,
  readyUntil: Instant = now,
): Change {
  const { state, detail } = status;
  const allocation = allocationOf(job, ordinal);
  const seen = allocation.lastObserved;
  const before = readyPeriodsOf(allocation);
  const slices = slicesOf(status, allocation);
  const readyPeriods = foldSlices(before, slices, readyUntil);
  // The job has come back to this alternative and now uses the TPU that had appeared here late.
  const { lateTpus: late = [], alternative = 0 } = allocation;
  const lateTpus = slices.includes('ready') ? foldLateTpu(late, alternative, [], now) : late;
  // After a refusal, the same state belongs to a new request.
  const isSame = seen?.state === state && seen.detail === detail && !wasRefusedSinceObserved(allocation);
  if (isSame && readyPeriods === before) return withoutEvents(job);
  const next = withAllocation(job, ordinal, {
    lastObserved: { state, detail, at: now },
    ...(readyPeriods !== before && { readyPeriods }),
    ...(lateTpus !== late && { lateTpus }),
  });
  const missedAt = readyPeriods === before || readyUntil === now ? {} : { missedAt: readyUntil };
  const follows = JSON.stringify(foldSlices(before, slicesIn(state), readyUntil)) === JSON.stringify(readyPeriods);
  return withEvents(next, now, {
    kind: 'allocation_seen',
    allocation: ordinal,
    state,
    message: detail,
    ...(state === 'ready' && allocation.workers !== null && { workers: allocation.workers }),
    ...(follows ? {} : { slices }),
    ...missedAt,
  });
}

/** Persistent capacity may have been ready long before the job saw it, so none of its time is free. */
function slicesOf({ state, cause, slices }: AllocationStatus, { ownership }: Allocation): readonly SliceState[] {
  const found = slices ?? (state === 'lost' && cause === 'preempted' ? ['preempted'] : slicesIn(state));
  return ownership === 'ephemeral' ? found : found.map((one) => (one === 'preempted' ? 'other' : one));
}

// ------------------------------------------------------------------------------------------ checkpoints

/** Records the checkpoint of a resumed attempt once. Its workers share the folder; the first to report decides. */
function foldResumed(job: Job, { workers }: Observation, now: Instant): Change {
  const attempt = openAttempt(job);
  if (attempt?.startMode !== 'resume' || attempt.resumedFrom !== undefined) return withoutEvents(job);
  const { ordinal } = attempt;
  for (const { allocation, worker, observed } of workers) {
    if (observed.kind === 'unknown' || (worker !== 'controller' && allocation !== attempt.allocation)) continue;
    const found = observed.value.runs.find((run) => run.attempt === ordinal)?.resumedFrom;
    if (found === undefined) continue;
    const savedAt = found.savedAt === null ? null : Math.min(found.savedAt, now);
    const resumedFrom = { ...found, savedAt };
    const next = withAttempt(job, ordinal, { resumedFrom });
    return withEvents(next, now, { kind: 'attempt_resumed', attempt: ordinal, ...resumedFrom });
  }
  return withoutEvents(job);
}

// ------------------------------------------------------------------------------------------ silence

/**
 * Records who does not answer, the cloud or a worker, and the start of its silence. If the cloud answers again but a
 * worker still does not, the silence starts again: until then the connection of this machine was at fault.
 */
function foldReachability(job: Job, observation: Observation, now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.lifecycle === 'releasing' || allocation.lifecycle === 'gone')
    return withoutEvents(job);
  const { ordinal, unreachableAt, unreachableWho } = allocation;
  const answering = withAllocation(job, ordinal, { unreachableAt: null, unreachableWho: null });
  // Without an open attempt jobman does not ask the workers, so the end of the silence is not known.
  if (openAttempt(job) === undefined) return withoutEvents(answering);
  const outage = outageOf(observation, allocation);
  if (outage === undefined) {
    const who = unreachableWho === 'cloud' || unreachableWho === 'login' ? {} : { who: 'workers' as const };
    return unreachableAt === null
      ? withoutEvents(job)
      : withEvents(answering, now, { kind: 'reachable', allocation: ordinal, ...who });
  }
  const { who, since = 0, ...facts } = outage;
  // The worker that was silent first may answer again while another one is silent. Their times do not add up.
  if (who === unreachableWho)
    return withoutEvents(withAllocation(job, ordinal, { unreachableAt: Math.max(unreachableAt ?? 0, since) }));
  const isContinued = (who === 'cloud' || who === 'login') && unreachableAt !== null;
  const next = withAllocation(job, ordinal, { unreachableAt: isContinued ? unreachableAt : now, unreachableWho: who });
  // The owner can fix a missing login, so its beginning and its end are events even during an outage.
  if (isContinued && who !== 'login' && unreachableWho !== 'login') return withoutEvents(next);
  const elsewhere = (who === 'home' || who === 'machine') && { who };
  return withEvents(next, now, { kind: 'unreachable', allocation: ordinal, ...facts, ...elsewhere });
}

interface Outage {
  readonly who: NonNullable<Allocation['unreachableWho']>;
  readonly worker?: WorkerId;
  readonly message: string;
  /** For a worker: since when every check of it has failed. */
  readonly since?: Instant;
}

/** The cloud comes first, and then the worker that has been silent for longest. */
function outageOf({ allocations, workers }: Observation, allocation: Allocation): Outage | undefined {
  const { ordinal } = allocation;
  const ofCloud = allocations.find((one) => one.allocation === ordinal)?.observed;
  // If the allocation cannot exist yet, a refusal counts as an answer: the request will show the cloud's message.
  if (ofCloud?.kind === 'unknown' && !isHidden(ofCloud, allocation))
    return { who: ofCloud.noLogin === true ? 'login' : 'cloud', message: ofCloud.reason };
  const isReady = ofCloud?.kind === 'known' && ofCloud.value.state === 'ready';
  const silent = workers.flatMap((one) => {
    const isUsed = one.worker === 'controller' || (isReady && one.allocation === ordinal);
    return isUsed && one.observed.kind === 'unknown' ? [{ worker: one.worker, ...one.observed }] : [];
  });
  const [longest] = silent.toSorted((one, other) => one.since - other.since);
  if (longest === undefined) return undefined;
  const { worker, reason: message, since, elsewhere } = longest;
  return elsewhere === undefined ? { who: 'worker', worker, message, since } : { who: elsewhere, worker, message };
}
