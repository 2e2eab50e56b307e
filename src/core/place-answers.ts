// Place answers: what the places of a cloud have answered to any job, told apart from the jobs, so that the next one need not
// find out again what another has just been told.

import type { Event } from './decision.ts';
import type { Job, PlaceAnswer } from './job.ts';
import { capacityAt, capacityOf, placeCount } from './place.ts';
import type { PlaceSaid } from './observation.ts';
import type { TpuSpec } from './spec.ts';
import type { Duration, Instant } from './time.ts';

/** A place as anybody may ask for it, whatever job asks. */
export interface PlaceName {
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: TpuSpec['pricing'];
}

/** One answer of a place. */
export interface PlaceAnswered extends PlaceName {
  /** `ready`: it gave one. */
  readonly answer: PlaceAnswer | 'ready';
  readonly at: Instant;
  /** How long the request had been made by then. */
  readonly waited: Duration;
  /** The job that was answered. */
  readonly job: string;
}

/** Answers that say something about the place, and not about a moment of the API. */
const telling: readonly string[] = ['stockout', 'quota', 'permission', 'invalid', 'not_found', 'waiting'];

/** The answers of places in these events. A standing TPU that is ready says nothing about the capacity that is left. */
export function answersIn(job: Job, events: readonly Event[]): readonly PlaceAnswered[] {
  return events.flatMap((event): readonly PlaceAnswered[] => {
    const answer = answerOf(job, event);
    const allocation = 'allocation' in event ? job.allocations[event.allocation - 1] : undefined;
    if (answer === undefined || allocation === undefined) return [];
    if (allocation.ownership === 'standing' && answer === 'ready') return [];
    // Where the same pass has moved it to another place, what was answered before was answered by the one that it left.
    const left = events.find((one) => one.kind === 'place_passed_over' && one.allocation === allocation.ordinal);
    const place = left?.kind === 'place_passed_over' ? left.place : allocation.place;
    const capacity = capacityOf(job, { ...allocation, ...(place !== undefined && { place }) });
    if (capacity.kind !== 'tpu') return [];
    const waited = Math.max(0, event.at - (allocation.requestedAt ?? event.at));
    return [{ ...placeName(capacity), answer, at: event.at, waited, job: job.id }];
  });
}

function answerOf(job: Job, event: Event): PlaceAnswered['answer'] | undefined {
  switch (event.kind) {
    case 'allocation_refused':
      return telling.includes(event.error.kind) ? event.error.kind : undefined;
    case 'place_passed_over':
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

/** The place that such capacity is asked for in. */
export function placeName({ project, zone, accelerator, pricing }: TpuSpec): PlaceName {
  return { project, zone, accelerator, pricing };
}

/** True for two names of one place. */
export function isSamePlace(one: PlaceName, other: PlaceName): boolean {
  return (
    one.project === other.project &&
    one.zone === other.zone &&
    one.accelerator === other.accelerator &&
    one.pricing === other.pricing
  );
}

/** The newest of these answers of each of the job's places, by its number, as far as other jobs were given them. */
export function saidToOthers(job: Job, answers: readonly PlaceAnswered[]): readonly PlaceSaid[] {
  return Array.from({ length: placeCount(job.spec.capacity) }, (_, place) => place).flatMap((place) => {
    const capacity = capacityAt(job.spec.capacity, place);
    if (capacity.kind !== 'tpu') return [];
    const heard = answers.filter((one) => one.job !== job.id && isSamePlace(one, capacity));
    const [first, ...rest] = heard;
    if (first === undefined) return [];
    const newest = rest.reduce((best, one) => (one.at > best.at ? one : best), first);
    return [{ place, answer: newest.answer, at: newest.at }];
  });
}
