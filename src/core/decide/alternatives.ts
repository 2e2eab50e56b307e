// Alternatives: chooses the alternative that is requested next, and the time. The kind of the last error decides:
//
// - no capacity, no quota, or a request that waits too long: the next alternative is tried at once; after a full round
//   each alternative has its own backoff
// - a missing permission: as above, and the alternative is tried again from time to time, because the permission may be
//   granted
// - an invalid request: the alternative is skipped until the next attempt
//
// The attempt fails once every alternative is skipped or lacks a permission. The answers are in
// `Attempt.alternativesTried`.

import { isPermanent, retryDelay, alternativesTriedAfter } from './allocate.ts';
import { allocationOf, capacityOf } from '../model/job.ts';
import type { Attempt, CloudErrorKind, Job, CapacityAnswer } from '../model/job.ts';
import type { Observed, AlternativeAnswer } from '../model/observation.ts';
import { alternativeCount, capacityAt } from '../model/spec.ts';
import type { Pricing, TpuSpec } from '../model/spec.ts';
import { avoidedAlternatives } from './recover.ts';
import { minute } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import type { Event } from '../model/event.ts';

export interface NextAlternative {
  readonly alternative: number;
  readonly notBefore: Instant;
}

interface AlternativeState {
  readonly alternative: number;
  readonly failedRequests: number;
  /** Undefined if it was not tried. */
  readonly answer: CapacityAnswer | undefined;
  readonly at: Instant;
}

/** For this long a refusal of another job's request counts as an answer to this job. */
const recentAnswerLifetime: Duration = 5 * minute;

export function hasAlternatives(job: Job): boolean {
  return alternativeCount(job.spec.capacity) > 1;
}

/** True for answers after which the next alternative is tried at once. */
export function exhaustsAlternative(answer: CloudErrorKind): boolean {
  return answer === 'stockout' || answer === 'quota' || isPermanent(answer);
}

/**
 * The alternative to request next. Candidates are the open ones with the fewest requests, and those that lack a
 * permission. The first is the one that may be requested earliest, then the one that the manifest names first. A recent
 * refusal of another job's request moves an alternative behind the others. Undefined if none is open. Alternatives in a
 * zone that a recovery rule avoids are no candidates.
 */
export function nextAlternative(
  job: Job,
  attempt: Attempt,
  answers: Observed<readonly AlternativeAnswer[]> | undefined,
  now: Instant,
): NextAlternative | undefined {
  const avoided = avoidedAlternatives(job, attempt);
  const left = alternativeStates(job, attempt).filter(({ alternative }) => !avoided.has(alternative));
  return firstAvailable(job, attempt, left, answers, now);
}

function firstAvailable(
  job: Job,
  attempt: Attempt,
  left: readonly AlternativeState[],
  answers: Observed<readonly AlternativeAnswer[]> | undefined,
  now: Instant,
): NextAlternative | undefined {
  const open = left.filter(({ answer }) => answer === undefined || answer === 'waiting' || !isPermanent(answer));
  if (open.length === 0) return undefined;
  const fewest = Math.min(...open.map(({ failedRequests }) => failedRequests));
  const leastRequested = open.filter(({ failedRequests }) => failedRequests === fewest);
  const forbidden = left.filter(({ answer }) => answer === 'permission');
  const candidates = [...leastRequested, ...forbidden].map((state) => ({
    alternative: state.alternative,
    notBefore: mayRequestAt(job, attempt, state),
    avoidedUntil: recentRefusalEnd(answers, state.alternative, now),
  }));
  const [first] = candidates.toSorted(
    (one, other) =>
      Math.max(one.notBefore, one.avoidedUntil) - Math.max(other.notBefore, other.avoidedUntil) ||
      one.alternative - other.alternative,
  );
  return first === undefined ? undefined : { alternative: first.alternative, notBefore: first.notBefore };
}

/** The alternative after that answer. A queue is left only for another alternative that may have capacity. */
export function alternativeAfter(
  job: Job,
  attempt: Attempt,
  answer: CapacityAnswer,
  answers: Observed<readonly AlternativeAnswer[]> | undefined,
  now: Instant,
): NextAlternative | undefined {
  const allocation = allocationOf(job, attempt.allocation);
  const after = { ...attempt, alternativesTried: alternativesTriedAfter(attempt, allocation, answer, now) };
  if (answer !== 'waiting') return nextAlternative(job, after, answers, now);
  const avoided = avoidedAlternatives(job, attempt);
  const others = alternativeStates(job, after).filter(
    (one) =>
      one.alternative !== (allocation.alternative ?? 0) && one.answer !== 'permission' && !avoided.has(one.alternative),
  );
  return firstAvailable(job, after, others, answers, now);
}

function alternativeStates(job: Job, { alternativesTried = [] }: Attempt): readonly AlternativeState[] {
  return Array.from({ length: alternativeCount(job.spec.capacity) }, (_, alternative) => {
    const tried = alternativesTried.find((one) => one.alternative === alternative);
    return { alternative, failedRequests: tried?.failedRequests ?? 0, answer: tried?.answer, at: tried?.at ?? 0 };
  });
}

/** A long queue is no error, so it may be joined again without a backoff. */
function mayRequestAt(
  job: Job,
  attempt: Attempt,
  { alternative, failedRequests, answer, at }: AlternativeState,
): Instant {
  if (answer === undefined || answer === 'waiting') return at;
  return at + retryDelay(answer, failedRequests, job.id, attempt.ordinal, alternative);
}

function recentRefusalEnd(
  answers: Observed<readonly AlternativeAnswer[]> | undefined,
  alternative: number,
  now: Instant,
): Instant {
  if (answers?.kind !== 'known') return 0;
  const found = answers.value.find((one) => one.alternative === alternative);
  if (found === undefined || (found.answer !== 'stockout' && found.answer !== 'quota')) return 0;
  const until = found.at + recentAnswerLifetime;
  // An answer in the future was stored before the clock was set back.
  return until > now && found.at <= now ? until : 0;
}

// ------------------------------------------------------------------------------------------ answers for other jobs

/** The properties that make alternatives of different jobs the same. */
export interface AlternativeKey {
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: Pricing;
}

/** An answer to any job's request. */
export interface AnswerRecord extends AlternativeKey {
  /** `ready`: it provided an allocation. */
  readonly answer: CapacityAnswer | 'ready';
  readonly at: Instant;
  /** Time from the request to the answer. */
  readonly waited: Duration;
  readonly job: string;
}

/** Answers about the alternative itself. Other errors are temporary failures of the API. */
const informativeAnswers: readonly string[] = ['stockout', 'quota', 'permission', 'invalid', 'not_found', 'waiting'];

/** The answers in these events. A ready persistent TPU is no answer: it does not show how much capacity is left. */
export function answersIn(job: Job, events: readonly Event[]): readonly AnswerRecord[] {
  return events.flatMap((event): readonly AnswerRecord[] => {
    const answer = answerOf(job, event);
    const allocation = 'allocation' in event ? job.allocations[event.allocation - 1] : undefined;
    if (answer === undefined || allocation === undefined) return [];
    if (allocation.ownership === 'persistent' && answer === 'ready') return [];
    // If the same pass moved the allocation to another alternative, the answer is from the one before.
    const exhausted = events.find(
      (one) => one.kind === 'alternative_exhausted' && one.allocation === allocation.ordinal,
    );
    const alternative = exhausted?.kind === 'alternative_exhausted' ? exhausted.alternative : allocation.alternative;
    const capacity = capacityOf(job, { ...allocation, ...(alternative !== undefined && { alternative }) });
    if (capacity.kind !== 'tpu') return [];
    const waited = Math.max(0, event.at - (allocation.requestedAt ?? event.at));
    return [{ ...alternativeKey(capacity), answer, at: event.at, waited, job: job.id }];
  });
}

function answerOf(job: Job, event: Event): AnswerRecord['answer'] | undefined {
  switch (event.kind) {
    case 'allocation_refused':
      return informativeAnswers.includes(event.error.kind) ? event.error.kind : undefined;
    case 'alternative_exhausted':
      return event.answer;
    case 'allocation_seen': {
      // A repaired allocation that is ready again is no new answer.
      const isFirst = job.allocations[event.allocation - 1]?.readyAt === event.at;
      return event.state === 'ready' && isFirst ? 'ready' : undefined;
    }
    default:
      return undefined;
  }
}

export function alternativeKey({ project, zone, accelerator, pricing }: TpuSpec): AlternativeKey {
  return { project, zone, accelerator, pricing };
}

export function isSameAlternative(one: AlternativeKey, other: AlternativeKey): boolean {
  return (
    one.project === other.project &&
    one.zone === other.zone &&
    one.accelerator === other.accelerator &&
    one.pricing === other.pricing
  );
}

/** For each alternative of the job, the newest answer that another job got. */
export function answersToOtherJobs(job: Job, answers: readonly AnswerRecord[]): readonly AlternativeAnswer[] {
  return Array.from({ length: alternativeCount(job.spec.capacity) }, (_, alternative) => {
    const capacity = capacityAt(job.spec.capacity, alternative);
    const newest = answers
      .filter((one) => one.job !== job.id && capacity.kind === 'tpu' && isSameAlternative(one, capacity))
      .toSorted((one, other) => other.at - one.at)[0];
    return newest === undefined ? [] : [{ alternative, answer: newest.answer, at: newest.at }];
  }).flat();
}
