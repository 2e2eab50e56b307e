// The doors between what jobman decides and the outside. Each has a real implementation and one in the simulator.
// A contract sentence stands above every method: may it block, is it safe to repeat, what means "nothing to do".

import type { BucketPlace } from '../core/bucket-place.ts';
import type { Event } from '../core/decision.ts';
import type { Allocation, Job } from '../core/job.ts';
import type { AllocationSeen, Fact, Outcome, OutcomeResult, WorkerSeen } from '../core/observation.ts';
import type { PlaceAnswered } from '../core/alternatives.ts';
import type { Launch } from '../core/prepare.ts';
import type { BackendName, JobSpec, SetupStep, WorkerId } from '../core/spec.ts';
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
  /** The user who made it, where that is another one. */
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

/** The filter of a list. Each part narrows; an absent part does not. */
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

/**
 * Newest first: what is not settled, then the settled ones by when that was. The specs are outlines: their long texts
 * (scripts, frozen files, environments) are empty, so that a list of thousands is quick; `load` has them whole.
 */
export interface JobPage {
  readonly jobs: readonly Job[];
  /** How many settled jobs the filter matched that are not in `jobs`. */
  readonly more: number;
}

/** A list for screens, in the order of `JobPage`. */
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

/**
 * Time in which no controller has renewed the lease for more than a minute: none was running, the machine slept, the record could
 * not be written, or the clock was put forward. No controller tried anything meanwhile, so no patience runs out in it.
 */
export interface Pause {
  readonly from: Instant;
  readonly until: Instant;
}

/**
 * Durable rows. No method holds a lock across a network call; each is one transaction. Reads never write.
 * Throws StoreError (app/errors.ts) when the database is corrupt, newer, full or read-only: said so, never repaired silently.
 */
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
  /**
   * As `list`, for screens. Of a job that nothing more will happen to the row was kept when it was committed
   * (`lastingRow` in views.ts), so that thousands of ended jobs are not read; `rowOf` makes the row of every other.
   */
  rows(filter: JobFilter, rowOf: (job: Job) => JobRow): Promise<RowPage>;
  events(id: string, after: number): Promise<readonly StoredEvent[]>;
  /** Facts for the next pass of that job. Safe to repeat: the newest outcome of a key replaces an older one. */
  addOutcome(id: string, outcome: Outcome): Promise<void>;
  outcomes(id: string): Promise<readonly StoredOutcome[]>;
  /** Ids of jobs whose `wakeAt` is not after `now`, earliest first, and those with outcomes waiting. */
  due(now: Instant, most: number): Promise<readonly string[]>;
  /** The earliest `wakeAt` of all jobs. */
  nextWake(): Promise<Instant | null>;
  /** When the controller looks at that job again, at the latest; null when only a wish can change anything. */
  wakeOf(id: string): Promise<Instant | null>;
  /**
   * Jobs made since then that asked for the same accelerator, zone and pricing, the newest first, at most that many of them:
   * what their waits were like is what this one may expect. Their specs are outlines. Those that left the list are among them.
   */
  alike(
    asked: { readonly accelerator: string; readonly zone: string; readonly pricing: string },
    since: Instant,
    most: number,
  ): Promise<readonly Job[]>;
  /** A counter that grows with every committed change of any job; cheap, for followers. */
  changes(): Promise<number>;
  /**
   * Takes the lease when it is free, expired or already ours; the epoch grows each time it changes hands. `certain`: the
   * caller holds this machine's controller lock, so an earlier holder cannot be alive and is replaced at once.
   */
  takeLease(
    holder: string,
    version: string,
    now: Instant,
    ttl: Duration,
    certain: boolean,
  ): Promise<{ readonly taken: boolean; readonly lease: LeaseState }>;
  dropLease(holder: string): Promise<void>;
  lease(): Promise<LeaseState | undefined>;
  /**
   * What the places of a project (null: of all) have answered to any job: of each place the newest answer of each sort, the
   * newest first. Every commit writes down what its events say about places.
   */
  placeAnswers(project: string | null): Promise<readonly PlaceAnswered[]>;
  /**
   * What the sweep goes by: of every place where an allocation's absence was not confirmed, or was within `sweptFor`, one
   * allocation there, its job's spec an outline; and when the last of all allocations was seen gone, as far as that lies in the past.
   */
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

/** Something that carries our label and that no job claims. */
export interface Stray {
  readonly backend: BackendName;
  /** The cloud's name for it, enough for `releaseStray`: `projects/lab/locations/us-west4-a/nodes/vit-000042-1`. */
  readonly resource: string;
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
  readonly state: string;
}

/**
 * A source of capacity. Every method returns as soon as possible: nothing waits for a machine to be ready, the loop
 * will look again. No method throws for what the outside does; a failed look is an `unknown` fact.
 */
export interface CapacityPort {
  readonly backend: BackendName;
  /** Looks at all of them at once (one list per place, however many jobs). The answer is in the order of the question. */
  look(refs: readonly AllocationRef[]): Promise<readonly Fact<AllocationSeen>[]>;
  /** Asks for it. Safe to repeat: what exists already under our name and label is `done`. */
  request(ref: AllocationRef): Promise<OutcomeResult>;
  /** Lets it go. Safe to repeat: what is not there is `done`. Never touches what is not labelled ours with this ordinal. */
  release(ref: AllocationRef): Promise<OutcomeResult>;
  /**
   * Lists all that carries the installation's label in the place of these; all of them are of one. `unknown` when it could
   * not be asked. Starts nothing: a place that does not run now is one that could not be asked.
   */
  sweep(refs: readonly AllocationRef[]): Promise<Fact<readonly Stray[]>>;
  releaseStray(stray: Stray): Promise<OutcomeResult>;
  /** Dollars per hour of one allocation of this job, as an estimate; null when no price is known. */
  pricePerHour(spec: JobSpec): number | null;
}

// ---------------------------------------------------------------------------------------------- buckets

/** The result of a look at one bucket. */
export type BucketLook =
  | { readonly kind: 'there'; readonly place: BucketPlace }
  /** Nobody has placed it yet: on the built-in cloud the first who uses it does. */
  | { readonly kind: 'unplaced' }
  /** Storage says that there is none of that name. */
  | { readonly kind: 'absent' }
  /** It could not be asked; why, in the words of whoever was in the way. */
  | { readonly kind: 'unknown'; readonly why: string };

/**
 * Tells where the buckets of one project's jobs are. Each look is one question, which changes nothing, starts nothing and never
 * throws; it may take as long as a login or a lost line does, so whoever has a person waiting sets a limit.
 */
export interface BucketPort {
  look(bucket: string): Promise<BucketLook>;
}

// ---------------------------------------------------------------------------------------------- machines

/** One worker of one allocation, or `here`. */
export interface WorkerRef extends AllocationRef {
  readonly worker: WorkerId;
}

/**
 * Reaching machines. Each call ends by itself in bounded time; an unanswered one is `unknown` or `unclear`.
 * Nothing stays on a host but run directories and proofs.
 */
export interface MachinePort {
  /** One look at each of these workers. Reads only. The answer is in the order of the question. */
  look(refs: readonly WorkerRef[]): Promise<readonly Fact<WorkerSeen>[]>;
  /**
   * Checks the step, applies it when the check fails, writes the proof. Safe to repeat. Output goes to the job's step log.
   * A proof of this boot is taken at its word, but not by hand.
   */
  step(ref: WorkerRef, step: SetupStep, byHand?: StepByHand): Promise<OutcomeResult>;
  /** Starts the command detached, in a run directory made by an atomic mkdir. Twice equals once. */
  start(ref: WorkerRef, launch: Launch): Promise<OutcomeResult>;
  /**
   * `ask` sends that attempt's processes on that worker the signal: done when it was sent, and only a look tells when they
   * have ended. `kill` ends them with all their children: done when nothing is alive any more, or was. After either, an
   * attempt that had not begun there never begins.
   */
  stop(ref: WorkerRef, attempt: number, how: 'ask' | 'kill', signal: string): Promise<OutcomeResult>;
  /**
   * Streams that attempt's output from byte `from` on, as it grows, until it has ended, the line drops, or the returned
   * function is called. Bytes arrive in order, each exactly once within one call; the receiver is awaited, so a slow
   * receiver slows the reading down and never grows a buffer without limit.
   */
  tail(ref: WorkerRef, attempt: number, from: number, receiver: TailReceiver): () => void;
  /** Lets go of connections to this allocation. */
  forget(ref: AllocationRef): void;
}

/** How a step is gone through for a person who asked for it: its proof is taken away first, so that it is made anew. */
export interface StepByHand {
  /** Applies it even where its check says that it holds. */
  readonly force: boolean;
  /** Told what the step prints, besides its log. */
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
  /** How many bytes of that attempt's output we hold. Zero when none. */
  length(job: Job, attempt: number, worker: WorkerId): Promise<number>;
  /** Appends at the end. Throws StoreError when the disk is full; a part may then have been written, which `length` tells. */
  append(job: Job, attempt: number, worker: WorkerId, chunk: Uint8Array): Promise<void>;
  /**
   * Appends what a setup step printed to the step's own log, `logs/<step>_worker_<i>.log`. A step that is reported twice
   * appears twice.
   * An empty chunk says that the step is done and printed nothing; a log that is still empty then says so.
   */
  step(job: Job, step: string, worker: WorkerId, chunk: Uint8Array): Promise<void>;
  /** The last bytes that we hold, for the search of patterns. */
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
