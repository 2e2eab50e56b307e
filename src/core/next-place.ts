// Next place: which of a spec's places is asked, and when. Typed errors decide. A place without capacity or quota, or one that
// lets a request wait for too long, is passed over for the next at once; after a full round each waits for its own pace. A
// place where a right is missing holds up no other and is asked again now and then, since rights are given; one that refuses
// the request itself is out until the next attempt. The job ends when every place is closed in one of these two ways.
//
// All of it is worked out from the record: the attempt says what each place has answered to it.

import { isPermanent, pace, withPassed } from './allocate.ts';
import { allocationOf } from './job.ts';
import type { Attempt, CloudErrorKind, Job, PlaceAnswer } from './job.ts';
import type { Fact, PlaceSaid } from './observation.ts';
import { placeCount } from './place.ts';
import { avoidedPlaces } from './recover.ts';
import { minute } from './time.ts';
import type { Duration, Instant } from './time.ts';

/** A place, and the moment before which it may not be asked; in the past when it may be at once. */
export interface Turn {
  readonly place: number;
  readonly notBefore: Instant;
}

/** The answers of one place to one attempt so far. */
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

/** Until when another job's word speaks against that place; 0 when none does. */
function hearsay(said: Fact<readonly PlaceSaid[]> | undefined, place: number, now: Instant): Instant {
  if (said?.kind !== 'known') return 0;
  const found = said.value.find((one) => one.place === place);
  if (found === undefined || (found.answer !== 'stockout' && found.answer !== 'quota')) return 0;
  const until = found.at + hearsayHolds;
  // A time ahead was written by a clock that has been set back since.
  return until > now && found.at <= now ? until : 0;
}
