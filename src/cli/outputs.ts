// The objects that commands print with --json: one object on each line of standard output, and one on standard error for
// each failure. `npm run reference` makes outputs.schema.json and docs/json.md of these types and their comments.
//
// A field is always there, and null means that it has no value. Only a job's spec, an event of its history and the
// objects of Kubernetes have fields that may be absent. A text for people is called `message`; no program should compare
// it.

import type { ClusterJobView } from '../app/cluster/job-view.ts';
import type {
  CommandResult,
  HeldEvents,
  JobRow,
  MessageView,
  RecipientView,
  MetricPointView,
  PassView,
  Plan,
  SecretView,
  Why,
} from '../app/client.ts';
import type { AuditRow } from '../app/audit.ts';
import type { BillingAnswer } from '../app/billing.ts';
import type { Amounts } from '../app/cluster/amounts.ts';
import type { QueuedRow } from '../app/queue.ts';
import type { QueuedJob, QueueGroup, QueuePosition } from '../app/cluster/queue.ts';
import type { QueueSource } from '../app/cluster/queue-source.ts';
import type { CheckResult } from '../app/doctor.ts';
import type { DiffSide, TextDifference, ValueDifference } from '../app/diff.ts';
import type { ErrorCode, ManifestProblem } from '../app/errors.ts';
import type { HeldTpus } from '../app/held-tpus.ts';
import type { NamedHost } from '../app/hosts.ts';
import type { ImageDetails, ImageRow } from '../app/images.ts';
import type { EventOutput, ShownJobOutput } from '../app/json.ts';
import type { OrphanView } from '../app/orphans.ts';
import type { BackupContents, ControllerStatus, EmulatorStatus } from '../app/services.ts';
import type { TokenView } from '../app/tokens.ts';
import type { TopRow } from '../app/top.ts';
import type { TpuRow } from '../app/tpus.ts';
import type { UserView } from '../app/users.ts';
import type { SshHost } from '../app/worker-access.ts';
import type { ZoneRow } from '../app/zones.ts';
import type { Role } from '../core/model/user.ts';
import type { CostGroup, CostReport, CostRest, CostTotal } from '../reports/cost.ts';
import type { CheckpointRow } from '../reports/checkpoints.ts';
import type { BucketRow, StorageTotal } from '../reports/storage.ts';
import type { BillingGroup, BillingReport } from '../reports/billing.ts';
import type { Phase } from '../core/decide/phase.ts';
import type { RuleAnswer, WorkerId, HostName } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { Booking } from '../lab/bookings.ts';
import type { CheckRow, CheckStatus, Trouble } from '../lab/check-rows.ts';
import type { DoctorFinding } from '../lab/doctor.ts';
import type { ImportLine } from '../lab/import-old-data.ts';
import type { LabJob } from '../lab/lab-store.ts';
import type { JobNews } from '../lab/news.ts';
import type { Repair, TpuProblem } from '../lab/solve.ts';
import type { LabTpu } from '../lab/tpus.ts';
import type { EnvironmentCheck } from '../lab/worker-facts.ts';
import type { PriceRow } from '../reports/price-list.ts';
import type { QuotaLimitRow, QuotaRow } from '../reports/quota.ts';

/** By command. A command without an entry prints the same as `message`. */
interface Outputs {
  readonly create: CreatedOutput;
  readonly run: CreatedOutput;
  readonly init: WrittenManifestOutput;
  readonly submit: KubernetesObject | ClusterLogLineOutput;
  readonly validate: FindingOutput;
  readonly schema: JsonSchema;
  readonly list: JobRow;
  readonly show: ShownJobOutput | ClusterJobOutput | JobRow;
  readonly logs: LogLineOutput | ClusterLogLineOutput;
  readonly plot: MetricPointOutput;
  readonly history: EventOutput | ClusterEventOutput;
  readonly why: Why;
  readonly replay: PassOutput;
  readonly report: ReportOutput;
  readonly wait: ShownJobOutput | Why;
  readonly top: TopRow;
  readonly tpus: TpuOutput | ForgottenProjectOutput;
  readonly zones: ZoneRow;
  readonly cost: CostOutput;
  readonly diff: DiffSidesOutput | ValueDifference | TextDifference;
  readonly quota: QuotaLimitOutput | QuotaUseOutput;
  readonly storage: BucketOutput | StorageTotalOutput;
  readonly 'storage checkpoints': CheckpointRow;
  readonly prices: PriceRow;
  readonly billing: BillingOutput;
  readonly images: ImageOutput;
  readonly 'image-details': ImageDetailsOutput;
  readonly 'resources-flavors': FlavorOutput;
  readonly queue:
    | SlotsOutput
    | QueuedJobOutput
    | QueueSourceOutput
    | QueueGroupOutput
    | WaitingJobOutput
    | PublishedQueueOutput;
  readonly start: JobAnswerOutput;
  readonly stop: JobAnswerOutput;
  readonly resume: JobAnswerOutput;
  readonly rerun: JobAnswerOutput;
  readonly cancel: JobAnswerOutput;
  readonly delete: JobAnswerOutput;
  readonly clean: JobAnswerOutput;
  readonly gc: OrphanOutput | ReleasedOrphanOutput | OtherTpuOutput;
  readonly continue: LogLineOutput;
  readonly exec: ProgramOutput;
  readonly setup: SetupStepOutput;
  readonly cp: CopyOutput;
  readonly 'port-forward': ForwardedPortOutput;
  readonly 'ssh-config': SshHostOutput;
  readonly 'controller status': ControllerStatusOutput;
  readonly 'controller start': ControllerStartOutput;
  readonly 'controller stop': ControllerStopOutput;
  readonly 'controller restart': ControllerRestartOutput;
  readonly 'emulator status': EmulatorStatus;
  readonly 'emulator start': EmulatorStartOutput;
  readonly 'emulator stop': StoppedOutput;
  readonly 'emulator act': EmulatorActionOutput;
  readonly login: LoginOutput | ServerLoginOutput;
  readonly logout: LogoutOutput;
  readonly whoami: WhoAmIOutput;
  readonly context: ContextOutput;
  readonly 'context use': ChosenContextOutput;
  readonly 'context delete': ChosenContextOutput;
  readonly backup: BackupOutput;
  readonly restore: RestoredOutput | TakeoverOutput;
  readonly doctor: CheckResult;
  readonly settings: SettingOutput | ChangedSettingOutput;
  readonly hosts: HostOutput;
  readonly 'hosts add': ChangedHostOutput;
  readonly 'hosts remove': ChangedHostOutput;
  readonly secret: SecretView;
  readonly 'secret set': ChangedSecretOutput;
  readonly 'secret delete': ChangedSecretOutput;
  readonly 'secret encrypt': SecretKeyOutput;
  readonly 'secret rotate-key': SecretKeyOutput;
  readonly user: UserView;
  readonly 'user add': ChangedUserOutput;
  readonly 'user role': ChangedUserOutput;
  readonly 'user logins': ChangedUserOutput;
  readonly 'user disable': ChangedUserOutput;
  readonly 'user enable': ChangedUserOutput;
  readonly 'user limit': ChangedUserOutput;
  readonly token: TokenView;
  readonly 'token create': CreatedTokenOutput;
  readonly 'token revoke': RevokedTokenOutput;
  readonly audit: AuditRow;
  readonly notify: RecipientOutput | HeldEventsOutput | NotifyMessageOutput | NotifyTestOutput | NotifyDropOutput;
  readonly import: ImportedOutput;
  readonly version: VersionOutput;
  readonly message: MessageOutput;
  readonly 'tpu run': StartedWindowOutput;
  readonly 'tpu resume': StartedWindowOutput;
  readonly 'tpu rerun': StartedWindowOutput;
  readonly 'tpu kill': KilledJobOutput;
  readonly 'tpu check': CheckOutput;
  readonly 'tpu monitor': CheckOutput;
  readonly 'tpu log': LogLineOutput;
  readonly 'tpu news': NewsOutput;
  readonly 'tpu check-rules': RuleOutput;
  readonly 'tpu ack': CheckedJobOutput;
  readonly 'tpu clean': ClearedOutput | MessageOutput;
  readonly 'tpu clear': ClearedOutput;
  readonly 'tpu clear-finished': ClearedOutput;
  readonly 'tpu clear-error': ClearedOutput;
  readonly 'tpu find': BookingOutput;
  readonly 'tpu book': ChangedBookingOutput;
  readonly 'tpu release': ChangedBookingOutput;
  readonly 'tpu describe': LabTpuDetailsOutput;
  readonly 'tpu check-status': LabTpuStateOutput;
  readonly 'tpu check-env': EnvironmentOutput;
  readonly 'tpu solve': TpuProblemOutput | SolvedOutput;
  readonly 'tpu apply': AppliedTpuOutput;
  readonly 'tpu reapply': AppliedTpuOutput;
  readonly 'tpu restart': AppliedTpuOutput;
  readonly 'tpu delete': DeletedTpuOutput;
  readonly 'tpu list': LabTpuOutput;
  readonly 'tpu get-dir': DirectoryOutput;
  readonly 'tpu ls': DirectoryOutput;
  readonly 'tpu show-config-alias': ConfigAliasOutput;
  readonly 'tpu get-settings': UserSettingOutput;
  readonly 'tpu list-users': LabUserOutput;
  readonly 'tpu doctor': DoctorFinding;
  readonly 'tpu import': ImportedOutput;
  /** Standard error of every command. */
  readonly error: ErrorOutput;
}

export type Output = Exclude<Outputs[Exclude<keyof Outputs, 'error'>], KubernetesObject | JsonSchema>;

/** With --follow also the lines of the log, with --wait also the finished job. */
type CreatedOutput =
  | CreatedJobOutput
  | PlanOutput
  | LogLineOutput
  | ShownJobOutput
  | KubernetesObject
  | ClusterLogLineOutput
  | Why;

/** Standard error with --json: one object for each failure. */
export interface ErrorOutput {
  readonly error: {
    readonly code: ErrorCode;
    /** The exit code for this failure. A command that failed for several jobs exits with the highest. */
    readonly exitCode: number;
    readonly message: string;
    /** The job that failed; null if the failure is not about one job. */
    readonly job: string | null;
    /** More sentences and commands for the next step. */
    readonly hints: readonly string[];
    /** The mistakes of an invalid manifest. */
    readonly problems: readonly ManifestProblem[];
    /** The reasons for which the command needs a confirmation; --yes confirms. */
    readonly reasons: readonly string[];
  };
}

/** A Job of Kubernetes, as its API describes it. */
interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly [key: string]: unknown;
}

/** A JSON Schema of draft 2020-12. */
interface JsonSchema {
  readonly $schema: string;
  readonly [key: string]: unknown;
}

/** A recorded pass of the controller over a job, or a command of a user between two passes. */
export interface PassOutput extends Omit<PassView, 'recorded'> {
  /** Id of the job. */
  readonly job: string;
  /**
   * The observation and the actions in the form of the version that recorded them; null for a command, or if they cannot be
   * read.
   */
  readonly recorded: Readonly<Record<string, unknown>> | null;
}

/** The result as a sentence for people. */
interface MessageOutput {
  readonly message: string;
}

// ------------------------------------------------------------------------------------------ jobs

export interface CreatedJobOutput extends JobRow {
  /** Warnings about the manifest. */
  readonly warnings: readonly ManifestProblem[];
}

/** `create --dry-run`: requests, rules and price. The texts are for people. */
interface PlanOutput extends Plan {
  readonly warnings: readonly ManifestProblem[];
}

/** A problem or a warning that `validate` found. */
interface FindingOutput extends ManifestProblem {
  readonly severity: 'problem' | 'warning';
}

/** A line of a job's log, or a part of a very long line. */
export interface LogLineOutput {
  readonly job: string;
  readonly attempt: number | null;
  readonly worker: WorkerId | null;
  readonly text: string;
  /** True if the next object of this worker continues the line. */
  readonly continues: boolean;
}

/** A point of a metric. */
interface MetricPointOutput extends Omit<MetricPointView, 'worker'> {
  /** Null if the job has no workers yet. */
  readonly worker: WorkerId | null;
}

export interface ClusterLogLineOutput {
  readonly job: string;
  readonly pod: string;
  readonly container: string;
  readonly text: string;
}

/** An event of a job in a cluster, as jobman's archive and the cluster have it. */
interface ClusterEventOutput {
  readonly at: Instant;
  readonly message: string;
}

/** A job in a cluster. */
interface ClusterJobOutput extends Omit<ClusterJobView, 'object' | 'job' | 'pods' | 'events'> {
  /** The Job; null if it was not submitted from this installation and is only in jobman's archive. */
  readonly object: object | null;
  /** The fields that jobman reads. */
  readonly job: object;
  readonly pods: readonly object[];
  readonly events: readonly object[];
}

/** A file that `report` wrote. */
interface ReportOutput {
  /** Null for a bug report without a job. */
  readonly id: string | null;
  /** An absolute path. */
  readonly file: string;
  readonly message: string;
}

/** A command that a job accepted. A refused command is an error. */
type JobAnswerOutput = Pick<CommandResult, 'id' | 'message'>;

// ------------------------------------------------------------------------------------------ TPUs and capacity

/**
 * One limit of `quota`. There is none for a quota without a limit, or if the limits could not be read. Add up limits of one
 * `scope` only: a region's limit covers its zones.
 */
export interface QuotaLimitOutput extends QuotaLimitRow {
  readonly kind: 'limit';
}

/** The TPUs of one quota in a zone, if there are any or if the zone could not be checked. */
export interface QuotaUseOutput extends Omit<
  QuotaRow,
  'quotaId' | 'scope' | 'limitState' | 'limitChips' | 'limitReadAt' | 'leftChips'
> {
  readonly kind: 'use';
}

/** A bucket. */
interface BucketOutput extends BucketRow {
  readonly kind: 'bucket';
}

/** The last line of `storage`: the sum of the buckets. */
interface StorageTotalOutput extends StorageTotal {
  readonly kind: 'total';
}

/** A TPU in one of your projects. */
export interface TpuOutput extends Omit<TpuRow, 'label' | 'sharedByInstallation' | 'metadataOwner' | 'owner'> {
  readonly owner: TpuOwnerOutput;
}

export interface TpuOwnerOutput {
  /**
   * `job`: a job of this installation. `orphan`: of this installation, without a job that claims it. `installation`: of
   * another installation. `shared`: made with `tpu apply`. `user`: another user's, by its metadata. `none`: unknown.
   */
  readonly kind: TpuRow['owner']['kind'];
  /** The person, as far as the job or the metadata names one. */
  readonly user: string | null;
  /** Id of the installation that made it. */
  readonly installation: string | null;
}

interface ForgottenProjectOutput {
  readonly project: string;
  readonly message: string;
}

/** A cloud resource of this installation that no job claims. */
export interface OrphanOutput extends Omit<OrphanView, 'backend' | 'state'> {
  readonly kind: 'orphan';
}

/** The result of `gc --yes` for one orphan. */
interface ReleasedOrphanOutput extends OrphanOutput {
  readonly outcome: 'gone' | 'releasing';
}

/** A TPU that `gc` never deletes: a shared one, or one of another owner. */
interface OtherTpuOutput extends TpuOutput {
  readonly kind: 'shared' | 'other';
}

// ------------------------------------------------------------------------------------------ billing

export type BillingOutput = BillingPeriodOutput | BillingGroupOutput | BillingTotalOutput;

/** The period of the report, and the source of its charges. */
interface BillingPeriodOutput extends Pick<BillingReport, 'by' | 'prices'> {
  readonly kind: 'period';
  /** Midnight in UTC. */
  readonly beginsAt: Instant;
  /** Midnight in UTC after the last day. */
  readonly endsAt: Instant;
  /** The days whose charges are compared with estimates: those that the export has completely. Null for none. */
  readonly compared: {
    /** Midnight in UTC. */
    readonly beginsAt: Instant;
    /** Midnight in UTC after the last day. */
    readonly endsAt: Instant;
  } | null;
  /** Null without a billing export: the report then has estimates only. */
  readonly export: BillingAnswer['source'];
}

/** A row of the report. */
interface BillingGroupOutput extends BillingGroup {
  readonly kind: 'group';
}

/** The sum of all rows. */
interface BillingTotalOutput extends Pick<BillingGroup, 'billed' | 'comparison'> {
  readonly kind: 'total';
}

/** The two sides of `diff`. */
interface DiffSidesOutput {
  readonly kind: 'sides';
  /** The first argument. */
  readonly left: DiffSideOutput;
  /** The second argument. */
  readonly right: DiffSideOutput;
}

/** A job, or one of its attempts. */
type DiffSideOutput = Pick<DiffSide, 'job' | 'name' | 'attempt'>;

// ------------------------------------------------------------------------------------------ costs

export type CostOutput = CostPeriodOutput | CostGroupOutput | CostRestOutput | CostTotalOutput;

/** The period of the report, and the source of its estimates. */
interface CostPeriodOutput extends Omit<CostReport, 'groups' | 'rest' | 'totals'> {
  readonly kind: 'period';
}

/** A row of the report. */
interface CostGroupOutput extends CostGroup {
  readonly kind: 'group';
}

/** The rows beyond the 50 most expensive, without --all. */
interface CostRestOutput extends CostRest {
  readonly kind: 'rest';
}

/** The sum of all rows, in which a job with several tags counts once. */
interface CostTotalOutput extends CostTotal {
  readonly kind: 'total';
}

// ------------------------------------------------------------------------------------------ workers

/** A program that `exec` ran on one worker or pod. */
export interface ProgramOutput {
  readonly worker: number;
  readonly pod: string | null;
  /** Null if a signal ended it or nothing answered. */
  readonly exitCode: number | null;
  /** `SIGTERM`. */
  readonly signal: string | null;
  readonly timedOut: boolean;
  /** True if the worker was not reached or the connection broke; `message` has the reason. */
  readonly unreachable: boolean;
  readonly message: string | null;
  /** Null if it is not UTF-8; then `stdoutBase64` has the bytes. */
  readonly stdout: string | null;
  readonly stdoutBase64: string | null;
  readonly stderr: string | null;
  readonly stderrBase64: string | null;
}

interface SetupStepOutput {
  readonly job: string;
  readonly step: string;
  readonly worker: number;
  /** Null if the step did not end. */
  readonly exitCode: number | null;
  /** The failure; null if the step is applied. */
  readonly message: string | null;
  readonly output: string;
}

export interface CopyOutput {
  /** The number of the worker or pod. */
  readonly worker: number;
  readonly from: string;
  readonly outcome: 'done' | 'conflict' | 'missing' | 'failed' | 'unreachable';
  /** The path of the copy. */
  readonly to: string | null;
  /** Total of all files; null if it is not known. */
  readonly bytes: number | null;
  /** Number of device nodes, FIFOs and sockets, which are not copied. */
  readonly skipped: number;
  /** The failure. */
  readonly message: string | null;
}

interface ForwardedPortOutput {
  readonly job: string;
  readonly worker: number | null;
  readonly pod: string | null;
  readonly localPort: number;
  readonly remotePort: number;
}

export interface SshHostOutput extends Omit<SshHost, 'options'> {
  readonly job: string;
  readonly aliases: readonly string[];
  /** Options of ssh_config(5) by name, each with its values in order. */
  readonly options: Readonly<Record<string, readonly string[]>>;
}

// ------------------------------------------------------------------------------------------ Kubernetes

interface ImageOutput extends ImageRow {
  /** Time of this answer of the registry. */
  readonly fetchedAt: Instant;
}

interface ImageDetailsOutput extends ImageDetails {
  readonly server: string;
  readonly fetchedAt: Instant;
}

interface FlavorOutput {
  readonly name: string;
  readonly description: string | null;
  readonly default: boolean;
  readonly gpus: number;
  readonly requests: Amounts;
  /** Null without limits. */
  readonly limits: Amounts | null;
}

/** The slots of a host. */
interface SlotsOutput {
  readonly kind: 'slots';
  /** `localhost` is this machine. */
  readonly host: HostName;
  readonly slotCount: number;
  readonly usedCount: number;
  /** Jobs that wait for a slot there. */
  readonly waitingCount: number;
}

/** A job of the database that waits for a slot or a TPU. */
interface QueuedJobOutput extends QueuedRow {
  readonly kind: 'queued';
  /** In the queue of each host. Empty for a TPU, whose queue only the cloud knows. */
  readonly positions: readonly {
    /** `localhost` is this machine. */
    readonly host: HostName;
    /** From 1. */
    readonly position: number;
  }[];
}

/** `init`. */
interface WrittenManifestOutput {
  readonly file: string;
  readonly name: string;
  readonly accelerator: string;
}

/** `login` without an address, if there is a login to Google Cloud. */
interface LoginOutput {
  /** The setting tpu.project. */
  readonly project: string | null;
}

/** `login` with the address of a server. */
interface ServerLoginOutput {
  readonly context: string;
  readonly server: string;
  readonly user: string;
  /** The lower one of the token's and the user's. */
  readonly role: Role;
  /** The stored token. */
  readonly token: UsedTokenOutput | null;
}

interface UsedTokenOutput {
  /** Begins with `tok_`. */
  readonly id: string;
  readonly name: string;
  /** Null if the server does not say. */
  readonly expiresAt: Instant | null;
}

interface LogoutOutput {
  readonly context: string;
  /** True if the server no longer accepts the token. */
  readonly revoked: boolean;
}

interface WhoAmIOutput {
  readonly user: string;
  /** With a token, the lower one of its role and the user's. */
  readonly role: Role;
  /** The login of this machine; null on a server. */
  readonly login: string | null;
  /** Null on this machine. */
  readonly token: UsedTokenOutput | null;
  /** Null on this machine, and for an address that no context has. */
  readonly context: string | null;
  /** Its address; null on this machine. */
  readonly server: string | null;
  /** Null on a server. */
  readonly home: string | null;
}

/** `local` is this machine. */
interface ContextOutput {
  readonly context: string;
  readonly server: string | null;
  /** At the login. */
  readonly user: string | null;
  /** True if commands use it. */
  readonly isCurrent: boolean;
  /** False after a logout: its token is no longer stored. */
  readonly isLoggedIn: boolean;
}

/** `context use` and `context delete`. */
interface ChosenContextOutput {
  readonly context: string;
  readonly server: string | null;
  readonly message: string;
}

/** The source of the jobs of the queue. */
interface QueueSourceOutput {
  readonly kind: 'source';
  readonly source: QueueSource['kind'];
  /** Age of the list; null if a published list does not say. */
  readonly updatedAt: Instant | null;
  readonly context: string;
  readonly namespace: string;
  readonly jobCount: number;
  readonly yourJobCount: number;
}

/** Active jobs of one flavor. */
interface QueueGroupOutput extends Omit<QueueGroup, 'otherRequests'> {
  readonly kind: 'group';
}

/** A job that waits, with its position in the queue. */
interface WaitingJobOutput extends Omit<QueuedJob, 'owner' | 'state'>, Omit<QueuePosition, 'job'> {
  readonly kind: 'waiting';
}

/** `queue --publish`. */
interface PublishedQueueOutput {
  readonly context: string;
  readonly namespace: string;
  readonly configmap: string;
  readonly jobCount: number;
  readonly updatedAt: Instant;
}

// ------------------------------------------------------------------------------------------ installation

export interface ControllerStatusOutput extends ControllerStatus {
  /** The reason why the database cannot be used now; null if it can, or if no controller runs for it here. */
  readonly databaseProblem: string | null;
}

interface BackupOutput extends BackupContents {
  /** Of the backup, in bytes. */
  readonly size: number;
  /** The version of the database. */
  readonly schema: number;
}

interface RestoredOutput extends BackupContents {
  /** When the backup was made. */
  readonly createdAt: Instant;
}

interface TakeoverOutput {
  /** New jobs get later ids; null if there was nothing to take over. */
  readonly lastId: string | null;
  readonly message: string;
}

interface ControllerStartOutput {
  /** False if it ran already. */
  readonly started: boolean;
  readonly pid: number;
}

interface ControllerRestartOutput {
  /** True if one ran before. */
  readonly stopped: boolean;
  readonly pid: number;
}

interface StoppedOutput {
  /** False if it was not running. */
  readonly stopped: boolean;
}

interface ControllerStopOutput extends StoppedOutput {
  /** TPUs of jobs and orphans; null for none. */
  readonly held: HeldTpus | null;
}

interface EmulatorStartOutput {
  /** False if it ran already. */
  readonly started: boolean;
  readonly url: string;
}

interface EmulatorActionOutput {
  readonly verb: string;
  readonly target: string | null;
  readonly message: string;
}

interface SettingOutput {
  readonly key: string;
  readonly value: unknown;
  /** `default`, or the file or variable that sets it. */
  readonly source: string;
}

interface ChangedSettingOutput {
  readonly key: string;
  readonly message: string;
}

interface ImportedOutput extends ImportLine {
  readonly done: boolean;
}

interface VersionOutput {
  readonly version: string;
}

// ------------------------------------------------------------------------------------------ tpu

interface StartedWindowOutput {
  readonly window: number;
  readonly job: string;
}

interface KilledJobOutput {
  /** The window of its newest attempt. */
  readonly window: number | null;
  readonly job: string;
  readonly user: string;
  /** False if it had ended before. */
  readonly killed: boolean;
  /** Null for a deleted job. */
  readonly phase: Phase | null;
}

/** An attempt on a user's list. */
export interface CheckOutput extends Omit<CheckRow, 'status' | 'since'>, Trouble {
  /** `resumed` and `rerunned`: window `child` continues its work. */
  readonly status: CheckStatus['kind'];
  /** Beginning of the status. */
  readonly statusAt: Instant;
  /** The progress of a running program, from its log. */
  readonly progress: string | null;
  /** The reason for waiting: missing capacity, or a worker that does not answer. */
  readonly waitReason: string | null;
  /** The error that ended it, and its details for people. */
  readonly error: string | null;
  readonly errorMessage: string | null;
  /** The start mode after an error. */
  readonly next: 'resume' | 'rerun' | null;
  readonly child: number | null;
}

/** The events of one job since the last `tpu news`. */
export interface NewsOutput extends Pick<LabJob, 'job' | 'user' | 'directory' | 'tpu' | 'tag'> {
  readonly windows: readonly number[];
  readonly events: JobNews['lines'];
}

/** A recovery rule of the lab, with its answer to each end. */
export interface RuleOutput {
  readonly rule: string;
  readonly preempted: RuleAnswer;
  readonly grpc: RuleAnswer;
  readonly failed: RuleAnswer;
  readonly succeeded: RuleAnswer;
}

/** A job that `ack` had checked. */
interface CheckedJobOutput extends Trouble {
  readonly window: number | null;
  readonly job: string;
  readonly user: string;
  /** True if its program has ended and jobman no longer waits for the cloud's report. */
  readonly judged: boolean;
}

interface ClearedOutput {
  /** Numbers of windows. */
  readonly cleared: readonly number[];
}

/** A row of the booking sheet. */
interface BookingOutput extends Omit<Booking, 'status'> {
  readonly status: Booking['status']['kind'];
  /** A status that jobman does not know, as the sheet has it. */
  readonly statusText: string | null;
  readonly aliases: readonly string[];
  /** The accelerator type; null if neither the registry nor the name has it. */
  readonly accelerator: string | null;
  readonly preemptible: boolean;
}

interface ChangedBookingOutput {
  readonly tpu: string;
  readonly status: 'free' | 'running' | 'reserved' | 'gone';
  readonly user: string;
  readonly before: Pick<BookingOutput, 'status' | 'user'>;
}

/** A TPU of the lab's registry. */
interface LabTpuOutput extends Omit<LabTpu, 'name'> {
  readonly tpu: string;
  readonly aliases: readonly string[];
}

export interface LabTpuStateOutput {
  readonly tpu: string;
  /** `absent`, or Google's state in lower case. */
  readonly state: string;
  readonly zone: string | null;
  /** Number of workers; 0 while there are none. */
  readonly workers: number;
}

interface HostOutput extends NamedHost {
  /** The jobs that hold a slot there, even while the host does not answer. */
  readonly jobs: readonly string[];
}

interface ChangedHostOutput {
  readonly host: string;
  readonly message: string;
}

interface ChangedSecretOutput {
  /** Its name. */
  readonly secret: string;
  readonly message: string;
}

interface SecretKeyOutput {
  /** The absolute path of the key file. */
  readonly keyFile: string;
  /** Values that the command has encrypted. */
  readonly secrets: number;
  readonly message: string;
}

/** The user as it is now. */
interface ChangedUserOutput extends UserView {
  readonly message: string;
}

/** The only object that contains the value of a token. */
interface CreatedTokenOutput extends TokenView {
  /** The value, which is not shown again. */
  readonly token: string;
}

interface RevokedTokenOutput extends TokenView {
  readonly message: string;
}

/** A recipient of the settings. */
interface RecipientOutput extends RecipientView {
  readonly kind: 'recipient';
}

/** Events that wait for their message. */
interface HeldEventsOutput extends HeldEvents {
  readonly kind: 'held';
}

/** A message about events. */
interface NotifyMessageOutput extends MessageView {
  readonly kind: 'message';
}

/** `notify test`. */
interface NotifyTestOutput {
  readonly kind: 'test';
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  /** True if the server or command took the message. */
  readonly ok: boolean;
  /** The answer of the server, or the failure. */
  readonly message: string;
}

/** `notify drop`. */
interface NotifyDropOutput {
  readonly kind: 'dropped';
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  /** The number of events that are given up. */
  readonly events: number;
  readonly message: string;
}

interface LabTpuDetailsOutput extends LabTpuStateOutput, Omit<LabTpu, 'name' | 'zone'> {
  /** Its users, each as a phrase for people. */
  readonly uses: readonly string[];
  readonly booking: ChangedBookingOutput['before'] | null;
  /** Null if Python was not checked. */
  readonly environment: EnvironmentCheck | null;
  readonly problems: readonly TpuProblemFacts[];
}

interface EnvironmentOutput extends EnvironmentCheck {
  readonly tpu: string;
}

export interface TpuProblemFacts extends Omit<TpuProblem, 'repair'> {
  readonly repair: Repair['kind'];
}

/** `solve --dry-run`. */
interface TpuProblemOutput extends TpuProblemFacts {
  readonly tpu: string;
}

interface SolvedOutput {
  readonly tpu: string;
  /** True if no problem is left. */
  readonly ok: boolean;
  /** Names of the problems whose repair was tried. */
  readonly tried: readonly string[];
  readonly problems: readonly TpuProblemFacts[];
}

interface AppliedTpuOutput {
  readonly tpu: string;
  readonly zone: string;
  /** False if something failed on its workers. */
  readonly prepared: boolean;
}

interface DeletedTpuOutput {
  readonly tpu: string;
  readonly zone: string | null;
  /** False if it did not exist. */
  readonly deleted: boolean;
}

interface DirectoryOutput {
  readonly user: string;
  readonly dir: number;
  readonly path: string;
  /** True if the folder does not exist any more. */
  readonly gone: boolean;
}

interface ConfigAliasOutput {
  readonly user: string;
  readonly alias: string;
  readonly key: string;
}

interface UserSettingOutput {
  readonly user: string;
  readonly key: string;
  readonly value: unknown;
}

interface LabUserOutput {
  readonly name: string;
  readonly id: number;
  readonly role: Role;
  readonly session: string;
  readonly sheetName: string;
  readonly logins: readonly string[];
  /** Folders by number. */
  readonly directories: Readonly<Record<string, string>>;
  /** Config keys by alias. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly timeZone: string;
  readonly nextWindow: number;
  readonly createdAt: Instant;
}
