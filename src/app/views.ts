// Views: a job as people see it, computed here once for the table, the JSON and the pages.

import { formatWorker, isSimulated, formatHosts, hostNamesOf, operationOf } from '../core/model/spec.ts';
import {
  allocationOf,
  capacityOf,
  commandWorkers,
  heldAllocations,
  isLost,
  lastAllocation,
  lastAttempt,
  openAttempt,
  type Allocation,
  type Attempt,
  type Job,
  wasNeverCreated,
} from '../core/model/job.ts';
import { nextCallAt } from '../core/decide/allocate.ts';
import { needsSlot } from '../core/policy/admission.ts';
import { isFinishedPhase, phaseOf, phaseSince, type Phase } from '../core/decide/phase.ts';
import { budgetOf, usedBudget } from '../core/decide/recover.ts';
import { spendingOf } from '../core/decide/spending.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { AllocationView, Attention, AttemptView, JobRow, JobView } from './client.ts';
import { formatAccelerator, formatEndReason, formatCloudError, errorPhrases, phrasesOf } from './phrases.ts';
import { formatAge, pluralize, formatDuration, importedPrefix, reasonPhrases } from './format.ts';
import { formatCloudStatus } from './cloud-status.ts';
import type { FinalRows } from './ports.ts';

/** The longest phrase that a narrow terminal shows completely. */
export const maxReasonLength = 32;

const maxAttemptEnds = 8;
const maxUncheckedTime: Duration = 5 * minute;

export function jobRow(job: Job, now: Instant): JobRow & Pick<JobView, 'owner' | 'backend'> {
  const capacity = capacityOf(job, lastAllocation(job));
  const tpuSpec = capacity.kind === 'tpu' ? capacity : null;
  const phase = phaseOf(job);
  const attempt = lastAttempt(job);
  return {
    id: job.id,
    name: job.spec.name,
    owner: job.owner,
    backend: capacity.kind,
    accelerator: tpuSpec?.accelerator ?? null,
    pricing: tpuSpec?.pricing ?? null,
    zone: tpuSpec?.zone ?? null,
    hosts: hostNamesOf(capacity),
    worker0Address: currentAddress(lastAllocation(job)),
    phase,
    heldCapacity: heldCapacity(job),
    message: truncatePhrase(reasonOf(job, phase, now)),
    desired: job.desired,
    stage: attempt?.stage ?? 0,
    attempt: attempt?.ordinal ?? 0,
    attemptEnds: job.attempts.slice(-maxAttemptEnds).map(({ ending }) => ending?.reason ?? null),
    attention: attentionOf(job, phase, now),
    tags: job.spec.tags,
    overrides: job.spec.overrides ?? [],
    createdAt: job.createdAt,
    phaseStartedAt: phaseSince(job),
    pricePerHourUsd: pricePerHour(job),
    simulated: isSimulated(capacity),
  };
}

/** The reasons that the job alone shows. For a long wait, see `withLongWaits` in typical-wait.ts. */
function attentionOf(job: Job, phase: Phase, now: Instant): Attention | null {
  if (isFinishedPhase(phase)) return phase === 'failed' ? 'failed' : null;
  const { unreachableAt = null, unreachableWho = null } = lastAllocation(job) ?? {};
  if (unreachableAt !== null) {
    if (unreachableWho === 'worker') return 'silent';
    const isCloud = unreachableWho === 'cloud' || unreachableWho === 'login';
    if (isCloud && now - unreachableAt >= maxUncheckedTime) return 'unchecked';
  }
  return job.budgetWarning !== undefined || isOwnerWarned(job, now) ? 'budget' : null;
}

function isOwnerWarned({ ownerBudgetWarnings = [] }: Job, now: Instant): boolean {
  return ownerBudgetWarnings.some(({ endsAt }) => now < endsAt);
}

/** The store keeps these rows, so that lists are quick. */
export const finalRows: FinalRows = {
  /** Raise this when a row gets another field or phrase. */
  version: 13,
  rowOf(job) {
    if (job.finish === null || job.startRequest !== null || heldAllocations(job).length > 0) return null;
    return jobRow(job, job.finish.at);
  },
};

export function releasingAllocations(job: Job): readonly Allocation[] {
  return heldAllocations(job).filter((allocation) => allocation.releasedAt !== null);
}

export function keptAllocations(job: Job): readonly Allocation[] {
  return heldAllocations(job).filter((allocation) => allocation.releasedAt === null);
}

/** Estimated dollars per hour of the ready allocations; null without any or without a known price. */
export function pricePerHour(job: Job): number | null {
  // The job does not know the later state of capacity that a forced delete left behind; see `gc`.
  if (job.removed) return null;
  const paid = heldAllocations(job).filter((allocation) => allocation.readyAt !== null);
  const prices = paid.flatMap((allocation) => priceOf(job, allocation) ?? []);
  return prices.length === 0 || prices.length < paid.length ? null : prices.reduce((sum, price) => sum + price);
}

export function priceOf(job: Job, allocation: Allocation): number | null {
  const capacity = capacityOf(job, allocation);
  return capacity.kind === 'tpu' ? capacity.pricePerHourUsd : null;
}

/** `v5litepod-16`, `2 × v4-16`, or `this machine`. */
export function acceleratorOf(job: Job): string {
  const capacity = capacityOf(job, lastAllocation(job));
  return capacity.kind === 'tpu' ? formatAccelerator(capacity) : formatHosts(capacity.hosts);
}

/** While the job runs, its capacity is obvious. Afterwards it still costs money. */
export function heldCapacity(job: Job): string | null {
  const holds = job.finish !== null && !job.removed && keptAllocations(job).length > 0;
  return holds ? acceleratorOf(job) : null;
}

export function lastEnding(job: Job): Attempt['ending'] {
  return job.attempts.findLast((attempt) => attempt.ending !== null)?.ending ?? null;
}

function reasonOf(job: Job, phase: Phase, now: Instant): string {
  const releasingFor = job.finish === null ? undefined : releaseDuration(job, now);
  if (releasingFor !== undefined && releasingFor > normalReleaseTime)
    return `deleting its TPU for ${formatAge(releasingFor)}`;
  if (job.finish !== null && job.desired === 'deleted' && !job.removed) return 'being deleted';
  const age = formatAge(now - phaseSince(job));
  const isStopRequested = phase === 'stopping' && (openAttempt(job)?.ending ?? null) === null;
  const uncertain =
    isFinishedPhase(phase) || isStopRequested
      ? undefined
      : (unreachablePhrase(job, now) ?? interruptedPhrase(job, now));
  if (uncertain !== undefined) return uncertain;
  switch (phase) {
    case 'queued':
      return capacityPhrase(job, now) ?? `${firstWaitPhrase(job)}, ${age}`;
    case 'provisioning':
      return `creating the TPU for ${age}`;
    case 'setup':
      return backoffPhrase(job, now) ?? setupPhrase(job) ?? `setting up for ${age}`;
    case 'running':
      return runPhrase(job, now);
    case 'recovering':
      return recoveringPhrase(job, now) ?? endedPhrase(job, `, ${age} ago`);
    case 'stopping':
      return `${stopPhrase(job)} ${age} ago`;
    case 'succeeded':
      return job.spec.command.isSetupOnly === true ? setupOnlyPhrase(job) : runtimePhrase(job);
    case 'failed':
      return endPhrase(job);
    case 'stopped':
    case 'cancelled':
      return importedPhrase(job) ?? (job.endedBy === undefined ? 'by its owner' : `by ${job.endedBy}`);
  }
}

/** For a job that another program ran and whose end is unknown: `imported, was RUNNING`. */
export function importedPhrase(job: Job): string | undefined {
  const detail = lastAttempt(job)?.ending?.evidence.message;
  return detail?.startsWith(importedPrefix) === true ? detail : undefined;
}

/** A release takes some time, so within this limit a finished job shows how it ended instead. */
const normalReleaseTime = 10 * minute;

function releaseDuration(job: Job, now: Instant): Duration | undefined {
  const durations = releasingAllocations(job).map(({ releasedAt }) => now - (releasedAt ?? now));
  return durations.length === 0 ? undefined : Math.max(...durations);
}

function capacityPhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? undefined : job.allocations[attempt.allocation - 1];
  if (attempt === undefined || allocation === undefined) return undefined;
  if (attempt.notBeforeAt > now) return `retry in ${formatDuration(attempt.notBeforeAt - now)}`;
  const waits = formatAge(now - attempt.createdAt);
  if (allocation.lastError !== null) return `${formatCloudError(allocation.lastError.error)} for ${waits}`;
  if (lacksCapacity(allocation, now)) return `no capacity for ${waits}`;
  if (allocation.requestedAt === null && releasingAllocations(job).length > 0) return `deleting the old TPU, ${waits}`;
  return allocation.requestedAt !== null && allocation.readyAt === null ? `requested ${waits} ago` : undefined;
}

/** A queue that grants a request at once still shows it as waiting for some seconds. */
const queueGrace = 10 * second;

/** True while the cloud has no capacity for the request: it refused the newest one or keeps it in its queue. */
export function lacksCapacity(
  { lastObserved: observed, readyAt, goneAt, lastError }: Allocation,
  now: Instant,
): boolean {
  if (readyAt !== null || goneAt !== null) return false;
  if (lastError !== null) return lastError.error.kind === 'stockout';
  return observed?.state === 'waiting' && observed.detail !== 'CREATING' && now - observed.at >= queueGrace;
}

function backoffPhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.notBeforeAt <= now) return undefined;
  const retry = `retry in ${formatDuration(attempt.notBeforeAt - now)}`;
  const whole = `${endPhrase(job).replace(/, worker .*$/, '')}, ${retry}`;
  return whole.length <= maxReasonLength ? whole : retry;
}

function recoveringPhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending !== null) return undefined;
  const allocation = allocationOf(job, attempt.allocation);
  const { lastError, readyAt } = allocation;
  const waits = formatAge(now - attempt.createdAt);
  if (lacksCapacity(allocation, now)) return `no capacity for ${waits}`;
  if (readyAt === null && lastError !== null) return `${formatCloudError(lastError.error)} for ${waits}`;
  return backoffPhrase(job, now);
}

function firstWaitPhrase(job: Job): string {
  return `waiting for ${needsSlot(job) ? phrasesOf(job).awaited : 'the controller'}`;
}

/** Takes precedence over other phrases: without an answer, they may no longer hold. */
function unreachablePhrase(job: Job, now: Instant): string | undefined {
  const { unreachableAt = null, unreachableWho = null } = lastAllocation(job) ?? {};
  if (unreachableAt === null) return undefined;
  if (unreachableWho === 'cloud' && !phrasesOf(job).hasCloud)
    return `host unknown for ${formatAge(now - unreachableAt)}`;
  if (unreachableWho === 'home' || unreachableWho === 'machine') return 'runs in another home';
  return `${unreachableWho === 'login' ? 'no login' : 'no answer'} for ${formatAge(now - unreachableAt)}`;
}

function interruptedPhrase(job: Job, now: Instant): string | undefined {
  const since = interruptedSince(job);
  return since === undefined ? undefined : `interrupted for ${formatAge(now - since)}`;
}

/** Start of the newest allocation's interruption; undefined without one, or without an answer. */
export function interruptedSince(job: Job): Instant | undefined {
  const allocation = lastAllocation(job);
  if (
    allocation?.lastObserved?.state !== 'interrupted' ||
    allocation.goneAt !== null ||
    allocation.unreachableAt !== null
  )
    return undefined;
  return allocation.lastObserved.at;
}

function setupPhrase(job: Job): string | undefined {
  const failures = openAttempt(job)?.failures ?? [];
  const [newest] = failures.toSorted((one, other) => other.lastAt - one.lastAt);
  const earlier = setupFailures(job);
  const times = `setup failed ${pluralize(earlier, 'time')}`;
  if (newest === undefined) return earlier === 0 ? undefined : times;
  const { task, tries } = newest;
  const failed = task.kind === 'step' ? task.step : task.kind;
  if (earlier > 0) return `${times}: ${failed}`;
  // A step without a known result, such as after a lost connection, has not failed.
  if (tries === 0) return `${failed} interrupted`;
  return `${failed} failed, ${tries} of ${pluralize(job.spec.limits.setupTries, 'try', 'tries')}`;
}

function setupFailures(job: Job): number {
  const attempt = lastAttempt(job);
  return attempt === undefined ? 0 : usedBudget(job, attempt, 'setupFailures').length;
}

function runPhrase(job: Job, now: Instant): string {
  const exit = openAttempt(job)?.exitSeen;
  if (exit !== undefined) return `${exitPhrase(exit)} just now`;
  const length = now - phaseSince(job);
  const ends = job.attempts.filter(({ endedAt }) => endedAt !== null).map(({ ending }) => ending?.reason ?? 'stopped');
  const preemptions = ends.filter((reason) => reason === 'preempted').length;
  const failures = ends.filter((reason) => budgetOf(reason) === 'failures').length;
  const spending = job.budgetWarning === undefined ? undefined : spendingOf(job, now);
  if (spending !== undefined)
    return `running for ${formatAge(length)}, ${Math.floor((100 * spending.spentUsd) / spending.budgetUsd)}% of budget`;
  if (isOwnerWarned(job, now)) return `running for ${formatAge(length)}, user budget low`;
  if (preemptions > 0) return `running for ${formatAge(length)}, ${pluralize(preemptions, 'preemption')}`;
  if (failures > 0) return `running for ${formatAge(length)}, ${pluralize(failures, 'failure')}`;
  return `running for ${formatDuration(length)}`;
}

function stopPhrase(job: Job): string {
  const reason = openAttempt(job)?.ending?.reason ?? 'stopped';
  // The age next to it is that of the request.
  return job.desired !== 'running' || reason === 'stopped' ? requestedCommand(job) : reasonPhrases[reason];
}

export function requestedCommand({ desired }: Job): string {
  const names = { running: 'stop', stopped: 'stop', cancelled: 'cancel', deleted: 'delete' } as const;
  return `${names[desired]} requested`;
}

function setupOnlyPhrase(job: Job): string {
  if (operationOf(job.spec)?.kind === 'delete') return 'its TPU is deleted';
  const allocation = lastAllocation(job);
  const isReleased = allocation?.ownership === 'ephemeral' && allocation.releasedAt !== null;
  return allocation === undefined || isReleased || isLost(allocation) ? 'its TPU is gone' : 'set up; no command';
}

/** Runtime of the command over all attempts, without the time in which the remains of an attempt were ended. */
export function runtimePhrase(job: Job): string {
  const runs = job.attempts.flatMap(({ startedAt, runningAt, ending, endedAt }) => {
    const until = ending?.startedAt ?? endedAt ?? job.finish?.at ?? startedAt;
    return startedAt === null || until === null ? [] : [Math.max(0, until - (runningAt ?? startedAt))];
  });
  if (runs.length === 0) return 'done';
  const ran = `ran for ${formatDuration(runs.reduce((sum, run) => sum + run))}`;
  return runs.length === 1 ? ran : `${ran} in ${pluralize(runs.length, 'attempt')}`;
}

function endPhrase(job: Job): string {
  const attempt = job.attempts.findLast(({ ending }) => ending !== null);
  if (attempt === undefined || attempt.ending === null) return reasonPhrases[job.finish?.reason ?? 'stopped'];
  const { reason, evidence } = attempt.ending;
  const isOneOfMany = evidence.worker !== undefined && workersOf(job, attempt).length > 1;
  const where = isOneOfMany ? `, ${formatWorker(evidence.worker)}` : '';
  switch (reason) {
    case 'command_failed':
      return `${exitPhrase(evidence)}${where}`;
    case 'setup_failed': {
      const times = setupFailures(job);
      return `${formatEndReason(attempt.ending)}${times > 1 ? ` ${pluralize(times, 'time')}` : ''}${where}`;
    }
    case 'unreachable':
    case 'hung':
      return `${formatEndReason(attempt.ending)}${where}`;
    case 'allocation_failed': {
      const kind = lastAllocation(job)?.lastError?.error.kind;
      return kind === undefined ? reasonPhrases[reason] : errorPhrases[kind];
    }
    case 'succeeded':
    case 'stopped':
    case 'preempted':
    case 'timed_out':
    case 'budget':
      return reasonPhrases[reason];
  }
}

function endedPhrase(job: Job, age: string): string {
  const whole = `${endPhrase(job)}${age}`;
  return whole.length <= maxReasonLength ? whole : `${whole.replace(/, worker .*$/, '')}${age}`;
}

function exitPhrase(evidence: {
  readonly exitCode?: number;
  readonly signal?: string;
  readonly pattern?: string;
  readonly unconfirmed?: true;
}): string {
  if (evidence.unconfirmed === true) return 'no success reported';
  if (evidence.signal !== undefined) return `killed by SIG${evidence.signal}`;
  return evidence.exitCode === undefined ? 'command failed' : `exit ${evidence.exitCode}`;
}

function truncatePhrase(phrase: string): string {
  return phrase.length <= maxReasonLength ? phrase : `${phrase.slice(0, maxReasonLength - 2)}..`;
}

/** Oldest first. */
export function attemptViews(job: Job): readonly AttemptView[] {
  return job.attempts.map((attempt) => ({
    attempt: attempt.ordinal,
    stage: attempt.stage,
    startMode: attempt.startMode,
    startedBy: attempt.startedByOwner ? 'owner' : 'rule',
    commandOnly: attempt.commandOnly === true,
    allocation: attempt.allocation,
    workers: workersOf(job, attempt),
    createdAt: attempt.createdAt,
    notBeforeAt: attempt.notBeforeAt,
    startedAt: attempt.startedAt,
    endingAt: attempt.ending?.startedAt ?? null,
    endedAt: attempt.endedAt,
    reason: attempt.ending?.reason ?? null,
    evidence: attempt.ending?.evidence ?? null,
    exits: attempt.exits ?? [],
    workdirCopy: attempt.workdirCopy ?? null,
  }));
}

/** Empty while their number is unknown. */
export function workersOf(job: Job, attempt: Attempt): readonly WorkerId[] {
  return commandWorkers(job.spec.command, allocationOf(job, attempt.allocation).workers ?? 0);
}

/** Oldest first. */
export function allocationViews(job: Job, now: Instant): readonly AllocationView[] {
  return job.allocations.map((allocation) => ({
    allocation: allocation.ordinal,
    name: allocation.name,
    ownership: allocation.ownership,
    state: allocationState(allocation),
    message: formatCloudStatus(job, allocation, now),
    requestedAt: allocation.requestedAt,
    readyAt: allocation.readyAt,
    releasedAt: allocation.releasedAt,
    goneAt: allocation.goneAt,
    workers: Array.from({ length: allocation.workers ?? 0 }, (_, worker) => ({
      worker,
      internalIp: allocation.hosts?.[worker]?.internalIp ?? null,
      externalIp: allocation.hosts?.[worker]?.externalIp ?? null,
    })),
  }));
}

function allocationState(allocation: Allocation): AllocationView['state'] {
  const { lifecycle, lastObserved: observed } = allocation;
  if (lifecycle === 'planned' || lifecycle === 'releasing' || lifecycle === 'gone') return lifecycle;
  return wasNeverCreated(allocation) ? 'refused' : (observed?.state ?? 'requested');
}

function currentAddress(allocation: Allocation | undefined): string | null {
  const isUsable = allocation !== undefined && allocation.lifecycle !== 'releasing' && !isLost(allocation);
  return isUsable ? addressOf(allocation, 0) : null;
}

export function addressOf(allocation: Allocation | undefined, worker: WorkerId): string | null {
  const host = worker === 'controller' ? undefined : allocation?.hosts?.[worker];
  return host?.externalIp ?? host?.internalIp ?? null;
}

/** Null if no request follows or it is due now. */
export function nextRequestAt(job: Job, now: Instant): Instant | null {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? undefined : job.allocations[attempt.allocation - 1];
  if (attempt === undefined || allocation === undefined || allocation.readyAt !== null) return null;
  const at = Math.max(attempt.notBeforeAt, allocation.confirmedAt === null ? nextCallAt(job, allocation) : 0);
  return at > now ? at : null;
}
