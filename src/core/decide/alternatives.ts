// Alternatives: which place of a spec is asked next, and when. Typed errors decide. A place without capacity or quota, or one
// that lets a request wait for too long, is passed over for the next at once; after a full round each waits for its own pace.
// A place where we lack a permission does not hold up the others and is asked again now and then, because permissions get
// granted; a place that rejects the request itself is skipped until the next attempt. The job ends when every place is closed
// in one of these two ways.
//
// All of it is worked out from the record: the attempt says what each place has answered to it.

import { isPermanent, retryDelay, alternativesTriedAfter } from './allocate.ts';
import { allocationOf, capacityOf } from '../model/job.ts';
import type { Attempt, CloudErrorKind, Job, CapacityAnswer } from '../model/job.ts';
import type { Observed, AlternativeAnswer } from '../model/observation.ts';
import { alternativeCount, capacityAt } from '../model/spec.ts';
import type { TpuSpec } from '../model/spec.ts';
import { avoidedAlternatives } from './recover.ts';
import { minute } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import type { Event } from '../model/event.ts';

/** A place, and the moment before which it may not be asked; in the past when it may be at once. */
export interface NextAlternative {
  readonly alternative: number;
  readonly notBefore: Instant;
}

interface AlternativeState {
  readonly alternative: number;
  /** How often it was asked and had nothing. */
  readonly failedRequests: number;
  readonly answer: CapacityAnswer | undefined;
  /** When that came; long ago where it was not asked. */
  readonly at: Instant;
}

/** For so long another job's word that a place has nothing is taken for one's own. */
const recentAnswerLifetime: Duration = 5 * minute;

/** True when the spec names more than one place. */
export function hasAlternatives(job: Job): boolean {
  return alternativeCount(job.spec.capacity) > 1;
}

/** True for answers after which another place is tried at once: this one has nothing to give, now or ever. */
export function exhaustsAlternative(answer: CloudErrorKind): boolean {
  return answer === 'stockout' || answer === 'quota' || isPermanent(answer);
}

/**
 * The place that is asked next: of those that are open those asked least, beside them any that lack a right; of these the one that
 * may be asked first, of several the one named first. One that has told another job a moment ago that it has nothing comes
 * after those that have not; it is asked all the same when it is the last. Undefined when no place is open. A zone that a
 * rule has turned from has no turn.
 */
export function nextAlternative(
  job: Job,
  attempt: Attempt,
  answers: Observed<readonly AlternativeAnswer[]> | undefined,
  now: Instant,
): NextAlternative | undefined {
  const avoided = avoidedAlternatives(job, attempt);
  return firstAvailable(
    job,
    attempt,
    alternativeStates(job, attempt).filter(({ alternative }) => !avoided.has(alternative)),
    answers,
    now,
  );
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

/** The place after the present one passed with that answer. A queue is left only for a place that may give something. */
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
    return {
      alternative,
      failedRequests: tried?.failedRequests ?? 0,
      answer: tried?.answer,
      at: tried?.at ?? 0,
    };
  });
}

/** A queue that was long is no error, and may be joined again when its turn comes; the others have their pace. */
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
  // A time ahead was written by a clock that has been set back since.
  return until > now && found.at <= now ? until : 0;
}

// ------------------------------------------------------------------------------------------ answers for other jobs
//
// What the places of a cloud have answered to any job: the next one need not find out what another was just told.

/** A place as anybody may ask for it, whatever job asks. */
export interface AlternativeKey {
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: TpuSpec['pricing'];
}

/** One answer of a place. */
export interface AnswerRecord extends AlternativeKey {
  /** `ready`: it gave one. */
  readonly answer: CapacityAnswer | 'ready';
  readonly at: Instant;
  /** How long the request had been made by then. */
  readonly waited: Duration;
  /** The job that was answered. */
  readonly job: string;
}

/** Answers that say something about the place, and not about a moment of the API. */
const informativeAnswers: readonly string[] = ['stockout', 'quota', 'permission', 'invalid', 'not_found', 'waiting'];

/** The answers of places in these events. A persistent TPU that is ready says nothing about the capacity that is left. */
export function answersIn(job: Job, events: readonly Event[]): readonly AnswerRecord[] {
  return events.flatMap((event): readonly AnswerRecord[] => {
    const answer = answerOf(job, event);
    const allocation = 'allocation' in event ? job.allocations[event.allocation - 1] : undefined;
    if (answer === undefined || allocation === undefined) return [];
    if (allocation.ownership === 'persistent' && answer === 'ready') return [];
    // Where the same pass has moved it to another place, what was answered before was answered by the one that it left.
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
      // Under repair and back is no new answer to a request.
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

/** The newest of these answers of each of the job's places, by its number, as far as other jobs were given them. */
export function answersToOtherJobs(job: Job, answers: readonly AnswerRecord[]): readonly AlternativeAnswer[] {
  return Array.from({ length: alternativeCount(job.spec.capacity) }, (_, alternative) => alternative).flatMap(
    (alternative) => {
      const capacity = capacityAt(job.spec.capacity, alternative);
      if (capacity.kind !== 'tpu') return [];
      const answered = answers.filter((one) => one.job !== job.id && isSameAlternative(one, capacity));
      const [first, ...rest] = answered;
      if (first === undefined) return [];
      const newest = rest.reduce((best, one) => (one.at > best.at ? one : best), first);
      return [{ alternative, answer: newest.answer, at: newest.at }];
    },
  );
}
