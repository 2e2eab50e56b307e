// Ports: the interfaces between jobman's decisions and the outside. Each has a real and a simulated implementation.

import type { BucketLocation } from '../catalogue/bucket-location.ts';
import type { Event } from '../core/model/event.ts';
import type { Allocation, BudgetPeriod, Job } from '../core/model/job.ts';
import type { AllocationStatus, Observed, Outcome, OutcomeResult, WorkerStatus } from '../core/model/observation.ts';
import type { SliceState } from '../core/model/ready-periods.ts';
import type { RecordedPass } from '../core/model/recorded-pass.ts';
import type { Digest } from '../catalogue/digest.ts';
import type { Arrival } from '../core/model/arrival-times.ts';
import type { AnswerRecord } from '../core/decide/capacity-answers.ts';
import type { Launch } from '../core/decide/launch.ts';
import type {
  BackendName,
  CapacitySpec,
  JobSpec,
  SecretName,
  SecretRef,
  SetupStep,
  ShownTpu,
  WorkerId,
} from '../core/model/spec.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { Role, User, UserName } from '../core/model/user.ts';
import type { CostGrouping, UsageSum } from '../reports/cost.ts';
import type { UsageRow } from '../reports/usage.ts';
import type { HostPath, JobRow } from './client.ts';
import type { FrozenWorkdir, WorkdirDescription, WorkdirTree } from './workdir.ts';
import type { FactsNeeded, Guard, GuardFacts } from '../core/policy/guards.ts';
import type { UserSpending } from '../core/policy/grants.ts';
import type { DailyBudget, UserLimits } from '../core/policy/limits.ts';
import type { LabEntry, LabRestart } from './lab-job.ts';
import type { SealedSecret, SecretAddress } from './sealing.ts';
import type { AuditEntry, AuditFilter, AuditRow } from './audit.ts';
import type { GroupRole, Identity } from './oidc.ts';
import type { Key, Rows, Span } from './pages.ts';
import type { PendingLogin } from './oidc-logins.ts';
import type { TokenView } from './tokens.ts';
import type { AccessChange, ChangedUser, UserView } from './users.ts';

// ---------------------------------------------------------------------------------------------- time

export interface Clock {
  now(): Instant;
  /** Calls back once, no earlier than `at`; the returned function cancels it. Never keeps the process alive. */
  at(at: Instant, call: () => void): () => void;
}

// ---------------------------------------------------------------------------------------------- store

export interface StoredJob {
  readonly job: Job;
  readonly revision: number;
  /** Time of the controller's next check, as stored: see `Commit`. */
  readonly wakeAt: Instant | null;
}

export interface NewJob {
  readonly owner: string;
  readonly by?: string;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly at: Instant;
  readonly lab?: LabEntry;
  /** End requests of the jobs that it replaces, written in the same transaction. */
  readonly ends?: readonly Commit[];
  /** Called in the transaction, with its view of the secrets; if it throws, nothing is stored. It uses no store. */
  readonly check?: (secrets: SecretRows) => Promise<void>;
  /** The encrypted secrets of the job, once it has an id. Called in the transaction. */
  readonly sealed?: (id: string) => readonly SealedSecret[];
  /** Gets the id of the job. */
  readonly audit?: AuditEntry;
  /** Stored with the job: a request with it is not stored again. */
  readonly key?: CreationKey;
}

export interface CreatedWith {
  readonly id: string;
  readonly digest: string;
}

/** The idempotency key of a request for a new job. */
export interface CreationKey {
  readonly actor: UserName;
  readonly key: string;
  /** Of the request. */
  readonly digest: string;
}

/** One line of a job's history; `seq` counts from 1 without gaps. */
export interface StoredEvent {
  readonly seq: number;
  readonly event: Event;
}

interface NumberedEvent extends StoredEvent {
  /** Among the events of all jobs. */
  readonly number: number;
  /** The id of the job. */
  readonly job: string;
}

export interface Commit {
  readonly job: Job;
  /** The revision that was loaded. The store drops the commit if the job has another revision by then. */
  readonly revision: number;
  readonly events: readonly Event[];
  readonly foldedOutcomes: readonly number[];
  /** Time of the controller's next check; null if only a command can change the job. */
  readonly wakeAt: Instant | null;
  /** The controller's lease epoch; null for a client's commit, which needs no lease. */
  readonly epoch: number | null;
  /** For a pass; null if passes are not recorded. Absent for another commit, such as a command. */
  readonly record?: PassRecord | null;
  /** For a start request: checked again in the transaction, with the job as stored. */
  readonly guard?: Guard;
  /** As in `NewJob`. */
  readonly ends?: readonly Commit[];
  readonly check?: NewJob['check'];
  readonly lab?: LabRestart;
  /** For a user's command. */
  readonly audit?: AuditEntry;
}

export interface PassRecord {
  readonly pass: RecordedPass;
  /** The store keeps so many commits of the job, and those of all jobs since then. */
  readonly maxCount: number;
  readonly since: Instant;
}

/** A recorded commit of a job. */
export interface RecordedStep {
  /** From 1, without gaps. */
  readonly seq: number;
  readonly at: Instant;
  /** Null if no pass made the commit: it was a command, or a report by orphan collection. */
  readonly situation: string | null;
  readonly events: readonly Event[];
  /** Null without a pass, and if another version has recorded it or has changed the job after it. */
  readonly inputs: { readonly pass: RecordedPass; readonly before: Job; readonly after: Job } | null;
  /** Later passes that requested the same actions and changed nothing, and the time of the last. */
  readonly repeats: number;
  readonly repeatedAt: Instant | null;
}

/**
 * `tpu_in_use`: another job uses the persistent TPU on which this one would begin. `unconfirmed`: the guard has a reason
 * that is not confirmed.
 */
export type CommitResult = 'committed' | 'stale' | 'tpu_in_use' | 'unconfirmed' | 'lease_lost';

export interface StoredOutcome {
  readonly id: number;
  readonly outcome: Outcome;
}

export interface JobFilter {
  readonly ids?: readonly number[];
  readonly name?: string;
  /** A glob such as `llama-*`: `*` matches any text, `?` one character, without regard to case. */
  readonly nameGlob?: string;
  /** Jobs of any of these owners. */
  readonly owners?: readonly string[];
  readonly tag?: string;
  readonly createdSince?: Instant;
  /** Absent: both. */
  readonly isFinished?: boolean;
  /** By id, newest first, all before that id; `maxFinished` does not count. */
  readonly page?: { readonly before: number | null; readonly limit: number };
  /** Number of finished jobs to include, newest end first; null for all. Unfinished jobs are always included. */
  readonly maxFinished: number | null;
  readonly includeRemoved?: boolean;
}

/** Newest first. The specs omit their long texts, so that a list of thousands is quick. */
export interface JobPage {
  readonly jobs: readonly Job[];
  readonly more: number;
}

/** Selects the rows that overlap the period from `since` (or ever) to `until` (or now). */
export interface UsageFilter {
  readonly since?: Instant;
  readonly until?: Instant;
  /** Ids; of jobs in a cluster uids. */
  readonly jobs?: readonly string[];
  readonly exceptJobs?: readonly string[];
  readonly name?: string;
  /** As in `JobFilter`. */
  readonly nameGlob?: string;
  readonly owners?: readonly string[];
  /** A job in a cluster has no tags. */
  readonly tag?: string;
  /** As in `UsageRow.location`. */
  readonly zone?: string;
  /** An accelerator type, a generation or a flavor. */
  readonly accelerator?: string;
}

/** The first groups of a report by job, in its order. */
export interface CostliestJobs {
  /** As in `UsageFilter`. */
  readonly jobs: readonly string[];
  /** The number of the other groups. */
  readonly restCounts: { readonly real: number; readonly simulated: number };
}

/** The rows of jobs that only a command can change. The caller of the store makes them, and may do so again at any time. */
export interface FinalRows {
  /** Rows of another version are not used. */
  readonly version: number;
  /** Null for a job that may change by itself. */
  readonly rowOf: (job: Job) => JobRow | null;
}

export type LoadFinalRows = () => Promise<FinalRows>;

export interface RowPage {
  readonly rows: readonly JobRow[];
  /** The number of the finished jobs left out; of a page, not 0 if more may follow. */
  readonly more: number;
}

export interface LeaseState {
  readonly holder: string;
  readonly epoch: number;
  readonly version: string;
  /** By the clock of the caller, although a server decides it by its own. */
  readonly expiresAt: Instant;
  /** The newest pause; absent if none is recorded. Only `takeLease` sets it. */
  readonly pause?: Pause;
}

/** A time of more than a minute in which no controller renewed the lease. Timeouts exclude it. */
export interface Pause {
  readonly from: Instant;
  readonly until: Instant;
}

/**
 * A hint to the controller: that job, the watched clusters or the settings have changed. `exit` asks a controller of
 * another program than the named one (null: any controller) to exit; on a server, where the controllers of other homes
 * receive it too, only the one that `controller` names (`formatController`). `all`: some of these may be lost.
 */
export type WakeUp =
  | { readonly topic: 'job'; readonly id: string }
  | { readonly topic: 'clusters' | 'settings' | 'all' }
  | { readonly topic: 'exit'; readonly program: string | null; readonly controller?: string };

export interface WakeUpListener {
  /** Resolves once everything that was sent before the call is received. Called with each renewal of the lease. */
  poll(): Promise<void>;
  /** Nothing is received afterwards. */
  close(): Promise<void>;
}

/** The database. Each method is one transaction; reads never write. Throws StoreError if it cannot be used. */
export interface Store {
  /** Six characters [a-z0-9], generated once per database. */
  installationId(): Promise<string>;
  /**
   * Assigns the id and writes the first event. The job waits if another uses its persistent TPU. Not safe to repeat: each
   * call creates a job.
   */
  insert(job: NewJob): Promise<StoredJob>;
  load(id: string): Promise<StoredJob | undefined>;
  loadMany(ids: readonly string[]): Promise<readonly StoredJob[]>;
  /**
   * As `insert`; stores nothing if the guard has a reason that is not confirmed, if a job of `ends` has changed, or if
   * `createdWith` has a job for its key.
   */
  insertGuarded(job: NewJob, guard: Guard): Promise<StoredJob | 'unconfirmed'>;
  /** The id of the job that was stored with that key in the last day, and the digest of its request; null without one. */
  createdWith(key: Omit<CreationKey, 'digest'>, now: Instant): Promise<CreatedWith | null>;
  guardFacts(needed: FactsNeeded, now: Instant): Promise<GuardFacts>;
  /**
   * Calls `act` in a transaction unless unfinished jobs of the owner need it; returns their ids. So no job is stored between
   * the answer and the action. `act` uses no store.
   */
  unlessNeeded(
    owner: UserName,
    isNeeded: (spec: JobSpec) => boolean,
    act: (secrets: SecretRows) => Promise<void>,
    audit: AuditEntry,
  ): Promise<readonly string[]>;
  commit(commit: Commit): Promise<CommitResult>;
  list(filter: JobFilter): Promise<JobPage>;
  /** The manifest as written; null without the job. */
  manifest(id: string): Promise<string | null>;
  /** As `list`, for screens. The store keeps the final rows; `rowOf` makes every other row. */
  listRows(filter: JobFilter, rowOf: (job: Job) => JobRow): Promise<RowPage>;
  events(id: string, after: number, limit?: number): Promise<readonly StoredEvent[]>;
  /** Of all jobs, in the order of their commits. */
  eventsAfter(number: number, limit: number): Promise<readonly NumberedEvent[]>;
  /** The number of the newest event of all jobs; 0 without any. */
  lastEvent(): Promise<number>;
  /** The recorded commits of the job, oldest first. */
  passes(id: string): Promise<readonly RecordedStep[]>;
  /** Stores a fact for the job's next pass. Safe to repeat: a newer outcome replaces one with the same key. */
  addOutcome(id: string, outcome: Outcome): Promise<void>;
  outcomes(id: string): Promise<readonly StoredOutcome[]>;
  /** Ids of jobs whose `wakeAt` is not after `now`, earliest first, and of jobs with stored outcomes. */
  dueJobs(now: Instant, limit: number): Promise<readonly string[]>;
  nextWake(): Promise<Instant | null>;
  wakeAt(id: string): Promise<Instant | null>;
  /** The newest jobs with the same request since then, without long texts, including jobs that left the list. */
  similarJobs(
    request: { readonly accelerator: string; readonly zone: string; readonly pricing: string },
    since: Instant,
    limit: number,
  ): Promise<readonly Job[]>;
  /** The usage ledger, job by job, with the jobs that left the list. Each row in full, even if it began earlier. */
  usage(filter: UsageFilter, span?: Span): Promise<Rows<UsageRow, Key>>;
  /** The same, added up by group. The filter and `now` cut rows exactly. Without groups, the key is null. */
  usageSums(filter: UsageFilter, by: CostGrouping | null, now: Instant): Promise<readonly UsageSum[]>;
  costliestJobs(filter: UsageFilter, limit: number, now: Instant): Promise<CostliestJobs>;
  /** US dollars that each user has spent on ephemeral TPUs from these times to `now`, by owner, type, zone and pricing. */
  spending(periodStarts: Readonly<Record<BudgetPeriod, Instant>>, now: Instant): Promise<readonly UserSpending[]>;
  changeCount(): Promise<number>;
  /** Rejects for a database that is closed, or that a newer program has upgraded meanwhile: it can be read only. */
  requireUsable(): Promise<void>;
  /**
   * Takes a lease that is free, expired or ours; with the controller lock of this home (`holdsLock`), also that of an
   * earlier holder of this lock, which is the part of its name after `@`.
   */
  takeLease(
    holder: string,
    version: string,
    now: Instant,
    duration: Duration,
    holdsLock: boolean,
  ): Promise<{ readonly taken: boolean; readonly lease: LeaseState }>;
  releaseLease(holder: string): Promise<void>;
  lease(now: Instant): Promise<LeaseState | undefined>;
  /** The time of a database on a server; null for a file of this machine. */
  clock(): Promise<Instant | null>;
  /** The newest answer of each kind per location of a project (null: all projects), for any job, newest first. */
  capacityAnswers(project: string | null): Promise<readonly AnswerRecord[]>;
  /** One allocation per location that may hold orphans: until seven days after the last confirmed absence, `goneAt`. */
  locationsToCollect(
    now: Instant,
  ): Promise<{ readonly refs: readonly AllocationRef[]; readonly goneAt: Instant | null }>;
  /** With `foundAt` also writes a notice, unless the orphan was recorded before. */
  recordOrphan(orphan: Orphan, foundAt?: Instant): Promise<void>;
  orphans(): Promise<readonly Orphan[]>;
  forgetOrphan(orphan: Orphan): Promise<void>;
  /**
   * Wakes the controller; call it after the commit. Safe to repeat. A lost wake-up only delays, because what it is about is
   * in the store, so a failure is ignored. A failure of `exit` is thrown as StoreError, and a controller that just starts
   * misses it: repeat it.
   */
  notify(wakeUp: WakeUp): Promise<void>;
  /**
   * Receives wake-ups, each at least once if nothing fails, in batches, in any order, and also some of those that were sent
   * before. The holder of the controller's lock is the only listener. After a lost connection `all` is received once.
   * An empty batch: the files of the wake-ups are gone.
   */
  listen(receive: (wakeUps: readonly WakeUp[]) => void): Promise<WakeUpListener>;
  close(): Promise<void>;
}

/** In the same database. */
export interface UserStore {
  /** The registered users, by name. */
  users(): Promise<readonly User[]>;
}

export interface NewToken extends Omit<TokenView, 'role'> {
  /** SHA-256 of the token. */
  readonly hash: string;
}

export interface FoundToken extends TokenView {
  readonly userRole: Role;
  readonly isUserDisabled: boolean;
  readonly userLimits: UserLimits;
}

/** A user to add for a person whom no admin has linked. */
export interface NewPerson {
  readonly name: string;
  readonly role: Role;
}

/** The changes of a login, for its row in the audit log. */
export interface LogInChange {
  readonly added?: true;
  readonly roleBefore?: Role;
  /** The user stays the last admin. */
  readonly lastAdmin?: true;
}

export type LogInAnswer =
  | { readonly kind: 'unknown' }
  | {
      /** `name_taken`: a new user would have a name too similar to this one's. */
      readonly kind: 'allowed' | 'disabled' | 'other_person' | 'name_taken';
      readonly user: UserName;
      readonly role: Role;
    };

/** Users, tokens, logins and the audit log, in the same database. An entry is written in the transaction of its change. */
export interface AccessStore {
  /** By name. */
  users(): Promise<readonly UserView[]>;
  /** Throws JobmanError (4) if the name, a similar one or a login is taken. */
  addUser(user: UserView, audit: AuditEntry): Promise<UserView>;
  /** Throws JobmanError: 3 without the user, 4 for the last admin or a login that is taken. */
  changeUser(name: UserName, change: AccessChange, audit: AuditEntry): Promise<ChangedUser>;
  dailyBudgets(): Promise<readonly DailyBudget[]>;
  /** Of one user, or of all with null. Oldest first. */
  tokens(user: UserName | null, span?: Span): Promise<Rows<TokenView, Key>>;
  /**
   * `roleFor` gets the role of the user, or null for one who is not registered, who then becomes an admin; it throws to
   * refuse the token. `isFirstUser`: no user is registered. Throws JobmanError (4) if the name is taken or the user is disabled.
   */
  addToken(
    token: NewToken,
    roleFor: (registered: Role | null, isFirstUser: boolean) => Role,
    audit: AuditEntry,
  ): Promise<{ readonly role: Role; readonly registered: boolean }>;
  /** False if it was revoked already. */
  revokeToken(id: string, at: Instant, audit: AuditEntry): Promise<boolean>;
  findToken(hash: string): Promise<FoundToken | null>;
  /**
   * Finds the user of a person, binds an account at its first login, or adds `person` as a user. The groups of the person
   * give the user a role, unless this lowers the last admin. An allowed login has its entry in the same transaction; a
   * refused one changes nothing.
   */
  logIn(
    identity: Identity,
    person: NewPerson | null,
    at: Instant,
    audit: (user: UserName, role: Role, change: LogInChange) => AuditEntry,
    groups?: GroupRole | null,
  ): Promise<LogInAnswer>;
  /** Removes expired logins, and the oldest ones of this kind beyond `max`. */
  addPendingLogin(login: PendingLogin, at: Instant, max: number): Promise<void>;
  /** The body, for the one who asks first; null if it was taken or has expired. */
  takePendingLogin(id: string, kind: PendingLogin['kind'], at: Instant): Promise<string | null>;
  recordUse(id: string, at: Instant): Promise<void>;
  /** Writes the entry unless one was written for this token after `before`. */
  recordRefusedToken(id: string, before: Instant, audit: AuditEntry): Promise<void>;
  /** For a request that changes nothing in the database. */
  record(audit: AuditEntry): Promise<void>;
  /** Newest first. */
  audit(filter: AuditFilter): Promise<readonly AuditRow[]>;
  /** Records that the user has sent these blobs, which are stored. Safe to repeat. */
  addUploads(user: UserName, uploads: readonly Upload[], at: Instant): Promise<void>;
  /** Those of the digests that the user has sent. */
  uploads(user: UserName, digests: readonly Digest[]): Promise<ReadonlySet<Digest>>;
  /** The bytes of all recorded blobs of the user. */
  uploadedBytes(user: UserName): Promise<number>;
  /** For blobs that are no longer stored, unless a user has sent one again since then. */
  removeUploads(digests: readonly Digest[], since: Instant): Promise<void>;
}

/** A blob that a user has sent. */
export interface Upload {
  readonly digest: Digest;
  /** In bytes. */
  readonly size: number;
}

// ---------------------------------------------------------------------------------------------- capacity

export interface AllocationRef {
  readonly job: Job;
  readonly allocation: Allocation;
}

export interface Orphan extends ShownTpu {
  readonly backend: BackendName;
  /** Google's full name, which is enough to release it: `projects/lab/locations/us-west4-a/nodes/vit-000042-1`. */
  readonly resource: string;
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
  readonly state: string;
  /** The slices of this resource, for the usage ledger. Absent in the store, like its type and pricing. */
  readonly slices?: readonly SliceState[];
}

/** A source of capacity. Never waits for a machine and never throws for the cloud: failure to observe is `unknown`. */
export interface CapacityPort {
  readonly backend: BackendName;
  /** Observes all together: one list request per location, however many jobs. Answers in the order of `refs`. */
  observe(refs: readonly AllocationRef[]): Promise<readonly Observed<AllocationStatus>[]>;
  /** Safe to repeat: a resource that already exists under our name and label is `done`. */
  request(ref: AllocationRef): Promise<OutcomeResult>;
  /** Safe to repeat: an absent resource is `done`. Never deletes a resource without our label and this ordinal. */
  release(ref: AllocationRef): Promise<OutcomeResult>;
  /** Lists everything with the installation's label in the one location of `refs`. Starts nothing. */
  listLabelled(refs: readonly AllocationRef[]): Promise<Observed<readonly Orphan[]>>;
  releaseOrphan(orphan: Orphan): Promise<OutcomeResult>;
  /** An estimate per allocation; null if no price is known. */
  pricePerHour(spec: JobSpec): number | null;
}

// ---------------------------------------------------------------------------------------------- buckets

export type BucketStatus =
  | { readonly kind: 'present'; readonly location: BucketLocation }
  /** The bucket has no location yet: the TPU emulator sets it at the first use. */
  | { readonly kind: 'unlocated' }
  | { readonly kind: 'absent' }
  /** The request failed; the reason is the error text of the cloud or the network. */
  | { readonly kind: 'unknown'; readonly reason: string };

/** Read-only and never throws. It may take long, so a caller with a waiting user sets a limit. */
export interface BucketPort {
  observe(bucket: string): Promise<BucketStatus>;
}

// ---------------------------------------------------------------------------------------------- machines

export interface WorkerRef extends AllocationRef {
  readonly worker: WorkerId;
}

/** Access to machines. Each call ends in bounded time; without an answer the result is `unknown` or `unclear`. */
export interface MachinePort {
  /** Read-only. Answers in the order of `refs`. */
  observe(refs: readonly WorkerRef[]): Promise<readonly Observed<WorkerStatus>[]>;
  /** Checks the step, applies it if needed, writes the proof. Safe to repeat. A manual run trusts no old proof. */
  runStep(ref: WorkerRef, step: SetupStep, manual?: ManualStepOptions): Promise<OutcomeResult>;
  /** Starts the command detached, in a run directory made by an atomic mkdir. Safe to repeat. */
  start(ref: WorkerRef, launch: Launch): Promise<OutcomeResult>;
  /** `stop` signals; `kill` is `done` when no process is alive. After either, an unstarted attempt never starts. */
  stop(ref: WorkerRef, attempt: number, mode: 'stop' | 'kill', signal: string): Promise<OutcomeResult>;
  /** Streams a file of the attempt from byte `from`, each byte once, until its end or until the returned call. */
  tail(ref: WorkerRef, request: TailRequest, receiver: TailReceiver): () => void;
  /** True if a tail needs no process and no connection, so that a file may be followed before it exists. Absent: false. */
  isTailFree?(ref: WorkerRef): boolean;
  /** Closes the connections. After the release it also drops what is known about the workers, such as their host keys. */
  disconnect(ref: AllocationRef): void;
}

/** A manual run of a setup step. It removes the old proof first, so that the step runs again. */
export interface ManualStepOptions {
  readonly force: boolean;
  readonly onOutput: (chunk: Uint8Array) => void | Promise<void>;
}

/** A file of a run that jobman copies: the output of the program, or the metrics that it reports. */
export type OutputFile = 'log' | 'metrics';

export interface TailRequest {
  readonly attempt: number;
  readonly file: OutputFile;
  readonly from: number;
}

export interface TailReceiver {
  bytes(chunk: Uint8Array): Promise<void> | void;
  /** The attempt has ended on that worker and all its output was delivered. Called at most once, as the last call. */
  ended(): void;
  /** The connection failed or was lost; no further calls follow. The controller should check the job now. */
  dropped(reason: string): void;
}

/** Our copies of logs, in the job's folder. The length of a copy is the only record of the offset to continue from. */
export interface LogFiles {
  length(job: Job, output: CopiedOutput): Promise<number>;
  /**
   * Throws StoreError if the disk is full. A part may then be written; `length` includes it. `at`: the offset of the chunk,
   * so that a write of a controller that was replaced meanwhile repeats no byte; the end by default.
   */
  append(job: Job, output: CopiedOutput, chunk: Uint8Array, at?: number): Promise<void>;
  /** Adds to the times of the copy, which are hints. Throws StoreError if the disk is full. */
  recordArrivals(job: Job, output: CopiedOutput, arrivals: readonly Arrival[]): Promise<void>;
  /** Writes `logs/<step>_worker_<i>.log`. An empty chunk ends the step: a log without output then says so. */
  appendStepLog(job: Job, step: string, worker: WorkerId, chunk: Uint8Array): Promise<void>;
  readEnd(job: Job, attempt: number, worker: WorkerId, maxBytes: number): Promise<Uint8Array>;
  note(job: Job, log: 'job' | 'tpu', at: Instant, line: string): Promise<void>;
  /** Resolves once every server can read what was written. Throws StoreError; it is then tried again later. */
  store(job: Job): Promise<void>;
  /** Rewrites the copies for people and scripts: `job.json`, `events.jsonl`. Jobman never reads them back. */
  mirror(job: Job, events: readonly Event[]): Promise<void>;
}

/** A file that jobman keeps about a job. `arrivals`: the times at which the bytes of that copy arrived. */
export type JobFile =
  | { readonly kind: 'note'; readonly log: 'job' | 'tpu' }
  | { readonly kind: 'step'; readonly step: string; readonly worker: WorkerId }
  | ({ readonly kind: 'output' } & CopiedOutput)
  | ({ readonly kind: 'arrivals' } & CopiedOutput);

export interface FileState {
  readonly size: number;
  /** Of the whole file. */
  readonly changedAt: Instant;
}

export interface FilePart extends FileState {
  readonly bytes: Buffer;
  /** The offset of the first of them. */
  readonly from: number;
}

/** Reads the folders of jobs. Undefined for anything but a regular file. Throws StoreError if it cannot be read. */
export interface JobFiles {
  /** To call before a read: adds what other servers have stored. Throws StoreError if that cannot be read and nothing is here. */
  refresh(job: Job): Promise<void>;
  stateOf(job: Job, file: JobFile): FileState | undefined;
  /** A negative offset counts from the end of the file. */
  read(job: Job, file: JobFile, from: number, maxBytes: number): FilePart | undefined;
  /** All bytes. `onRead` gets the number of bytes read so far, and the size. */
  pieces(job: Job, file: JobFile, onRead?: (bytes: number, size: number) => void): AsyncIterable<Buffer>;
  /** Calls back when a log of the attempt grows, until the returned call. Null if that cannot be watched now. */
  watchLogs(job: Job, attempt: number, call: () => void): (() => void) | null;
  folderOf(job: Job): { readonly folder: HostPath; readonly hasFiles: boolean };
  readonly workdirs: WorkdirCopies;
  /** The workers with such a file of that attempt, or a log of that setup step, the controller last. */
  workersWith(job: Job, of: Omit<CopiedOutput, 'worker'> | { readonly step: string }): readonly WorkerId[];
}

/** Creates, changes and removes the folders of jobs. Throws StoreError. */
export interface JobFolders {
  /** Creates the home if it is missing. Throws StoreError if other users can write to it. */
  makeHome(): void;
  /** Writes the files of a job that does not exist yet. After an error nothing is left. */
  draft(owner: string, files: DraftFiles): Promise<JobDraft>;
  /** Describes a copy of the working directory. */
  describeWorkdir(job: Job, copy: number, description: WorkdirDescription): Promise<void>;
  has(job: Job): Promise<boolean>;
  /**
   * Removes its files, and the run folders of its local programs. False if there were none. `keepsFolder` leaves an empty
   * folder, so that `has` stays true.
   */
  remove(job: Job, options?: { readonly keepsFolder: boolean }): Promise<boolean>;
}

export interface DraftFiles {
  readonly manifest: string;
  /** The values of the job's own secrets. */
  readonly secrets: Readonly<Record<SecretName, Uint8Array>>;
  /** Of the first copy of the working directory; null without one. */
  readonly workdir: WorkdirDescription | null;
}

export interface JobDraft {
  /** Also if the controller has created the job's folder already. */
  moveTo(job: Job): Promise<void>;
  /** Never rejects. */
  discard(): Promise<void>;
}

/** A named secret of a user, without its value. */
export interface StoredSecret {
  readonly name: SecretName;
  readonly size: number;
  readonly changedAt: Instant;
}

/** The values of secrets. Only their owner may read them. Throws StoreError. */
export interface SecretStore {
  /** By name. Reads no value. */
  list(owner: UserName): Promise<readonly StoredSecret[]>;
  /** Stores or replaces a value. Readers get the old value or the new one. */
  put(owner: UserName, name: SecretName, value: Uint8Array): Promise<void>;
  /** False if there is none. */
  remove(owner: UserName, name: SecretName): Promise<boolean>;
  /** Stores or replaces a secret of the job itself, which is removed with the job's files. */
  putOfJob(job: Job, name: SecretName, value: Uint8Array): Promise<void>;
  /**
   * The encrypted secrets of a new job, once it has an id; null without a key file: its draft then has them. Throws
   * JobmanError if the key file cannot be used.
   */
  sealForJob(
    owner: UserName,
    values: Readonly<Record<SecretName, Uint8Array>>,
  ): ((id: string) => readonly SealedSecret[]) | null;
  /** Throws JobmanError with the command that repairs it: 3 without the secret, 1 if other users may read its file. */
  require(job: Pick<Job, 'id' | 'owner'>, ref: SecretRef): Promise<void>;
  /** A file of this machine with the value, for programs that read only files. Throws as `read`. */
  fileOf(job: Pick<Job, 'id' | 'owner'>, ref: SecretRef): Promise<string>;
  /** The value. Throws as `require`, and JobmanError (1) if it cannot be read or decrypted. */
  read(job: Pick<Job, 'id' | 'owner'>, ref: SecretRef): Promise<Uint8Array>;
}

/** A content with the digest that it should have. */
export interface Blob {
  readonly digest: Digest;
  readonly content: Uint8Array;
}

/** Contents by digest. Equal contents are stored once. */
export interface Blobs {
  /**
   * Durable when it returns. Safe to repeat. Throws JobmanError if a content has another digest, and StoreError if the
   * disk is full; then nothing is stored.
   */
  put(blobs: readonly Blob[]): Promise<void>;
  /** The stored ones, of these sizes if they are given. They stay for at least a day, so that a job can be created that needs them. */
  has(digests: readonly Digest[], sizes?: readonly number[]): Promise<readonly Digest[]>;
  /** Throws BlobError if it is missing or damaged. */
  read(digest: Digest): Promise<Uint8Array>;
  /**
   * Removes the blobs that `has` and `put` have not named since then and that no job needs, and what killed uploads have
   * left. Asks only if there are such blobs. Returns the removed blobs.
   */
  collect(unusedSince: Instant, needed: () => Promise<ReadonlySet<Digest>>): Promise<readonly Digest[]>;
}

/** An object of a bucket. Another content has another generation, and another attribute another metageneration. */
export interface BucketObject {
  /** Below the prefix. */
  readonly name: string;
  readonly size: number;
  readonly generation: string;
  readonly metageneration: string;
  /** When it was written, or `setUsed` was called. */
  readonly usedAt: Instant;
}

/**
 * The objects of a bucket below a prefix. Each object is complete or absent. After some tries, methods reject with StoreError
 * and the message of the cloud; a change may still have been made.
 */
export interface Bucket {
  /** `gs://bucket/prefix`. */
  readonly address: string;
  find(name: string): Promise<BucketObject | null>;
  /** Bytes of that generation; `from + length` is at most its size. Null if it was replaced or removed meanwhile. */
  read(object: Pick<BucketObject, 'name' | 'generation'>, from: number, length: number): Promise<Buffer | null>;
  /** By name. */
  list(prefix: string): AsyncIterable<BucketObject>;
  /** Replaces that generation; null: there must be no such object. Null if it was changed meanwhile; nothing is written. */
  write(name: string, bytes: Uint8Array, generation: string | null): Promise<BucketObject | null>;
  /** False if it was removed meanwhile. */
  setUsed(name: string, at: Instant): Promise<boolean>;
  /** False if it now has another metageneration. True if it no longer exists. */
  remove(name: string, metageneration?: string): Promise<boolean>;
}

/** The copies of a job's working directory, numbered from 1. */
export interface WorkdirCopies {
  folderOf(job: Job, copy: number): HostPath;
  /** Null if it cannot be read. */
  about(job: Job, copy: number): FrozenWorkdir | null;
  /** The uncommitted changes, as a unified diff. Throws the reason if they cannot be read. */
  changes(job: Job, copy: number): string;
  /** Null if the files are not kept. Throws BlobError if their list is missing or damaged. */
  readonly open: (job: Job, copy: number) => Promise<WorkdirTree | null>;
}

/** By path below the working directory. A link is described by its target. */
export type WorkdirFiles = Readonly<Record<string, { readonly size: number; readonly digest: Digest }>>;

/** Folders of this machine that programs write to, such as those of checkpoints. */
export interface LocalFolders {
  /** The name of this machine. */
  readonly host: string;
  /** Empty if it cannot be read. */
  list(folder: string): readonly { readonly name: string; readonly isFolder: boolean }[];
  /** With a fraction, because entries are compared; null if it cannot be read. */
  changedAt(path: string): number | null;
  /** The text of a small regular file; empty for anything else, because other users may write into the folder. */
  text(path: string): string;
}

/** One file of one attempt on one worker. */
export interface CopiedOutput {
  readonly attempt: number;
  readonly worker: WorkerId;
  readonly file: OutputFile;
}

/** The ports for one kind of capacity. Only src/wiring/ chooses them. */
export interface Backend {
  readonly capacity: CapacityPort;
  readonly machines: MachinePort;
}

/** The prefix of all resource names in the location of such capacity; null if the capacity leaves nothing behind. */
export function locationPrefix(capacity: CapacitySpec): string | null {
  return capacity.kind === 'tpu' ? `projects/${capacity.project}/locations/${capacity.zone}/` : null;
}

export function projectOf({ resource }: Pick<Orphan, 'resource'>): string | undefined {
  return /^projects\/([^/]+)\//.exec(resource)?.[1];
}

/** The encrypted secrets in the database. Throws StoreError. */
export interface SecretRows {
  /** The named ones, by name. */
  list(owner: UserName): Promise<readonly StoredSecret[]>;
  find(address: SecretAddress): Promise<SealedSecret | null>;
  /** Stores or replaces one. `make` is called in the transaction, so that no key is given up meanwhile. */
  put(make: () => SealedSecret): Promise<void>;
  /** False if there is none. */
  remove(address: SecretAddress): Promise<boolean>;
  removeOfJob(job: Pick<Job, 'id' | 'owner'>): Promise<void>;
  /** All, of all owners and jobs. */
  all(): Promise<readonly SealedSecret[]>;
  /** Some of those that another key has encrypted; empty if there are none. */
  withOtherKeys(key: string): Promise<readonly SealedSecret[]>;
  /** Nothing happens if the row has changed or was removed. */
  replace(row: SealedSecret, by: SealedSecret): Promise<boolean>;
  /** Calls in a transaction, so that only one process at a time replaces the key file. */
  alone(call: () => void): Promise<void>;
  /** Calls in a transaction, unless another key has encrypted one of them. False without the call. */
  onceAllHave(key: string, call: () => void): Promise<boolean>;
}
