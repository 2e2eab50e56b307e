// JobSpec: a manifest, parsed, interpolated, validated, defaulted and immutable. All later decisions use these fields;
// no backend and no rule reads the manifest again.

import type { Digest } from '../../catalogue/digest.ts';
import type { NotifySpec } from './notify.ts';
import type { Duration } from './time.ts';

/** Source of a supervised job's capacity. Kubernetes jobs live in their cluster and are not supervised. */
export type BackendName = 'hosts' | 'tpu';

/** A worker by Google's number, from 0; or `controller`: the machine that jobman runs on. */
export type WorkerId = number | 'controller';

/** `worker 3`, or `this machine`. */
export function formatWorker(worker: WorkerId): string {
  return worker === 'controller' ? 'this machine' : `worker ${worker}`;
}

export interface JobSpec {
  /** Version of this format. `upgradeSpec` (spec-version.ts) reads older rows. */
  readonly version: 2;
  readonly name: string;
  /** `job.tags` and `tpu.tags` together, without duplicates. */
  readonly tags: readonly string[];
  readonly capacity: CapacitySpec;
  /** Each worker runs these in order before the command. Their texts are final; the core reads names and keys only. */
  readonly steps: readonly SetupStep[];
  readonly command: CommandSpec;
  /** A folder of this machine that every worker gets a copy of. The step that names it copies it. Absent: none. */
  readonly workdir?: WorkdirSpec;
  /** The events to report and their recipients. Absent: as the settings say. */
  readonly notify?: NotifySpec;
  readonly recovery: RecoverySpec;
  readonly limits: LimitsSpec;
  readonly stop: StopSpec;
  readonly finish: FinishSpec;
  /** The values of `--set`, in order. Absent: none. */
  readonly overrides?: readonly Override[];
}

export interface Override {
  /** Path of the key: `command.lr`. */
  readonly key: string;
  /** As written. `***` if it looks like a secret. */
  readonly value: string;
}

/** The requested capacity. `kind` names the backend; no other code tests a backend's name. */
export type CapacitySpec = HostsSpec | TpuSpec;

/** A machine that the settings name (`hosts`), or `localhost`. */
export type HostName = string;

/** The machine of the controller, whose slots are the setting `local.slots`. */
export const ownHost: HostName = 'localhost';

/** The problem with the name of another machine for the settings; null without one. */
export function hostNameProblem(name: string): string | null {
  return name !== ownHost && /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(name)
    ? null
    : 'is not a name for a host; use lower-case letters, digits and -, beginning with a letter (localhost is this machine)';
}

export interface HostsSpec {
  readonly kind: 'hosts';
  /** The machines exist before and after the job. */
  readonly ownership: 'persistent';
  /** One worker and one slot on each, without duplicates; worker 0 is on the first. */
  readonly hosts: readonly HostName[];
  /** US dollars per hour of all, if the settings give each a price. Absent: none. */
  readonly pricePerHourUsd?: number;
  /** `settings`. Absent without a price. */
  readonly pricesOf?: string;
}

/** True for a job that uses no machine but this one: the machine that jobman runs on. */
export function isOnThisMachine({ capacity }: Pick<JobSpec, 'capacity'>): boolean {
  return capacity.kind === 'hosts' && isOwnHost(capacity.hosts);
}

export function isOwnHost(hosts: readonly HostName[]): boolean {
  return hosts.length === 1 && hosts[0] === ownHost;
}

/** The machines that the capacity names; none for capacity of a cloud. */
export function hostNamesOf(capacity: CapacitySpec): readonly HostName[] {
  return 'hosts' in capacity ? capacity.hosts : [];
}

/** The machines on which programs of the job run, with that of a command that drives a TPU. */
export function programHostsOf({ capacity, command }: Pick<JobSpec, 'capacity' | 'command'>): readonly HostName[] {
  return [...hostNamesOf(capacity), ...(command.runsOn === 'controller' ? [ownHost] : [])];
}

/** True if the command of such a job runs on this machine: also one that drives a TPU from here. */
export function runsCommandHere(spec: Pick<JobSpec, 'capacity' | 'command'>): boolean {
  return isOnThisMachine(spec) || spec.command.runsOn === 'controller';
}

/** `gpu1, gpu2`, or `this machine`. */
export function formatHosts(hosts: readonly HostName[]): string {
  return isOwnHost(hosts) ? 'this machine' : hosts.join(', ');
}

export type Pricing = 'spot' | 'ondemand' | 'preemptible';

export interface TpuSpec {
  readonly kind: 'tpu';
  /** Ephemeral: requested by the job and released with it. Persistent: exists by name before and after it. */
  readonly ownership: 'ephemeral' | 'persistent';
  /** `tpu-vm` creates the node itself, `queued-resources` requests it through Google's queue. */
  readonly mode: 'tpu-vm' | 'queued-resources';
  /** A Google Cloud project, or `emulatorProject`. */
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  /** `tpu.name`, interpolated. `nodeName` (allocate.ts) makes the name in the cloud from it. */
  readonly name: string;
  readonly runtimeVersion: string;
  readonly pricing: Pricing;
  /** Text of the script that runs on every boot of every worker, or null. */
  readonly startupScript: string | null;
  /** Network tags, which are also labels of the job. */
  readonly networkTags: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  /** Login on the workers. Null: the user that jobman runs as. */
  readonly remoteUser: string | null;
  /** Private key for that login. Null: jobman's own key. */
  readonly privateKey: SecretRef | null;
  /** Its public half, for the machines that the job creates. Absent: not known. */
  readonly publicKey?: string;
  /** US dollars per hour while it is ready, estimated at creation. Null if no price is known. */
  readonly pricePerHourUsd: number | null;
  /** Date of the table of that price (`2026-08-01`), or `settings`. Absent: without a price, and in older records. */
  readonly pricesOf?: string;
  /** In the owner's order. `capacityOf` (job.ts) gives the zone, type and price of an allocation. */
  readonly alternatives?: readonly TpuAlternative[];
  /** Time that a request may wait in one alternative before the next is requested. Absent: no limit. */
  readonly alternativesWaitMs?: Duration;
  /** Id of a reservation in the same project and zone. The capacity comes from it. */
  readonly reservation?: string;
  /** Compute Engine names in the project. Absent: Google chooses, for the network `default`. */
  readonly network?: string;
  readonly subnetwork?: string;
  /** E-mail of the service account of the machines. Absent: the project's default one. */
  readonly serviceAccount?: string;
  readonly dataDisks?: readonly DataDisk[];
  /** Arrangement of the chips (`2x2x4`), if the type has several. Applies to the spec's own alternative only. */
  readonly topology?: string;
  /** Slices of one queued resource. Absent: one. More than one is a multislice: all slices or none. */
  readonly nodeCount?: number;
  /** Time that the queued resource stays in the queue before the cloud deletes it. Absent: no limit. */
  readonly validForMs?: Duration;
  /** Its work on its persistent TPU. Absent: the job uses the TPU as it is. */
  readonly operation?: TpuOperation;
}

/**
 * `create` requests the TPU if it does not exist; `prepare` needs an existing one. Both then run the setup steps. The
 * others begin by releasing the TPU that exists: `recreate` deletes it and requests it again, `restart` stops its machines
 * and starts them again, `delete` deletes it.
 */
export type TpuOperation = (
  | { readonly kind: 'create' | 'prepare' }
  | {
      readonly kind: 'recreate' | 'restart' | 'delete';
      /** The creation time of that TPU, so that no later one of its name is released. Null for one without a node. */
      readonly creationTime: string | null;
    }
) & {
  /** The job then runs its command, so it uses the TPU alone. Absent: it has no command. */
  readonly withCommand?: true;
  /** The lab's bookings are in a spreadsheet. Absent: in the table of the database. */
  readonly spreadsheet?: true;
};

/** The fields of a TpuSpec that differ between alternatives. */
export interface TpuAlternative {
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: Pricing;
  /** Each TPU generation needs its own. */
  readonly runtimeVersion: string;
  readonly topology?: string;
  readonly pricePerHourUsd: number | null;
  /** As in `TpuSpec`. */
  readonly pricesOf?: string;
}

/** A disk attached to every machine. */
export interface DataDisk {
  /** Its id in the allocation's zone, or a full name `projects/P/zones/Z/disks/D`. */
  readonly source: string;
  readonly mode: 'read-only' | 'read-write';
}

/** A working directory. Its copies are immutable and numbered from 1 (`workdirCopyOf` in job.ts). */
interface WorkdirSpec {
  /** The blob with the list of the files of the first copy. Null if they are in the job's folder, as in version 1. */
  readonly tree: Digest | null;
}

/**
 * One idempotent piece of setup on one worker. `check` exits 0 if the step already holds; `apply` makes it hold. Both
 * are shell scripts that travel as files. `key` changes whenever the step changes in a way that matters. A proof file
 * of that name on the worker proves that the step holds there.
 */
export interface SetupStep {
  readonly name: string;
  readonly key: string;
  readonly check: string | null;
  readonly apply: string;
  /** Files that the worker needs first. */
  readonly files: readonly StepFile[];
  /** Number of the working directory copy that the worker needs first. Absent: none. */
  readonly workdirCopy?: number;
  /** Longest time for one `apply`. */
  readonly timeoutMs: Duration;
}

export type StepFile =
  | { readonly kind: 'secret'; readonly secret: SecretRef; readonly to: string; readonly mode: number }
  | { readonly kind: 'blob'; readonly blob: Digest; readonly to: string; readonly mode: number }
  | { readonly kind: 'inline'; readonly base64: string; readonly to: string; readonly mode: number };

export interface CommandSpec {
  /** The user's script, wrapped for its environment. May contain `nodeNamePlaceholder`. */
  readonly script: string;
  /** No command: the attempt succeeds once every worker is set up. */
  readonly isSetupOnly?: true;
  /** The user's own text, if `script` wraps it. For people. May contain `nodeNamePlaceholder` too. */
  readonly userScript?: string;
  /** On the workers of the allocation, or on the machine that jobman runs on. */
  readonly runsOn: 'workers' | 'controller';
  readonly workers: 'all' | readonly number[];
  readonly env: Readonly<Record<string, string>>;
  /**
   * Secret environment variables by name. Their values are read at every start; one newline at the end is dropped. Absent:
   * none.
   */
  readonly secrets?: Readonly<Record<string, SecretRef>>;
  /** The folder in which the command starts; may begin with `workdirPlaceholder`. Null: the login folder. */
  readonly workdir: string | null;
  /** Folder for checkpoints. `checkpointFolder` gives the folder of one attempt. */
  readonly checkpointDir: string | null;
  /**
   * `own`: jobman makes a folder for each start from the beginning. `named`: the manifest names the folder, and
   * JOBMAN_RESUME_FROM names only entries that the job made since its newest start from the beginning.
   * `shared`: any entry of a folder that the manifest names. Absent (records of an earlier version): `shared`.
   */
  readonly checkpoints?: 'own' | 'named' | 'shared';
  /**
   * `checkpointDir` in storage that outlives an ephemeral TPU (`gs://bucket/runs`). Absent: none, or an own folder in the record
   * of an earlier version.
   */
  readonly checkpointStorage?: string;
  /** The checkpoint from which the job starts. Absent: none. */
  readonly resumeFrom?: ResumeFrom;
}

/** A checkpoint to start from. `create` replaces `job` by that job's checkpoint folder. */
export type ResumeFrom =
  | { readonly kind: 'job'; readonly job: string }
  /** The newest complete entry counts. `job` is the id of the job that it belongs to. */
  | { readonly kind: 'folder'; readonly path: string; readonly job?: string }
  | { readonly kind: 'entry'; readonly path: string };

/** Name of a secret in the secret store, as `secretNamePattern` allows. */
export type SecretName = string;

/** Also valid as a key of a Secret in Kubernetes, and every name of a variable is valid here. */
export const secretNamePattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

/**
 * A reference to the value of a secret, which is in the secret store and never in a spec. `named`: a secret of the job's
 * owner. `job`: a secret of the job itself, whose value `create` has stored. `setting`: the file that a setting of the
 * installation names. `localFile`: a file of the controller's machine; only in a spec that was stored as version 1, or
 * imported.
 */
export type SecretRef =
  | { readonly kind: 'named'; readonly secret: SecretName }
  /** `variable`: its source at `create`, which no program in the background inherits. Absent: a file. */
  | { readonly kind: 'job'; readonly secret: SecretName; readonly variable?: string }
  | { readonly kind: 'setting'; readonly setting: SecretSetting }
  | { readonly kind: 'localFile'; readonly path: string };

export type SecretSetting = 'lab.privateKey' | 'lab.wandbKeyFile';

/** Every secret that the job needs. */
export function secretRefsOf({ command, capacity, steps }: SecretSpec): readonly SecretRef[] {
  return [
    ...Object.values(command.secrets ?? {}),
    ...(capacity.kind === 'tpu' && capacity.privateKey !== null ? [capacity.privateKey] : []),
    ...steps.flatMap(({ files }) => files.flatMap((file) => (file.kind === 'secret' ? [file.secret] : []))),
  ];
}

type SecretSpec = Pick<JobSpec, 'command' | 'capacity' | 'steps'>;

/** The names of those of one kind, without repeats. */
export function secretNamesOf(spec: SecretSpec, kind: 'named' | 'job'): readonly SecretName[] {
  const names = secretRefsOf(spec).flatMap((ref) => (ref.kind === kind ? [ref.secret] : []));
  return [...new Set(names)];
}

/** The project of the TPU emulator. jobman starts the emulator for no other name. */
export const emulatorProject = 'emulator';

/** True for the TPU emulator. Its TPUs have Google's prices, so that a rehearsal shows the real cost. */
export function isSimulated(capacity: Pick<HostsSpec, 'kind'> | Pick<TpuSpec, 'kind' | 'project'>): boolean {
  return capacity.kind === 'tpu' && capacity.project === emulatorProject;
}

/** The id of a Google Cloud project, also with a domain: `example.com:lab`. */
export const projectIdPattern = /^[a-z][a-z0-9:.-]{2,62}$/;

/** Reason for the end of an attempt. `preempted` is the cloud's act, `stopped` the owner's. */
export type Reason =
  | 'succeeded'
  | 'stopped'
  | 'preempted'
  | 'unreachable'
  | 'allocation_failed'
  | 'setup_failed'
  | 'command_failed'
  | 'hung'
  | 'timed_out'
  | 'budget';

/** Reasons that a recovery rule may answer. The others end the job. */
export type RecoverableReason = Exclude<Reason, 'stopped' | 'allocation_failed' | 'timed_out' | 'budget'>;

/** A rule's answer: the next step, and its allocation. */
export interface RuleAnswer {
  /**
   * `resume` continues from the last checkpoint (stage + 1); `rerun` starts from the beginning; `fail` ends the job as
   * failed, `done` as succeeded.
   */
  readonly then: 'resume' | 'rerun' | 'fail' | 'done';
  /** `new` on a persistent allocation releases it and requests one of the same name. */
  readonly on: 'same' | 'new';
}

/** A row of the recovery table. The first row that matches the reason and all given conditions answers. */
export interface RecoveryRule {
  readonly reason: RecoverableReason;
  /** The pattern that the evidence must name: one of `failurePatterns` or `RecoverySpec.customPatterns`. */
  readonly evidence?: string;
  /** The exit code must be one of these. */
  readonly exitCodes?: readonly number[];
  /** The evidence must name this worker. */
  readonly worker?: number;
  readonly answer: RuleAnswer;
  /** With a new allocation: avoid the zone of the ended attempt while the spec has alternatives in another. */
  readonly avoidZone?: true;
  /** Number of ends that this rule answers with another attempt, instead of the budget. The next end fails the job. */
  readonly limit?: number;
  /** Backoff of this rule, instead of the job's: the first delay, doubled up to the second. */
  readonly delayMs?: Duration;
  readonly delayMaxMs?: Duration;
}

export interface RecoverySpec {
  /** Name of the preset of the rules, or `custom`. For people: no rule depends on it. */
  readonly preset: string;
  readonly rules: readonly RecoveryRule[];
  /** Texts to find at the end of the job's logs, before any known pattern. `*` matches anything in a line. */
  readonly customPatterns?: readonly string[];
  /**
   * Number of ended attempts that the job survives since the owner's last command or its own last success.
   * `preemptions` also counts `unreachable`. `setupFailures` counts in a row until a command has run, because a setup
   * that cannot succeed must not hold a TPU for days.
   */
  readonly budget: { readonly preemptions: number; readonly failures: number; readonly setupFailures: number };
  /** First delay before a new attempt after a failure of the program. It doubles up to `delayMaxMs`. */
  readonly delayMs: Duration;
  readonly delayMaxMs: Duration;
  /** Longest silence of a worker that the cloud reports as ready. `giveUpAt` uses multiples of it. */
  readonly unreachableGraceMs: Duration;
}

interface LimitsSpec {
  /** Longest run of the command in one attempt. Null: no limit. */
  readonly maxRuntimeMs: Duration | null;
  /** Longest time without output before the attempt counts as hung. Null: no limit. */
  readonly silenceTimeoutMs: Duration | null;
  /**
   * Longest time without output after a failed call between workers (`failedCallPatterns`); then the attempt counts as
   * hung. A program that prints such a failure and then nothing waits for a worker that is gone. Absent: no limit.
   */
  readonly failedCallTimeoutMs?: Duration;
  /** Longest wait for capacity. Null: no limit. */
  readonly capacityWaitMs: Duration | null;
  /** US dollars that the job's own capacity may cost since its owner's newest start. Absent: no limit. */
  readonly budgetUsd?: number;
  /** Tries of one setup step on one worker, including the first, before the attempt ends with `setup_failed`. */
  readonly setupTries: number;
}

interface StopSpec {
  /** The signal that asks the program to end, as Slurm and Docker name it: `TERM`, `INT`, `USR1`. */
  readonly signal: string;
  /** Time until the program is killed with all its children. */
  readonly graceMs: Duration;
}

interface FinishSpec {
  /** For ephemeral capacity when the job has finished. */
  readonly capacity: 'release' | 'keep';
  /** Longest time to keep it. Null: until a user releases it. */
  readonly keepForMs: Duration | null;
  /** Time for which a failed job keeps its capacity for debugging, even with `release`. Absent: as `capacity` says. */
  readonly holdOnFailureMs?: Duration;
}

// ------------------------------------------------------------------------------------------ placeholders

/** Placeholder for the node's name, which depends on the job's id and the allocation's ordinal. */
export const nodeNamePlaceholder = '\uE000node-name\uE001';

/** Placeholder for the job's id until the job exists: `${job.id}` in a manifest. */
export const jobIdPlaceholder = '\uE000job-id\uE001';

/** Placeholder for the installation id until the job exists. */
const installationIdPlaceholder = '\uE000installation\uE001';

/** The job's own folder below `job.checkpoint_dir`: `000001-k3x9ab`. */
export const ownCheckpointSubfolder = `${jobIdPlaceholder}-${installationIdPlaceholder}`;

/** The spec with both id placeholders filled in. The same object if it has none. */
export function withJobIds(spec: JobSpec, id: string, installation: string): JobSpec {
  const text = JSON.stringify(spec);
  if (!text.includes(jobIdPlaceholder) && !text.includes(installationIdPlaceholder)) return spec;
  return JSON.parse(
    text.replaceAll(jobIdPlaceholder, id).replaceAll(installationIdPlaceholder, installation),
  ) as JobSpec;
}

/** Placeholder at the beginning of a path: the job's working directory on a worker, which only the worker knows. */
export const workdirPlaceholder = '\uE000workdir\uE001';

/** Placeholder for the bucket of the allocation's region. Region and bucket names contain neither separator. */
export function bucketPlaceholder(byRegion: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(byRegion).map(([region, bucket]) => `${region}=${bucket}`);
  return `\uE000bucket ${pairs.join(' ')}\uE001`;
}

/** The text with each `bucketPlaceholder` filled in for that region, if the placeholder names the region. */
export function withBuckets(text: string, region: string): string {
  return text.replaceAll(/\uE000bucket ([^\uE001]*)\uE001/g, (placeholder, pairs: string) => {
    const pair = pairs.split(' ').find((one) => one.startsWith(`${region}=`));
    return pair === undefined ? placeholder : pair.slice(region.length + 1);
  });
}

/** The work of a job on its persistent TPU. */
export function operationOf({ capacity }: Pick<JobSpec, 'capacity'>): TpuOperation | undefined {
  return capacity.kind === 'tpu' ? capacity.operation : undefined;
}

// ------------------------------------------------------------------------------------------ alternatives

/** The spec's own alternative first. The index is the number in `Allocation.alternative`. */
export function alternativesOf(spec: TpuSpec): readonly TpuAlternative[] {
  const { zone, accelerator, pricing, runtimeVersion, topology, pricePerHourUsd, pricesOf } = spec;
  const own = { zone, accelerator, pricing, runtimeVersion, pricePerHourUsd };
  const optional = { ...(topology !== undefined && { topology }), ...(pricesOf !== undefined && { pricesOf }) };
  return [{ ...own, ...optional }, ...(spec.alternatives ?? [])];
}

export function alternativeCount(capacity: CapacitySpec): number {
  return capacity.kind === 'tpu' ? 1 + (capacity.alternatives?.length ?? 0) : 1;
}

/** The spec with the values of that alternative; the spec itself if it has no such alternative. */
export function capacityAt(capacity: TpuSpec, alternative: number): TpuSpec;
export function capacityAt(capacity: CapacitySpec, alternative: number): CapacitySpec;
export function capacityAt(capacity: CapacitySpec, alternative: number): CapacitySpec {
  if (capacity.kind !== 'tpu' || alternative === 0) return capacity;
  const chosen = capacity.alternatives?.[alternative - 1];
  if (chosen === undefined) return capacity;
  // A topology belongs to its own accelerator type, and a table to its own price.
  const { topology: _own, pricesOf: _pricesOf, ...rest } = capacity;
  return { ...rest, ...chosen };
}

/** The type and price class of a TPU, as the cloud shows them; null or absent if it does not. */
export interface ShownTpu {
  readonly accelerator?: string | null;
  readonly pricing?: Pricing | 'reserved' | null;
}

/** True if such a TPU is what this capacity requests. */
export function isOfType({ accelerator, pricing }: TpuSpec, shown: ShownTpu): boolean {
  return shown.accelerator === accelerator && (shown.pricing === 'reserved' ? 'ondemand' : shown.pricing) === pricing;
}

/**
 * The alternative that has requested a TPU at the location of the current alternative: the current one, unless the TPU is
 * of the type of another one only. An earlier request to that one took effect late.
 */
export function alternativeOf(capacity: CapacitySpec, current: number, shown: ShownTpu): number {
  if (capacity.kind !== 'tpu') return current;
  const { zone } = capacityAt(capacity, current);
  const all = Array.from({ length: alternativeCount(capacity) }, (_, alternative) => alternative);
  const [found = current, ...others] = all.filter((alternative) => {
    const one = capacityAt(capacity, alternative);
    return one.zone === zone && isOfType(one, shown);
  });
  return others.includes(current) ? current : found;
}
