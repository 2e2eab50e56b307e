// Allocate: asking for capacity, at what pace, and letting it go.

import { chain, told, unchanged, withAllocation, withAttempt } from './decision.ts';
import type { Change, Action } from './decision.ts';
import { allocationOf, isNowhere, isUnconfirmed, isUnusable, lastAllocation } from './job.ts';
import type { Allocation, Attempt, CloudError, CloudErrorKind, Job, PlaceAnswer, PlacePassed } from './job.ts';
import type { AllocationSeen, Fact } from './observation.ts';
import { between, doubling, earliest, hour, minute, second } from './time.ts';
import type { Duration, Instant } from './time.ts';
import type { CapacitySpec, JobSpec } from './spec.ts';

/** A look that misses something is believed when another, at least this much later, misses it too. */
export const secondLookAfter: Duration = 10 * second;
/** The same after a release that was confirmed: nothing is on its way in any more, so only a partial list can deceive. */
export const goneLookAfter: Duration = 3 * second;

const nameLongest = 63;

/**
 * The name by which the outside knows that allocation. An owned node is called `<tpu.name>-<job id>-<allocation>`, cut in
 * its first part to 63 characters, so that no two allocations ever share a name; a standing one keeps the name it has.
 */
export function nodeName(spec: JobSpec, jobId: string, allocation: number): string {
  const { capacity } = spec;
  if (capacity.kind === 'local') return 'this machine';
  if (capacity.ownership === 'standing') return capacity.name;
  const ending = `-${jobId}-${allocation}`;
  // Behind it Google writes the number of each slice of a multislice.
  const numbers = capacity.nodeCount === undefined ? 0 : `-${capacity.nodeCount - 1}`.length;
  return capacity.name.slice(0, nameLongest - ending.length - numbers).replace(/-+$/, '') + ending;
}

/** Everything that the rules need to know of a source of capacity: the one place in the core that looks at its kind. */
export interface CapacityTraits {
  /** The cloud may take it away at any moment. */
  readonly revocable: boolean;
  /** It can be let go and asked for anew. This machine cannot: a rule that wants a new one gets the same. */
  readonly replaceable: boolean;
  /** How often to look while the command runs, when nothing else calls for a look. */
  readonly watchEvery: Duration;
}

/** See CapacityTraits. A preemption must be acted on within 30 s; the end of a local program is told by its output's end. */
export function capacityTraits(capacity: CapacitySpec): CapacityTraits {
  switch (capacity.kind) {
    case 'local':
      return { revocable: false, replaceable: false, watchEvery: 3 * hour };
    case 'tpu':
      return { revocable: capacity.pricing !== 'ondemand', replaceable: true, watchEvery: 20 * second };
  }
}

// ------------------------------------------------------------------------------------------ pace

/** First wait and longest wait after an error of that class; no entry means that asking again is pointless. */
const paces: Readonly<Partial<Record<CloudErrorKind, { readonly first: Duration; readonly most: Duration }>>> = {
  stockout: { first: 30 * second, most: 10 * minute },
  quota: { first: minute, most: 15 * minute },
  rate_limited: { first: 2 * second, most: minute },
  internal: { first: 5 * second, most: 2 * minute },
  unreachable: { first: 5 * second, most: 2 * minute },
};

/** How long a refusal that is called permanent keeps us from asking again, where we do (a release; a right that may be given). */
const permanentPace: Duration = 10 * minute;

/** True for errors after which the same request would get the same answer. */
export function isPermanent(kind: CloudErrorKind): boolean {
  return paces[kind] === undefined;
}

/** True where the cloud never shows an unconfirmed allocation. Its request then brings the owner the cloud's own words. */
export function isHiddenForGood(look: Fact<AllocationSeen>, allocation: Allocation): boolean {
  if (look.kind === 'known' || look.refused === undefined || !isPermanent(look.refused)) return false;
  return allocation.ownership === 'owned' && isUnconfirmed(allocation);
}

/** How long to wait after that many errors in a row: doubling, with a spread that differs by job and try. */
export function pace(kind: CloudErrorKind, tries: number, ...seed: readonly (string | number)[]): Duration {
  const { first, most } = paces[kind] ?? { first: permanentPace, most: permanentPace };
  return doubling(first, most, tries, ...seed);
}

/** When the next request (after its release: release) of that allocation may be sent; the past when it never failed. */
export function nextTryAt(job: Job, allocation: Allocation): Instant {
  const { lastFailure, requestFailures } = allocation;
  if (lastFailure === null) return 0;
  return lastFailure.at + pace(lastFailure.error.kind, requestFailures, job.id, allocation.ordinal);
}

/** When the owner's patience for the capacity of that attempt ends; undefined when it has no end. */
export function capacityWaitEnd(job: Job, attempt: Attempt): Instant | undefined {
  const { capacityWait } = job.spec.limits;
  return capacityWait === null ? undefined : attempt.createdAt + capacityWait;
}

/** The error that an allocation was lost with before it was ready; one of the cloud's own where nobody said. */
export function lossError({ lastFailure }: Allocation): CloudError {
  return lastFailure?.error ?? { kind: 'internal', message: 'it came to nothing', raw: '' };
}

/** The earlier allocations of that attempt, none of which became ready, in any alternative; oldest first. */
export function inVain(job: Job, attempt: Attempt): readonly Allocation[] {
  return job.allocations.filter(
    ({ ordinal, readyAt, requestedAt }) =>
      ordinal < attempt.allocation && readyAt === null && requestedAt !== null && requestedAt >= attempt.createdAt,
  );
}

/**
 * Another allocation for an attempt of which the last came to nothing, at the pace of its error. It is still the same
 * attempt: those count tries at the command, and nothing was tried. Waits are counted per attempt too, so the owner's word,
 * which makes a new one, is a new chance.
 */
export function askAnew(job: Job, attempt: Attempt, now: Instant): Change {
  const failed = allocationOf(job, attempt.allocation);
  const error = lossError(failed);
  // The answers of other alternatives are no reason to be slower here.
  const place = failed.place ?? 0;
  const here = inVain(job, attempt).filter((one) => (one.place ?? 0) === place && one.passedOver === undefined);
  const notBefore = now + pace(error.kind, here.length + 1, job.id, failed.ordinal);
  return chain(
    told(job, now, { kind: 'allocation_refused', allocation: failed.ordinal, error, nextAt: notBefore }),
    (next) => moveOn(next, attempt, { why: 'it came to nothing', notBefore, place }, now),
  );
}

/**
 * Another place for an attempt whose present one has nothing to give. What was refused in so many words is nowhere, and the
 * same allocation is asked for there: a job that goes round its places for weeks needs no more of them. Whatever may come of
 * a request that got no answer is let go first and another one asked for; what comes of it later still the sweep finds.
 */
export function passOver(
  job: Job,
  attempt: Attempt,
  {
    answer,
    turn,
  }: { readonly answer: PlaceAnswer; readonly turn: { readonly place: number; readonly notBefore: Instant } },
  now: Instant,
): Change {
  const allocation = allocationOf(job, attempt.allocation);
  const { ordinal, place = 0 } = allocation;
  const noted = withAttempt(job, attempt.ordinal, { placesPassed: withPassed(attempt, allocation, answer, now) });
  const event = { kind: 'place_passed_over', allocation: ordinal, place, answer, next: turn.place } as const;
  const next = { place: turn.place, notBefore: Math.max(now, turn.notBefore) };
  if (isNowhere(allocation)) return chain(told(noted, now, event), (after) => askElsewhere(after, attempt, next, now));
  const left = withAllocation(noted, ordinal, { passedOver: { at: now, answer } });
  return chain(told(left, now, event), (after) =>
    moveOn(after, attempt, { why: 'its place has nothing', ...next }, now),
  );
}

/** The answers that the attempt has had from the alternatives, with the newest one of that allocation's. */
export function withPassed(
  { placesPassed = [] }: Attempt,
  { place = 0, lastFailure }: Allocation,
  answer: PlaceAnswer,
  at: Instant,
): readonly PlacePassed[] {
  const before = placesPassed.find((one) => one.place === place);
  const error = lastFailure?.error.kind === answer ? { error: lastFailure.error } : {};
  const passed = { place, asks: (before?.asks ?? 0) + 1, answer, at, ...error };
  return [...placesPassed.filter((one) => one !== before), passed];
}

function askElsewhere(
  job: Job,
  { ordinal, allocation }: Attempt,
  { place, notBefore }: { readonly place: number; readonly notBefore: Instant },
  now: Instant,
): Change {
  const anew = { place, requestedAt: null, requestFailures: 0, lastFailure: null, missedAt: null };
  const moved = withAttempt(withAllocation(job, allocation, anew), ordinal, { notBefore, movedAt: now });
  return told(moved, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBefore });
}

/** Nothing has been asked for yet: it may still be in another place. */
export function takePlace(
  job: Job,
  { ordinal, allocation, notBefore }: Attempt,
  turn: { readonly place: number; readonly notBefore: Instant },
  now: Instant,
): Change {
  const { place = 0 } = allocationOf(job, allocation);
  const there = withAllocation(job, allocation, { place: turn.place });
  const skipped = told(there, now, { kind: 'place_skipped', allocation, place, next: turn.place });
  if (turn.notBefore <= notBefore) return skipped;
  return chain(skipped, (next) => {
    const later = withAttempt(next, ordinal, { notBefore: turn.notBefore, movedAt: now });
    return told(later, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBefore: turn.notBefore });
  });
}

/** Another allocation for the attempt in place of the one it has, which is let go; not asked for before that moment. */
export function moveOn(
  job: Job,
  { ordinal, allocation: last }: Attempt,
  { why, notBefore, place }: { readonly why: string; readonly notBefore: Instant; readonly place?: number },
  now: Instant,
): Change {
  return chain(
    release(job, last, why, now),
    (next) => addAllocation(next, now, place),
    (next) => {
      const allocation = next.allocations.length;
      const moved = withAttempt(next, ordinal, { allocation, notBefore, movedAt: now });
      return told(moved, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBefore });
    },
  );
}

// ------------------------------------------------------------------------------------------ coming

/** An allocation of which nothing is known and for which nobody has asked yet. */
export function unasked(spec: JobSpec, id: Job['id'], ordinal: number): Allocation {
  return {
    life: 'planned',
    ordinal,
    ownership: spec.capacity.ownership,
    name: nodeName(spec, id, ordinal),
    requestedAt: null,
    acceptedAt: null,
    requestFailures: 0,
    lastFailure: null,
    seen: null,
    readyAt: null,
    workers: null,
    hosts: null,
    missedAt: null,
    silentSince: null,
    silentWho: null,
    releasedAt: null,
    goneAt: null,
  };
}

/** The next allocation, recorded and not requested yet, in that place. A standing one is taken up at once: it should exist. */
export function addAllocation(job: Job, now: Instant, place = 0): Change {
  const ordinal = job.allocations.length + 1;
  const { ownership } = job.spec.capacity;
  const allocation = { ...unasked(job.spec, job.id, ordinal), ...(place === 0 ? {} : { place }) };
  const added = unchanged({ ...job, allocations: [...job.allocations, allocation] });
  return ownership === 'standing' ? chain(added, (next) => markRequested(next, ordinal, now)) : added;
}

/** Whether the job may have it created: an owned one always, a standing one only as the second half of a re-apply. */
export function mayRequest(job: Job, allocation: Allocation): boolean {
  if (allocation.ownership === 'owned') return true;
  const before = job.allocations[allocation.ordinal - 2];
  return before !== undefined && before.releasedAt !== null;
}

/** From this commit on it may exist outside. */
export function markRequested(job: Job, ordinal: number, now: Instant): Change {
  const { requestedAt, name, ownership, place } = allocationOf(job, ordinal);
  if (requestedAt !== null) return unchanged(job);
  const next = withAllocation(job, ordinal, { requestedAt: now });
  return told(next, now, {
    kind: 'allocation_requested',
    allocation: ordinal,
    name,
    ownership,
    ...(place === undefined ? {} : { place }),
  });
}

// ------------------------------------------------------------------------------------------ going

/** From this commit on nothing is started on it, and it is asked to go until two looks have missed it. */
export function release(job: Job, ordinal: number, why: string, now: Instant): Change {
  const allocation = allocationOf(job, ordinal);
  if (['planned', 'releasing', 'gone'].includes(allocation.life)) return unchanged(job);
  if (isNowhere(allocation)) return markGone(job, ordinal, now);
  const next = withAllocation(job, ordinal, {
    releasedAt: now,
    // The answers so far were to the request. From here they are to the release.
    acceptedAt: null,
    requestFailures: 0,
    lastFailure: null,
    silentSince: null,
    silentWho: null,
  });
  return told(next, now, { kind: 'allocation_released', allocation: ordinal, why });
}

/** Its capacity is gone: by our release, by itself, or because it never came to be. */
export function markGone(job: Job, ordinal: number, now: Instant): Change {
  const next = withAllocation(job, ordinal, { goneAt: now, missedAt: null, silentSince: null, silentWho: null });
  return told(next, now, { kind: 'allocation_gone', allocation: ordinal });
}

export function leaving(job: Job): readonly Allocation[] {
  return job.allocations.filter(({ life }) => life === 'releasing');
}

/** A deletion that was accepted while the thing was being made can fail silently; it is asked again after this long. */
const releaseAgainAfter: Duration = 30 * second;
/** A deletion that is under way may take this long (a forced one was seen to take 13 minutes) before it is asked again. */
const releasingLongest: Duration = 15 * minute;

/** The releases that are due, in whatever situation the job is. */
export function releasesDue(
  job: Job,
  lookOf: (ordinal: number) => Fact<AllocationSeen>,
  now: Instant,
): { readonly actions: readonly Action[]; readonly wakeAt: Instant | undefined } {
  const actions: Action[] = [];
  let wakeAt: Instant | undefined;
  for (const allocation of leaving(job)) {
    const dueAt = releaseDueAt(job, allocation, lookOf(allocation.ordinal));
    if (dueAt !== undefined && dueAt <= now) actions.push({ kind: 'release', allocation: allocation.ordinal });
    const lookAgain = now + between(5 * second, (now - (allocation.releasedAt ?? now)) / 4, 30 * second);
    // When that has passed and it is still here, this pass's look could not tell: the next one comes at its own pace.
    const believed = allocation.missedAt === null ? 0 : allocation.missedAt + goneLookAfter;
    wakeAt = earliest(
      wakeAt,
      lookAgain,
      believed > now ? believed : undefined,
      dueAt !== undefined && dueAt > now ? dueAt : undefined,
    );
  }
  return { actions, wakeAt };
}

function releaseDueAt(job: Job, allocation: Allocation, look: Fact<AllocationSeen>): Instant | undefined {
  const { acceptedAt } = allocation;
  // Nobody has confirmed it yet: the reply may be lost, or the process was killed between commit and act.
  if (acceptedAt === null) return nextTryAt(job, allocation);
  if (look.kind === 'unknown') return undefined;
  if (look.value.state === 'absent' || look.value.state === 'foreign') return undefined;
  if (look.value.state === 'releasing') return acceptedAt + releasingLongest;
  // An allocation that has shown another state since has let the deletion fall: a queued resource refuses it while it
  // is being suspended. It is asked again at once.
  const changedAt = allocation.seen?.at ?? acceptedAt;
  return changedAt > acceptedAt ? changedAt : acceptedAt + releaseAgainAfter;
}

// ------------------------------------------------------------------------------------------ use

/** The allocation that a new attempt can go on with: the newest, unless it is on its way out or known to be unusable. */
export function usableAllocation(job: Job): Allocation | undefined {
  const allocation = lastAllocation(job);
  return allocation === undefined || ['lost', 'releasing', 'gone'].includes(allocation.life) ? undefined : allocation;
}

/** Will never be usable again, by what was last seen of it: lost, being deleted by somebody else, or missed twice. */
export function isLost({ life, seen }: Allocation): boolean {
  return life === 'gone' || (seen !== null && isUnusable(seen.state));
}
