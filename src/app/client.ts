// Client: all operations on jobs, the same for every way in. store-client.ts implements it over the store.

import type { Verb } from '../core/decide/commands.ts';
import type { Event } from '../core/model/event.ts';
import type { AllocationState, Desired, Evidence, Exit, OwnerBudget } from '../core/model/job.ts';
import type { Phase } from '../core/decide/phase.ts';
import type { RecordedPass } from '../core/model/recorded-pass.ts';
import type { NotifyEvent } from '../core/model/notify.ts';
import type { OutcomeResult } from '../core/model/observation.ts';
import type {
  BackendName,
  HostName,
  JobSpec,
  Override,
  Pricing,
  Reason,
  SecretName,
  TpuSpec,
  WorkerId,
} from '../core/model/spec.ts';
import type { Digest } from '../catalogue/digest.ts';
import type { DashboardLinks } from '../core/model/dashboard-links.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import type { PoolQueue } from '../core/policy/admission.ts';
import type { AuditQuery, AuditRow } from './audit.ts';
import type { CreatedToken, RevokedToken, TokenRequest, TokenView } from './tokens.ts';
import type { AccessChange, ChangedUser, NewUser, UserView } from './users.ts';
import type { ConfirmationToken, GuardReason } from '../core/policy/guards.ts';
import type { JobActions } from '../core/policy/permissions.ts';
import type { JobActivity } from './activity.ts';
import type {
  ArchiveQuery,
  ArchivedJob,
  ArchivedLine,
  ArchivedLog,
  ArchivedLogName,
  ArchivedLogQuery,
  ClusterJobEvent,
} from './cluster/objects.ts';
import type { BillingAnswer, BillingRequest } from './billing.ts';
import type { DiffSide } from './diff.ts';
import type { NamedHost } from './hosts.ts';
import type { ImageDetails, ImageQuery, ImageRow, RegistryAnswer } from './images.ts';
import type { LabEntry, LabRestart } from './lab-job.ts';
import type { OrphanReport, OrphanView } from './orphans.ts';
import type { ManifestProblem } from './errors.ts';
import type { Page, Rows } from './pages.ts';
import type { BucketStatus, Blob, Orphan, UsageFilter } from './ports.ts';
import type { QueueList } from './queue.ts';
import type { QuotaQuery, QuotaReport } from './quota.ts';
import type { RefPurpose } from './refs.ts';
import type { QuotaRow } from '../reports/quota.ts';
import type { OwnPrice } from '../reports/prices.ts';
import type { UsageRow } from '../reports/usage.ts';
import type { CheckpointReport } from './checkpoints.ts';
import type { StorageQuery, StorageReport } from './storage.ts';
import type { ForgetAnswer, TpuList, TpuQuery } from './tpus.ts';
import type { CostQuery, CostReport, JobCost } from '../reports/cost.ts';
import type { FrozenWorkdir, UploadedWorkdir } from './workdir.ts';
import type { StepProgress, StepRunOptions } from './manual-step.ts';
import type { TicketOptions, WorkerTicket } from './worker-access.ts';
import type { FiguresAnswer, FiguresTarget } from './worker-figures.ts';
import type { ZoneQuery, ZoneRow } from './zones.ts';

/** An id of one to six digits, or a name: the newest job; for a change, the only unfinished one. */
export type Ref = string;

/**
 * Of one request over HTTP. The client in TypeScript sends several requests for more.
 * @maxItems 2000
 */
export type BlobDigests = readonly Digest[];

export interface ListQuery {
  /** Only the jobs with these ids, also finished ones. */
  readonly ids?: readonly string[];
  /** The jobs of this owner. */
  readonly user?: UserName;
  /** The actor's own jobs. */
  readonly own?: boolean;
  readonly phases?: readonly Phase[];
  readonly tag?: string;
  /** A name, or a pattern such as `vit-*`. */
  readonly name?: string;
  /** A zone; for a job in a cluster `context/namespace`. */
  readonly zone?: string;
  /** An accelerator type, a generation such as `v4`, or a flavor. */
  readonly accelerator?: string;
  readonly createdSince?: Instant;
  /** Include all finished jobs, not only the 50 that finished last. Has no effect on pages, which include all. */
  readonly all?: boolean;
  /** Requests a page with at most this many rows, newest id first; 1,000 at most. A cursor without a limit returns 100. */
  readonly limit?: number;
  /** The `next` of the page before, with the same filters. */
  readonly cursor?: string;
}

/**
 * `failed`: it has failed. `silent`: a worker does not answer. `unchecked`: the cloud has not answered for 5 minutes.
 * `budget`: its budget or its owner's is nearly used up. `long_wait`: it has waited for capacity for longer than 9 of 10 similar
 * jobs, and for at least 10 minutes.
 */
export type Attention = 'failed' | 'silent' | 'unchecked' | 'budget' | 'long_wait';

/** A job in a list. */
export interface JobRow {
  /** Six digits; for a job in a cluster its name there. */
  readonly id: string;
  readonly name: string;
  /** Null for a job in a cluster that another tool made. */
  readonly owner: string | null;
  readonly backend: BackendName | 'kubernetes';
  /** The accelerator type; for a job in a cluster its flavor or requests. Null on hosts. */
  readonly accelerator: string | null;
  readonly pricing: Pricing | null;
  /** The zone; for a job in a cluster `context/namespace`. Null on hosts. */
  readonly zone: string | null;
  /** The hosts in the order of the workers; `localhost` is this machine. Empty for a TPU or a cluster. */
  readonly hosts: readonly HostName[];
  /** Address of worker 0; null without capacity. */
  readonly worker0Address: string | null;
  readonly phase: Phase;
  /** The capacity that a finished job still holds: `v4-8`, `2 × v4-16`; null if it holds none. */
  readonly heldCapacity: string | null;
  /** The reason for the phase, for people. */
  readonly message: string;
  /** The owner's last request. */
  readonly desired: Desired;
  /** Number of resumes. */
  readonly stage: number;
  /** Number of the newest attempt; 0 before the first. */
  readonly attempt: number;
  /** The ends of the newest attempts, 8 at most, oldest first; null for one that has not ended. Empty in a cluster. */
  readonly attemptEnds: readonly (Reason | null)[];
  /** The reason why the job needs its owner; null without one. */
  readonly attention: Attention | null;
  readonly tags: readonly string[];
  /** The values of `--set`, in order. */
  readonly overrides: readonly Override[];
  readonly createdAt: Instant;
  /** Time at which the phase began. */
  readonly phaseStartedAt: Instant;
  /** Estimated dollars per hour of the capacity held now; null without capacity or without a known price. */
  readonly pricePerHourUsd: number | null;
  /** True on the TPU emulator: the prices are Google's, and it is free. */
  readonly simulated: boolean;
}

export interface JobList {
  readonly rows: readonly JobRow[];
  /** The number of finished jobs that are left out; 0 for a page. */
  readonly more: number;
  /** The cursor of the next page; absent after the last one, and without pages. */
  readonly next?: string;
  /** One sentence for each job source that did not answer. */
  readonly notes: readonly string[];
  /** The error of a job source that did not answer; absent if all did. */
  readonly failure?: SourceFailure;
  /** The numbers of unfinished jobs that were submitted through jobman to namespaces outside of the list. */
  readonly elsewhere?: readonly { readonly context: string; readonly namespace: string; readonly jobs: number }[];
}

/** An error as plain JSON. */
interface SourceFailure {
  readonly message: string;
  /** The exit code. */
  readonly code: number;
  readonly lines: readonly string[];
  /** True if the other sources have jobs to show. */
  readonly isPartial: boolean;
}

/** `jobs` are named as in the usage ledger. */
export interface CostRequest extends CostQuery, Pick<UsageFilter, 'jobs' | 'tag' | 'zone' | 'accelerator'> {
  readonly user?: UserName;
  /** A name, or a pattern with stars. */
  readonly name?: string;
}

interface UsageQuery extends Omit<UsageFilter, 'owners'>, Page {}

export interface AttemptView {
  /** From 1. */
  readonly attempt: number;
  readonly stage: number;
  readonly startMode: 'fresh' | 'resume' | 'rerun';
  readonly startedBy: 'owner' | 'rule';
  /** True if the attempt runs only the command, on workers that were ready, without setup steps. */
  readonly commandOnly: boolean;
  readonly allocation: number;
  readonly workers: readonly WorkerId[];
  readonly createdAt: Instant;
  /** End of the backoff: neither a request nor a start happens before it. */
  readonly notBeforeAt: Instant;
  readonly startedAt: Instant | null;
  /** Time at which jobman decided to end the attempt or observed its end. The time from here to `endedAt` is lost. */
  readonly endingAt: Instant | null;
  readonly endedAt: Instant | null;
  /** Null until it ends. */
  readonly reason: Reason | null;
  readonly evidence: Evidence | null;
  readonly exits: readonly Exit[];
  /** The copy of the working directory that it runs. */
  readonly workdirCopy: number | null;
}

/** Capacity requested or held for a job. */
export interface AllocationView {
  /** From 1. */
  readonly allocation: number;
  /** Its name in the cloud. */
  readonly name: string;
  readonly ownership: 'ephemeral' | 'persistent';
  /** `refused`: it was never created. Otherwise the last observed state. */
  readonly state: AllocationState | 'planned' | 'requested' | 'refused' | 'gone';
  /** The cloud's last status or error, with its age; null if the allocation is ready, gone or not requested yet. */
  readonly message: string | null;
  readonly requestedAt: Instant | null;
  readonly readyAt: Instant | null;
  readonly releasedAt: Instant | null;
  readonly goneAt: Instant | null;
  readonly workers: readonly {
    readonly worker: number;
    readonly internalIp: string | null;
    readonly externalIp: string | null;
  }[];
}

/** A worker of the newest attempt. */
export interface WorkerView {
  readonly worker: WorkerId;
  readonly address: string | null;
  /** Its state, for people. */
  readonly message: string;
  /** Age of the newest output; null without any. */
  readonly logAgeMs: Duration | null;
  /** The newest line of output; null without any. */
  readonly lastLine: string | null;
}

/** The newest complete checkpoint at the start of an attempt. */
export interface ResumedFromView {
  readonly attempt: number;
  /** The name of its file or folder. */
  readonly name: string;
  /** Time of its last change, by the worker's clock; null if it is not known. */
  readonly savedAt: Instant | null;
}

/** A path to show to people: only a program on that machine can open it. */
export interface HostPath {
  /** The name of the machine. */
  readonly host: string;
  /** Absolute on that machine. */
  readonly path: string;
}

/** The newest checkpoint that the machine of jobman can see. An attempt that resumed now would get it. */
export interface CheckpointView {
  readonly name: string;
  readonly folder: HostPath;
  readonly savedAt: Instant;
}

/** An immutable copy of a working directory. */
export interface WorkdirCopyView extends FrozenWorkdir {
  /** From 1. */
  readonly copy: number;
  /** The folder of the copy, with `about.json`, and with `changes.diff` if git reports changes. */
  readonly folder: HostPath;
}

/** A job of the store, with everything that has happened to it. */
export interface JobView extends JobRow {
  readonly owner: string;
  readonly backend: BackendName;
  /** Grows with each change of the job, also by the controller. */
  readonly revision: number;
  readonly why: Why;
  /** The progress that the program prints or reports: `step 40,210 of 90,000 (44%)`; null without any. */
  readonly progress: string | null;
  /** The throughput of the newest attempt, if it differs by more than 10% from the one before; otherwise null. */
  readonly throughput: string | null;
  /** The worker that is behind, slow or silent while the others are not, as a sentence; null without one. */
  readonly slowWorker: string | null;
  /** The newest reported texts that are not metrics, as a phrase; null without any. */
  readonly leftOut: string | null;
  /** The dashboards that the log names. */
  readonly dashboards: DashboardLinks;
  readonly checkpoint: CheckpointView | null;
  readonly checkpointDir: string | null;
  /** The address of that folder in a bucket, such as `gs://my-bucket/runs/000001`; null without one. */
  readonly checkpointUrl: string | null;
  /** The checkpoint that the newest resumed attempt found at its start; null without one. A newer one may exist. */
  readonly resumedFrom: ResumedFromView | null;
  /** The consequence of a preemption now, as a sentence; null if no cloud can preempt the job or nothing runs. */
  readonly ifPreempted: string | null;
  /** The cost so far. */
  readonly cost: JobCost;
  /** The budgets that limit it; `job.budget` also after its end. */
  readonly budgets: readonly BudgetView[];
  readonly attempts: readonly AttemptView[];
  readonly workdirCopies: readonly WorkdirCopyView[];
  readonly allocations: readonly AllocationView[];
  readonly workers: readonly WorkerView[];
  readonly spec: JobSpec;
  readonly folder: HostPath;
  readonly hasFiles: boolean;
}

/** A budget that limits the job. Amounts are estimates in US dollars. */
export interface BudgetView {
  /** By the job since its owner's newest start; by its owner since the beginning of the period. */
  readonly spentUsd: number;
  readonly budgetUsd: number;
  /** The budget of a grant that all jobs of the owner share; null for `job.budget`. */
  readonly ownerBudget: OwnerBudget | null;
  /** Time at which it is used up if nothing changes; null while nothing is charged, and once it is used up. */
  readonly usedUpAt: Instant | null;
}

/** The explanation of a job's phase. All texts are for people. */
export interface Why {
  readonly id: string;
  readonly backend: JobRow['backend'];
  readonly phase: Phase;
  readonly message: string;
  /** The fact behind the message, with its time. */
  readonly evidence: string | null;
  /** The last lines of the failed program's log; empty if no program failed. */
  readonly logTail: readonly string[];
  /** The recovery rule in force. */
  readonly rule: string | null;
  /** The typical wait for such capacity while the job waits, from jobs of this installation; null with fewer than five waits. */
  readonly typicalWait: string | null;
  /** Null in a cluster, whose own controllers decide. */
  readonly next: string | null;
  readonly nextAt: Instant | null;
  /** Time of the controller's next check, if the job waits for a check; null otherwise. */
  readonly nextCheckAt: Instant | null;
  /** The row of the situation table that decided the newest pass; null before the first pass. */
  readonly situation: {
    readonly name: string;
    /** Null for a name from another version of jobman. */
    readonly description: string | null;
  } | null;
}

export interface OnBehalf {
  /** The owner for whom the actor gives the command, which is recorded as the actor's. */
  readonly onBehalfOf?: UserName;
}

export interface CommandOptions extends OnBehalf {
  readonly release?: boolean;
  /** For resume: a new copy of the working directory, whose blobs are stored. */
  readonly workdir?: UploadedWorkdir;
  /** For resume and rerun: US dollars, instead of `job.budget`. */
  readonly budgetUsd?: number;
  /** For start: run only the command, on the workers that the job holds ready. */
  readonly commandOnly?: boolean;
  readonly force?: boolean;
  /** Refuses the command if the job has another revision by then. */
  readonly ifRevision?: number;
  /** For start, resume and rerun: the tokens of reasons that the user has confirmed. */
  readonly confirmed?: readonly ConfirmationToken[];
  /** For start, resume and rerun: as in `CreateRequest`. For cancel: more jobs, cancelled in the same transaction. */
  readonly replaces?: readonly string[];
  /** Set by `tpu resume` and `tpu rerun`: the attempt's window and booking are written with the command. */
  readonly lab?: LabRestart;
}

export interface CommandResult {
  readonly id: string;
  readonly ok: boolean;
  /** Says what happened to which job and what to do next, with the capacity still held and its cost per hour. */
  readonly message: string;
  readonly exitCode: number;
  /** The owner, if jobman refuses the command because of the actor, not because of the state of the job. */
  readonly refusedFor?: UserName;
  /** With `refusedFor`: after a confirmation by the user, the same command with `onBehalfOf` that owner is allowed. */
  readonly mayActForOwner?: true;
  /** The command needs a confirmation. */
  readonly confirmation?: ConfirmationNeeded;
}

export interface LogQuery extends Page {
  readonly worker?: WorkerId;
  /** The log of a setup step instead of the command's; `job` and `tpu` are the job's own logs. */
  readonly step?: string;
  readonly attempt?: number;
  /** Every log of the job, with the copies of reported metrics. `worker`, `step` and `attempt` are ignored. */
  readonly all?: true;
}

/** A log of a job. Its bytes never change; more may be added at its end. */
export interface LogRef {
  /** The id of the job. */
  readonly job: string;
  /** Identifies the log within its job, such as `attempt_2/command_worker_0`. */
  readonly id: string;
  readonly worker: WorkerId | null;
  readonly attempt: number | null;
  /** The setup step; `job` and `tpu` for the job's own logs; null for the output of the command. */
  readonly step: string | null;
  readonly size: number;
  /** Time of the newest byte. */
  readonly changedAt: Instant;
  /** True if nothing more is expected. A worker that was unreachable may still add to it, as may a new start. */
  readonly isComplete: boolean;
}

/** A part of a log. Over HTTP, `bytes` is the body. */
export interface LogPart {
  /** Empty at the end of the log. May be fewer than requested although more follow. */
  readonly bytes: Uint8Array;
  /** The offset of the first byte. */
  readonly from: number;
  /** The size of the log at the time of the read. */
  readonly end: number;
  /** True if these bytes reach the end and nothing more is expected; see `LogRef`. */
  readonly isComplete: boolean;
}

/** A wanted part of one log, as in `readLog`. */
export interface LogPartRequest {
  readonly id: string;
  readonly from: number;
  readonly maxBytes: number;
}

/** A search over several logs of a job, as if their lines were one list in the order of their times. */
export interface LogSearch {
  /** Plain text, not a pattern. A line with it in upper or lower case matches. Null: a line that reports an error. */
  readonly text: string | null;
  /** `next`: the first line at or after the offsets. `previous`: the last line before them. */
  readonly direction: 'next' | 'previous';
  readonly logs: readonly LogSearchStart[];
  /** Finds such a line in each log, instead of the nearest of all. */
  readonly inEach?: true;
}

/** A log that is searched. */
interface LogSearchStart {
  readonly id: string;
  /** The offset of the beginning of a line, or the size of the log. */
  readonly from: number;
}

/** `read`: the bytes that are read so far, and the most that may be read. */
export type LogSearchStep =
  | { readonly kind: 'read'; readonly bytes: number; readonly of: number }
  | { readonly kind: 'result'; readonly line: FoundLogLine | null };

/** The beginning of a line. */
export interface FoundLogLine {
  readonly id: string;
  readonly offset: number;
  /** As the line begins, or the nearest of the lines before it with a time: `2026-11-20T08:20:01Z`. Null without one. */
  readonly time: string | null;
}

/** A position in the changes. A client only stores it and compares it for equality. */
export type Cursor = string;

/**
 * One of: an event of a job; a hint that views of jobs may have changed, after which a client reads those that it shows
 * again; a log that has grown. A log may be reported again after a cursor.
 */
export type Change = { readonly cursor: Cursor } & (
  | { readonly kind: 'event'; readonly job: string; readonly seq: number; readonly event: Event }
  | { readonly kind: 'jobs' }
  | { readonly kind: 'log'; readonly log: LogRef }
);

export interface MetricsQuery {
  /** Names, without regard to case. Absent: all. */
  readonly metrics?: readonly string[];
  /** Absent: all attempts that have started. */
  readonly attempt?: number;
  /** Absent: the first worker with metrics, for each attempt. */
  readonly worker?: WorkerId;
  /** Only points from that time on. A point without a known time is left out. */
  readonly since?: Instant;
  /** About how many points of each metric are returned; 1,000 by default. */
  readonly maxPoints?: number;
}

/** `read`: the part of a log that is read so far; null for a size that is not known. The result comes last. */
export type MetricsStep =
  | { readonly kind: 'read'; readonly attempt: number; readonly bytes: number; readonly size: number | null }
  | { readonly kind: 'result'; readonly metrics: MetricsView };

/** The metrics that a job's program prints or reports. */
export interface MetricsView {
  readonly id: string;
  readonly name: string;
  readonly attempts: readonly AttemptMetrics[];
  /** Of all metrics of the attempts, in the order in which they first occur; `throughput` last. */
  readonly names: readonly string[];
  readonly series: readonly MetricSeriesView[];
  /** As in `JobView`. */
  readonly throughput: string | null;
  readonly slowWorker: string | null;
  /** The reported texts and points that are left out, as a phrase; null without any. */
  readonly leftOut: string | null;
  readonly dashboards: DashboardLinks;
}

/** An attempt that has started. */
export interface AttemptMetrics {
  readonly attempt: number;
  readonly stage: number;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  /** Null until it ends. */
  readonly reason: Reason | null;
  /** The worker whose metrics these are; null without metrics. */
  readonly worker: WorkerId | null;
  readonly firstStep: number | null;
  readonly lastStep: number | null;
  /** The last step of all, if the program names it. */
  readonly totalSteps: number | null;
  /** Between its first and its last step; null with fewer than 5 steps or less than 30 seconds. */
  readonly stepsPerSecond: number | null;
}

/** The points of one metric. */
export interface MetricSeriesView {
  /** As the program prints it. `throughput` is computed from its steps. */
  readonly name: string;
  /** `steps/s` for the throughput; null for what the program prints. */
  readonly unit: string | null;
  /** In the order in which they were printed. Of each stretch the least and the greatest value are kept. */
  readonly points: readonly MetricValue[];
  /** The number of all points, including those that are not in `points`. */
  readonly count: number;
  readonly last: MetricValue;
  /** The least of all finite values; null without one. */
  readonly min: number | null;
  readonly max: number | null;
  /** The number of points that are NaN or infinite. */
  readonly nonFinite: number;
  readonly firstNonFinite: MetricValue | null;
}

/** A number that need not be whole. */
type Fraction = number;

/** One value of one metric. */
export interface MetricValue {
  readonly attempt: number;
  /** Null if the program printed none. */
  readonly step: Fraction | null;
  /** The time that the program reported, or at which its line arrived; null if neither is known. */
  readonly at: Instant | null;
  /** JSON has no numbers for the three texts. */
  readonly value: Fraction | 'NaN' | 'Infinity' | '-Infinity';
}

/** One value of one metric on one worker. */
export interface MetricPointView extends MetricValue {
  /** The id; for a job in a cluster its name there. */
  readonly job: string;
  /** Its name; `throughput` is in steps per second. */
  readonly metric: string;
  readonly worker: WorkerId;
}

/** The answer of `create --dry-run`: requests, rules and price. Nothing is stored. */
export interface Plan {
  readonly name: string;
  readonly backend: BackendName;
  readonly requests: readonly string[];
  readonly steps: readonly string[];
  readonly command: string;
  /** Null without an environment. */
  readonly script: string | null;
  readonly rules: readonly string[];
  readonly limits: readonly string[];
  readonly pricePerHourUsd: number | null;
  readonly simulated: boolean;
  /** The typical wait for such capacity, from jobs of this installation; null with fewer than five waits. */
  readonly typicalWait: string | null;
  /** The questions of `create`. It refuses a job with the reason `budget_used`. */
  readonly reasons: readonly Omit<ConfirmationRequired, 'token'>[];
}

export interface PassQuery {
  /** Only the passes of this attempt. */
  readonly attempt?: number | undefined;
  /** Only the passes that this version decides differently. */
  readonly decide?: boolean | undefined;
}

/** A recorded pass of the controller over a job, or a recorded command. */
export interface PassView {
  /** Number of the commit, from 1. */
  readonly pass: number;
  /** Time of the decision. */
  readonly at: Instant;
  /** The newest attempt after it; null before the first. */
  readonly attempt: number | null;
  /** The version of jobman that decided; null for a command, or if the inputs cannot be read. */
  readonly version: string | null;
  /** The row of the table that decided; null for a command. */
  readonly situation: string | null;
  /** Null for a command, or for a situation of another version. */
  readonly description: string | null;
  /** Sentences: the outcomes of actions, and the facts that the pass before did not see. */
  readonly seen: readonly string[];
  /** Sentences: the events, and the actions that should be in progress. */
  readonly decided: readonly string[];
  /** Time of the next pass at the latest; null if only a command can change anything. */
  readonly nextAt: Instant | null;
  /** Later passes that requested the same actions and changed nothing. */
  readonly repeats: number;
  /** Time of the last of them; null without one. */
  readonly repeatedAt: Instant | null;
  /** The observation and the actions, as jobman has recorded them; null for a command, or if they cannot be read. */
  readonly recorded: RecordedPass | null;
  /** With `--decide`: the parts of the decision that this version decides differently. */
  readonly differences: readonly PassDifference[];
}

export interface PassDifference {
  /** `wakeAt`: the time of the next pass. `job`: the state of the job after the pass. */
  readonly part: 'situation' | 'events' | 'actions' | 'wakeAt' | 'job';
  /** The part of the recorded decision, without the sentences that both have. */
  readonly recorded: readonly string[];
  /** The same part of the decision of this version. */
  readonly today: readonly string[];
}

export interface PassList {
  readonly id: string;
  readonly name: string;
  readonly owner: UserName;
  readonly passes: readonly PassView[];
  /** The passes whose inputs can be read, and the others: another version recorded them, or changed the job since. */
  readonly readable: number;
  readonly unreadable: number;
}

export interface CreateRequest {
  readonly spec: JobSpec;
  readonly manifest: string;
  /** The owner for whom the actor creates the job. Absent: the actor. */
  readonly onBehalfOf?: UserName;
  /** The tokens of reasons that the user has confirmed. */
  readonly confirmed?: readonly ConfirmationToken[];
  /** Jobs to cancel in the same transaction, so that the new job gets their TPU. */
  readonly replaces?: readonly string[];
  /** The copy of `job.workdir`, whose blobs are stored. */
  readonly workdir?: UploadedWorkdir;
  /** The values of the job's own secrets, in Base64. */
  readonly secrets?: Readonly<Record<SecretName, string>>;
  /** Set by `tpu run`: the job is created together with its first window and its booking. */
  readonly lab?: LabEntry;
  /**
   * 1 to 255 characters without spaces, a new key for each new job. Within a day, the same request with the same key returns
   * the same job, and a different request with that key is a conflict.
   */
  readonly idempotencyKey?: string;
}

/** A file that a manifest names, as the client's machine has it. */
export type GivenFile =
  | {
      readonly kind: 'file';
      readonly bytes: number;
      readonly isExecutable: boolean;
      /** The content. Only for the paths that the answer wants it of. */
      readonly base64?: string;
    }
  | {
      readonly kind: 'folder';
      /** The names in it. */
      readonly entries: readonly string[];
    }
  | { readonly kind: 'absent' };

export interface ManifestRequest {
  readonly text: string;
  /**
   * The folder of the manifest, absolute: relative paths start there. Without it the manifest has only its text, as in a
   * browser: each file, variable or relative path of its machine is a problem, and no answer is `wanted`.
   */
  readonly folder?: string;
  /** The folder of the user: `~` in a path. With `folder`. */
  readonly home?: string;
  /** The name of the file, from which the job gets its name if the manifest has none. */
  readonly file?: string;
  /** Values that replace those of keys: `job.name=iris`. */
  readonly sets?: readonly string[];
  /** By absolute path; those that earlier answers wanted. */
  readonly files?: Readonly<Record<string, GivenFile>>;
  /** Values of environment variables that earlier answers wanted; null for one that is not set. */
  readonly variables?: Readonly<Record<string, string | null>>;
}

/** `wanted`: the manifest names files or variables that the same request needs next, with those that it had. */
export type ManifestAnswer =
  | {
      readonly kind: 'wanted';
      /** Files to describe. */
      readonly paths: readonly string[];
      /** Files whose content is needed. */
      readonly contents: readonly string[];
      readonly variables: readonly string[];
    }
  | {
      readonly kind: 'spec';
      readonly spec: JobSpec;
      /** The text to create the job with. */
      readonly manifest: string;
      /** The sources of the values of the job's own secrets: a file or a variable. */
      readonly secrets: readonly { readonly secret: SecretName; readonly path?: string; readonly variable?: string }[];
      readonly warnings: readonly ManifestProblem[];
    };

export type CreateAnswer =
  | CreatedJob
  | { readonly kind: 'confirmation_required'; readonly confirmation: ConfirmationNeeded };

export interface CreatedJob {
  readonly kind: 'created';
  readonly confirmation?: never;
  readonly id: string;
  readonly row: JobRow;
  readonly warnings: readonly string[];
}

/** The server has stored nothing. The same request with the tokens of all reasons succeeds once, unless the facts have changed. */
export interface ConfirmationNeeded {
  readonly reasons: readonly ConfirmationRequired[];
  /** A sentence if the request had tokens that do not cover every reason; null for a request without tokens. */
  readonly notice: string | null;
}

/** A confirmation needed from a user: the request exceeds the grants, or another job uses the TPU or folder. */
export interface ConfirmationRequired {
  /** The cause. */
  readonly kind: GuardReason['kind'];
  /** A sentence without its full stop. */
  readonly message: string;
  /** `about $4.00/h`; null if no price is known or the command adds no cost. */
  readonly cost: string | null;
  /** Another next step, as a sentence. */
  readonly remedy: string;
  /** True if the price is the only reason: a terminal asks, and a script prints the price and continues. */
  readonly mayProceed: boolean;
  /** Confirms this reason once, unless its facts change. Null if no confirmation helps: a budget is used up. */
  readonly token: ConfirmationToken | null;
}

/** `given_up`: it failed for a day, or for a reason that another try cannot change. */
export type MessageState = 'pending' | 'sent' | 'given_up';

/** A message about events to one recipient. */
export interface MessageView {
  /** The idempotency key, which is also part of the Message-ID of a mail. */
  readonly key: string;
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  /** `given_up`: it failed for a day, or for a reason that another try cannot change. */
  readonly state: MessageState;
  /** Tries so far. */
  readonly tries: number;
  readonly createdAt: Instant;
  /** Time of its delivery, or at which jobman gave up; null while it is pending. */
  readonly endedAt: Instant | null;
  /** Time of the next try; null once it has ended. */
  readonly nextAt: Instant | null;
  /** The failure of the newest try, with the text of the server; null without one. */
  readonly error: string | null;
  /** More than one in a digest. */
  readonly notices: readonly NoticeView[];
}

/** The events for one recipient that no message contains yet. */
export interface HeldEvents {
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  /** Their number, at most 500. */
  readonly events: number;
  /** Time of the oldest. */
  readonly oldestAt: Instant;
  /** Time at which the digest window allows their message; null while they wait for a message that fails. */
  readonly nextAt: Instant | null;
}

/** A recipient of the settings. */
export interface RecipientView {
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  /** The way to it; null if the settings have no such channel. */
  readonly channel: 'mail' | 'slack' | 'webhook' | 'command' | null;
  /** True if it gets the events of all jobs whose owner or manifest names no other recipients. */
  readonly allJobs: boolean;
  /** The owners whose jobs are reported to it (`notify.users`). */
  readonly owners: readonly string[];
  /** The owners who have chosen other recipients. */
  readonly otherOwners: readonly string[];
  /** The reason for which no message can reach it, for people; null if the settings are complete. */
  readonly problem: string | null;
}

export interface TestAnswer {
  readonly isSent: boolean;
  /** The answer of the server or program, or the failure. */
  readonly message: string;
}

/** A recipient of unfinished jobs or of events that are not delivered yet. */
export interface RecipientInUse {
  readonly recipient: string;
  /** The ids of the unfinished jobs whose manifest names it. */
  readonly jobs: readonly string[];
  readonly events: number;
}

/** A reported event. */
interface NoticeView {
  /** `test`: a message of `jobman notify test`. */
  readonly event: NotifyEvent | 'test';
  /** Id of the job; for a job in a cluster its name; null without a job. */
  readonly job: string | null;
  /** Name of the job; null without a job. */
  readonly name: string | null;
  /** The user whom the job belongs to; null without a job. */
  readonly owner: string | null;
  readonly at: Instant;
  readonly message: string;
}

/** A named secret of the actor. Its value is never shown. */
export interface SecretView {
  readonly name: SecretName;
  /** The size of the stored value in bytes, including a newline at its end, which a variable does not get. */
  readonly size: number;
  /** Time at which its value was stored. */
  readonly changedAt: Instant;
  /** The ids of the unfinished jobs that need it. */
  readonly usedBy: readonly string[];
}

/** An effective setting. */
export interface SettingRow {
  /** Such as `tpu.project`. */
  readonly key: string;
  /** `(set)` instead of a secret. */
  readonly value: unknown;
  /** A variable, the name of a file, or `default`. */
  readonly source: string;
}

interface BucketAnswer {
  readonly statuses: readonly BucketStatus[];
  /** A message for the user about a program that was started for the answer; null: none was. */
  readonly notice: string | null;
}

/**
 * The operations of one actor. `Rows` are a page if one is asked for, and otherwise all. Every method throws JobmanError: 3 for
 * an absent job, 4 for a name that matches two jobs, and 4 (`forbidden`) for what the actor may not do.
 */
export interface Client {
  /** The user, the role and the token of the request. Throws StoreError if the database cannot be read. */
  whoAmI(): Promise<Actor>;
  /** The installation id, which labels the resources of its jobs in clouds; null before the first write. */
  installationId(): Promise<string | null>;
  /** For each command of a job, whether the actor may give it now, and the reason if not. */
  actions(ref: Ref): Promise<JobActions>;
  /** Creates a job. Checks limits and confirmations in the transaction that stores the job, so no fact can have changed. */
  create(request: CreateRequest): Promise<CreateAnswer>;
  /**
   * Parses a manifest, for a client without the parser: returns its spec, and stores the contents of the files that it names.
   * Throws JobmanError (2) with all problems.
   */
  readManifest(request: ManifestRequest): Promise<ManifestAnswer>;
  /** The plan of a new job, and the reasons for a confirmation or a refusal. `workdir`: the folder of `job.workdir`, for people. */
  plan(spec: JobSpec, workdir?: string): Promise<Plan>;
  /** The id of the job with this name, even if the name looks like an id. Throws JobmanError (3, 4). */
  resolveName(name: string, purpose: RefPurpose): Promise<string>;
  /**
   * Lists jobs. With a limit or a cursor it returns one page: no job appears twice in the pages, and a job that exists
   * throughout is never missing.
   */
  list(query: ListQuery): Promise<JobList>;
  /** The hosts of the settings; the machine of the controller is first. */
  hosts(): Promise<readonly NamedHost[]>;
  /** The effective settings on the machine of the controller. Only for admins. */
  settings(): Promise<readonly SettingRow[]>;
  /** The setting `prices`. */
  ownPrices(): Promise<readonly OwnPrice[]>;
  /** The queue of each host; the machine of the controller is first. A job holds its slots in a short backoff, and waits in a long one. */
  hostQueues(): Promise<readonly PoolQueue[]>;
  /** The jobs that wait, with the reason of each, in the order in which jobman starts them. */
  queue(): Promise<QueueList>;
  /** The zones that jobs have requested or name, with the newest answers of the cloud. */
  zones(query: ZoneQuery): Promise<readonly ZoneRow[]>;
  /**
   * The unfinished jobs and those that hold capacity, newest first, with the newest output of their workers. Leaves out
   * jobs that the actor may not read.
   */
  activity(): Promise<readonly JobActivity[]>;
  /** One job. `isKept`: its sentences contain times instead of ages, for a copy that people read later. */
  show(ref: Ref, options?: { readonly isKept: boolean }): Promise<JobView>;
  /** The rows of the usage ledger that overlap the period, including those of deleted jobs. */
  usage(query: UsageQuery): Promise<Rows<UsageRow>>;
  /** The cost in a period, from the usage ledger, including deleted jobs. */
  cost(request: CostRequest): Promise<CostReport>;
  /** The facts about a job that `diff` compares, by default of its newest attempt. Throws JobmanError (3) for an absent attempt. */
  diffSide(ref: Ref, attempt: number | null): Promise<DiffSide>;
  /** The reason for the phase of a job, and what happens next. */
  why(ref: Ref): Promise<Why>;
  /** The history after the event with the number `after` (0: all), oldest first. */
  events(
    ref: Ref,
    after: number,
    limit?: number,
    cursor?: string,
  ): Promise<Rows<{ readonly seq: number; readonly event: Event }>>;
  /** The recorded passes of the controller over the job, oldest first. Throws JobmanError (3) for an absent attempt. */
  passes(ref: Ref, query: PassQuery): Promise<PassList>;
  /** The manifest as written, with its comments; null if it is not stored. */
  manifest(ref: Ref): Promise<string | null>;
  /** The uncommitted changes in a copy of the working directory, as a unified diff; null without any. */
  workdirChanges(ref: Ref, copy: number): Promise<string | null>;
  /**
   * A file of a copy of the working directory; for a link, an arrow and the target. Throws JobmanError (3) without
   * such a file.
   */
  readWorkdirFile(ref: Ref, copy: number, path: string): Promise<Uint8Array>;
  /** A file that a setup step copies to the workers, by its path there. Throws JobmanError (3) without such a file. */
  readStepFile(ref: Ref, to: string): Promise<Uint8Array>;
  /** Stores blobs that a new job names by digest. Safe to repeat. Refuses a blob whose content has another digest. */
  putBlobs(blobs: readonly Blob[]): Promise<void>;
  /** The stored blobs among these, which stay for at least a day. `sizes`: leaves out damaged blobs, which have another size. */
  hasBlobs(digests: BlobDigests, sizes?: readonly number[]): Promise<readonly Digest[]>;
  /** Gives a command to a job. If `ok` is false, `message` says why. Throws JobmanError (4) if the revision has changed. */
  sendCommand(ref: Ref, verb: Verb, options: CommandOptions): Promise<CommandResult>;
  /** The logins and addresses with which a program connects to the workers of a job. Throws JobmanError if it has none now. */
  workerTicket(ref: Ref, options?: TicketOptions): Promise<WorkerTicket>;
  /** Measures a worker and the program on it, which takes ten seconds at most. */
  workerFigures(ref: Ref, target: FiguresTarget): Promise<FiguresAnswer>;
  /**
   * Runs a setup step again on the workers that the job holds, and records it. Throws JobmanError with the reason if
   * the actor may not run it now. Leaving the stream does not stop the step.
   */
  runStep(ref: Ref, step: string, options?: StepRunOptions): AsyncIterable<StepProgress>;
  /** The logs of one attempt in the order of workers; by default of the newest attempt that has started. */
  logs(ref: Ref, query: LogQuery): Promise<Rows<LogRef>>;
  /**
   * The bytes of a log from an offset on, at most `maxBytes` and at most 1 MiB; none after its end. Throws JobmanError
   * (3) for an unknown log or one whose file was removed.
   */
  readLog(ref: Ref, id: string, from: number, maxBytes: number): Promise<LogPart>;
  /** Reads parts of several logs, such as those of many workers, with one request. Each part is as from `readLog`. */
  readLogs(ref: Ref, parts: readonly LogPartRequest[]): AsyncIterable<LogPart>;
  /**
   * Finds the nearest line with a text, or one that reports an error. Reads the logs as far as needed, and reports progress at
   * least four times a second; leaving the stream ends the search. The result comes last; with `inEach`, there is one for each
   * log that has such a line. Throws JobmanError: 2 for a text without or with more than 200 characters, and as `readLog` for
   * each log.
   */
  searchLogs(ref: Ref, search: LogSearch): AsyncIterable<LogSearchStep>;
  /** The metrics of the program, reduced to about `maxPoints` points each. */
  metrics(ref: Ref, query: MetricsQuery): AsyncIterable<MetricsStep>;
  /** Every point that the program printed or reported, attempt by attempt. `maxPoints` is ignored. */
  metricPoints(ref: Ref, query: MetricsQuery): AsyncIterable<MetricPointView>;
  /** Removes the files of a finished job, such as logs, copies of the working directory, and the job's own secrets. */
  clean(ref: Ref, options?: OnBehalf): Promise<CommandResult>;
  /** The actor's own jobs whose files `clean` would remove, newest first. */
  listCleanable(page?: Page): Promise<Rows<JobRow>>;
  /** The actor's own named secrets, by name. */
  secrets(): Promise<readonly SecretView[]>;
  /**
   * Stores a secret of the actor, or replaces its value: jobs read it at each start. Throws JobmanError (2) for an invalid
   * name or value.
   */
  setSecret(name: SecretName, value: Uint8Array): Promise<'added' | 'replaced'>;
  /**
   * Replaces the value of a secret that `create` stored for the job. Throws JobmanError: 2 for an invalid value, 3 if the job
   * has no such secret of its own.
   */
  replaceJobSecret(ref: Ref, name: SecretName, value: Uint8Array): Promise<void>;
  /** Deletes a secret of the actor. Throws JobmanError: 3 without that secret, 4 while an unfinished job needs it. */
  deleteSecret(name: SecretName): Promise<void>;
  /**
   * The messages about events, newest first, including those that are not delivered yet. An admin gets all messages,
   * another actor those about their own jobs.
   */
  messages(limit: number, cursor?: string): Promise<Rows<MessageView>>;
  /** The events that no message contains yet: all for an admin, for another actor those of their own jobs. */
  heldEvents(): Promise<readonly HeldEvents[]>;
  /** The recipients of notifications in the settings. */
  recipients(): Promise<readonly RecipientView[]>;
  /** Sends a test message now, without retries. An unknown recipient is a failure. */
  testRecipient(recipient: string): Promise<TestAnswer>;
  /** The files with secrets of channels that other users of the machine can read. */
  openSecrets(): Promise<readonly HostPath[]>;
  /** The recipients of unfinished jobs and undelivered events. Leaves out jobs that the actor may not read. */
  recipientsInUse(): Promise<readonly RecipientInUse[]>;
  /**
   * Gives up the undelivered events for a recipient, and returns their number. Only an admin may give up
   * events about the jobs of others.
   */
  dropEvents(recipient: string): Promise<number>;
  /**
   * Reports the changes after the cursor, as they happen: events, and grown logs of the newest attempts, of the jobs with these
   * ids, or of all jobs that the actor may read. Without a cursor it begins now, with one change `jobs`. Does not end.
   */
  changesSince(cursor: Cursor | null, jobs?: readonly string[]): AsyncIterable<Change>;
  /** The TPUs in the projects that the settings, the jobs and the query name. Throws JobmanError without a project. */
  tpus(query: TpuQuery): Promise<TpuList>;
  /**
   * Excludes a project that only finished jobs name from `tpus` and `orphans`. `confirmed`: the resources there that the user
   * gives up, although they may still exist. Throws JobmanError (4) if the project is in use.
   */
  forgetProject(project: string, confirmed?: readonly string[]): Promise<ForgetAnswer>;
  /** Limits and use of the projects that `tpus` finds. Throws JobmanError without a project. */
  quota(query: QuotaQuery): Promise<QuotaReport>;
  /** The newest known limits, without the chips in use. Sends no request to a cloud. */
  knownQuota(projects: readonly string[]): Promise<readonly QuotaRow[]>;
  /** A sentence for each alternative of a capacity request that exceeds the quota. Returns soon, and never rejects. */
  quotaWarnings(capacity: TpuSpec): Promise<readonly string[]>;
  /**
   * The buckets of the projects that `tpus` finds. Each report has all results so far; the last one is complete. Throws
   * JobmanError without a project.
   */
  storage(query: StorageQuery): AsyncIterable<StorageReport>;
  /** The checkpoint folders of the jobs that the actor may read, in reports as from `storage`. */
  checkpoints(): AsyncIterable<CheckpointReport>;
  /** Finds orphans in all locations that the settings, the jobs and the recorded orphans name. */
  orphans(): Promise<OrphanReport>;
  /** Checks these orphans now. */
  observeOrphans(orphans: readonly Orphan[]): Promise<readonly OrphanView[]>;
  /** Releases an orphan. `done`: the cloud accepted the request, or no resource of this installation exists. Safe to repeat. */
  releaseOrphan(orphan: Orphan): Promise<OutcomeResult>;
  /** Removes a deleted orphan from the recorded orphans. */
  forgetOrphan(orphan: Orphan): Promise<void>;
  /** The billed costs from the export that the settings name, next to the estimates; without an export, only the estimates. */
  billing(request: BillingRequest): Promise<BillingAnswer>;
  /** The images of the registry project in the settings, else of all visible projects. Throws JobmanError without a registry. */
  images(query: ImageQuery): Promise<RegistryAnswer<readonly ImageRow[]>>;
  /** One image. `name`: `trainer`, `trainer:3.1` or `lab/nested/trainer@sha256:…`, also with the address of the registry before it. */
  image(name: string, query: ImageQuery): Promise<RegistryAnswer<ImageDetails>>;
  /** Checks the credentials for the cloud of a project. Throws JobmanError (5) if they are missing or invalid. */
  checkLogin(project: string): Promise<void>;
  /** The status of each bucket, in the order of the names, within seconds. `pendingSpec`: a new job, for which the TPU emulator starts. */
  bucketStatuses(project: string, buckets: readonly string[], pendingSpec: JobSpec | null): Promise<BucketAnswer>;
  /** True if a controller runs for the database. Throws StoreError if a damaged lock hides it. */
  isControllerRunning(): Promise<boolean>;
  /**
   * The archived jobs of clusters, newest first. Leaves out jobs that the actor may not read; the methods for one archived
   * job return the same for such a job as for an absent one.
   */
  archivedJobs(query: ArchiveQuery & Page): Promise<Rows<ArchivedJob>>;
  /** One archived job; null if there is none. */
  archivedJob(uid: string): Promise<ArchivedJob | null>;
  /** The events of an archived job, oldest first. */
  archivedEvents(uid: string, page?: Page): Promise<Rows<ClusterJobEvent>>;
  /** The archived logs of a job. */
  archivedLogs(uid: string): Promise<readonly ArchivedLog[]>;
  /** The newest archived line of each log of these pods. */
  lastArchivedLines(uid: string, pods: readonly string[]): Promise<readonly ArchivedLine[]>;
  /** Whole lines of an archived log, byte for byte as printed, or with the timestamps of the cluster. Throws JobmanError (3) without a log. */
  readArchivedLog(uid: string, log: ArchivedLogName, query: ArchivedLogQuery): AsyncIterable<Uint8Array>;
  /** Records in the history that the actor has deleted the job in its cluster. Safe to repeat. */
  recordClusterDeletion(uid: string): Promise<void>;
  /**
   * Removes an archived job from the list. Its logs and history remain available by its name. `onBehalfOf`: the owner that
   * the archived job names.
   */
  hideArchivedJob(uid: string, options?: OnBehalf): Promise<void>;
  /** Removes the archived logs and history of a job. Throws JobmanError (4) for a job that may still run. */
  removeArchivedJob(uid: string, options?: OnBehalf): Promise<void>;
  /** All users for an admin, for another actor only their own entry; by name. */
  users(): Promise<readonly UserView[]>;
  /** Adds a user. Throws JobmanError: 2 for an invalid name or login, 4 if the name, a similar one or a login is taken. */
  addUser(user: NewUser): Promise<UserView>;
  /** Changes a user from the next request on. Throws JobmanError: 3 without the user, 4 for the last admin. */
  changeUser(name: UserName, change: AccessChange): Promise<ChangedUser>;
  /** All tokens for an admin, for another actor only their own; never the values. */
  tokens(page?: Page): Promise<Rows<TokenView>>;
  /**
   * Creates a token, and returns it: no other response contains it. Its role is never higher than the user's. Throws
   * JobmanError: 2 for an invalid request, 3 without the user, 4 if the user has a token of this name.
   */
  createToken(request: TokenRequest): Promise<CreatedToken>;
  /** Revokes a token. `ref`: an id, or a name among the tokens of `user`, by default the actor. Safe to repeat. Throws JobmanError (3). */
  revokeToken(ref: string, user?: UserName): Promise<RevokedToken>;
  /** The audit log, newest row first: all rows for an admin, for another actor only their own. */
  audit(query: AuditQuery): Promise<Rows<AuditRow>>;
  /** Refuses a command of `tpu`, such as `book`, if the actor may not use it. */
  checkLabCommand(command: string): Promise<void>;
  /** Wakes the controller, and starts one if none runs. Returns a message for the user, or null. */
  wake(): Promise<string | null>;
  /** Frees the connections. Safe to repeat; a later call opens them again. */
  close(): Promise<void>;
}
