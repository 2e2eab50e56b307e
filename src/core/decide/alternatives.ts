// Alternatives: when an attempt leaves its alternative, which one is requested next, and when. The answer decides:
//
// - no capacity, no quota, or a request that waits too long: the next alternative is tried at once; after a full round
//   each alternative has its own backoff
// - a missing permission: as above, and the alternative is tried again from time to time, because the permission may be
//   granted
// - an invalid request: the alternative is skipped until the next attempt
//
// The attempt fails once every alternative is skipped or lacks a permission. The answers are in
// `Attempt.alternativesTried`.

import { isPermanent, isHidden, moveAttempt, retryDelay, switchAllocation } from './allocate.ts';
import { chain, withAllocation, withAttempt, withEvents, type Change } from '../model/decision.ts';
import { allocationOf, isLost, wasNeverCreated } from '../model/job.ts';
import type { Allocation, Attempt, CapacityAnswer, CloudErrorKind, Job, TriedAlternative } from '../model/job.ts';
import type { AlternativeAnswer, Observed } from '../model/observation.ts';
import { alternativeCount } from '../model/spec.ts';
import { avoidedAlternatives } from './recover.ts';
import { minute, type Duration, type Instant } from '../model/time.ts';
import type { AttemptView } from './view.ts';

interface NextAlternative {
  readonly alternative: number;
  readonly notBefore: Instant;
}

/** Answers of the alternatives to any job. */
type AnswersToAll = Observed<readonly AlternativeAnswer[]> | undefined;

export function hasAlternatives(job: Job): boolean {
  return alternativeCount(job.spec.capacity) > 1;
}

/** True for answers after which the next alternative is tried at once. */
export function exhaustsAlternative(answer: CloudErrorKind): boolean {
  return answer === 'stockout' || answer === 'quota' || isPermanent(answer);
}

// ------------------------------------------------------------------------------------------ leaving an alternative

/** The answer of the current alternative, if it has no capacity to give, and the next alternative. */
export function exhaustedAlternativeOf(
  view: AttemptView,
): { readonly answer: CapacityAnswer; readonly next: NextAlternative } | undefined {
  const { job, now, attempt, allocation, alternativeAnswers } = view;
  const { readyAt, requestedAt, releasedAt, confirmedAt, lastError, hasUnansweredRequest } = allocation;
  if (allocation.ownership === 'persistent' || !hasAlternatives(job)) return undefined;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  const refusal = confirmedAt === null || isLost(allocation) ? lastError?.error.kind : undefined;
  // Without permission jobman can neither list nor delete there. If a request may have gone through, the refusal ends
  // the attempt.
  if (refusal !== undefined && isPermanent(refusal) && hasUnansweredRequest === true) return undefined;
  const isExhausted = refusal !== undefined && exhaustsAlternative(refusal) && isRefusalCertain(view, refusal);
  const answer = isExhausted ? refusal : hasWaitedTooLong(view) ? 'waiting' : undefined;
  if (answer === undefined) return undefined;
  const next = alternativeAfter(job, attempt, answer, alternativeAnswers, now);
  return next === undefined ? undefined : { answer, next };
}

/** Unless the refusal is permanent, an earlier request may have gone through, which only an observation can exclude. */
function isRefusalCertain({ observedState, observed, allocation }: AttemptView, refusal: CloudErrorKind): boolean {
  return observedState !== undefined || isHidden(observed, allocation) || isPermanent(refusal);
}

function hasWaitedTooLong({ job, now, observed, observedState, allocation }: AttemptView): boolean {
  const { confirmedAt, lastError, hasUnansweredRequest } = allocation;
  const waitEnd = alternativeWaitEnd(job, allocation);
  if (waitEnd === undefined || now < waitEnd) return false;
  if (observedState === 'waiting') return true;
  const isAbsent = observedState === 'absent' || isHidden(observed, allocation);
  // An accepted allocation may be missing from one list, so two lists must miss it first. A request without an answer
  // (its process was killed, or its reply was lost) is sent again before the wait counts.
  const isAnswered = lastError !== null && (hasUnansweredRequest !== true || lastError.at >= waitEnd);
  return isAbsent && confirmedAt === null && isAnswered;
}

/** End of the wait in the current alternative. Undefined if it has no limit or nothing is requested. */
export function alternativeWaitEnd(job: Job, allocation: Allocation): Instant | undefined {
  const { capacity } = job.spec;
  const { readyAt, requestedAt, releasedAt, confirmedAt } = allocation;
  if (capacity.kind !== 'tpu' || capacity.alternativesWaitMs === undefined || !hasAlternatives(job)) return undefined;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  // Count from the acceptance, because an old request may have been accepted only now.
  return (confirmedAt ?? requestedAt) + capacity.alternativesWaitMs;
}

/**
 * Moves the attempt to its next alternative. If every request was refused, nothing exists and the same allocation is
 * requested there, so that weeks of refusals do not grow the list of allocations. If a request got no answer, that
 * allocation may still appear: it is released, and another one is added. Orphan collection finds it if it appears later.
 */
export function tryNextAlternative(
  job: Job,
  attempt: Attempt,
  { answer, next }: { readonly answer: CapacityAnswer; readonly next: NextAlternative },
  now: Instant,
): Change {
  const allocation = allocationOf(job, attempt.allocation);
  const { ordinal, alternative = 0 } = allocation;
  const isReused = wasNeverCreated(allocation);
  const target = { alternative: next.alternative, notBefore: Math.max(now, next.notBefore) };
  const answered = withAttempt(job, attempt.ordinal, {
    alternativesTried: alternativesTriedAfter(attempt, allocation, answer, now),
  });
  const left = isReused ? answered : withAllocation(answered, ordinal, { superseded: { at: now, answer } });
  const event = { kind: 'alternative_exhausted', allocation: ordinal, alternative, answer } as const;
  return chain(withEvents(left, now, { ...event, next: next.alternative }), (after) =>
    isReused
      ? reuseAllocation(after, attempt, target, now)
      : switchAllocation(after, attempt, { why: 'this alternative has no capacity', ...target }, now),
  );
}

/** The tried alternatives of the attempt, with this newest answer. */
function alternativesTriedAfter(
  { alternativesTried = [] }: Attempt,
  { alternative = 0, lastError }: Allocation,
  answer: CapacityAnswer,
  at: Instant,
): readonly TriedAlternative[] {
  const before = alternativesTried.find((one) => one.alternative === alternative);
  const error = lastError?.error.kind === answer ? { error: lastError.error } : {};
  const tried = { alternative, failedRequests: (before?.failedRequests ?? 0) + 1, answer, at, ...error };
  return [...alternativesTried.filter((one) => one !== before), tried];
}

function reuseAllocation(
  job: Job,
  { ordinal, allocation }: Attempt,
  { alternative, notBefore }: NextAlternative,
  now: Instant,
): Change {
  const { waitingSince, requestedAt } = allocationOf(job, allocation);
  const since = waitingSince ?? requestedAt;
  const reset = { alternative, requestedAt: null, errorCount: 0, lastError: null, firstMissedAt: null };
  const waiting = since !== null && { waitingSince: since };
  return moveAttempt(withAllocation(job, allocation, { ...reset, ...waiting }), ordinal, allocation, notBefore, now);
}

// ------------------------------------------------------------------------------------------ before the first request

/** The alternative to request first, if it is not the current one and nothing was requested yet. */
export function betterAlternativeOf(view: AttemptView): NextAlternative | undefined {
  const { job, attempt, allocation, alternativeAnswers, now } = view;
  if (allocation.requestedAt !== null || !hasAlternatives(job)) return undefined;
  const next = firstAvailable(job, attempt, allowedAlternatives(job, attempt), alternativeAnswers, now);
  return next?.alternative === (allocation.alternative ?? 0) ? undefined : next;
}

/** Moves an allocation that was not requested yet to another alternative. */
export function chooseAlternative(
  job: Job,
  { ordinal, allocation, notBeforeAt }: Attempt,
  chosen: NextAlternative,
  now: Instant,
): Change {
  const { alternative = 0 } = allocationOf(job, allocation);
  const changed = withAllocation(job, allocation, { alternative: chosen.alternative });
  const event = { kind: 'alternative_skipped', allocation, alternative, next: chosen.alternative } as const;
  const skipped = withEvents(changed, now, event);
  if (chosen.notBefore <= notBeforeAt) return skipped;
  return chain(skipped, (next) => moveAttempt(next, ordinal, allocation, chosen.notBefore, now));
}

// ------------------------------------------------------------------------------------------ the next alternative

/** The alternative after that answer. An attempt leaves a queue only for another alternative that may have capacity. */
export function alternativeAfter(
  job: Job,
  attempt: Attempt,
  answer: CapacityAnswer,
  answersToAll: AnswersToAll,
  now: Instant,
): NextAlternative | undefined {
  const allocation = allocationOf(job, attempt.allocation);
  const after = { ...attempt, alternativesTried: alternativesTriedAfter(attempt, allocation, answer, now) };
  const allowed = allowedAlternatives(job, after);
  const current = allocation.alternative ?? 0;
  const others = allowed.filter((one) => one.alternative !== current && one.answer !== 'permission');
  return firstAvailable(job, after, answer === 'waiting' ? others : allowed, answersToAll, now);
}

interface AlternativeState {
  readonly alternative: number;
  readonly failedRequests: number;
  /** Undefined if it was not tried. */
  readonly answer: CapacityAnswer | undefined;
  readonly at: Instant;
}

/** All alternatives, except those in a zone that a recovery rule avoids. */
function allowedAlternatives(job: Job, attempt: Attempt): readonly AlternativeState[] {
  const avoided = avoidedAlternatives(job, attempt);
  return Array.from({ length: alternativeCount(job.spec.capacity) }, (_, alternative): AlternativeState => {
    const tried = attempt.alternativesTried?.find((one) => one.alternative === alternative);
    return tried ?? { alternative, failedRequests: 0, answer: undefined, at: 0 };
  }).filter(({ alternative }) => !avoided.has(alternative));
}

/**
 * Two kinds of alternatives are candidates: of those without a permanent error, the ones with the fewest requests; and
 * those that lack a permission. The one that may be requested earliest is chosen, then the one that the manifest names
 * first. A recent refusal of another job's request moves an alternative behind the others. Undefined if every
 * alternative has a permanent error.
 */
function firstAvailable(
  job: Job,
  attempt: Attempt,
  states: readonly AlternativeState[],
  answersToAll: AnswersToAll,
  now: Instant,
): NextAlternative | undefined {
  const open = states.filter(({ answer }) => answer === undefined || answer === 'waiting' || !isPermanent(answer));
  if (open.length === 0) return undefined;
  const fewest = Math.min(...open.map(({ failedRequests }) => failedRequests));
  const leastRequested = open.filter(({ failedRequests }) => failedRequests === fewest);
  const forbidden = states.filter(({ answer }) => answer === 'permission');
  const candidates = [...leastRequested, ...forbidden].map((state) => {
    const notBefore = mayRequestAt(job, attempt, state);
    const availableAt = Math.max(notBefore, recentRefusalEnd(answersToAll, state.alternative, now));
    return { alternative: state.alternative, notBefore, availableAt };
  });
  const [first] = candidates.toSorted(
    (one, other) => one.availableAt - other.availableAt || one.alternative - other.alternative,
  );
  return first === undefined ? undefined : { alternative: first.alternative, notBefore: first.notBefore };
}

/** A long queue is not an error, so it may be joined again without a backoff. */
function mayRequestAt(
  job: Job,
  attempt: Attempt,
  { alternative, failedRequests, answer, at }: AlternativeState,
): Instant {
  if (answer === undefined || answer === 'waiting') return at;
  return at + retryDelay(answer, failedRequests, job.id, attempt.ordinal, alternative);
}

/** For this long a refusal of another job's request counts as an answer to this job. */
const recentAnswerLifetime: Duration = 5 * minute;

/** 0 if no job was refused there recently. */
function recentRefusalEnd(answersToAll: AnswersToAll, alternative: number, now: Instant): Instant {
  if (answersToAll?.kind !== 'known') return 0;
  const found = answersToAll.value.find((one) => one.alternative === alternative);
  if (found === undefined || (found.answer !== 'stockout' && found.answer !== 'quota')) return 0;
  const until = found.at + recentAnswerLifetime;
  // An answer in the future was stored before the clock was set back.
  return until > now && found.at <= now ? until : 0;
}
