// Job: a spec and all that has happened to it. This is the record that `reconcile` reads and returns.
// Values never change under you: a rule returns a new job.

import type { Event } from './decision.ts';
import { capacityAt, withJobIds } from './spec.ts';
import type { CapacitySpec, CommandSpec, JobSpec, Reason, SetupStep, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/**
 * The owner's newest command.
 * `run`: the command is to run. `hold`: the program is ended, the capacity kept. `end`: the program is ended, the
 * capacity released. `delete`: as `end`, and the job is taken off the list once its capacity is seen gone.
 */
export type Desired = 'run' | 'hold' | 'end' | 'delete';

/** The whole record of one job; nothing about it is remembered anywhere else. */
export interface Job {
  /** Six digits, `000001`; one id for life. */
  readonly id: string;
  /** Identifies this jobman's record among others that use the same cloud project; six characters [a-z0-9]. */
  readonly installation: string;
  readonly owner: string;
  readonly createdAt: Instant;
  readonly spec: JobSpec;
  readonly desired: Desired;
  /** The owner's newest wish to start again, not yet answered by an attempt; a second wish replaces the first. */
  readonly wish: Wish | null;
  /** True from `cancel` or `delete` until a later wish: the word shown is `cancelled`, not `stopped`. */
  readonly cancelled: boolean;
  /** When the owner last said stop, cancel or delete; the stop grace counts from the first stop action, not from here. */
  readonly desiredAt: Instant;
  readonly attempts: readonly Attempt[];
  readonly allocations: readonly Allocation[];
  /** The copy of its working directory that counts, where one was taken anew since the first. */
  readonly copy?: number;
  /** Its owner has said that what is under way is the last: no rule answers its end, until they want the job run again. */
  readonly answersNothing?: true;
  /** The user who last had it ended, where that is not its owner. */
  readonly endedBy?: string;
  /** Set when nothing more will run without a new wish. Capacity may still be on its way out. */
  readonly settled: Settled | null;
  /** True once a deleted job has been taken off the list; its rows stay for history. */
  readonly removed: boolean;
  /**
   * Name of a row of the situation table (situation.ts): of the one that decided the newest pass (the first, where an end was
   * decided and the table read again), or that a newer command of the owner brings about. Absent before the first pass, and
   * unknown where another version of jobman wrote it.
   */
  readonly situation?: string;
}

/** `fresh` and `rerun` start at stage 0, `resume` at the stage after the last. */
export interface Wish {
  readonly how: 'fresh' | 'resume' | 'rerun';
  readonly at: Instant;
  /** True when just the command is wanted, on workers that are ready: setup steps are passed over (`run --cmd-only`). */
  readonly commandOnly?: true;
}

/** How it all came out: the word shown, and the reason of the last attempt. */
export interface Settled {
  readonly at: Instant;
  readonly verdict: 'succeeded' | 'failed' | 'stopped' | 'cancelled';
  readonly reason: Reason;
}

/** One try at the command. */
export interface Attempt {
  /** From 1. */
  readonly ordinal: number;
  /** Counts resumes: 0 for a fresh start. */
  readonly stage: number;
  /** How it came to be; `resume` sets JOBMAN_RESUME_FROM. */
  readonly how: Wish['how'];
  /** True when the owner's command made it, false when a rule did. Budgets and backoffs count from the newest such one. */
  readonly asked: boolean;
  /** As in the wish that it answers. */
  readonly commandOnly?: true;
  /** The copy of the working directory that it runs; absent when the job has none. */
  readonly workdir?: number;
  /** The allocation that it runs on; another one after it, as long as none was ready. */
  readonly allocation: number;
  readonly createdAt: Instant;
  /** Not before this moment may capacity be asked or the command be started for it (backoff). */
  readonly notBefore: Instant;
  /** When `notBefore` was set anew for another allocation or place; absent while it counts from `createdAt`. */
  readonly movedAt?: Instant;
  /** The spec's places that had nothing to give to it: one entry for each, however often it was asked. */
  readonly placesPassed?: readonly PlacePassed[];
  /** Tries on single workers that failed so far: one entry for each task. */
  readonly failures: readonly StepFailure[];
  /** First time the command was committed to be started; from here a process may exist. */
  readonly startedAt: Instant | null;
  /** First time the command was seen running on every worker that runs it. */
  readonly runningAt: Instant | null;
  /**
   * The first exit that is not judged yet, since its cause may still show. While it is set, an older observation is outdated, and the
   * owner may have it judged.
   */
  readonly exitSeen?: ExitSeen;
  /** When its owner asked to have that exit judged without the wait. */
  readonly judgeAt?: Instant;
  /** Set once the attempt must end: the first reason stands. `endedAt` follows when no process of it can be alive. */
  readonly ending: Ending | null;
  readonly endedAt: Instant | null;
  /** How its program ended on each worker that has told so, by how; absent until it has ended, and where none has. */
  readonly exits?: readonly Exit[];
}

/** A place that had nothing to give to one attempt. */
export interface PlacePassed {
  readonly place: number;
  /** How often it was asked in vain. */
  readonly asks: number;
  /** Its newest answer, when that came, and its words where it was a refusal. */
  readonly answer: PlaceAnswer;
  readonly at: Instant;
  readonly error?: CloudError;
}

/** An exit code and where the program ended with it. */
export interface Exit {
  readonly exitCode: number;
  readonly signal?: string;
  readonly workers: readonly WorkerId[];
}

/** How often a task has failed on one worker, when last, and in its own words. */
export interface StepFailure {
  readonly task: WorkerTask;
  readonly tries: number;
  readonly lastAt: Instant;
  readonly detail: string;
  /** Name of a pattern, where one tells what kind of failure it was. */
  readonly pattern?: string;
  /** A further try would be refused in the same words, so none follows. */
  readonly isFinal?: true;
}

/** A program that has ended on one worker, other than well. */
export interface ExitSeen {
  readonly at: Instant;
  readonly worker: WorkerId;
  readonly exitCode: number;
  readonly signal?: string;
  /** As in Evidence: rules may ask for it. */
  readonly pattern?: string;
}

/** Why an attempt must end, and how far the ending of its processes has come. */
export interface Ending {
  readonly reason: Reason;
  readonly evidence: Evidence;
  /** When that was decided; where the program ended by itself, when it did, if its worker tells so. */
  readonly since: Instant;
  /** First time a stop was committed for it; the grace counts from here. */
  readonly stopAskedAt: Instant | null;
  /** Workers from which a stop came back done. A program gets the stop signal once: a second one means "now" to many. */
  readonly told: readonly WorkerId[];
}

/** The evidence for a reason. Every field is optional; `detail` is one phrase for people. */
export interface Evidence {
  readonly detail: string;
  readonly worker?: WorkerId;
  readonly exitCode?: number;
  readonly signal?: string;
  /** Set where the exit code was 0 and the command did not report its success, as `CommandSpec` says it must. */
  readonly unconfirmed?: true;
  /** Name of the log pattern that matched, and the line. */
  readonly pattern?: string;
  readonly line?: string;
  /** The cloud's raw words, kept. */
  readonly raw?: string;
}

/** What is recorded of an allocation, in whatever part of its life. */
export interface AllocationFields {
  /** From 1. */
  readonly ordinal: number;
  readonly ownership: 'owned' | 'standing';
  /** The name the outside knows it by. */
  readonly name: string;
  /** Its alternative: 0 or absent for the spec's own, from 1 the others in order. It changes when a refusal leaves it nowhere. */
  readonly place?: number;
  /** A request was committed and has not come back: something may come of it. */
  readonly isAsking?: boolean;
  /** A request came back without an answer: something may come of it, at any time, whatever later ones were told. */
  readonly isDoubtful?: true;
  /** When another was asked for in its stead before it was ever ready, and what its place had answered. */
  readonly passedOver?: { readonly at: Instant; readonly answer: PlaceAnswer };
  /** When its request was committed, or a standing one taken up: from here it may exist outside, whatever the replies say. */
  readonly requestedAt: Instant | null;
  /** When the newest request (after `releasedAt`: release) came back done. Looks lag behind it; it is not sent again at once. */
  readonly acceptedAt: Instant | null;
  /** Requests (after `releasedAt`: releases) that came back with an error so far, for the pace of the next. */
  readonly requestFailures: number;
  readonly lastFailure: { readonly at: Instant; readonly error: CloudError } | null;
  /** The last thing a look said about it, kept to notice changes (each change is an event). */
  readonly seen: { readonly state: AllocationState; readonly detail: string; readonly at: Instant } | null;
  /** First time it was seen ready, and how many workers it has. */
  readonly readyAt: Instant | null;
  readonly workers: number | null;
  /** Of a standing one: which of those of its name it was when it was first seen ready, by the cloud's word for when it was made. */
  readonly made?: string;
  /** Addresses of the workers, in their order, as the last look that saw it ready gave them; null before. */
  readonly hosts: readonly Host[] | null;
  /** First of two looks that missed it, to check twice before it counts as gone. */
  readonly missedAt: Instant | null;
  /** Time of the first pass that got no answer from a worker, or about the allocation; null when all answer. */
  readonly silentSince: Instant | null;
  /**
   * Who is silent since then. The grace after which a silent worker ends the attempt runs only while the cloud itself
   * answers and says `ready`: a line that is cut at our end silences both, and must cost nobody an attempt.
   * `login`: the cloud cannot be asked, because this machine has no valid login.
   */
  readonly silentWho: 'allocation' | 'worker' | 'login' | null;
  /** Set when the release was committed. Nothing is started on it from here. */
  readonly releasedAt: Instant | null;
  /** Set when a look has seen it gone after the release (or gone by itself). Settled means empty rests on this. */
  readonly goneAt: Instant | null;
}

/** Capacity requested or held for the job, in each part of its life with its possible values only. Attempts may share one. */
export type Allocation = AllocationFields & AllocationLife;

type AllocationLife =
  /** Not requested yet. */
  | (NeverAccepted & { readonly life: 'planned'; readonly requestedAt: null; readonly missedAt: null })
  /** A request is under way, was refused or got no answer: it may exist outside. */
  | (NeverAccepted & { readonly life: 'requested'; readonly requestedAt: Instant })
  /** A request was accepted, or the allocation was seen: it is waited for. */
  | (Unready & { readonly life: 'accepted'; readonly requestedAt: Instant; readonly acceptedAt: Instant })
  /** It was seen ready, and can be used whenever it is seen so. */
  | (Kept & {
      readonly life: 'ready';
      readonly requestedAt: Instant;
      readonly acceptedAt: Instant;
      readonly readyAt: Instant;
      readonly workers: number;
    })
  /** It will never be usable again, and was not released yet. */
  | (Kept & {
      readonly life: 'lost';
      readonly requestedAt: Instant;
      readonly seen: NonNullable<AllocationFields['seen']>;
    })
  /** Its release was committed, and it was not seen gone yet. */
  | (Unwatched & { readonly life: 'releasing'; readonly releasedAt: Instant; readonly goneAt: null })
  /** It was seen gone, or never came to be. */
  | (Unwatched & { readonly life: 'gone'; readonly goneAt: Instant; readonly missedAt: null });

interface Kept {
  readonly releasedAt: null;
  readonly goneAt: null;
}

interface Unready extends Kept {
  readonly readyAt: null;
  readonly workers: null;
  readonly hosts: null;
}

interface NeverAccepted extends Unready {
  readonly acceptedAt: null;
}

interface Unwatched {
  readonly silentSince: null;
  readonly silentWho: null;
}

/** The allocation with the part of its life that its fields tell. */
export function withLife(fields: AllocationFields): Allocation {
  // The fields decide; that they fit their part of the life, the simulator and the enumeration prove (sim/pass-history.ts).
  return { ...fields, life: lifeOf(fields) } as Allocation;
}

function lifeOf({ goneAt, releasedAt, readyAt, acceptedAt, requestedAt, seen }: AllocationFields): Allocation['life'] {
  if (goneAt !== null) return 'gone';
  if (releasedAt !== null) return 'releasing';
  if (requestedAt === null) return 'planned';
  if (seen !== null && isUnusable(seen.state)) return 'lost';
  if (readyAt !== null) return 'ready';
  return acceptedAt === null ? 'requested' : 'accepted';
}

/** True for a state after which an allocation is never usable again. */
export function isUnusable(state: AllocationState): boolean {
  return state === 'lost' || state === 'releasing' || state === 'foreign' || state === 'absent';
}

/** Where one worker is reached. A worker without an external address is reached by its internal one. */
export interface Host {
  readonly internalIp: string | null;
  readonly externalIp: string | null;
}

/** The states of an allocation that can be observed; `AllocationSeen` has the meaning of each. */
export type AllocationState =
  | 'absent'
  | 'waiting'
  | 'provisioning'
  | 'ready'
  | 'interrupted'
  | 'lost'
  | 'releasing'
  | 'foreign';

/** The class of a cloud's refusal. No retry follows the permanent ones: permission, invalid, not_found. */
export type CloudErrorKind =
  | 'quota'
  | 'stockout'
  | 'permission'
  | 'invalid'
  | 'rate_limited'
  | 'not_found'
  | 'internal'
  | 'unreachable';

/** The answer of a place that had nothing to give: the class of its refusal, or that it let the request wait for too long. */
export type PlaceAnswer = CloudErrorKind | 'waiting';

/** A refusal by the cloud: its class decides, its words are for people. */
export interface CloudError {
  readonly kind: CloudErrorKind;
  /** One sentence for people. */
  readonly message: string;
  /** The cloud's own words. */
  readonly raw: string;
  /** True of an `unreachable` that a missing login caused. */
  readonly noLogin?: true;
}

/** The places where the command runs, once the number of workers is known. */
export function commandWorkers(command: CommandSpec, workers: number): readonly WorkerId[] {
  if (command.place === 'here') return ['here'];
  if (command.workers !== 'all') return command.workers;
  return Array.from({ length: workers }, (_, index) => index);
}

/** The copy of the working directory that the next attempt runs; undefined when the job has none. */
export function copyOf(job: Job): number | undefined {
  return job.spec.workdir === undefined ? undefined : (job.copy ?? 1);
}

/** The setup steps as they are now: the one that brings a working directory brings the copy that counts. */
export function stepsOf(job: Job): readonly SetupStep[] {
  const copy = job.copy;
  if (copy === undefined) return job.spec.steps;
  return job.spec.steps.map((step) =>
    step.workdir === undefined ? step : { ...step, key: workdirKey(copy), workdir: copy },
  );
}

/** The key of the proof that a worker has that copy. */
export function workdirKey(copy: number): string {
  return `workdir-${copy}`;
}

/** The newest attempt, ended or not. */
export function lastAttempt(job: Job): Attempt | undefined {
  return job.attempts.at(-1);
}

/** The attempt that is under way: the newest one, unless it has ended. */
export function openAttempt(job: Job): Attempt | undefined {
  const attempt = job.attempts.at(-1);
  return attempt !== undefined && attempt.endedAt === null ? attempt : undefined;
}

/** The allocation of that number. Throws when the record names one it does not hold, which is our own bug. */
export function allocationOf(job: Job, ordinal: number): Allocation {
  const allocation = job.allocations[ordinal - 1];
  if (allocation === undefined || allocation.ordinal !== ordinal) {
    throw new Error(`job ${job.id} holds no allocation ${ordinal}; its allocations are numbered from 1 without a gap`);
  }
  return allocation;
}

/** The attempt of that number. Throws when the record names one it does not hold, which is our own bug. */
export function attemptOf(job: Job, ordinal: number): Attempt {
  const attempt = job.attempts[ordinal - 1];
  if (attempt === undefined || attempt.ordinal !== ordinal) {
    throw new Error(`job ${job.id} holds no attempt ${ordinal}; its attempts are numbered from 1 without a gap`);
  }
  return attempt;
}

/** The failure of that task so far, if it has failed. */
export function failureOf({ failures }: Attempt, task: WorkerTask): StepFailure | undefined {
  return failures.find((one) => isSameTask(one.task, task));
}

/** The newest allocation, gone or not. */
export function lastAllocation(job: Job): Allocation | undefined {
  return job.allocations.at(-1);
}

/** True while the allocation may exist outside: it was asked for and no look has seen it gone. */
export function mayExist(allocation: Allocation): boolean {
  return allocation.requestedAt !== null && allocation.goneAt === null;
}

/** True while a program may be alive that a removal does not end: on this machine, or on a standing allocation. */
export function outlivesRemoval(job: Job): boolean {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt === null) return false;
  return job.spec.command.place === 'here' || allocationOf(job, attempt.allocation).ownership === 'standing';
}

/** True for a job that was removed by force. The outputs of any other removed job are copied as after any end. */
export function isUnread(job: Job): boolean {
  return job.removed && (job.settled === null || heldAllocations(job).length > 0);
}

/** True while no request was accepted and nothing was seen of it. It is requested again, which finds what a lost reply hid. */
export function isUnconfirmed({ acceptedAt, seen, readyAt, releasedAt }: Allocation): boolean {
  return acceptedAt === null && seen === null && readyAt === null && releasedAt === null;
}

/** True when every request was refused and nothing was ever seen of it: it does not exist, and needs no observation to say so. */
export function isNowhere(allocation: Allocation): boolean {
  const { ownership, isAsking, isDoubtful, lastFailure, goneAt } = allocation;
  if (ownership !== 'owned' || goneAt !== null || lastFailure === null) return false;
  return isUnconfirmed(allocation) && isAsking !== true && isDoubtful !== true;
}

/** Owned allocations that may exist outside. Empty is what "settled means empty" asks for. */
export function heldAllocations(job: Job): readonly Allocation[] {
  return job.allocations.filter((allocation) => allocation.ownership === 'owned' && mayExist(allocation));
}

/** The capacity that is requested, or held, as that allocation; the spec's own where the job has none yet. */
export function capacityOf(job: Pick<Job, 'spec'>, allocation: Pick<Allocation, 'place'> | undefined): CapacitySpec {
  return capacityAt(job.spec.capacity, allocation?.place ?? 0);
}

/** A thing that an attempt tries on one worker: a setup step, or to start or end the command there. */
export type WorkerTask =
  | { readonly kind: 'step'; readonly worker: number; readonly step: string }
  | { readonly kind: 'start' | 'stop'; readonly worker: WorkerId };

function isSameTask(one: WorkerTask, other: WorkerTask): boolean {
  return taskKey(one) === taskKey(other);
}

/** A text that differs for each task: `3/docker`, `start/3`. Only the store reads it back. */
export function taskKey(task: WorkerTask): string {
  return task.kind === 'step' ? `${task.worker}/${task.step}` : `${task.kind}/${task.worker}`;
}

/** A new job, wanted to run, with the first line of its history. */
export function newJob(given: {
  readonly id: string;
  readonly installation: string;
  readonly owner: string;
  /** Who made it, where that is somebody else. */
  readonly by?: string;
  readonly spec: JobSpec;
  readonly at: Instant;
}): { readonly job: Job; readonly event: Event } {
  const job: Job = {
    id: given.id,
    installation: given.installation,
    owner: given.owner,
    createdAt: given.at,
    spec: withJobIds(given.spec, given.id, given.installation),
    desired: 'run',
    wish: { how: 'fresh', at: given.at },
    cancelled: false,
    desiredAt: given.at,
    attempts: [],
    allocations: [],
    settled: null,
    removed: false,
  };
  const { overrides } = job.spec;
  return {
    job,
    event: {
      kind: 'created',
      at: given.at,
      by: given.by ?? given.owner,
      ...(overrides !== undefined && { overrides }),
    },
  };
}

/** The words after `has`: `been stopped`, `succeeded`. */
export function hasEnded(verdict: Settled['verdict']): string {
  return verdict === 'stopped' || verdict === 'cancelled' ? `been ${verdict}` : verdict;
}
