// Allocate: asking for capacity, at what pace, and letting it go.

import { chain, withEvents, unchanged, withAllocation, withAttempt } from '../model/decision.ts';
import type { Change, Action } from '../model/decision.ts';
import { allocationOf, wasNeverCreated, isUnconfirmed, isUnusable, lastAllocation } from '../model/job.ts';
import type {
  Allocation,
  Attempt,
  CloudError,
  CloudErrorKind,
  Job,
  CapacityAnswer,
  TriedAlternative,
} from '../model/job.ts';
import type { AllocationStatus, Observed } from '../model/observation.ts';
import { clamp, backoffDelay, earliest, hour, minute, second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import type { CapacitySpec, JobSpec } from '../model/spec.ts';

/** A look that misses something is believed when another, at least this much later, misses it too. */
export const confirmationDelay: Duration = 10 * second;
/** The same after a release that was confirmed: nothing is on its way in any more, so only a partial list can deceive. */
export const releaseConfirmationDelay: Duration = 3 * second;

const maxNodeNameLength = 63;

/**
 * The name by which the outside knows that allocation. An ephemeral node is called `<tpu.name>-<job id>-<allocation>`, cut in
 * its first part to 63 characters, so that no two allocations ever share a name; a persistent one keeps the name it has.
 */
export function nodeName(spec: JobSpec, jobId: string, allocation: number): string {
  const { capacity } = spec;
  if (capacity.kind === 'local') return 'this machine';
  if (capacity.ownership === 'persistent') return capacity.name;
  const suffix = `-${jobId}-${allocation}`;
  // Behind it Google writes the number of each slice of a multislice.
  const sliceSuffixLength = capacity.nodeCount === undefined ? 0 : `-${capacity.nodeCount - 1}`.length;
  return capacity.name.slice(0, maxNodeNameLength - suffix.length - sliceSuffixLength).replace(/-+$/, '') + suffix;
}

/** Everything that the rules need to know of a source of capacity: the one place in the core that looks at its kind. */
export interface CapacityTraits {
  /** The cloud may take it away at any moment. */
  readonly revocable: boolean;
  /** It can be let go and asked for anew. This machine cannot: a rule that wants a new one gets the same. */
  readonly replaceable: boolean;
  /** How often to look while the command runs, when nothing else calls for a look. */
  readonly checkInterval: Duration;
}

/** See CapacityTraits. A preemption must be acted on within 30 s; the end of a local program is told by its output's end. */
export function capacityTraits(capacity: CapacitySpec): CapacityTraits {
  switch (capacity.kind) {
    case 'local':
      return { revocable: false, replaceable: false, checkInterval: 3 * hour };
    case 'tpu':
      return { revocable: capacity.pricing !== 'ondemand', replaceable: true, checkInterval: 20 * second };
  }
}

// ------------------------------------------------------------------------------------------ pace

/** First wait and longest wait after an error of that class; no entry means that asking again is pointless. */
const retryDelays: Readonly<Partial<Record<CloudErrorKind, { readonly first: Duration; readonly most: Duration }>>> = {
  stockout: { first: 30 * second, most: 10 * minute },
  quota: { first: minute, most: 15 * minute },
  rate_limited: { first: 2 * second, most: minute },
  internal: { first: 5 * second, most: 2 * minute },
  unreachable: { first: 5 * second, most: 2 * minute },
};

/** How long a refusal that is called permanent keeps us from asking again, where we do (a release; a right that may be given). */
const permanentErrorDelay: Duration = 10 * minute;

/** True for errors after which the same request would get the same answer. */
export function isPermanent(kind: CloudErrorKind): boolean {
  return retryDelays[kind] === undefined;
}

/** True where the cloud never shows an unconfirmed allocation. Its request then brings the owner the cloud's own words. */
export function isUnobservable(observed: Observed<AllocationStatus>, allocation: Allocation): boolean {
  if (observed.kind === 'known' || observed.refused === undefined || !isPermanent(observed.refused)) return false;
  return allocation.ownership === 'ephemeral' && isUnconfirmed(allocation);
}

/** How long to wait after that many errors in a row: doubling, with a spread that differs by job and try. */
export function retryDelay(kind: CloudErrorKind, tries: number, ...seed: readonly (string | number)[]): Duration {
  const { first, most } = retryDelays[kind] ?? { first: permanentErrorDelay, most: permanentErrorDelay };
  return backoffDelay(first, most, tries, ...seed);
}

/** When the next request (after its release: release) of that allocation may be sent; the past when it never failed. */
export function nextCallAt(job: Job, allocation: Allocation): Instant {
  const { lastError, errorCount } = allocation;
  if (lastError === null) return 0;
  return lastError.at + retryDelay(lastError.error.kind, errorCount, job.id, allocation.ordinal);
}

/** When the owner's patience for the capacity of that attempt ends; undefined when it has no end. */
export function capacityWaitEnd(job: Job, attempt: Attempt): Instant | undefined {
  const { capacityWait } = job.spec.limits;
  return capacityWait === null ? undefined : attempt.createdAt + capacityWait;
}

/** The error that an allocation was lost with before it was ready; one of the cloud's own where nobody said. */
export function lossError({ lastError }: Allocation): CloudError {
  return lastError?.error ?? { kind: 'internal', message: 'it came to nothing', raw: '' };
}

/** The earlier allocations of that attempt, none of which became ready, in any alternative; oldest first. */
export function failedRequests(job: Job, attempt: Attempt): readonly Allocation[] {
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
export function retryRequest(job: Job, attempt: Attempt, now: Instant): Change {
  const failed = allocationOf(job, attempt.allocation);
  const error = lossError(failed);
  // The answers of other alternatives are no reason to be slower here.
  const alternative = failed.alternative ?? 0;
  const earlier = failedRequests(job, attempt).filter(
    (one) => (one.alternative ?? 0) === alternative && one.superseded === undefined,
  );
  const notBefore = now + retryDelay(error.kind, earlier.length + 1, job.id, failed.ordinal);
  return chain(
    withEvents(job, now, { kind: 'allocation_refused', allocation: failed.ordinal, error, nextAt: notBefore }),
    (next) => switchAllocation(next, attempt, { why: 'it came to nothing', notBefore, alternative }, now),
  );
}

/**
 * Another place for an attempt whose present one has nothing to give. What was refused in so many words is nowhere, and the
 * same allocation is asked for there: a job that goes round its places for weeks needs no more of them. Whatever may come of
 * a request that got no answer is let go first and another one asked for; what comes of it later still the sweep finds.
 */
export function tryNextAlternative(
  job: Job,
  attempt: Attempt,
  {
    answer,
    next,
  }: { readonly answer: CapacityAnswer; readonly next: { readonly alternative: number; readonly notBefore: Instant } },
  now: Instant,
): Change {
  const allocation = allocationOf(job, attempt.allocation);
  const { ordinal, alternative = 0 } = allocation;
  const noted = withAttempt(job, attempt.ordinal, {
    alternativesTried: alternativesTriedAfter(attempt, allocation, answer, now),
  });
  const event = {
    kind: 'alternative_exhausted',
    allocation: ordinal,
    alternative,
    answer,
    next: next.alternative,
  } as const;
  const target = { alternative: next.alternative, notBefore: Math.max(now, next.notBefore) };
  if (wasNeverCreated(allocation))
    return chain(withEvents(noted, now, event), (after) => requestAlternative(after, attempt, target, now));
  const left = withAllocation(noted, ordinal, { superseded: { at: now, answer } });
  return chain(withEvents(left, now, event), (after) =>
    switchAllocation(after, attempt, { why: 'its place has nothing', ...target }, now),
  );
}

/** The answers that the attempt has had from the alternatives, with the newest one of that allocation's. */
export function alternativesTriedAfter(
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

function requestAlternative(
  job: Job,
  { ordinal, allocation }: Attempt,
  { alternative, notBefore }: { readonly alternative: number; readonly notBefore: Instant },
  now: Instant,
): Change {
  const reset = { alternative, requestedAt: null, errorCount: 0, lastError: null, firstMissedAt: null };
  const moved = withAttempt(withAllocation(job, allocation, reset), ordinal, { notBefore, movedAt: now });
  return withEvents(moved, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBefore });
}

/** Nothing has been asked for yet: it may still be in another place. */
export function chooseAlternative(
  job: Job,
  { ordinal, allocation, notBefore }: Attempt,
  chosen: { readonly alternative: number; readonly notBefore: Instant },
  now: Instant,
): Change {
  const { alternative = 0 } = allocationOf(job, allocation);
  const changed = withAllocation(job, allocation, { alternative: chosen.alternative });
  const skipped = withEvents(changed, now, {
    kind: 'alternative_skipped',
    allocation,
    alternative,
    next: chosen.alternative,
  });
  if (chosen.notBefore <= notBefore) return skipped;
  return chain(skipped, (next) => {
    const delayed = withAttempt(next, ordinal, { notBefore: chosen.notBefore, movedAt: now });
    return withEvents(delayed, now, {
      kind: 'attempt_moved',
      attempt: ordinal,
      allocation,
      notBefore: chosen.notBefore,
    });
  });
}

/** Another allocation for the attempt in place of the one it has, which is let go; not asked for before that moment. */
export function switchAllocation(
  job: Job,
  { ordinal, allocation: last }: Attempt,
  { why, notBefore, alternative }: { readonly why: string; readonly notBefore: Instant; readonly alternative?: number },
  now: Instant,
): Change {
  return chain(
    release(job, last, why, now),
    (next) => addAllocation(next, now, alternative),
    (next) => {
      const allocation = next.allocations.length;
      const moved = withAttempt(next, ordinal, { allocation, notBefore, movedAt: now });
      return withEvents(moved, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBefore });
    },
  );
}

// ------------------------------------------------------------------------------------------ coming

/** An allocation of which nothing is known and for which nobody has asked yet. */
export function plannedAllocation(spec: JobSpec, id: Job['id'], ordinal: number): Allocation {
  return {
    lifecycle: 'planned',
    ordinal,
    ownership: spec.capacity.ownership,
    name: nodeName(spec, id, ordinal),
    requestedAt: null,
    confirmedAt: null,
    errorCount: 0,
    lastError: null,
    lastObserved: null,
    readyAt: null,
    workers: null,
    hosts: null,
    firstMissedAt: null,
    unreachableSince: null,
    unreachableWho: null,
    releasedAt: null,
    goneAt: null,
  };
}

/** The next allocation, recorded and not requested yet, in that place. A persistent one is taken up at once: it should exist. */
export function addAllocation(job: Job, now: Instant, alternative = 0): Change {
  const ordinal = job.allocations.length + 1;
  const { ownership } = job.spec.capacity;
  const allocation = {
    ...plannedAllocation(job.spec, job.id, ordinal),
    ...(alternative === 0 ? {} : { alternative }),
  };
  const added = unchanged({ ...job, allocations: [...job.allocations, allocation] });
  return ownership === 'persistent' ? chain(added, (next) => recordRequested(next, ordinal, now)) : added;
}

/** Whether the job may have it created: an ephemeral one always, a persistent one only as the second half of a re-apply. */
export function mayCreate(job: Job, allocation: Allocation): boolean {
  if (allocation.ownership === 'ephemeral') return true;
  const before = job.allocations[allocation.ordinal - 2];
  return before !== undefined && before.releasedAt !== null;
}

/** From this commit on it may exist outside. */
export function recordRequested(job: Job, ordinal: number, now: Instant): Change {
  const { requestedAt, name, ownership, alternative } = allocationOf(job, ordinal);
  if (requestedAt !== null) return unchanged(job);
  const next = withAllocation(job, ordinal, { requestedAt: now });
  return withEvents(next, now, {
    kind: 'allocation_requested',
    allocation: ordinal,
    name,
    ownership,
    ...(alternative === undefined ? {} : { alternative }),
  });
}

// ------------------------------------------------------------------------------------------ going

/** From this commit on nothing is started on it, and it is asked to go until two looks have missed it. */
export function release(job: Job, ordinal: number, why: string, now: Instant): Change {
  const allocation = allocationOf(job, ordinal);
  if (['planned', 'releasing', 'gone'].includes(allocation.lifecycle)) return unchanged(job);
  if (wasNeverCreated(allocation)) return recordGone(job, ordinal, now);
  const next = withAllocation(job, ordinal, {
    releasedAt: now,
    // The answers so far were to the request. From here they are to the release.
    confirmedAt: null,
    errorCount: 0,
    lastError: null,
    unreachableSince: null,
    unreachableWho: null,
  });
  return withEvents(next, now, { kind: 'allocation_released', allocation: ordinal, why });
}

/** Its capacity is gone: by our release, by itself, or because it never came to be. */
export function recordGone(job: Job, ordinal: number, now: Instant): Change {
  const next = withAllocation(job, ordinal, {
    goneAt: now,
    firstMissedAt: null,
    unreachableSince: null,
    unreachableWho: null,
  });
  return withEvents(next, now, { kind: 'allocation_gone', allocation: ordinal });
}

export function releasingAllocations(job: Job): readonly Allocation[] {
  return job.allocations.filter(({ lifecycle }) => lifecycle === 'releasing');
}

/** A deletion that was accepted while the thing was being made can fail silently; it is asked again after this long. */
const releaseAgainAfter: Duration = 30 * second;
/** A deletion that is under way may take this long (a forced one was seen to take 13 minutes) before it is asked again. */
const maxReleaseTime: Duration = 15 * minute;

/** The releases that are due, in whatever situation the job is. */
export function releasesDue(
  job: Job,
  observationOf: (ordinal: number) => Observed<AllocationStatus>,
  now: Instant,
): { readonly actions: readonly Action[]; readonly wakeAt: Instant | undefined } {
  const actions: Action[] = [];
  let wakeAt: Instant | undefined;
  for (const allocation of releasingAllocations(job)) {
    const dueAt = releaseDueAt(job, allocation, observationOf(allocation.ordinal));
    if (dueAt !== undefined && dueAt <= now) actions.push({ kind: 'release', allocation: allocation.ordinal });
    const nextCheck = now + clamp(5 * second, (now - (allocation.releasedAt ?? now)) / 4, 30 * second);
    // When that has passed and it is still here, this pass's look could not tell: the next one comes at its own pace.
    const confirmableAt = allocation.firstMissedAt === null ? 0 : allocation.firstMissedAt + releaseConfirmationDelay;
    wakeAt = earliest(
      wakeAt,
      nextCheck,
      confirmableAt > now ? confirmableAt : undefined,
      dueAt !== undefined && dueAt > now ? dueAt : undefined,
    );
  }
  return { actions, wakeAt };
}

function releaseDueAt(job: Job, allocation: Allocation, observed: Observed<AllocationStatus>): Instant | undefined {
  const { confirmedAt } = allocation;
  // Nobody has confirmed it yet: the reply may be lost, or the process was killed between commit and act.
  if (confirmedAt === null) return nextCallAt(job, allocation);
  if (observed.kind === 'unknown') return undefined;
  if (observed.value.state === 'absent' || observed.value.state === 'foreign') return undefined;
  if (observed.value.state === 'releasing') return confirmedAt + maxReleaseTime;
  // An allocation that has shown another state since has let the deletion fall: a queued resource refuses it while it
  // is being suspended. It is asked again at once.
  const changedAt = allocation.lastObserved?.at ?? confirmedAt;
  return changedAt > confirmedAt ? changedAt : confirmedAt + releaseAgainAfter;
}

// ------------------------------------------------------------------------------------------ use

/** The allocation that a new attempt can go on with: the newest, unless it is on its way out or known to be unusable. */
export function usableAllocation(job: Job): Allocation | undefined {
  const allocation = lastAllocation(job);
  return allocation === undefined || ['lost', 'releasing', 'gone'].includes(allocation.lifecycle)
    ? undefined
    : allocation;
}

/** Will never be usable again, by what was last seen of it: lost, being deleted by somebody else, or missed twice. */
export function isLost({ lifecycle, lastObserved }: Allocation): boolean {
  return lifecycle === 'gone' || (lastObserved !== null && isUnusable(lastObserved.state));
}
