// Fold: the first step of `reconcile`. Writes the outcomes of actions and the results of looks into the record, if they
// change anything. The only decision made here is which of them to believe.

import {
  goneLookAfter,
  isHiddenForGood,
  isPermanent,
  leaving,
  markGone,
  markRequested,
  mayRequest,
  nextTryAt,
  secondLookAfter,
} from './allocate.ts';
import { chain, told, unchanged, withAllocation, withAttempt } from './decision.ts';
import type { Change, Subject } from './decision.ts';
import { attemptOf, failureOf, lastAllocation, openAttempt, withLife } from './job.ts';
import type { Allocation, AllocationFields, Attempt, CloudError, Host, Job, WorkerTask } from './job.ts';
import type { AllocationFact, AllocationSeen, Observation, Outcome, OutcomeResult, Fact } from './observation.ts';
import { isRefusedSince } from './phase.ts';
import type { WorkerId } from './spec.ts';
import { second } from './time.ts';
import type { Duration, Instant } from './time.ts';

/** Replies first, then looks: a look is never older than a reply that is folded with it. */
export function fold(job: Job, observation: Observation, now: Instant): Change {
  return chain(
    unchanged(job),
    // First, because an answer to this very pass is to a later question.
    ...(observation.unheard ?? []).map(
      (ordinal) => (next: Job) => unchanged(withAllocation(next, ordinal, { isDoubtful: true })),
    ),
    // A reply may have been noted by a clock that has been set back since.
    ...observation.outcomes.map(
      (outcome) => (next: Job) => foldOutcome(next, { ...outcome, at: Math.min(outcome.at, now) }, now),
    ),
    ...observation.allocations.map((fact) => (next: Job) => foldLook(next, fact, now)),
    (next) => foldSilence(next, observation, now),
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
  if (allocation === undefined || allocation.life === 'gone') return unchanged(job);
  if ((kind === 'release') !== (allocation.life === 'releasing')) return unchanged(job);
  // An accepted allocation is not requested again, so a reply that says otherwise is about an earlier question, of another
  // controller perhaps. Were it wrong to pass it over, the looks that miss the thing would tell.
  if (kind === 'request' && result.kind !== 'done' && (allocation.readyAt !== null || allocation.acceptedAt !== null))
    return unchanged(job);
  const { ordinal } = allocation;
  const answered = kind === 'request' && allocation.isAsking === true ? { isAsking: false } : {};
  if (result.kind === 'done')
    return unchanged(withAllocation(job, ordinal, { acceptedAt: at, missedAt: null, ...answered }));
  const failed = withAllocation(withFailure(job, allocation, at, errorOf(result)), ordinal, answered);
  // A lost reply is no refusal: something may come of it.
  if (kind === 'request' && result.kind === 'unclear')
    return unchanged(withAllocation(failed, ordinal, { isDoubtful: true }));
  // A release is not worth a line for people each time: it only sets a pace.
  return kind === 'request' ? toldOfRefusal(failed, ordinal, now) : unchanged(failed);
}

function withFailure(job: Job, allocation: Allocation, at: Instant, error: CloudError): Job {
  return withAllocation(job, allocation.ordinal, {
    acceptedAt: null,
    requestFailures: allocation.requestFailures + 1,
    lastFailure: { at, error },
  });
}

function toldOfRefusal(job: Job, ordinal: number, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  const error = allocation?.lastFailure?.error;
  if (allocation === undefined || error === undefined) return unchanged(job);
  const nextAt = isPermanent(error.kind) ? {} : { nextAt: nextTryAt(job, allocation) };
  return told(job, now, { kind: 'allocation_refused', allocation: ordinal, error, ...nextAt });
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
  const failed = withTry(job, attempt, task, at, result);
  const tries = failureOf(attemptOf(failed, ordinal), task)?.tries ?? 0;
  if (result.kind === 'unclear' || job.removed) return unchanged(failed);
  const { detail } = result.evidence;
  const where = { attempt: ordinal, allocation, worker, step };
  return told(failed, now, { kind: 'step_failed', ...where, tries, detail });
}

function foldStartReply(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ordinal !== ordinal || result.kind === 'done') return unchanged(job);
  return unchanged(withTry(job, attempt, { kind: 'start', worker }, at, result));
}

function foldStopReply(job: Job, ordinal: number, worker: WorkerId, at: Instant, result: OutcomeResult): Change {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined || attempt.ending === null) return unchanged(job);
  if (result.kind !== 'done') return unchanged(withTry(job, attempt, { kind: 'stop', worker }, at, result));
  const { ending } = attempt;
  if (ending.told.includes(worker)) return unchanged(job);
  return unchanged(withAttempt(job, ordinal, { ending: { ...ending, told: [...ending.told, worker] } }));
}

/** One more failed try on one worker. A lost reply only sets the pace, for it may have happened; a failed stop always counts. */
function withTry(
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

function foldLook(job: Job, { allocation: ordinal, fact }: AllocationFact, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  if (allocation === undefined || allocation.life === 'gone') return unchanged(job);
  // A re-applied one has the name of the one before. While that is on its way out, what bears the name is still that.
  if (leaving(job).some((one) => one.ordinal < ordinal && one.name === allocation.name)) return unchanged(job);
  if (fact.kind === 'unknown') return unchanged(job);
  const { value, seenAt } = fact;
  if (allocation.life === 'releasing') return foldLeaving(job, allocation, value, seenAt, now);
  switch (value.state) {
    case 'absent':
      return foldMissing(job, allocation, value, seenAt, now);
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
function foldLeaving(job: Job, allocation: Allocation, seen: AllocationSeen, seenAt: Instant, now: Instant): Change {
  const { ordinal } = allocation;
  const isMissed = seen.state === 'absent' || seen.state === 'foreign';
  if (!isMissed) return toldOfSight(withAllocation(job, ordinal, { missedAt: null }), ordinal, seen, now);
  if (!isSecondLook(allocation, seenAt, goneLookAfter) || allocation.acceptedAt === null) {
    return unchanged(withAllocation(job, ordinal, { missedAt: firstMissed(allocation, seenAt) }));
  }
  return markGone(job, ordinal, now);
}

/** One observation that misses it means little (a list lags or is partial). The second one counts, by how far it had come. */
function foldMissing(job: Job, allocation: Allocation, seen: AllocationSeen, seenAt: Instant, now: Instant): Change {
  const { ordinal, acceptedAt, readyAt } = allocation;
  // Nobody has confirmed the request yet, so its absence is no news: it is, or will be, asked for.
  if (acceptedAt === null && readyAt === null && mayRequest(job, allocation)) return unchanged(job);
  // The cloud says itself why it is not there: what it had accepted came to nothing.
  if (seen.error !== undefined && readyAt === null && mayRequest(job, allocation)) {
    return toldOfRefusal(withFailure(job, allocation, now, seen.error), ordinal, now);
  }
  if (!isSecondLook(allocation, seenAt)) {
    return unchanged(withAllocation(job, ordinal, { missedAt: firstMissed(allocation, seenAt) }));
  }
  // A standing one that is not there: nothing of ours is left to let go.
  if (!mayRequest(job, allocation)) {
    const error: CloudError = { kind: 'not_found', message: `there is no ${allocation.name}`, raw: '' };
    const missing = readyAt === null ? withAllocation(job, ordinal, { lastFailure: { at: now, error } }) : job;
    return chain(toldOfSight(missing, ordinal, seen, now), (next) => markGone(next, ordinal, now));
  }
  if (readyAt === null) {
    const error: CloudError = {
      kind: 'internal',
      message: 'it was accepted, and was not there when looked for twice',
      raw: seen.detail,
    };
    return toldOfRefusal(
      withAllocation(withFailure(job, allocation, now, error), ordinal, { missedAt: null }),
      ordinal,
      now,
    );
  }
  return toldOfSight(job, ordinal, seen, now);
}

function firstMissed(allocation: Allocation, seenAt: Instant): Instant {
  return allocation.missedAt ?? seenAt;
}

function isSecondLook(allocation: Allocation, seenAt: Instant, after: Duration = secondLookAfter): boolean {
  return allocation.missedAt !== null && seenAt >= allocation.missedAt + after;
}

/** Something of that name exists which is not ours: then ours does not exist, and what is there is not touched. */
function foldForeign(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const message = `something called ${allocation.name} exists already and is not this job's`;
  const error: CloudError = { kind: 'invalid', message, raw: seen.detail };
  const failed = withAllocation(job, allocation.ordinal, { lastFailure: { at: now, error } });
  return chain(toldOfSight(failed, allocation.ordinal, seen, now), (next) => markGone(next, allocation.ordinal, now));
}

function foldPresent(job: Job, allocation: Allocation, seen: AllocationSeen, now: Instant): Change {
  const { ordinal } = allocation;
  const isReady = seen.state === 'ready';
  const patch: Partial<AllocationFields> = {
    missedAt: null,
    acceptedAt: allocation.acceptedAt ?? now,
    ...(isReady
      ? { readyAt: allocation.readyAt ?? now, workers: Math.max(1, seen.workers ?? allocation.workers ?? 1) }
      : {}),
    ...(isReady && seen.made !== undefined ? { made: allocation.made ?? seen.made } : {}),
    ...(isReady && seen.hosts !== undefined ? { hosts: sameHosts(allocation.hosts, seen.hosts) } : {}),
    ...(isReady ? { requestFailures: 0, lastFailure: null } : {}),
    ...(seen.state === 'lost' && allocation.readyAt === null ? { lastFailure: whyLost(allocation, seen, now) } : {}),
  };
  // A thing with our label exists by our doing, even if the record (restored from a copy, say) does not know of it.
  return chain(
    markRequested(job, ordinal, now),
    (next) => unchanged(withAllocation(next, ordinal, patch)),
    (next) => toldOfSight(next, ordinal, seen, now),
  );
}

function whyLost(allocation: Allocation, seen: AllocationSeen, now: Instant): Allocation['lastFailure'] {
  if (allocation.seen?.state === 'lost') return allocation.lastFailure;
  return {
    at: now,
    error: seen.error ?? { kind: 'internal', message: `it failed before it was ready`, raw: seen.detail },
  };
}

function sameHosts(before: readonly Host[] | null, hosts: readonly Host[]): readonly Host[] {
  const isSame =
    before?.length === hosts.length &&
    hosts.every((host, index) => {
      const old = before[index];
      return old?.internalIp === host.internalIp && old.externalIp === host.externalIp;
    });
  return isSame ? before : hosts;
}

function toldOfSight(job: Job, ordinal: number, { state, detail }: AllocationSeen, now: Instant): Change {
  const allocation = job.allocations[ordinal - 1];
  const seen = allocation?.seen;
  if (allocation === undefined) return unchanged(job);
  // After a refusal the same sight is about a new request.
  const isSame = seen?.state === state && seen.detail === detail && !isRefusedSince(allocation);
  if (isSame) return unchanged(job);
  const workers = state === 'ready' && allocation.workers !== null ? { workers: allocation.workers } : {};
  const next = withAllocation(job, ordinal, { seen: { state, detail, at: now } });
  return told(next, now, { kind: 'allocation_seen', allocation: ordinal, state, detail, ...workers });
}

// ------------------------------------------------------------------------------------------ silence

/**
 * Who does not answer, and since when. Only what was asked and gave no answer is silent; what nobody asked is not.
 * When the cloud answers again but a worker still does not, the count begins anew: until then the line was at fault.
 * And it begins when the longest silence of those that go on began: two workers that fall silent in turn, or one that
 * answered when nobody wrote it down, have not been silent for as long as the record would have it.
 */
function foldSilence(job: Job, observation: Observation, now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.life === 'releasing' || allocation.life === 'gone') return unchanged(job);
  const { ordinal, silentSince, silentWho } = allocation;
  const isWatched = openAttempt(job) !== undefined;
  const silence = isWatched ? silenceOf(observation, allocation) : undefined;
  if (silence === undefined) {
    if (silentSince === null) return unchanged(job);
    const answering = withAllocation(job, ordinal, { silentSince: null, silentWho: null });
    // An allocation without an attempt under way has not answered; it is only no longer asked.
    if (!isWatched) return unchanged(answering);
    const who = silentWho === 'worker' ? { who: 'workers' as const } : {};
    return told(answering, now, { kind: 'answering', allocation: ordinal, ...who });
  }
  if (silence.who === silentWho) {
    const isLater = silentSince !== null && silence.since !== undefined && silence.since > silentSince;
    return isLater ? unchanged(withAllocation(job, ordinal, { silentSince: silence.since })) : unchanged(job);
  }
  const isSameSilence = silence.who !== 'worker' && silentSince !== null;
  const since = isSameSilence ? silentSince : now;
  const next = withAllocation(job, ordinal, { silentSince: since, silentWho: silence.who });
  // A login can be given by the owner, so its lack is told also in the middle of a silence, and so is its end.
  if (isSameSilence && silence.who !== 'login' && silentWho !== 'login') return unchanged(next);
  const { who: _who, since: _since, ...detail } = silence;
  return told(next, now, { kind: 'silent', allocation: ordinal, ...detail });
}

interface Silence {
  readonly who: 'allocation' | 'worker' | 'login';
  readonly detail: string;
  readonly worker?: WorkerId;
  /** Of a worker: since when it has been asked without a break and without an answer. */
  readonly since?: Instant;
}

function silenceOf(observation: Observation, allocation: Allocation): Silence | undefined {
  const { ordinal } = allocation;
  const look = observation.allocations.find((one) => one.allocation === ordinal)?.fact;
  // A refusal is an answer, where nothing can be there: the request brings its words to the owner.
  if (look?.kind === 'unknown' && !isHiddenForGood(look, allocation))
    return { who: look.noLogin === true ? 'login' : 'allocation', detail: look.reason };
  const isReady = look?.kind === 'known' && look.value.state === 'ready';
  let longest: Silence | undefined;
  for (const { allocation: of, worker, fact } of observation.workers) {
    if (fact.kind !== 'unknown' || (worker !== 'here' && (!isReady || of !== ordinal))) continue;
    if (longest?.since === undefined || fact.since < longest.since)
      longest = { who: 'worker', worker, detail: fact.reason, since: fact.since };
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
