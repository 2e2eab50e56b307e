// Job: a spec and everything that has happened to it. Values are immutable; `reconcile` returns a new job.
//
// The terms of the core (docs/glossary.md has all terms of the project):
//
//   job                    a spec plus everything that has happened to it; one id for life, an owner, a name
//   desired state          the owner's last request: running, stopped, cancelled or deleted (`Desired`)
//   start request          the owner's latest start, resume or rerun, not yet turned into an attempt
//   attempt, stage         one try at the command, numbered from 1; the stage counts resumes
//   allocation             capacity requested or held: planned, requested, confirmed, ready, lost, releasing, gone
//   alternative            another zone, type or price that the job accepts; 0 is the spec's own
//   worker run             the run of an attempt's command on one worker, and the last known state of its process
//   observation            the state of the outside with its time: known, or unknown (a failed check is never "absent")
//   situation              the class of a job and its observation: the first matching row of situations.ts
//   ending, reason, finish why an attempt must end (reason, with evidence), and the outcome of the job (finish)

import type { Digest } from '../../catalogue/digest.ts';
import type { Event } from './event.ts';
import type { LateTpu, ReadyPeriod } from './ready-periods.ts';
import { capacityAt, withJobIds } from './spec.ts';
import type { CapacitySpec, CommandSpec, JobSpec, Reason, SetupStep, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/**
 * The owner's last request.
 * `running`: the command should run. `stopped`: the program ends and the capacity is kept. `cancelled`: the program ends
 * and the capacity is released. `deleted`: as `cancelled`, and the job leaves the list once its capacity is deleted.
 */
export type Desired = 'running' | 'stopped' | 'cancelled' | 'deleted';

export interface Job {
  /** Six digits: `000001`. It never changes. */
  readonly id: string;
  /** Identifies this jobman database among others in the same cloud project. Six characters [a-z0-9]. */
  readonly installation: string;
  readonly owner: string;
  readonly createdAt: Instant;
  readonly spec: JobSpec;
  readonly desired: Desired;
  /** Null once an attempt answers it. A newer request replaces it. */
  readonly startRequest: StartRequest | null;
  /** True from `cancel` or `delete` until the next start request: the verdict is then `cancelled`, not `stopped`. */
  readonly cancelRequested: boolean;
  /** Time of the last stop, cancel or delete. The stop grace counts from the first stop action, not from here. */
  readonly desiredAt: Instant;
  readonly attempts: readonly Attempt[];
  readonly allocations: readonly Allocation[];
  /** The current copy of the working directory, if a copy was taken after the first. */
  readonly workdirCopy?: number;
  /** The blob with the list of the files of that copy. */
  readonly workdirTree?: Digest;
  /** No rule answers the end of the open attempt. The next start request clears it. */
  readonly recoveryDisabled?: true;
  /** The amount that the owner gave with a later start, instead of `job.budget` of the manifest. */
  readonly budgetUsd?: number;
  /** Most of `job.budget` was used when the owner was warned. The next start request clears it. */
  readonly budgetWarning?: Spending;
  /** The budgets of the owner of which most was used. The next start request clears them. */
  readonly ownerBudgetWarnings?: readonly OwnerBudget[];
  /** The user who last ended the job, if not its owner. */
  readonly endedBy?: string;
  /** Set when nothing more runs without a new start request. Capacity may still be releasing. */
  readonly finish: Finish | null;
  /** True once a deleted job has left the list. Its rows stay for history. */
  readonly removed: boolean;
  /**
   * The row of situations.ts that the newest pass acted on, or that a newer command causes. Absent before the first
   * pass. Another version of jobman may have stored a name that this version does not know.
   */
  readonly situation?: string;
}

/** `fresh` and `rerun` start at stage 0, `resume` at the stage after the last started attempt. */
export interface StartRequest {
  readonly startMode: 'fresh' | 'resume' | 'rerun';
  readonly at: Instant;
  /** Run only the command, on workers that are ready, and skip the setup steps (`run --cmd-only`). */
  readonly commandOnly?: true;
  /** Another job used the persistent TPU. The attempt begins once the TPU is free. */
  readonly waitsForTpu?: true;
  /** Jobs that this one replaces, also on other TPUs. The attempt begins once they have ended. With `waitsForTpu`. */
  readonly after?: readonly string[];
}

/** Outcome of a finished job: the verdict shown, and the reason of the last attempt. */
export interface Finish {
  readonly at: Instant;
  readonly verdict: 'succeeded' | 'failed' | 'stopped' | 'cancelled';
  readonly reason: Reason;
}

export interface Attempt {
  /** From 1. */
  readonly ordinal: number;
  /** Counts resumes: 0 for a start from the beginning. */
  readonly stage: number;
  /** `resume` sets JOBMAN_RESUME_FROM. */
  readonly startMode: StartRequest['startMode'];
  /** False if a recovery rule made it. Budgets and backoffs count from the newest attempt with true. */
  readonly startedByOwner: boolean;
  /** As in the start request. */
  readonly commandOnly?: true;
  /** The copy of the working directory that it runs. Absent if the job has none. */
  readonly workdirCopy?: number;
  /** Its allocation, by ordinal. It may change until the command starts. */
  readonly allocation: number;
  readonly createdAt: Instant;
  /** Backoff: no request for capacity and no start of the command before this time. */
  readonly notBeforeAt: Instant;
  /** Start of `notBeforeAt` after the attempt moved to another allocation or alternative. Absent: `createdAt`. */
  readonly movedAt?: Instant;
  /** Alternatives that had nothing to give: one entry each, for any number of requests. */
  readonly alternativesTried?: readonly TriedAlternative[];
  /** Failed tries on single workers: one entry per task. */
  readonly failures: readonly TaskFailure[];
  /** Commit of the first start. From here on a process may exist. */
  readonly startedAt: Instant | null;
  /** With `startedAt`: the home whose machine runs the programs of `localhost`. Absent: the home of the database. */
  readonly home?: HomeRef;
  /** First time the command was seen running on every worker that runs it. */
  readonly runningAt: Instant | null;
  /** With `resume`: the checkpoint from which the program continues. Absent: not reported. */
  readonly resumedFrom?: ResumedFrom;
  /** The first failed exit that is not judged yet. The owner may accept it (`accept-exit`). */
  readonly exitSeen?: ExitSeen;
  /** Time at which the owner asked to judge that exit without the wait. */
  readonly exitAcceptedAt?: Instant;
  /** Set once the attempt must end; the first reason stays. `endedAt` follows when no process of it can be alive. */
  readonly ending: Ending | null;
  readonly endedAt: Instant | null;
  /** Exits of its program, grouped by code and signal. Absent before its end, or if no worker reported one. */
  readonly exits?: readonly Exit[];
}

/** US dollars that count against a budget, and the budget. */
export interface Spending {
  /** By the job since its owner's newest start, or by its owner since the beginning of the period. */
  readonly spentUsd: number;
  readonly budgetUsd: number;
  /** Absent: `job.budget`. */
  readonly ownerBudget?: OwnerBudget;
}

/** The budget of the job's owner in one period of a grant. The jobs of the owner that match the grant share it. */
export interface OwnerBudget {
  /** The capacity of the grant: `spot v4-* in us-*`, `all TPUs`. */
  readonly grant: string;
  readonly period: BudgetPeriod;
  /** The end of the period: a midnight in UTC, at which the next one begins. */
  readonly endsAt: Instant;
}

/** Periods of the calendar in UTC; a week begins on Monday. */
export type BudgetPeriod = 'day' | 'week' | 'month';

/** The newest complete checkpoint at the start of an attempt. Both null: the program found none. */
export interface ResumedFrom {
  readonly entry: string | null;
  /** The time of the entry in its folder, by the worker's clock. */
  readonly savedAt: Instant | null;
}

/** An alternative that had nothing to give to one attempt. */
export interface TriedAlternative {
  readonly alternative: number;
  readonly failedRequests: number;
  /** The newest answer, its time, and the error if it was a refusal. */
  readonly answer: CapacityAnswer;
  readonly at: Instant;
  readonly error?: CloudError;
}

/** An exit code, and the workers on which the program ended with it. */
export interface Exit {
  readonly exitCode: number;
  readonly signal?: string;
  readonly workers: readonly WorkerId[];
}

/** Failures of one task on one worker. `message` is the newest one. */
export interface TaskFailure {
  readonly task: WorkerTask;
  readonly tries: number;
  readonly lastAt: Instant;
  readonly message: string;
  /** Name of the log pattern that classifies the failure. */
  readonly pattern?: string;
  /** Another try would get the same refusal, so none follows. */
  readonly isFinal?: true;
}

export interface ExitSeen {
  readonly at: Instant;
  readonly worker: WorkerId;
  readonly exitCode: number;
  readonly signal?: string;
  /** As in `Evidence`. */
  readonly pattern?: string;
}

/** A home of jobman on a machine. Several may use one database on a server. */
export interface HomeRef {
  readonly id: string;
  readonly machine: string;
  /** For people. */
  readonly path: string;
}

export interface Ending {
  readonly reason: Reason;
  readonly evidence: Evidence;
  /** Time of the decision. If the program ended by itself, the time of its exit as its worker reports it. */
  readonly startedAt: Instant;
  /** Commit of the first stop. */
  readonly stopRequestedAt: Instant | null;
  /** The first stop that may have reached each worker; its grace counts from there. Absent before any. */
  readonly stopSentAt?: readonly { readonly worker: WorkerId; readonly at: Instant }[];
  /** Workers that confirmed a stop. No program gets the stop signal twice: many take a second one as "end now". */
  readonly stopConfirmedBy: readonly WorkerId[];
}

/** Evidence for a reason. `message` is one phrase for people. */
export interface Evidence {
  readonly message: string;
  readonly worker?: WorkerId;
  readonly exitCode?: number;
  readonly signal?: string;
  /** The exit code was 0, but the program did not report its success (`RunStatus.failure`). */
  readonly unconfirmed?: true;
  /** Name of the log pattern that matched. */
  readonly pattern?: string;
  /** The line that matched, or the exception with which a Python program ended. */
  readonly line?: string;
  /** The cloud's own message. */
  readonly raw?: string;
  /** The budget that is used up, and its spending at that time. */
  readonly budget?: Spending;
}

/** The fields of an allocation in any part of its lifecycle. */
export interface AllocationFields {
  /** From 1. */
  readonly ordinal: number;
  readonly ownership: 'ephemeral' | 'persistent';
  /** Its name in the cloud (`nodeName`). */
  readonly name: string;
  /** 0 or absent: the spec's own; from 1: `tpu.alternatives` in order. It changes if nothing was created. */
  readonly alternative?: number;
  /** A request was committed and its reply has not arrived: the allocation may exist. */
  readonly isRequestInFlight?: boolean;
  /** A request ended without an answer: the allocation may appear at any time, whatever later requests return. */
  readonly hasUnansweredRequest?: true;
  /** Time at which a request elsewhere replaced it before it was ready, and the answer of its alternative. */
  readonly superseded?: { readonly at: Instant; readonly answer: CapacityAnswer };
  /** Commit of the first request (persistent: first use). It may exist from here on, whatever the replies say. */
  readonly requestedAt: Instant | null;
  /** Time at which the newest request (after `releasedAt`: release) was accepted, or the allocation was first seen. */
  readonly confirmedAt: Instant | null;
  /** Failed requests (after `releasedAt`: releases) so far. Sets the pace of the next one. */
  readonly errorCount: number;
  readonly lastError: { readonly at: Instant; readonly error: CloudError } | null;
  readonly lastObserved: { readonly state: AllocationState; readonly detail: string; readonly at: Instant } | null;
  /** Time of its first request, if it was requested in another alternative before. */
  readonly waitingSince?: Instant;
  /** When the cloud charges for it (`readyPeriodsOf`). Absent before the first period, and in older records. */
  readonly readyPeriods?: readonly ReadyPeriod[];
  /** At most one for each alternative. Absent before the first. */
  readonly lateTpus?: readonly LateTpu[];
  /** First time it was seen ready, and its number of workers. */
  readonly readyAt: Instant | null;
  readonly workers: number | null;
  /** Persistent only: its creation time in the cloud, which differs for a later one of the same name. */
  readonly creationTime?: string;
  /** Worker addresses in order, from the last observation that saw it ready. Null before. */
  readonly hosts: readonly Host[] | null;
  /** The slot of the job on each of its hosts, in the order of the workers. Absent: a TPU, or an older record. */
  readonly slots?: readonly Slot[];
  /** First of two observations that missed it. Only the second one proves that it is gone. */
  readonly firstMissedAt: Instant | null;
  /** First pass without an answer from a worker or the cloud, or a later silence that replaced it. */
  readonly unreachableAt: Instant | null;
  /**
   * The party that does not answer. A worker's silence ends the attempt only while the cloud answers and reports
   * `ready`: a broken connection of this machine silences both. `login`: this machine has no valid login for the cloud.
   * `home` and `machine`: as `Unknown.elsewhere`.
   */
  readonly unreachableWho: 'cloud' | 'worker' | 'login' | 'home' | 'machine' | null;
  /** Commit of the release. Nothing starts on it from here on. */
  readonly releasedAt: Instant | null;
  /** Time at which it was observed as deleted, or known never to have been created. */
  readonly goneAt: Instant | null;
}

/** Capacity requested or held for the job. Attempts may share one. */
export interface Allocation extends AllocationFields {
  /**
   * `planned`: not requested yet. `requested`: a request is in flight, was refused or got no answer, so the allocation may
   * exist. `confirmed`: a request was accepted, or the allocation was seen. `ready`. `lost`: never usable again, and not
   * released yet. `releasing`: its deletion is repeated until two observations miss it. `gone`: deleted, or never created.
   */
  readonly lifecycle: 'planned' | 'requested' | 'confirmed' | 'ready' | 'lost' | 'releasing' | 'gone';
}

/** The allocation with the lifecycle that its fields imply. */
export function withLifecycle(fields: AllocationFields): Allocation {
  return { ...fields, lifecycle: lifecycleOf(fields) };
}

function lifecycleOf({
  goneAt,
  releasedAt,
  readyAt,
  confirmedAt,
  requestedAt,
  lastObserved,
}: AllocationFields): Allocation['lifecycle'] {
  if (goneAt !== null) return 'gone';
  if (releasedAt !== null) return 'releasing';
  if (requestedAt === null) return 'planned';
  if (lastObserved !== null && isUnusable(lastObserved.state)) return 'lost';
  if (readyAt !== null) return 'ready';
  return confirmedAt === null ? 'requested' : 'confirmed';
}

function isUnusable(state: AllocationState): boolean {
  return state === 'lost' || state === 'releasing' || state === 'foreign' || state === 'absent';
}

/** True if it is gone, or if its last observed state means that it is never usable again. */
export function isLost({ lifecycle, lastObserved }: Allocation): boolean {
  return lifecycle === 'gone' || (lastObserved !== null && isUnusable(lastObserved.state));
}

/** Addresses of one worker. Without an external address jobman uses the internal one. */
export interface Host {
  readonly internalIp: string | null;
  readonly externalIp: string | null;
}

/** One of the slots of a host, numbered from 0, and the numbers of the GPUs that belong to it. */
export interface Slot {
  readonly slot: number;
  /** Absent: the host declares no GPUs. */
  readonly gpus?: readonly number[];
}

/** The observable states of an allocation. `AllocationStatus` explains each. */
export type AllocationState =
  | 'absent'
  | 'waiting'
  | 'provisioning'
  | 'ready'
  | 'interrupted'
  | 'lost'
  | 'releasing'
  | 'foreign';

/** `permission`, `invalid` and `not_found` are permanent: the same request gets the same answer. */
export type CloudErrorKind =
  | 'quota'
  | 'stockout'
  | 'permission'
  | 'invalid'
  | 'rate_limited'
  | 'not_found'
  | 'internal'
  | 'unreachable';

/** Answer of an alternative without capacity: the kind of its refusal, or `waiting` if the request waited too long. */
export type CapacityAnswer = CloudErrorKind | 'waiting';

/** A refusal by the cloud. Rules use `kind`. `message` is one sentence for people, `raw` is the cloud's own text. */
export interface CloudError {
  readonly kind: CloudErrorKind;
  readonly message: string;
  readonly raw: string;
  /** With `unreachable`: a missing login caused it. */
  readonly noLogin?: true;
  /** With `permission`: the Google API that is disabled in the project, such as `tpu.googleapis.com`. */
  readonly disabledService?: string;
}

/** US dollars of `job.budget`: the newest amount that the owner gave. Undefined without one. */
export function budgetUsdOf({ budgetUsd, spec }: Job): number | undefined {
  return budgetUsd ?? spec.limits.budgetUsd;
}

/** The workers that run the command, given the number of workers of the allocation. */
export function commandWorkers(command: CommandSpec, workers: number): readonly WorkerId[] {
  if (command.runsOn === 'controller') return ['controller'];
  if (command.workers !== 'all') return command.workers;
  return Array.from({ length: workers }, (_, index) => index);
}

/** The copy of the working directory for the next attempt. Undefined if the job has none. */
export function workdirCopyOf(job: Job): number | undefined {
  return job.spec.workdir === undefined ? undefined : (job.workdirCopy ?? 1);
}

/** The list of the files of that copy. Null if they are in the job's folder, or without a working directory. */
export function workdirTreeOf({ spec, workdirTree }: Pick<Job, 'spec' | 'workdirTree'>): Digest | null {
  return workdirTree ?? spec.workdir?.tree ?? null;
}

/** The setup steps. The step that brings a working directory brings the current copy. */
export function stepsOf(job: Job): readonly SetupStep[] {
  const workdirCopy = job.workdirCopy;
  if (workdirCopy === undefined) return job.spec.steps;
  return job.spec.steps.map((step) =>
    step.workdirCopy === undefined ? step : { ...step, key: workdirKey(workdirCopy), workdirCopy },
  );
}

/** Key of the proof that a worker has that copy. */
export function workdirKey(workdirCopy: number): string {
  return `workdir-${workdirCopy}`;
}

export function lastAttempt(job: Job): Attempt | undefined {
  return job.attempts.at(-1);
}

/** The newest attempt, unless it has ended. */
export function openAttempt(job: Job): Attempt | undefined {
  const attempt = job.attempts.at(-1);
  return attempt !== undefined && attempt.endedAt === null ? attempt : undefined;
}

/** Throws if the job has no such allocation, which is a bug. */
export function allocationOf(job: Job, ordinal: number): Allocation {
  return itemOf(job, job.allocations, ordinal, 'allocation');
}

/** Throws if the job has no such attempt, which is a bug. */
export function attemptOf(job: Job, ordinal: number): Attempt {
  return itemOf(job, job.attempts, ordinal, 'attempt');
}

function itemOf<T extends { readonly ordinal: number }>(job: Job, all: readonly T[], ordinal: number, name: string): T {
  const item = all[ordinal - 1];
  if (item?.ordinal !== ordinal) throw new Error(`job ${job.id} has no ${name} ${ordinal}, or a gap in their numbers`);
  return item;
}

export function failureOf({ failures }: Attempt, task: WorkerTask): TaskFailure | undefined {
  return failures.find((one) => taskKey(one.task) === taskKey(task));
}

export function lastAllocation(job: Job): Allocation | undefined {
  return job.allocations.at(-1);
}

/** The newest allocation, if a new attempt can use it. */
export function usableAllocation(job: Job): Allocation | undefined {
  const allocation = lastAllocation(job);
  return ['lost', 'releasing', 'gone'].includes(allocation?.lifecycle ?? 'gone') ? undefined : allocation;
}

export function mayExist(allocation: Allocation): boolean {
  return allocation.requestedAt !== null && allocation.goneAt === null;
}

/** True if a program may be alive that removal does not end: on this machine, or on a persistent allocation. */
export function mayOutliveRemoval(job: Job): boolean {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt === null) return false;
  return job.spec.command.runsOn === 'controller' || allocationOf(job, attempt.allocation).ownership === 'persistent';
}

/** True if the job is to run and has not finished. */
export function isDesiredRunning({ desired, finish }: Pick<Job, 'desired' | 'finish'>): boolean {
  return desired === 'running' && finish === null;
}

/** True for a job removed by force. jobman still copies the outputs of every other removed job. */
export function isForceRemoved(job: Job): boolean {
  return job.removed && (job.finish === null || heldAllocations(job).length > 0);
}

/** Each late TPU as an allocation of its own that was released before it became ready, so that no attempt uses it. */
export function lateAllocations({ lateTpus = [], ...allocation }: Allocation): readonly Allocation[] {
  return lateTpus.map(({ alternative, readyPeriods }) => {
    const { waitingSince: _waitingSince, ...rest } = allocation;
    const releasedAt = readyPeriods[0]?.from ?? null;
    const late = { alternative, readyPeriods, requestedAt: null, lastObserved: null, releasedAt, goneAt: releasedAt };
    return withLifecycle({ ...rest, ...late });
  });
}

/** True while no request was accepted and nothing was observed. */
export function isUnconfirmed({ confirmedAt, lastObserved, readyAt, releasedAt }: Allocation): boolean {
  return confirmedAt === null && lastObserved === null && readyAt === null && releasedAt === null;
}

/** True if every request was refused and nothing was observed, so that no observation must prove its absence. */
export function wasNeverCreated(allocation: Allocation): boolean {
  const { ownership, isRequestInFlight, hasUnansweredRequest, lastError, goneAt } = allocation;
  if (ownership !== 'ephemeral' || goneAt !== null || lastError === null) return false;
  return isUnconfirmed(allocation) && isRequestInFlight !== true && hasUnansweredRequest !== true;
}

/** Ephemeral allocations that may exist. */
export function heldAllocations(job: Job): readonly Allocation[] {
  return job.allocations.filter((allocation) => allocation.ownership === 'ephemeral' && mayExist(allocation));
}

/** The capacity of that allocation's alternative; the spec's own if there is no allocation. */
export function capacityOf(
  job: Pick<Job, 'spec'>,
  allocation: Pick<Allocation, 'alternative'> | undefined,
): CapacitySpec {
  return capacityAt(job.spec.capacity, allocation?.alternative ?? 0);
}

/** A task of an attempt on one worker: a setup step, or the start or stop of the command. */
export type WorkerTask =
  | { readonly kind: 'step'; readonly worker: number; readonly step: string }
  | { readonly kind: 'start' | 'stop'; readonly worker: WorkerId };

/** A unique key: `3/docker`, `start/3`. Only the store parses it. */
export function taskKey(task: WorkerTask): string {
  return task.kind === 'step' ? `${task.worker}/${task.step}` : `${task.kind}/${task.worker}`;
}

/** A new job with desired state `running`, and the first event of its history. */
export function newJob(input: {
  readonly id: string;
  readonly installation: string;
  readonly owner: string;
  /** The user who created it, if not its owner. */
  readonly by?: string;
  readonly spec: JobSpec;
  readonly at: Instant;
  readonly waitsForTpu?: boolean;
  readonly after?: readonly string[];
}): { readonly job: Job; readonly event: Event } {
  const job: Job = {
    id: input.id,
    installation: input.installation,
    owner: input.owner,
    createdAt: input.at,
    spec: withJobIds(input.spec, input.id, input.installation),
    desired: 'running',
    startRequest: {
      startMode: 'fresh',
      at: input.at,
      ...(input.waitsForTpu === true && {
        waitsForTpu: true,
        ...(input.after !== undefined && { after: input.after }),
      }),
    },
    cancelRequested: false,
    desiredAt: input.at,
    attempts: [],
    allocations: [],
    finish: null,
    removed: false,
  };
  const { overrides } = job.spec;
  const by = input.by ?? input.owner;
  return { job, event: { kind: 'created', at: input.at, by, ...(overrides !== undefined && { overrides }) } };
}

/** The verdict as it reads after `has`: `been stopped`, `succeeded`. */
export function formatVerdict(verdict: Finish['verdict']): string {
  return verdict === 'stopped' || verdict === 'cancelled' ? `been ${verdict}` : verdict;
}
