// Allocate: names, requests, replaces and releases capacity, and sets the pace of the requests.

import { chain, withEvents, withoutEvents, withAllocation, withAttempt } from '../model/decision.ts';
import type { Change, Action } from '../model/decision.ts';
import { allocationOf, lastAllocation, openAttempt, wasNeverCreated, isUnconfirmed } from '../model/job.ts';
import type { Allocation, Attempt, CloudError, CloudErrorKind, Evidence, Job, Slot } from '../model/job.ts';
import type { AllocationStatus, Observation, Observed } from '../model/observation.ts';
import { clamp, backoffDelay, earliest, hour, minute, second, type Duration, type Instant } from '../model/time.ts';
import { foldSlices, readyPeriodsOf } from '../model/ready-periods.ts';
import { formatHosts, isOnThisMachine, operationOf, type CapacitySpec, type JobSpec } from '../model/spec.ts';
import { firstCheckDelay, observedAllocation } from './view.ts';

/** An allocation counts as absent once two observations, at least this long apart, have missed it. */
export const confirmationDelay: Duration = 10 * second;
/** The shorter delay after an accepted release. The allocation cannot appear any more; only a partial list can be wrong. */
export const releaseConfirmationDelay: Duration = 3 * second;

const maxNodeNameLength = 63;

/** Ephemeral: `<tpu.name>-<job id>-<allocation>`, unique and at most 63 characters. Only the first part is ever cut. */
export function nodeName(spec: JobSpec, jobId: string, allocation: number): string {
  const { capacity } = spec;
  if (capacity.kind === 'hosts') return formatHosts(capacity.hosts);
  if (capacity.ownership === 'persistent') return capacity.name;
  const suffix = `-${jobId}-${allocation}`;
  // Google appends the number of the slice in a multislice.
  const sliceSuffixLength = capacity.nodeCount === undefined ? 0 : `-${capacity.nodeCount - 1}`.length;
  return capacity.name.slice(0, maxNodeNameLength - suffix.length - sliceSuffixLength).replace(/-+$/, '') + suffix;
}

/** The differences between kinds of capacity. No other code of the core tests the kind for one of these. */
interface CapacityTraits {
  /** The cloud may take it away. */
  readonly revocable: boolean;
  /** It can be released and requested again. On a host a rule with `new` gets the same capacity. */
  readonly replaceable: boolean;
  /**
   * A worker that stays silent is given up in the end, and its program counts as ended. False on hosts: the next job would
   * get the GPUs of a program that may still run. Their slots stay held until they answer.
   */
  readonly givenUpWhenSilent: boolean;
  /** Longest time between two checks while the command runs. */
  readonly checkInterval: Duration;
  /** The controller also watches the capacity between two checks. */
  readonly needsWatch: boolean;
  /** The number of a job's slot decides which GPUs it gets, so the allocation records it. */
  readonly slotsAreNumbered: boolean;
  /** The pools of which a job needs a unit each; none for capacity with a queue of its own. A host's pool has its name. */
  readonly pools: readonly string[];
}

/**
 * The name of a persistent TPU, which one job uses at a time: `projects/lab/locations/us-west4-a/nodes/lab-v4`. Null for
 * other capacity. An operation without a command has a name of its own: it does not wait for the job that uses the TPU,
 * only for another operation.
 */
export function persistentTpuOf(capacity: CapacitySpec): string | null {
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent') return null;
  const name = `projects/${capacity.project}/locations/${capacity.zone}/nodes/${capacity.name}`;
  return capacity.operation === undefined || capacity.operation.withCommand === true ? name : `${name}#operation`;
}

/**
 * The differences between the kinds of capacity that rules need. A check may be late, because the end of a program, of
 * the connection for its output, or of its capacity wakes the controller earlier.
 */
export function capacityTraits(capacity: CapacitySpec): CapacityTraits {
  switch (capacity.kind) {
    case 'hosts': {
      const checkInterval = isOnThisMachine({ capacity }) ? 3 * hour : minute;
      const never = { revocable: false, replaceable: false, givenUpWhenSilent: false, needsWatch: false };
      return { ...never, checkInterval, slotsAreNumbered: true, pools: capacity.hosts };
    }
    case 'tpu': {
      const tpu = persistentTpuOf(capacity);
      return {
        revocable: capacity.pricing !== 'ondemand',
        replaceable: true,
        givenUpWhenSilent: true,
        checkInterval: minute,
        needsWatch: true,
        slotsAreNumbered: false,
        pools: tpu === null ? [] : [tpu],
      };
    }
  }
}

// ------------------------------------------------------------------------------------------ pace

/** First and longest delay after an error of that kind. An error without an entry is permanent: it would come again. */
const retryDelays: Readonly<Partial<Record<CloudErrorKind, { readonly first: Duration; readonly most: Duration }>>> = {
  stockout: { first: 30 * second, most: 10 * minute },
  quota: { first: minute, most: 15 * minute },
  rate_limited: { first: 2 * second, most: minute },
  internal: { first: 5 * second, most: 2 * minute },
  unreachable: { first: 5 * second, most: 2 * minute },
};

/**
 * Only two calls are repeated after a permanent error: a release, and a request that lacked a permission, because the
 * permission may be granted.
 */
const permanentErrorDelay: Duration = 10 * minute;

export function isPermanent(kind: CloudErrorKind): boolean {
  return retryDelays[kind] === undefined;
}

/** True if the cloud refuses to show an unconfirmed allocation. Its request will return the cloud's message. */
export function isHidden(observed: Observed<AllocationStatus>, allocation: Allocation): boolean {
  if (observed.kind === 'known' || observed.refused === undefined || !isPermanent(observed.refused)) return false;
  return allocation.ownership === 'ephemeral' && isUnconfirmed(allocation);
}

/** The delay after that many errors of this kind in a row: doubled each time, and varied by the seed. */
export function retryDelay(kind: CloudErrorKind, tries: number, ...seed: readonly (string | number)[]): Duration {
  const { first, most } = retryDelays[kind] ?? { first: permanentErrorDelay, most: permanentErrorDelay };
  return backoffDelay(first, most, tries, ...seed);
}

/** Earliest time of the next request, or of the next release once the job has released it. 0 if none failed. */
export function nextCallAt(job: Job, allocation: Allocation): Instant {
  const { lastError, errorCount } = allocation;
  if (lastError === null) return 0;
  return lastError.at + retryDelay(lastError.error.kind, errorCount, job.id, allocation.ordinal);
}

/** End of the longest wait for capacity. Undefined if it has no limit. */
export function capacityWaitEnd(job: Job, attempt: Attempt): Instant | undefined {
  const { capacityWaitMs } = job.spec.limits;
  return capacityWaitMs === null ? undefined : attempt.createdAt + capacityWaitMs;
}

/** The error of an allocation that was lost before a command started on it. */
export function lossErrorOf(allocation: Allocation): CloudError {
  return allocation.lastError?.error ?? { kind: 'internal', message: lossMessageOf(allocation), raw: '' };
}

function lossMessageOf({ readyAt }: Allocation): string {
  return readyAt === null ? 'it failed before it was ready' : 'it was lost before the command started';
}

// ------------------------------------------------------------------------------------------ replacing

/** Earlier allocations of this attempt that never became ready, in any alternative; oldest first. */
export function failedRequests(job: Job, attempt: Attempt): readonly Allocation[] {
  return job.allocations.filter(
    ({ ordinal, readyAt, requestedAt }) =>
      ordinal < attempt.allocation && readyAt === null && requestedAt !== null && requestedAt >= attempt.createdAt,
  );
}

/** The attempt stays the same, because its command has not started. */
export function replaceFailedAllocation(job: Job, attempt: Attempt, now: Instant): Change {
  const failed = allocationOf(job, attempt.allocation);
  const error = lossErrorOf(failed);
  // Failures in other alternatives do not slow the requests in this one.
  const alternative = failed.alternative ?? 0;
  const earlier = failedRequests(job, attempt).filter(
    (one) => (one.alternative ?? 0) === alternative && one.superseded === undefined,
  );
  const notBefore = now + retryDelay(error.kind, earlier.length + 1, job.id, failed.ordinal);
  return chain(
    withEvents(job, now, { kind: 'allocation_refused', allocation: failed.ordinal, error, nextAt: notBefore }),
    (next) => switchAllocation(next, attempt, { why: lossMessageOf(failed), notBefore, alternative }, now),
  );
}

/** Releases the attempt's allocation and adds another one, which is not requested before that time. */
export function switchAllocation(
  job: Job,
  { ordinal, allocation: last }: Attempt,
  { why, notBefore, alternative }: { readonly why: string; readonly notBefore: Instant; readonly alternative?: number },
  now: Instant,
): Change {
  return chain(
    release(job, last, { message: why }, now),
    (next) => addAllocation(next, now, alternative),
    (next) => moveAttempt(next, ordinal, next.allocations.length, notBefore, now),
  );
}

/** Records another allocation, or another alternative of the same one, for an attempt whose command has not started. */
export function moveAttempt(job: Job, ordinal: number, allocation: number, notBefore: Instant, now: Instant): Change {
  const moved = withAttempt(job, ordinal, { allocation, notBeforeAt: notBefore, movedAt: now });
  return withEvents(moved, now, { kind: 'attempt_moved', attempt: ordinal, allocation, notBeforeAt: notBefore });
}

// ------------------------------------------------------------------------------------------ requesting

/** An allocation that was neither requested nor observed. */
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
    unreachableAt: null,
    unreachableWho: null,
    releasedAt: null,
    goneAt: null,
  };
}

/** Adds a planned allocation. A persistent one that should exist already counts as requested at once. */
export function addAllocation(job: Job, now: Instant, alternative = 0): Change {
  const ordinal = job.allocations.length + 1;
  const planned = plannedAllocation(job.spec, job.id, ordinal);
  const allocation = alternative === 0 ? planned : { ...planned, alternative };
  const next = { ...job, allocations: [...job.allocations, allocation] };
  const { kind = 'prepare' } = operationOf(job.spec) ?? {};
  const shouldExist =
    allocation.ownership === 'persistent' &&
    (kind === 'prepare' || (kind !== 'delete' && !mayCreate(next, allocation)));
  return shouldExist ? recordRequested(next, ordinal, now) : withoutEvents(next);
}

/** The job with these slots on the newest allocation. The slots of a command that has started stay the same. */
export function withSlots(job: Job, slots: readonly Slot[] | undefined): Job {
  const attempt = openAttempt(job);
  const allocation = lastAllocation(job);
  if (slots === undefined || attempt === undefined || attempt.startedAt !== null || allocation === undefined)
    return job;
  const isSame = JSON.stringify(allocation.slots) === JSON.stringify(slots);
  return isSame ? job : withAllocation(job, allocation.ordinal, { slots });
}

/** The TPU that an operation replaces or deletes is its first allocation, released before anything starts on it. */
export function releaseExisting(job: Job, now: Instant): Change {
  const operation = operationOf(job.spec);
  if (job.allocations.length > 0 || operation === undefined || !('creationTime' in operation))
    return withoutEvents(job);
  const { kind, creationTime } = operation;
  return chain(
    addAllocation(job, now),
    (next) => recordRequested(next, 1, now),
    (next) => withoutEvents(creationTime === null ? next : withAllocation(next, 1, { creationTime })),
    (next) => release(next, 1, { message: `the job is to ${kind} the TPU` }, now),
  );
}

/**
 * True if the job may create it: always if ephemeral; if persistent, only for an operation that creates it, until it was
 * ready once, or after the job released the one before.
 */
export function mayCreate(job: Job, allocation: Allocation): boolean {
  if (allocation.ownership === 'ephemeral') return true;
  const operation = operationOf(job.spec)?.kind;
  if (operation === 'delete') return false;
  const before = job.allocations[allocation.ordinal - 2];
  if (operation === 'create' && (before?.readyAt ?? null) === null) return true;
  return before !== undefined && before.releasedAt !== null;
}

/**
 * True if the cloud took a persistent TPU that the job creates for its command, and the command never started. The job
 * then creates the TPU again, because its recovery rules are about a command that was interrupted.
 */
export function isTakenBeforeFirstStart(job: Job, allocation: Allocation): boolean {
  if (operationOf(job.spec)?.withCommand !== true || allocation.lastObserved?.state !== 'lost') return false;
  return mayCreate(job, allocation) && job.attempts.every(({ startedAt }) => startedAt === null);
}

/**
 * True while another process deletes a persistent TPU that the job creates. The job waits until it is gone, because a
 * release of its own could hit the TPU that the other one creates next.
 */
export function isBeingReplaced(job: Job, allocation: Allocation): boolean {
  const { ownership, lastObserved, readyAt, lifecycle } = allocation;
  if (ownership !== 'persistent' || readyAt !== null || lifecycle === 'gone') return false;
  return lastObserved?.state === 'releasing' && mayCreate(job, allocation);
}

/** From this commit on the allocation may exist. */
export function recordRequested(job: Job, ordinal: number, now: Instant): Change {
  const { requestedAt, name, ownership, alternative } = allocationOf(job, ordinal);
  if (requestedAt !== null) return withoutEvents(job);
  const next = withAllocation(job, ordinal, { requestedAt: now });
  const inAlternative = alternative === undefined ? {} : { alternative };
  return withEvents(next, now, {
    kind: 'allocation_requested',
    allocation: ordinal,
    name,
    ownership,
    ...inAlternative,
  });
}

// ------------------------------------------------------------------------------------------ releasing

/** From this commit on nothing starts on it, and its deletion is repeated until two observations have missed it. */
export function release(job: Job, ordinal: number, why: Pick<Evidence, 'message' | 'budget'>, now: Instant): Change {
  const allocation = allocationOf(job, ordinal);
  if (['planned', 'releasing', 'gone'].includes(allocation.lifecycle)) return withoutEvents(job);
  if (wasNeverCreated(allocation)) return recordGone(job, ordinal, now);
  const next = withAllocation(job, ordinal, {
    releasedAt: now,
    // From here on these fields are about the release.
    confirmedAt: null,
    errorCount: 0,
    lastError: null,
    unreachableAt: null,
    unreachableWho: null,
  });
  return withEvents(next, now, { kind: 'allocation_released', allocation: ordinal, ...why });
}

/** The allocation was deleted, or was never created. */
export function recordGone(job: Job, ordinal: number, now: Instant): Change {
  const allocation = allocationOf(job, ordinal);
  const before = readyPeriodsOf(allocation);
  const readyUntil = allocation.firstMissedAt ?? now;
  const readyPeriods = foldSlices(before, [], readyUntil);
  const isCharged = readyPeriods !== before;
  const gone = { goneAt: now, firstMissedAt: null, unreachableAt: null, unreachableWho: null };
  const next = withAllocation(job, ordinal, { ...gone, ...(isCharged && { readyPeriods }) });
  const missedAt = isCharged && readyUntil !== now && { missedAt: readyUntil };
  return withEvents(next, now, { kind: 'allocation_gone', allocation: ordinal, ...missedAt });
}

/** A finished operation releases nothing: its TPU stays as the cloud has it. */
export function releasingAllocations(job: Job): readonly Allocation[] {
  if (job.finish !== null && operationOf(job.spec) !== undefined) return [];
  return job.allocations.filter(({ lifecycle }) => lifecycle === 'releasing');
}

/** An accepted deletion can fail silently while the resource is being created, so it is repeated after this time. */
const releaseAgainAfter: Duration = 30 * second;
/** A deletion in progress is repeated after this time. A forced one has been observed to take 13 minutes. */
const maxReleaseTime: Duration = 15 * minute;

/** The releases that are due now, in any situation of the job. */
export function planReleases(
  job: Job,
  observation: Observation,
  now: Instant,
): { readonly actions: readonly Action[]; readonly wakeAt: Instant | undefined } {
  const actions: Action[] = [];
  let wakeAt: Instant | undefined;
  for (const allocation of releasingAllocations(job)) {
    const dueAt = releaseDueAt(job, allocation, observedAllocation(observation, allocation.ordinal, now));
    if (dueAt !== undefined && dueAt <= now) actions.push({ kind: 'release', allocation: allocation.ordinal });
    const nextCheck = now + clamp(firstCheckDelay(job), (now - (allocation.releasedAt ?? now)) / 4, 30 * second);
    // From this time on a second observation may confirm the deletion. If the time has passed, the observation of this
    // pass failed, and `nextCheck` is soon enough.
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
  // The reply may be lost, or the process was killed between commit and action.
  if (confirmedAt === null) return nextCallAt(job, allocation);
  if (observed.kind === 'unknown') return undefined;
  if (observed.value.state === 'absent' || observed.value.state === 'foreign') return undefined;
  if (observed.value.state === 'releasing') return confirmedAt + maxReleaseTime;
  // Another state since then means that the deletion was dropped: a queued resource drops it while it is being
  // suspended. Repeat the deletion at once.
  const changedAt = allocation.lastObserved?.at ?? confirmedAt;
  return changedAt > confirmedAt ? changedAt : confirmedAt + releaseAgainAfter;
}
