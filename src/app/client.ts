// Client: everything that a person can do with jobs, whichever way they came in. jobman.ts implements it over the store.

import type { Verb } from '../core/commands.ts';
import type { Event } from '../core/decision.ts';
import type { Desired, Evidence, Exit } from '../core/job.ts';
import type { Phase } from '../core/phase.ts';
import type { BackendName, JobSpec, Override, Reason, WorkerId } from '../core/spec.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { FrozenWorkdir } from './workdir.ts';
import type { StepPlan, StepsDone } from './setup-by-hand.ts';
import type { ZoneQuery, ZoneRow } from './zones.ts';

/** Up to six digits are an id (`1` is `000001`), anything else a name. */
export type Ref = string;

export interface ListQuery {
  readonly owner?: string;
  readonly phases?: readonly Phase[];
  readonly tag?: string;
  /** A name, or a glob of it (`llama-*`). */
  readonly name?: string;
  readonly all?: boolean;
}

export interface JobRow {
  readonly id: string;
  readonly name: string;
  readonly user: string;
  /** A job of `kubernetes` is none of the record: it is a Job of a cluster, and its id is its name there. */
  readonly backend: BackendName | 'kubernetes';
  /** `v4-8`, `this machine`, or in a cluster the flavor or what its pods ask for. */
  readonly accelerator: string;
  readonly pricing: string | null;
  readonly zone: string | null;
  readonly host0: string | null;
  readonly phase: Phase;
  /** The phase as shown, which tells what a stopped job still holds: `stopped, holds v4-8`. */
  readonly status: string;
  readonly reason: string;
  readonly desired: Desired;
  readonly stage: number;
  readonly attempt: number;
  readonly tags: readonly string[];
  readonly overrides?: readonly Override[];
  readonly createdAt: Instant;
  readonly since: Instant;
  /** Dollars an hour of what it holds now, an estimate; null when it holds nothing or no price is known. */
  readonly pricePerHour: number | null;
  /** True on the built-in cloud: its prices are Google's, and nobody pays them. */
  readonly pretended: boolean;
}

export interface JobList {
  readonly rows: readonly JobRow[];
  readonly more: number;
  /** The places that did not answer, as sentences. */
  readonly notes: readonly string[];
}

export interface AttemptView {
  readonly attempt: number;
  readonly stage: number;
  readonly how: 'fresh' | 'resume' | 'rerun';
  /** True when the owner's word made it (create, start, resume, rerun), false when a rule did. */
  readonly asked: boolean;
  /** True when just the command was wanted, on workers that were ready: no setup step is gone through. */
  readonly commandOnly: boolean;
  readonly allocation: number;
  readonly workers: readonly WorkerId[];
  readonly created: Instant;
  /** Not before this moment is its capacity asked for or its command started: the pause after a failure. */
  readonly notBefore: Instant;
  readonly started: Instant | null;
  /** When it was decided that it must end, or was seen to have ended by itself; from here to `ended` the time is lost. */
  readonly ending: Instant | null;
  readonly ended: Instant | null;
  readonly reason: Reason | null;
  readonly evidence: Evidence | null;
  readonly exits: readonly Exit[];
  readonly workdir: number | null;
}

export interface AllocationView {
  readonly allocation: number;
  readonly name: string;
  readonly ownership: 'owned' | 'standing';
  readonly state: string;
  /** The last words of the cloud about it, with their age; null when it is ready or gone, or nothing was asked yet. */
  readonly says: string | null;
  readonly requested: Instant | null;
  readonly ready: Instant | null;
  readonly released: Instant | null;
  readonly gone: Instant | null;
  readonly workers: readonly {
    readonly worker: number;
    readonly internalIp: string | null;
    readonly externalIp: string | null;
  }[];
}

export interface WorkerView {
  readonly worker: WorkerId;
  readonly host: string | null;
  readonly state: string;
  readonly logAgeMs: Duration | null;
  readonly lastLine: string | null;
}

/** The newest checkpoint that can be seen from this machine: what an attempt that resumed now would be told. */
export interface SavedView {
  readonly name: string;
  readonly folder: string;
  readonly at: Instant;
}

export interface WorkdirView extends FrozenWorkdir {
  readonly snapshot: number;
  /** The folder of this machine with `about.json`, and `changes.diff` where git knows of changes. */
  readonly folder: string;
}

export interface JobView extends JobRow {
  readonly why: Why;
  /** How far its program has come, as its own lines say: `step 40,210 of 90,000 (44%)`; null when they do not say it. */
  readonly progress: string | null;
  readonly saved: SavedView | null;
  readonly checkpointDir: string | null;
  /** The consequence if its cloud took its capacity now, in a sentence; null where no cloud may, or nothing runs. */
  readonly ifTaken: string | null;
  /** Dollars that what it held has cost so far, an estimate; null when no price is known. On the built-in cloud nobody pays. */
  readonly spent: number | null;
  readonly attempts: readonly AttemptView[];
  readonly workdirs: readonly WorkdirView[];
  readonly allocations: readonly AllocationView[];
  readonly workers: readonly WorkerView[];
  readonly spec: JobSpec;
  readonly folder: string;
  readonly hasFiles: boolean;
}

/** Why a job is in its phase: a sentence, the evidence with its time, the rule in force, and what comes next and when. */
export interface Why {
  readonly id: string;
  readonly sentence: string;
  readonly because: string | null;
  /** The last lines of the program's log, where it failed; empty otherwise. */
  readonly log: readonly string[];
  readonly rule: string | null;
  /** How long such capacity is usually waited for, from our own record, while it is; null under five known waits. */
  readonly usually: string | null;
  readonly next: string;
  readonly nextAt: Instant | null;
  /** When the controller looks again, where a look is what is waited for; null otherwise. */
  readonly lookAt: Instant | null;
  /** The row of the situation table that decided the newest pass; null before the first one. */
  readonly situation: Situation | null;
}

interface Situation {
  readonly name: string;
  /** Null for a name of another version of jobman. */
  readonly means: string | null;
}

export interface AskOptions {
  readonly by: string;
  /** They are not its owner, and were asked whether they mean to say it all the same. */
  readonly onBehalf?: boolean;
  readonly release?: boolean;
  readonly workdirAnew?: boolean;
  /** With start: just the command, on the workers that the job holds ready. */
  readonly commandOnly?: boolean;
  /** With delete: take it off the list now and leave a recorded stray. */
  readonly force?: boolean;
}

/** One answer a job. */
export interface AskAnswer {
  readonly id: string;
  readonly ok: boolean;
  /** Says what happened, to which job, and what to do next; what is still held and what it costs an hour. */
  readonly message: string;
  readonly code: number;
  /** The owner of the job, where the request was refused because another user made it. */
  readonly owner?: string;
}

export interface LogQuery {
  readonly worker?: WorkerId;
  /** A setup step's log instead of the command's; `job` and `tpu` name the job's own logs. */
  readonly step?: string;
  readonly attempt?: number;
}

/** One log file of a job, for readers that page and follow by byte offset. */
export interface LogFile {
  readonly path: string;
  readonly worker: WorkerId | null;
  readonly attempt: number | null;
  readonly bytes: number;
}

/** The answer of `create --dry-run`: what would be asked, under which rules, at what price. Nothing is stored. */
export interface Plan {
  readonly name: string;
  readonly backend: BackendName;
  readonly asks: readonly string[];
  readonly steps: readonly string[];
  /** The command as the manifest has it, behind the place where it runs. */
  readonly command: string;
  /** The script that runs it in its environment, where there is one around it. */
  readonly script: string | null;
  readonly rules: readonly string[];
  readonly limits: readonly string[];
  readonly pricePerHour: number | null;
  readonly pretended: boolean;
}

export interface CreateRequest {
  readonly spec: JobSpec;
  /** The manifest's text as written, for the snapshot. */
  readonly manifest: string;
  readonly owner: string;
  readonly by?: string;
  /** The environment of whoever creates it, for the secrets that are to be taken from it. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface Created {
  readonly id: string;
  readonly row: JobRow;
  readonly warnings: readonly string[];
}

/** A request that needs a person's yes: more than the settings grant, or a TPU that another job uses. */
export interface Beyond {
  /** A sentence without its full stop. */
  readonly sentence: string;
  /** `about $4.00/h`; null when no price is known, and where it costs nothing more. */
  readonly cost: string | null;
  /** The remedy, as a sentence with its full stop. */
  readonly remedy: string;
  /** True if no grant forbids it: a terminal asks, and a script prints the price and continues. */
  readonly mayContinue?: true;
}

/** Every method throws JobmanError: 3 for a job that is not there, 4 for a name that matches two. Reads write nothing. */
export interface Client {
  create(request: CreateRequest): Promise<Created>;
  plan(spec: JobSpec): Promise<Plan>;
  /** The question to ask before a job of this spec is created, or this job is started again; null when it may go on. */
  beyond(asked: JobSpec | Ref): Promise<Beyond | null>;
  list(query: ListQuery): Promise<JobList>;
  zones(query: ZoneQuery): Promise<readonly ZoneRow[]>;
  show(ref: Ref): Promise<JobView>;
  why(ref: Ref): Promise<Why>;
  events(ref: Ref, after: number): Promise<readonly { readonly seq: number; readonly event: Event }[]>;
  ask(ref: Ref, verb: Verb, options: AskOptions): Promise<AskAnswer>;
  /** That setup step, if this person may have it gone through now; otherwise throws what is in the way. */
  planStep(ref: Ref, step: string, by: string): Promise<StepPlan>;
  recordStep(ref: Ref, done: StepsDone): Promise<void>;
  logs(ref: Ref, query: LogQuery): Promise<readonly LogFile[]>;
  /** Removes the files of settled jobs: one, or all of this owner when `ref` is null. Answers one line a job. */
  clean(ref: Ref | null, by: string): Promise<readonly AskAnswer[]>;
  /** Grows with every change of any job; cheap enough to ask four times a second. */
  changes(): Promise<number>;
  /** Tells the controller that something is to be done now; starts one when none is there. Returns what to tell the user, if anything. */
  wake(): Promise<string | null>;
  close(): Promise<void>;
}
