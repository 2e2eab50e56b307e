// Capacity answers: what the cloud answered to requests of all jobs, so that a job learns from the others.

import { capacityOf, type CapacityAnswer, type Job } from '../model/job.ts';
import type { AlternativeAnswer } from '../model/observation.ts';
import { alternativeCount, capacityAt, type Pricing, type TpuSpec } from '../model/spec.ts';
import type { Duration, Instant } from '../model/time.ts';
import type { Event } from '../model/event.ts';

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

/** The answers in these events. A ready persistent TPU does not count: it does not show how much capacity is left. */
export function answersIn(job: Job, events: readonly Event[]): readonly AnswerRecord[] {
  return events.flatMap((event): readonly AnswerRecord[] => {
    const answer = answerOf(job, event);
    const allocation = 'allocation' in event ? job.allocations[event.allocation - 1] : undefined;
    if (answer === undefined || allocation === undefined) return [];
    if (allocation.ownership === 'persistent' && answer === 'ready') return [];
    // If the same pass moved the allocation to another alternative, the answer is from the previous alternative.
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
      // A repaired allocation that is ready again is not a new answer.
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
