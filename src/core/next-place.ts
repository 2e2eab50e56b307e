// Next place: which of a spec's places is asked, and when. Typed errors decide. A place without capacity or quota, or one that
// lets a request wait for too long, is passed over for the next at once; after a full round each waits for its own pace. A
// place that refuses the request for good is out until the next attempt.
//
// All of it is worked out from the record: each allocation of the attempt says which place it was in and what that answered.

import { isPermanent, pace } from './allocate.ts';
import { allocationOf } from './job.ts';
import type { Allocation, Attempt, CloudErrorKind, Job, PlaceAnswer } from './job.ts';
import type { Fact, PlaceSaid } from './observation.ts';
import { placeCount } from './place.ts';
import { planted } from './plant.ts';
import { avoidedPlaces } from './recover.ts';
import { minute } from './time.ts';
import type { Duration, Instant } from './time.ts';

/** A place, and the moment before which it may not be asked; in the past when it may be at once. */
export interface Turn {
  readonly place: number;
  readonly notBefore: Instant;
}

/** What one attempt has had from one place so far. */
interface Standing {
  readonly place: number;
  /** How often it was asked and had nothing. */
  readonly asks: number;
  readonly last: { readonly at: Instant; readonly answer: PlaceAnswer } | undefined;
  /** It has refused the request itself: asking again would get the same answer. */
  readonly isOut: boolean;
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
 * Whose turn it is: of the places that are not out those asked least, of these the one that may be asked first, of several
 * the one named first. One that has told another job a moment ago that it has nothing comes after those that have not; it is
 * asked all the same when it is the last. Undefined when every place is out. A zone that a rule has turned from has no turn.
 */
export function nextTurn(
  job: Job,
  attempt: Attempt,
  said: Fact<readonly PlaceSaid[]> | undefined,
  now: Instant,
): Turn | undefined {
  const avoided = avoidedPlaces(job, attempt);
  const left = standings(job, attempt).filter(({ isOut, place }) => !isOut && !avoided.has(place));
  const fewest = Math.min(...left.map(({ asks }) => asks));
  const turns = left
    .filter(({ asks }) => asks === fewest || planted('place-without-pace'))
    .map((standing) => ({
      place: standing.place,
      notBefore: planted('place-without-pace') ? now : mayAskAt(job, attempt, standing),
      hearsay: hearsay(said, standing.place, now),
    }));
  const [first] = turns.toSorted(
    (one, other) =>
      Math.max(one.notBefore, one.hearsay) - Math.max(other.notBefore, other.hearsay) || one.place - other.place,
  );
  return first === undefined ? undefined : { place: first.place, notBefore: first.notBefore };
}

/** What the attempt's present allocation would leave its place for, were it passed over with that answer. */
export function turnAfter(
  job: Job,
  attempt: Attempt,
  answer: PlaceAnswer,
  said: Fact<readonly PlaceSaid[]> | undefined,
  now: Instant,
): Turn | undefined {
  const { ordinal } = allocationOf(job, attempt.allocation);
  const allocations = job.allocations.map((one) =>
    one.ordinal === ordinal ? { ...one, passedOver: { at: now, answer } } : one,
  );
  return nextTurn({ ...job, allocations }, attempt, said, now);
}

/** What the attempt's earlier allocations, and the present one once it is passed over, say of each place. */
function standings(job: Job, attempt: Attempt): readonly Standing[] {
  const asked = askedFor(job, attempt);
  return Array.from({ length: placeCount(job.spec.capacity) }, (_, place) => {
    const passed = asked.flatMap((one) =>
      (one.place ?? 0) === place && one.passedOver !== undefined ? [one.passedOver] : [],
    );
    const isOut = passed.some(({ answer }) => answer !== 'waiting' && isPermanent(answer));
    return { place, asks: passed.length, last: passed.at(-1), isOut };
  });
}

function askedFor(job: Job, attempt: Attempt): readonly Allocation[] {
  return job.allocations.filter(
    ({ ordinal, requestedAt }) =>
      ordinal <= attempt.allocation && requestedAt !== null && requestedAt >= attempt.createdAt,
  );
}

/** A queue that was long is no error, and may be joined again when its turn comes; the others have their pace. */
function mayAskAt(job: Job, attempt: Attempt, { place, asks, last }: Standing): Instant {
  if (last === undefined || last.answer === 'waiting') return last?.at ?? 0;
  return last.at + pace(last.answer, asks, job.id, attempt.ordinal, place);
}

/** Until when another job's word speaks against that place; 0 when none does. */
function hearsay(said: Fact<readonly PlaceSaid[]> | undefined, place: number, now: Instant): Instant {
  if (said?.kind !== 'known') return 0;
  const found = said.value.find((one) => one.place === place);
  if (found === undefined || (found.answer !== 'stockout' && found.answer !== 'quota')) return 0;
  const until = found.at + hearsayHolds;
  // What lies ahead was written by a clock that has been set back since.
  return until > now && found.at <= now ? until : 0;
}
