// Ports: the doors between what jobman decides and the outside. Each has a real implementation and one in the simulator.

import type { BucketPlace } from '../core/bucket-place.ts';
import type { Event } from '../core/decision.ts';
import type { Allocation, Job } from '../core/job.ts';
import type { AllocationSeen, Fact, Outcome, OutcomeResult, WorkerSeen } from '../core/observation.ts';
import type { PlaceAnswered } from '../core/alternatives.ts';
import type { Launch } from '../core/prepare.ts';
import type { BackendName, JobSpec, SetupStep, WorkerId, CapacitySpec } from '../core/spec.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { JobRow } from './client.ts';

// ---------------------------------------------------------------------------------------------- time

export interface Clock {
  now(): Instant;
  /** Calls back once, no earlier than `at`; the returned function calls it off. Never keeps the process alive by itself. */
  at(at: Instant, call: () => void): () => void;
}

// ---------------------------------------------------------------------------------------------- store

/** A job with the version that a commit must expect. */
export interface Stored {
  readonly job: Job;
  readonly revision: number;
}

export interface NewJob {
  readonly owner: string;
  readonly by?: string;
  readonly spec: JobSpec;
  /** The manifest as it was written, kept as the job's snapshot. */
  readonly manifest: string;
  readonly at: Instant;
}

/** One line of history as stored: numbered within its job from 1, without gaps. */
export interface StoredEvent {
  readonly seq: number;
  readonly event: Event;
}

export interface Commit {
  readonly job: Job;
  /** The revision that was loaded; the commit is dropped when another one stands. */
  readonly revision: number;
  readonly events: readonly Event[];
  /** The ids of outcomes that this pass folded in; they are deleted with the commit. */
  readonly folded: readonly number[];
  /** When the controller should look again; null when only a wish can change anything. */
  readonly wakeAt: Instant | null;
  /** The controller's lease epoch; null for a client's commit (a wish), which needs no lease. */
  readonly epoch: number | null;
}

export type CommitResult = 'committed' | 'stale' | 'lease_lost';

export interface StoredOutcome {
  readonly id: number;
  readonly outcome: Outcome;
}

export interface JobFilter {
  readonly ids?: readonly string[];
  readonly names?: readonly string[];
  /** `llama-*`: `*` stands for any text, `?` for one character, small and capital letters are equal. */
  readonly nameGlob?: string;
  readonly owner?: string;
  readonly tag?: string;
  /** Everything that is not settled, and this many of those that settled last; null for all. */
  readonly settledMost: number | null;
  readonly withRemoved?: boolean;
}

/** Newest first. The specs are outlines, without their long texts, so that a list of thousands is quick. */
export interface JobPage {
  readonly jobs: readonly Job[];
  /** How many settled jobs the filter matched that are not in `jobs`. */
  readonly more: number;
}

export interface RowPage {
  readonly rows: readonly JobRow[];
  readonly more: number;
}

export interface LeaseState {
  readonly holder: string;
  readonly epoch: number;
  readonly version: string;
  readonly until: Instant;
  /** Of the answer of `takeLease`: the newest pause. Absent: none is on record. */
  readonly pause?: Pause;
}

/** Time in which no controller has renewed the lease for more than a minute, so that no patience runs out in it. */
export interface Pause {
  readonly from: Instant;
  readonly until: Instant;
}

/** Durable rows; each method is one transaction, and reads never write. Throws StoreError where the database cannot be used. */
export interface Store {
  /** Six characters [a-z0-9], made once for this record. */
  installation(): Promise<string>;
  /** Gives the job its id and writes its first event. Not safe to repeat: each call makes a job. */
  insert(job: NewJob): Promise<Stored>;
  load(id: string): Promise<Stored | undefined>;
  loadMany(ids: readonly string[]): Promise<readonly Stored[]>;
  manifest(id: string): Promise<string | undefined>;
  commit(commit: Commit): Promise<CommitResult>;
  list(filter: JobFilter): Promise<JobPage>;
  /** As `list`, for screens. Rows of finished jobs were stored with the commit; `rowOf` makes the row of every other. */
  rows(filter: JobFilter, rowOf: (job: Job) => JobRow): Promise<RowPage>;
  events(id: string, after: number): Promise<readonly StoredEvent[]>;
  /** Facts for the next pass of that job. Safe to repeat: the newest outcome of a key replaces an older one. */
  addOutcome(id: string, outcome: Outcome): Promise<void>;
  outcomes(id: string): Promise<readonly StoredOutcome[]>;
  /** Ids of jobs whose `wakeAt` is not after `now`, earliest first, and those with outcomes waiting. */
  due(now: Instant, most: number): Promise<readonly string[]>;
  nextWake(): Promise<Instant | null>;
  /** When the controller looks at that job again, at the latest; null when only a wish can change anything. */
  wakeOf(id: string): Promise<Instant | null>;
  /** The newest jobs made since then that asked for the same, as outlines, also those that left the list. */
  alike(
    asked: { readonly accelerator: string; readonly zone: string; readonly pricing: string },
    since: Instant,
    most: number,
  ): Promise<readonly Job[]>;
  /** A counter that grows with every committed change of any job; cheap, for followers. */
  changes(): Promise<number>;
  /** Takes the lease when it is free, expired or ours. `certain`: the caller holds this machine's controller lock. */
  takeLease(
    holder: string,
    version: string,
    now: Instant,
    ttl: Duration,
    certain: boolean,
  ): Promise<{ readonly taken: boolean; readonly lease: LeaseState }>;
  dropLease(holder: string): Promise<void>;
  lease(): Promise<LeaseState | undefined>;
  /** The newest answer of each sort of each place of a project (null: of all) to any job, the newest first. */
  placeAnswers(project: string | null): Promise<readonly PlaceAnswered[]>;
  /** Of every place with an allocation whose absence is not confirmed, or was within `sweptFor`, one allocation; and the last end. */
  sweepable(now: Instant): Promise<{ readonly refs: readonly AllocationRef[]; readonly goneAt: Instant | null }>;
  /** A stray that a forced delete left behind on purpose, or that a sweep found. */
  recordStray(stray: Stray): Promise<void>;
  strays(): Promise<readonly Stray[]>;
  forgetStray(stray: Stray): Promise<void>;
  close(): Promise<void>;
}

// ---------------------------------------------------------------------------------------------- capacity

/** Names one allocation of one job to a backend. Everything is derived from the record; nothing is remembered elsewhere. */
export interface AllocationRef {
  readonly job: Job;
  readonly allocation: Allocation;
}

export interface Stray {
  readonly backend: BackendName;
  /** The cloud's name for it, enough for `releaseStray`: `projects/lab/locations/us-west4-a/nodes/vit-000042-1`. */
  readonly resource: string;
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
  readonly state: string;
}

/** A source of capacity. No method waits for a machine or throws for what the outside does; a failed look is an `unknown` fact. */
export interface CapacityPort {
  readonly backend: BackendName;
  /** Looks at all of them at once (one list per place, however many jobs). The answer is in the order of the question. */
  look(refs: readonly AllocationRef[]): Promise<readonly Fact<AllocationSeen>[]>;
  /** Asks for it. Safe to repeat: what exists already under our name and label is `done`. */
  request(ref: AllocationRef): Promise<OutcomeResult>;
  /** Lets it go. Safe to repeat: what is not there is `done`. Never touches what is not labelled ours with this ordinal. */
  release(ref: AllocationRef): Promise<OutcomeResult>;
  /** Lists all with the installation's label in the one place of these; `unknown` when it could not be asked. Starts nothing. */
  sweep(refs: readonly AllocationRef[]): Promise<Fact<readonly Stray[]>>;
  releaseStray(stray: Stray): Promise<OutcomeResult>;
  /** Dollars per hour of one allocation of this job, as an estimate; null when no price is known. */
  pricePerHour(spec: JobSpec): number | null;
}

// ---------------------------------------------------------------------------------------------- buckets

export type BucketLook =
  | { readonly kind: 'there'; readonly place: BucketPlace }
  /** Nobody has placed it yet: on the built-in cloud the first who uses it does. */
  | { readonly kind: 'unplaced' }
  | { readonly kind: 'absent' }
  /** It could not be asked; why, in the words of whoever was in the way. */
  | { readonly kind: 'unknown'; readonly why: string };

/** Each look changes nothing and never throws. It may take long, so a caller with a person waiting sets a limit. */
export interface BucketPort {
  look(bucket: string): Promise<BucketLook>;
}

// ---------------------------------------------------------------------------------------------- machines

export interface WorkerRef extends AllocationRef {
  readonly worker: WorkerId;
}

/** Reaching machines. Each call ends in bounded time; an unanswered one is `unknown` or `unclear`. */
export interface MachinePort {
  /** One look at each of these workers. Reads only. The answer is in the order of the question. */
  look(refs: readonly WorkerRef[]): Promise<readonly Fact<WorkerSeen>[]>;
  /** Checks the step, applies it when the check fails, writes the proof. Safe to repeat. By hand, no proof is trusted. */
  step(ref: WorkerRef, step: SetupStep, byHand?: StepByHand): Promise<OutcomeResult>;
  /** Starts the command detached, in a run directory made by an atomic mkdir. Twice equals once. */
  start(ref: WorkerRef, launch: Launch): Promise<OutcomeResult>;
  /** `ask` sends the signal; `kill` is done when nothing is alive. After either, an attempt that had not begun never does. */
  stop(ref: WorkerRef, attempt: number, how: 'ask' | 'kill', signal: string): Promise<OutcomeResult>;
  /** Streams that attempt's output from byte `from` on, each byte once, until it has ended or the returned function is called. */
  tail(ref: WorkerRef, attempt: number, from: number, receiver: TailReceiver): () => void;
  /** Lets go of connections to this allocation. */
  forget(ref: AllocationRef): void;
}

/** How a step is gone through for a person who asked for it: its proof is taken away first, so that it is made anew. */
export interface StepByHand {
  readonly force: boolean;
  readonly onOutput: (chunk: Uint8Array) => void | Promise<void>;
}

export interface TailReceiver {
  bytes(chunk: Uint8Array): Promise<void> | void;
  /** The attempt has ended on that worker and every byte of it was delivered. Called at most once, last. */
  ended(): void;
  /** The line dropped or could not be made; nothing more comes from this call. The job deserves a look now. */
  dropped(reason: string): void;
}

/** Our copies of logs, in the job's folder. The length of a copy is the offset to go on from: nothing else is remembered. */
export interface LogFiles {
  length(job: Job, attempt: number, worker: WorkerId): Promise<number>;
  /** Appends at the end. Throws StoreError when the disk is full; a part may then have been written, which `length` tells. */
  append(job: Job, attempt: number, worker: WorkerId, chunk: Uint8Array): Promise<void>;
  /** Appends to `logs/<step>_worker_<i>.log`. An empty chunk says that the step is done; a log that is still empty then says so. */
  step(job: Job, step: string, worker: WorkerId, chunk: Uint8Array): Promise<void>;
  last(job: Job, attempt: number, worker: WorkerId, most: number): Promise<Uint8Array>;
  /** One line for people in the job's own log (`job.log`) or the cloud's (`tpu.log`). */
  note(job: Job, log: 'job' | 'tpu', at: Instant, line: string): Promise<void>;
  /** Rewrites the copies for people and scripts: `job.json`, `events.jsonl`. Never read back. */
  mirror(job: Job, events: readonly Event[]): Promise<void>;
}

/** The ports that serve a job: chosen by the kind of its capacity in `wiring.ts`, nowhere else. */
export interface Backend {
  readonly capacity: CapacityPort;
  readonly machines: MachinePort;
}

/** The beginning of all names in the place of such capacity; null where nothing can be left behind. */
export function placeOf(capacity: CapacitySpec): string | null {
  return capacity.kind === 'tpu' ? `projects/${capacity.project}/locations/${capacity.zone}/` : null;
}
