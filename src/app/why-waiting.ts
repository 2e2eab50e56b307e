// The `why` answer for a job that waits for a slot or for capacity.

import { formatHosts } from '../core/model/spec.ts';
import { capacityWaitEnd, isPermanent } from '../core/decide/allocate.ts';
import { alternativeAfter, exhaustsAlternative, hasAlternatives } from '../core/decide/alternatives.ts';
import { phaseOf, phaseSince } from '../core/decide/phase.ts';
import { allocationOf, lastAllocation, type Allocation, type Attempt, type Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import { waitsForSlot, type QueuePosition } from '../core/policy/admission.ts';
import { formatCloudEvidence, lastRequestFailure } from './cloud-status.ts';
import { asClause, formatDuration, formatSince, formatList, formatWhen, pluralize } from './format.ts';
import { formatCapacity, formatCloudError, phrasesOf } from './phrases.ts';
import { acceleratorOf, lacksCapacity, nextRequestAt, releasingAllocations } from './views.ts';
import { currentAttempt, interruptionOf, nextForInterruption, withHints } from './why-parts.ts';
import { quotaHolders, refusingQuota, type QuotaHolders } from './why-quota.ts';
import type { Next, Step, WhyAnswer, WhyRequest } from './why-parts.ts';
import { whyRecovering } from './why-running.ts';

export function whyQueued(context: WhyRequest): WhyAnswer {
  const { job, queuePosition } = context;
  const since = phaseSince(job);
  return {
    message: `is queued: ${formatQueuePosition(job, queuePosition)}`,
    evidence: `waiting since ${formatSince(since, context)}`,
    next: nextForQueue(job, queuePosition),
  };
}

/** Explains a job that waits for a slot to recover: its first attempt exists only once it has a slot. */
export function whyWaitingForSlot(context: WhyRequest, position: QueuePosition): WhyAnswer {
  const { job } = context;
  const { ordinal } = currentAttempt(context);
  return whyRecovering(context, {
    clause: `attempt ${ordinal} waits for a slot: ${formatQueuePosition(job, position)}`,
    next: nextForQueue(job, position),
  });
}

function formatQueuePosition(job: Job, position: QueuePosition | undefined): string {
  if (!waitsForSlot(job)) return 'no controller has checked it yet';
  const { capacity } = job.spec;
  if (position === undefined) return `it waits for ${phrasesOf(job).awaited}`;
  const { pool, slots, slotsUsed, usedBy, ahead, after } = position;
  if (after.length > 0) return `it replaces job ${formatList(after)}, which has not ended`;
  if (slots === null) return `the settings no longer name its host ${pool}`;
  const slot = capacity.kind === 'tpu' ? `its TPU ${capacity.name}` : 'a slot';
  if (ahead < slots - slotsUsed) return `${slot} is free, and no controller has checked it yet`;
  const others = ahead === 0 ? '' : `, ${pluralize(ahead, 'job')} ahead`;
  if (capacity.kind === 'tpu')
    return `${slot} is ${slotsUsed === 0 ? 'free' : `used by job ${formatList(usedBy)}`}${others}`;
  return `${slotsUsed} of ${pluralize(slots, 'slot')} on ${formatHosts([pool])} in use${others}`;
}

function nextForQueue(job: Job, position: QueuePosition | undefined): string {
  if (position?.slots === null)
    return `An attempt starts when the host is back (jobman hosts add ${position.pool} --ssh ADDRESS) and has a free slot. If it does not come back: jobman cancel ${Number(job.id)}`;
  if (position !== undefined && position.after.length > 0) return 'An attempt starts when that job has ended.';
  if (!waitsForSlot(job) || (position !== undefined && position.slotsUsed < position.slots))
    return 'The controller starts an attempt.';
  return phrasesOf(job).whenFree;
}

/** The attempt waits for the deletion of the old TPU, for a request to be accepted, or in the cloud's queue. */
export function whyWithoutCapacity(context: WhyRequest): WhyAnswer {
  const { job } = context;
  const attempt = currentAttempt(context);
  const allocation = allocationOf(job, attempt.allocation);
  const phase = phaseOf(job);
  if (phase === 'provisioning') return whyProvisioning(context, allocation);
  const { clause, ...step } =
    allocation.requestedAt === null && releasingAllocations(job).length > 0
      ? deletingOldTpu(context)
      : awaitingCapacity(context, attempt, allocation);
  return phase === 'recovering'
    ? whyRecovering(context, { clause, ...step })
    : { message: `is queued: ${clause}`, ...step };
}

function deletingOldTpu(context: WhyRequest): Step {
  const { job } = context;
  const capacity = formatCapacity(job, lastAllocation(job)?.alternative);
  return {
    clause: 'deleting the old TPU',
    evidence: releasingAllocations(job)
      .map((one) => formatCloudEvidence(job, one, context))
      .join('; '),
    next: `The controller requests ${capacity} once the old TPU is deleted.`,
  };
}

function awaitingCapacity(context: WhyRequest, attempt: Attempt, allocation: Allocation): Step {
  const { job, now } = context;
  const quota = refusingQuota(job);
  if (quota !== null && quota.wantedChips > quota.limitChips) {
    const { name, wantedChips, limitChips, limitCores } = quota;
    const cores = limitCores === limitChips ? '' : ` (${limitCores} TensorCores)`;
    return {
      clause: `${formatCapacity(job, allocation.alternative)} can never fit its quota: it has ${pluralize(wantedChips, 'chip')}, and the limit of ${name} is ${limitChips}${cores}`,
      evidence: `the cloud said ${formatWhen(quota.refusedAt, context)}: ${asClause(quota.error)}`,
      ...nextForCapacity(job, attempt, allocation, now, [
        'Ask Google for more quota, or cancel the job and create it with another type, zone or pricing.',
        'Limits of all zones: jobman quota',
        `Cancel: jobman cancel ${Number(job.id)}`,
      ]),
    };
  }
  const holders = quota === null ? null : quotaHolders(quota, context.quotaJobs ?? []);
  return {
    clause: formatCapacityWait(job, attempt, allocation, now),
    evidence: [...(holders === null ? [] : [holders.phrase]), formatCloudEvidence(job, allocation, context)].join('; '),
    ...nextForCapacity(job, attempt, allocation, now, [
      ...(holders === null ? [] : releaseHints(holders)),
      'To see what uses the quota: jobman quota',
    ]),
  };
}

const maxReleases = 2;

/** The commands that release kept TPUs, and whether that is enough. */
function releaseHints({ finished, missing }: QuotaHolders): readonly string[] {
  const freed = finished.reduce((sum, { chips }) => sum + chips, 0);
  const isTooLittle = finished.length > 0 && freed < missing;
  return [
    ...finished.slice(0, maxReleases).map(({ job }) => `Release: jobman stop ${Number(job.id)} --release`),
    ...(isTooLittle ? [`Releasing all kept TPUs frees ${freed} of the ${missing} missing chips`] : []),
  ];
}

function whyProvisioning(context: WhyRequest, allocation: Allocation): WhyAnswer {
  const { job, now } = context;
  const interruption = interruptionOf(job, now);
  return {
    message: `is provisioning: ${interruption ?? `its ${acceleratorOf(job)} is being created`}`,
    evidence: formatCloudEvidence(job, allocation, context),
    next: interruption === null ? 'Setup starts once the TPU is ready.' : nextForInterruption(job, 'Setup starts'),
  };
}

function formatCapacityWait(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): string {
  const error = (allocation.lastError ?? lastRequestFailure(job, attempt))?.error;
  const capacity = formatCapacity(job, allocation.alternative);
  if (error?.kind === 'stockout' || lacksCapacity(allocation, now)) return `no capacity for ${capacity}`;
  if (error !== undefined) return `the request for ${capacity} failed (${formatCloudError(error)})`;
  return `${allocation.requestedAt === null ? 'requesting' : 'waiting for'} ${capacity}`;
}

/** `quotaHints` are shown if the last request exceeded the quota. */
function nextForCapacity(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
  quotaHints: readonly string[],
): Next {
  const end = capacityWaitEnd(job, attempt);
  const limit =
    end === undefined
      ? ''
      : ` The wait ends ${end > now ? `in ${formatDuration(end - now)}` : 'now'} (job.capacity_wait).`;
  const nextAlternative = alternativeAfterRefusal(job, attempt, allocation, now);
  if (nextAlternative !== undefined) {
    const nextAt = nextAlternative.notBefore > now ? nextAlternative.notBefore : null;
    const capacity = formatCapacity(job, nextAlternative.alternative);
    return { next: `The controller requests ${capacity}.${limit}`, nextAt };
  }
  const retryAt = nextRequestAt(job, now);
  const kind = allocation.lastError?.error.kind;
  const isOverQuota = (kind ?? lastRequestFailure(job, attempt)?.error.kind) === 'quota';
  const hints = isOverQuota ? quotaHints : [];
  if (retryAt !== null) return { next: withHints(`The controller requests it again.${limit}`, hints), nextAt: retryAt };
  if (kind !== undefined && isPermanent(kind))
    return { next: 'The attempt ends, because the cloud would refuse the request again.' };
  return { next: `Setup starts once the TPU is ready.${limit}` };
}

/** The alternative that the attempt tries after a refusal that the controller has not acted on yet. */
function alternativeAfterRefusal(job: Job, attempt: Attempt, allocation: Allocation, now: Instant) {
  const kind = allocation.lastError?.error.kind;
  const isExhausted =
    kind !== undefined && allocation.confirmedAt === null && exhaustsAlternative(kind) && hasAlternatives(job);
  if (!isExhausted || attempt.notBeforeAt > now) return undefined;
  const next = alternativeAfter(job, attempt, kind, undefined, now);
  return next?.alternative === (allocation.alternative ?? 0) ? undefined : next;
}
