// Views: what people see of a job, made here once for the table, the JSON and the pages.

import {
  type Allocation,
  type Attempt,
  type Job,
  allocationOf,
  commandWorkers,
  heldAllocations,
  isNowhere,
  lastAllocation,
  lastAttempt,
  openAttempt,
  capacityOf,
} from '../core/job.ts';
import { isLost, nextTryAt } from '../core/allocate.ts';
import { takesTurns } from '../core/admit.ts';
import { phaseOf, phaseSince, type Phase } from '../core/phase.ts';
import { budgetOf, usedBudget } from '../core/recover.ts';
import type { WorkerId } from '../core/spec.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';
import type { AllocationView, AttemptView, JobRow } from './client.ts';
import { isPretended, acceleratorText, endWords, refusalWord, refusalWords } from './phrases.ts';
import { ageText, countText, lengthText, workerText, importedWords, reasonWords } from './figures.ts';
import { sayingOf } from './outside.ts';

/** The longest phrase of a row; a narrow terminal still shows it whole. */
export const reasonLongest = 28;

/** Raise this when a row gets another field or other words: rows that were kept of ended jobs are then made anew. */
export const rowVersion = 7;

/** The row of a job at that moment. */
export function jobRow(job: Job, now: Instant): JobRow {
  const capacity = capacityOf(job, lastAllocation(job));
  const tpu = capacity.kind === 'tpu' ? capacity : null;
  const phase = phaseOf(job);
  const attempt = lastAttempt(job);
  return {
    id: job.id,
    name: job.spec.name,
    user: job.owner,
    backend: capacity.kind,
    accelerator: tpu?.accelerator ?? 'this machine',
    pricing: tpu?.pricing ?? null,
    zone: tpu?.zone ?? null,
    host0: hostThere(lastAllocation(job)),
    phase,
    status: statusOf(job, phase),
    reason: fit(reasonOf(job, phase, now)),
    desired: job.desired,
    stage: attempt?.stage ?? 0,
    attempt: attempt?.ordinal ?? 0,
    tags: job.spec.tags,
    ...(job.spec.overrides !== undefined && { overrides: job.spec.overrides }),
    createdAt: job.createdAt,
    since: phaseSince(job),
    pricePerHour: pricePerHour(job),
    pretended: isPretended(capacity),
  };
}

/**
 * The row of a job that nothing more will happen to without a new wish, else null. It says nothing that changes with
 * time, so the store keeps it: ten thousand ended jobs are listed without being read.
 */
export function lastingRow(job: Job): JobRow | null {
  if (job.settled === null || job.wish !== null || holdsSomething(job)) return null;
  return jobRow(job, job.settled.at);
}

function holdsSomething(job: Job): boolean {
  return heldAllocations(job).length > 0;
}

/** Allocations that were told to go and may still be there. */
export function leavingAllocations(job: Job): readonly Allocation[] {
  return heldAllocations(job).filter((allocation) => allocation.releasedAt !== null);
}

/** Allocations that the job keeps on purpose: owned, and not told to go. */
export function keptAllocations(job: Job): readonly Allocation[] {
  return heldAllocations(job).filter((allocation) => allocation.releasedAt === null);
}

/** Dollars an hour of what is ready and not yet seen gone, an estimate; null when that is nothing or no price is known. */
export function pricePerHour(job: Job): number | null {
  // Capacity that a forced delete left behind is not known here; `gc` looks after it.
  if (job.removed) return null;
  const paid = heldAllocations(job).filter((allocation) => allocation.readyAt !== null);
  const prices = paid.flatMap((allocation) => priceOf(job, allocation) ?? []);
  return prices.length === 0 || prices.length < paid.length ? null : prices.reduce((sum, price) => sum + price);
}

function priceOf(job: Job, allocation: Allocation): number | null {
  const capacity = capacityOf(job, allocation);
  return capacity.kind === 'tpu' ? capacity.pricePerHour : null;
}

/** The capacity that a job requests now, in a word or two: `v5litepod-16`, `2 × v4-16`, or `this machine`. */
export function acceleratorOf(job: Job): string {
  const capacity = capacityOf(job, lastAllocation(job));
  return capacity.kind === 'tpu' ? acceleratorText(capacity) : 'this machine';
}

function statusOf(job: Job, phase: Phase): string {
  // While it runs, what it holds is plain; once it does not, what still costs money is part of the word.
  const holds = job.settled !== null && !job.removed && keptAllocations(job).length > 0;
  return holds ? `${phase}, holds ${acceleratorOf(job)}` : phase;
}

/** The ending that the job recovers from: of the newest attempt that has one. */
export function lastEnding(job: Job): Attempt['ending'] {
  return job.attempts.findLast((attempt) => attempt.ending !== null)?.ending ?? null;
}

// ------------------------------------------------------------------------------------------ why, in one phrase

function reasonOf(job: Job, phase: Phase, now: Instant): string {
  const leaves = job.settled === null ? undefined : leavesFor(job, now);
  if (leaves !== undefined && leaves > leavesUsually) return `still letting go, for ${ageText(leaves)}`;
  switch (phase) {
    case 'queued':
      return silentPhrase(job, now) ?? waitPhrase(job, now) ?? `${firstWait(job)}, ${ageText(now - phaseSince(job))}`;
    case 'provisioning':
      return (
        silentPhrase(job, now) ?? interruptedPhrase(job, now) ?? `being made for ${ageText(now - phaseSince(job))}`
      );
    case 'setup':
      return (
        silentPhrase(job, now) ??
        pausePhrase(job, now) ??
        setupPhrase(job) ??
        `setting up for ${ageText(now - phaseSince(job))}`
      );
    case 'running':
      return runPhrase(job, now);
    case 'recovering':
      return (
        silentPhrase(job, now) ??
        interruptedPhrase(job, now) ??
        recoveringPhrase(job, now) ??
        endedPhrase(job, `, ${ageText(now - phaseSince(job))} ago`)
      );
    case 'stopping':
      return stopPhrase(job, now);
    case 'succeeded':
      return job.spec.command.isSetupOnly === true ? setUpPhrase(job) : ranPhrase(job);
    case 'failed':
      return endPhrase(job);
    case 'stopped':
    case 'cancelled':
      return importedPhrase(job) ?? (job.endedBy === undefined ? 'by its owner' : `by ${job.endedBy}`);
  }
}

/** `imported, was RUNNING`, for a job that another program ran and whose end is unknown. */
export function importedPhrase(job: Job): string | undefined {
  const detail = lastAttempt(job)?.ending?.evidence.detail;
  return detail?.startsWith(importedWords) === true ? detail : undefined;
}

/** A cloud takes its time to let go, which is nobody's trouble: a settled job says how it ended. After this it is. */
const leavesUsually = 10 * minute;

function leavesFor(job: Job, now: Instant): Duration | undefined {
  const told = leavingAllocations(job).map(({ releasedAt }) => now - (releasedAt ?? now));
  return told.length === 0 ? undefined : Math.max(...told);
}

function waitPhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? undefined : job.allocations[attempt.allocation - 1];
  if (attempt === undefined || allocation === undefined) return undefined;
  if (attempt.notBefore > now) return `asks again in ${lengthText(attempt.notBefore - now)}`;
  const waits = ageText(now - attempt.createdAt);
  if (allocation.lastFailure !== null) return `${refusalWord(allocation.lastFailure.error)} for ${waits}`;
  if (lacksCapacity(allocation, now)) return `no capacity for ${waits}`;
  // Nothing is asked for before that; see core/situation.ts.
  if (allocation.requestedAt === null && leavingAllocations(job).length > 0) return `lets go of its last, ${waits}`;
  return allocation.requestedAt !== null && allocation.readyAt === null ? `asked ${waits} ago` : undefined;
}

/** A queue that passes a request on at once still shows it as waiting for some seconds. */
const queueUsually = 10 * second;

/** True while the cloud has no capacity for that request: it refused the newest one, or keeps it waiting in its queue. */
export function lacksCapacity({ seen, readyAt, goneAt, lastFailure }: Allocation, now: Instant): boolean {
  if (readyAt !== null || goneAt !== null) return false;
  if (lastFailure !== null) return lastFailure.error.kind === 'stockout';
  // CREATING: the queue has not decided yet.
  return seen?.state === 'waiting' && seen.detail !== 'CREATING' && now - seen.at >= queueUsually;
}

function pausePhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.notBefore <= now) return undefined;
  const retry = `retry in ${lengthText(attempt.notBefore - now)}`;
  const whole = `${endPhrase(job).replace(/, worker .*$/, '')}, ${retry}`;
  return whole.length <= reasonLongest ? whole : retry;
}

function recoveringPhrase(job: Job, now: Instant): string | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending !== null) return undefined;
  const allocation = allocationOf(job, attempt.allocation);
  const { lastFailure, readyAt } = allocation;
  const waits = ageText(now - attempt.createdAt);
  if (lacksCapacity(allocation, now)) return `no capacity for ${waits}`;
  if (readyAt === null && lastFailure !== null) return `${refusalWord(lastFailure.error)} for ${waits}`;
  return pausePhrase(job, now);
}

/** Before the first attempt: a cloud has a queue of its own, this machine gives out turns. */
function firstWait(job: Job): string {
  return takesTurns(job) ? 'waits for its turn' : 'waits for its first look';
}

/** While its cloud or a worker does not answer: since when. Whatever else was to be said is not known to hold any more. */
function silentPhrase(job: Job, now: Instant): string | undefined {
  const { silentSince = null, silentWho = null } = lastAllocation(job) ?? {};
  if (silentSince === null) return undefined;
  return `${silentWho === 'login' ? 'no login' : 'no answer'} for ${ageText(now - silentSince)}`;
}

function interruptedPhrase(job: Job, now: Instant): string | undefined {
  const since = interruptedSince(job);
  return since === undefined ? undefined : `interrupted for ${ageText(now - since)}`;
}

/** Since when the newest allocation has been seen interrupted; undefined when it is not, or does not answer. */
export function interruptedSince(job: Job): Instant | undefined {
  const allocation = lastAllocation(job);
  if (allocation?.seen?.state !== 'interrupted' || allocation.goneAt !== null || allocation.silentSince !== null)
    return undefined;
  return allocation.seen.at;
}

function setupPhrase(job: Job): string | undefined {
  const failures = openAttempt(job)?.failures ?? [];
  const [newest] = failures.toSorted((one, other) => other.lastAt - one.lastAt);
  const earlier = setupFailures(job);
  const times = `setup failed ${countText(earlier, 'time')}`;
  if (newest === undefined) return earlier === 0 ? undefined : times;
  const { task, tries } = newest;
  const failed = task.kind === 'step' ? task.step : task.kind;
  if (earlier > 0) return `${times}: ${failed}`;
  // Where nobody said how it ended, as when the line was cut, nothing has failed yet.
  if (tries === 0) return `${failed} broken off`;
  return `${failed} failed, ${tries} of ${countText(job.spec.limits.setupTries, 'try', 'tries')}`;
}

function setupFailures(job: Job): number {
  const attempt = lastAttempt(job);
  return attempt === undefined ? 0 : usedBudget(job, attempt, 'setupFailures').length;
}

function runPhrase(job: Job, now: Instant): string {
  const unclear = silentPhrase(job, now) ?? interruptedPhrase(job, now);
  if (unclear !== undefined) return unclear;
  const exit = openAttempt(job)?.exitSeen;
  if (exit !== undefined) return `${exitPhrase(exit)} just now`;
  const runs = lengthText(now - phaseSince(job));
  const preemptions = job.attempts.filter((attempt) => attempt.ending?.reason === 'preempted').length;
  if (preemptions > 0) return `${runs}, ${countText(preemptions, 'preemption')}`;
  const failures = job.attempts.filter(
    ({ endedAt, ending }) => endedAt !== null && ending !== null && budgetOf(ending.reason) === 'failures',
  ).length;
  return failures > 0 ? `${runs}, ${countText(failures, 'failure')}` : runs;
}

function stopPhrase(job: Job, now: Instant): string {
  const ending = openAttempt(job)?.ending ?? null;
  const unclear = ending === null ? undefined : (silentPhrase(job, now) ?? interruptedPhrase(job, now));
  if (unclear !== undefined) return unclear;
  const ago = ageText(now - phaseSince(job));
  if (ending === null) return `asked ${ago} ago`;
  return ending.reason === 'stopped' ? `asked ${ago} ago` : `${reasonWords[ending.reason]} ${ago} ago`;
}

/** Of a job without a command: whether its workers are still there. */
function setUpPhrase(job: Job): string {
  const allocation = lastAllocation(job);
  const isLetGo = allocation?.ownership === 'owned' && allocation.releasedAt !== null;
  return allocation === undefined || isLetGo || isLost(allocation) ? 'its TPU is gone' : 'set up; no command';
}

/** How long its command ran, over all attempts; the time in which what was left of one was being ended is not counted. */
function ranPhrase(job: Job): string {
  const runs = job.attempts.flatMap(({ startedAt, runningAt, ending, endedAt }) => {
    const until = ending?.since ?? endedAt ?? job.settled?.at ?? startedAt;
    return startedAt === null || until === null ? [] : [Math.max(0, until - (runningAt ?? startedAt))];
  });
  if (runs.length === 0) return 'done';
  const ran = `ran ${lengthText(runs.reduce((sum, run) => sum + run))}`;
  return runs.length === 1 ? ran : `${ran} in ${countText(runs.length, 'attempt')}`;
}

function endPhrase(job: Job): string {
  const attempt = job.attempts.findLast(({ ending }) => ending !== null);
  if (attempt === undefined || attempt.ending === null) return reasonWords[job.settled?.reason ?? 'stopped'];
  const { reason, evidence } = attempt.ending;
  // Where there is one worker, it is no news that it was that one.
  const isOneOfMany = evidence.worker !== undefined && workersOf(job, attempt).length > 1;
  const where = isOneOfMany ? `, ${workerText(evidence.worker)}` : '';
  switch (reason) {
    case 'command_failed':
      return `${exitPhrase(evidence)}${where}`;
    case 'setup_failed': {
      const times = setupFailures(job);
      return `${endWords(attempt.ending)}${times > 1 ? ` ${countText(times, 'time')}` : ''}${where}`;
    }
    case 'unreachable':
    case 'hung':
      return `${endWords(attempt.ending)}${where}`;
    case 'allocation_failed': {
      const kind = lastAllocation(job)?.lastFailure?.error.kind;
      return kind === undefined ? reasonWords[reason] : refusalWords[kind];
    }
    case 'succeeded':
    case 'stopped':
    case 'preempted':
    case 'timed_out':
      return reasonWords[reason];
  }
}

/** The same with its age; which worker it was is left out where there is no room for both. */
function endedPhrase(job: Job, age: string): string {
  const whole = `${endPhrase(job)}${age}`;
  return whole.length <= reasonLongest ? whole : `${whole.replace(/, worker .*$/, '')}${age}`;
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

function fit(phrase: string): string {
  return phrase.length <= reasonLongest ? phrase : `${phrase.slice(0, reasonLongest - 2)}..`;
}

// ------------------------------------------------------------------------------------------ attempts and allocations

/** The attempts, oldest first. */
export function attemptViews(job: Job): readonly AttemptView[] {
  return job.attempts.map((attempt) => ({
    attempt: attempt.ordinal,
    stage: attempt.stage,
    how: attempt.how,
    asked: attempt.asked,
    commandOnly: attempt.commandOnly === true,
    allocation: attempt.allocation,
    workers: workersOf(job, attempt),
    created: attempt.createdAt,
    notBefore: attempt.notBefore,
    started: attempt.startedAt,
    ending: attempt.ending?.since ?? null,
    ended: attempt.endedAt,
    reason: attempt.ending?.reason ?? null,
    evidence: attempt.ending?.evidence ?? null,
    exits: attempt.exits ?? [],
    workdir: attempt.workdir ?? null,
  }));
}

/** Where the command of that attempt runs; empty while the number of workers is not known. */
export function workersOf(job: Job, attempt: Attempt): readonly WorkerId[] {
  return commandWorkers(job.spec.command, allocationOf(job, attempt.allocation).workers ?? 0);
}

/** The allocations, oldest first. */
export function allocationViews(job: Job, now: Instant): readonly AllocationView[] {
  return job.allocations.map((allocation) => ({
    allocation: allocation.ordinal,
    name: allocation.name,
    ownership: allocation.ownership,
    state: stateOf(allocation),
    says: sayingOf(job, allocation, now),
    requested: allocation.requestedAt,
    ready: allocation.readyAt,
    released: allocation.releasedAt,
    gone: allocation.goneAt,
    workers: Array.from({ length: allocation.workers ?? 0 }, (_, worker) => ({
      worker,
      internalIp: allocation.hosts?.[worker]?.internalIp ?? null,
      externalIp: allocation.hosts?.[worker]?.externalIp ?? null,
    })),
  }));
}

function stateOf(allocation: Allocation): string {
  const { life, seen } = allocation;
  if (life === 'planned' || life === 'releasing' || life === 'gone') return life;
  return isNowhere(allocation) ? 'refused' : (seen?.state ?? 'asked');
}

function hostThere(allocation: Allocation | undefined): string | null {
  return allocation?.life === 'releasing' || allocation?.life === 'gone' ? null : hostOf(allocation, 0);
}

/** The address that a worker is known by: the outer one where it has one. */
export function hostOf(allocation: Allocation | undefined, worker: WorkerId): string | null {
  const host = worker === 'here' ? undefined : allocation?.hosts?.[worker];
  return host?.externalIp ?? host?.internalIp ?? null;
}

/** When the capacity is asked for again; null when nothing is to be asked, or at once. */
export function asksAgainAt(job: Job, now: Instant): Instant | null {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? undefined : job.allocations[attempt.allocation - 1];
  if (attempt === undefined || allocation === undefined || allocation.readyAt !== null) return null;
  const at = Math.max(attempt.notBefore, allocation.acceptedAt === null ? nextTryAt(job, allocation) : 0);
  return at > now ? at : null;
}
