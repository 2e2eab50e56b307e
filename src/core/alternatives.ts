// Alternatives: which place of a spec is asked next, and when. Typed errors decide. A place without capacity or quota, or one
// that lets a request wait for too long, is passed over for the next at once; after a full round each waits for its own pace.
// A place where we lack a permission does not hold up the others and is asked again now and then, because permissions get
// granted; a place that rejects the request itself is skipped until the next attempt. The job ends when every place is closed
// in one of these two ways.
//
// All of it is worked out from the record: the attempt says what each place has answered to it.

import { isPermanent, pace, withPassed } from './allocate.ts';
import { allocationOf, capacityOf } from './job.ts';
import type { Attempt, CloudErrorKind, Job, PlaceAnswer } from './job.ts';
import type { Fact, PlaceSaid } from './observation.ts';
import { placeCount, capacityAt } from './spec.ts';
import type { TpuSpec } from './spec.ts';
import { avoidedPlaces } from './recover.ts';
import { minute } from './time.ts';
import type { Duration, Instant } from './time.ts';
import type { Event } from './decision.ts';

/** A place, and the moment before which it may not be asked; in the past when it may be at once. */
export interface Turn {
  readonly place: number;
  readonly notBefore: Instant;
}

interface Standing {
  readonly place: number;
  /** How often it was asked and had nothing. */
  readonly asks: number;
  readonly answer: PlaceAnswer | undefined;
  /** When that came; long ago where it was not asked. */
  readonly at: Instant;
}

/** For so long another job's word that a place has nothing is taken for one's own. */
const hearsayHolds: Duration = 5 * minute;

/** True when the spec names more than one place. */
export function hasPlaces(job: Job): boolean {
  return placeCount(job.spec.capacity) > 1;
}

/** True for answers after which another place is tried at once: this one has nothing to give, now or ever. */
export function sendsElsewhere(answer: CloudErrorKind): boolean {
  return answer === 'stockout' || answer === 'quota' || isPermanent(answer);
}

/**
 * The place that is asked next: of those that are open those asked least, beside them any that lack a right; of these the one that
 * may be asked first, of several the one named first. One that has told another job a moment ago that it has nothing comes
 * after those that have not; it is asked all the same when it is the last. Undefined when no place is open. A zone that a
 * rule has turned from has no turn.
 */
export function nextTurn(
  job: Job,
  attempt: Attempt,
  said: Fact<readonly PlaceSaid[]> | undefined,
  now: Instant,
): Turn | undefined {
  const avoided = avoidedPlaces(job, attempt);
  return firstOf(
    job,
    attempt,
    standings(job, attempt).filter(({ place }) => !avoided.has(place)),
    said,
    now,
  );
}

function firstOf(
  job: Job,
  attempt: Attempt,
  left: readonly Standing[],
  said: Fact<readonly PlaceSaid[]> | undefined,
  now: Instant,
): Turn | undefined {
  const open = left.filter(({ answer }) => answer === undefined || answer === 'waiting' || !isPermanent(answer));
  if (open.length === 0) return undefined;
  const fewest = Math.min(...open.map(({ asks }) => asks));
  const inTurn = open.filter(({ asks }) => asks === fewest);
  const barred = left.filter(({ answer }) => answer === 'permission');
  const turns = [...inTurn, ...barred].map((standing) => ({
    place: standing.place,
    notBefore: mayAskAt(job, attempt, standing),
    hearsay: hearsay(said, standing.place, now),
  }));
  const [first] = turns.toSorted(
    (one, other) =>
      Math.max(one.notBefore, one.hearsay) - Math.max(other.notBefore, other.hearsay) || one.place - other.place,
  );
  return first === undefined ? undefined : { place: first.place, notBefore: first.notBefore };
}

/** The place after the present one passed with that answer. A queue is left only for a place that may give something. */
export function turnAfter(
  job: Job,
  attempt: Attempt,
  answer: PlaceAnswer,
  said: Fact<readonly PlaceSaid[]> | undefined,
  now: Instant,
): Turn | undefined {
  const allocation = allocationOf(job, attempt.allocation);
  const after = { ...attempt, placesPassed: withPassed(attempt, allocation, answer, now) };
  if (answer !== 'waiting') return nextTurn(job, after, said, now);
  const avoided = avoidedPlaces(job, attempt);
  const others = standings(job, after).filter(
    (one) => one.place !== (allocation.place ?? 0) && one.answer !== 'permission' && !avoided.has(one.place),
  );
  return firstOf(job, after, others, said, now);
}

function standings(job: Job, { placesPassed = [] }: Attempt): readonly Standing[] {
  return Array.from({ length: placeCount(job.spec.capacity) }, (_, place) => {
    const passed = placesPassed.find((one) => one.place === place);
    return { place, asks: passed?.asks ?? 0, answer: passed?.answer, at: passed?.at ?? 0 };
  });
}

/** A queue that was long is no error, and may be joined again when its turn comes; the others have their pace. */
function mayAskAt(job: Job, attempt: Attempt, { place, asks, answer, at }: Standing): Instant {
  if (answer === undefined || answer === 'waiting') return at;
  return at + pace(answer, asks, job.id, attempt.ordinal, place);
}

function hearsay(said: Fact<readonly PlaceSaid[]> | undefined, place: number, now: Instant): Instant {
  if (said?.kind !== 'known') return 0;
  const found = said.value.find((one) => one.place === place);
  if (found === undefined || (found.answer !== 'stockout' && found.answer !== 'quota')) return 0;
  const until = found.at + hearsayHolds;
  // A time ahead was written by a clock that has been set back since.
  return until > now && found.at <= now ? until : 0;
}

// ------------------------------------------------------------------------------------------ answers for other jobs
//
// What the places of a cloud have answered to any job: the next one need not find out what another was just told.

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

export function placeName({ project, zone, accelerator, pricing }: TpuSpec): PlaceName {
  return { project, zone, accelerator, pricing };
}

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
