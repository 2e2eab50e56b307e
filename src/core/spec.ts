// JobSpec: a manifest that has been parsed, interpolated, validated, defaulted and frozen.
// Everything that decides later is decided from these fields; no backend and no rule looks at the text again.

import type { Duration } from './time.ts';

/** Where a supervised job's capacity comes from. Kubernetes jobs live in their cluster and are not supervised. */
export type BackendName = 'local' | 'tpu';

/** A worker, numbered from 0 as Google numbers them, or `here`: the machine that jobman itself runs on. */
export type WorkerId = number | 'here';

export interface JobSpec {
  /** The format of this record, for readers of older rows. */
  readonly version: 1;
  readonly name: string;
  /** Labels to filter by: `job.tags` and `tpu.tags` together, without repeats. */
  readonly tags: readonly string[];
  readonly capacity: CapacitySpec;
  /** Each worker goes through these before the command, in this order. Texts are final; the core reads names and keys only. */
  readonly steps: readonly SetupStep[];
  readonly command: CommandSpec;
  /** A folder of this machine that every worker gets a copy of; the step that names it puts it there. Absent: none. */
  readonly workdir?: WorkdirSpec;
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
  /** As written; `***` where it looks like a secret. */
  readonly value: string;
}

/** The requested capacity. `kind` names the backend; nothing else in the program tests a backend's name. */
export type CapacitySpec = LocalSpec | TpuSpec;

export interface LocalSpec {
  readonly kind: 'local';
  /** This machine exists before and after the job. */
  readonly ownership: 'standing';
  /** The folder that the command starts in, absolute. */
  readonly workdir: string;
}

export interface TpuSpec {
  readonly kind: 'tpu';
  /** Owned: asked for by the job and released with it. Standing: exists by name before and after it. */
  readonly ownership: 'owned' | 'standing';
  /** `tpu-vm` creates the node itself, `queued-resources` asks Google's queue for it. */
  readonly mode: 'tpu-vm' | 'queued-resources';
  /** A Google Cloud project, or `builtInProject`. */
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  /** `tpu.name` as written and interpolated; see `nodeName` in `allocate.ts` for the name the cloud sees. */
  readonly name: string;
  readonly runtimeVersion: string;
  readonly pricing: 'spot' | 'ondemand' | 'preemptible';
  /** The text of the script that runs on every boot of every worker, or null. */
  readonly startupScript: string | null;
  /** Network tags, which are also labels of the job. */
  readonly networkTags: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  /** Login on the workers; null means: as the user that jobman runs as. */
  readonly remoteUser: string | null;
  /** The private key file that jobman logs in with, absolute; null means jobman's own key. */
  readonly privateKey: string | null;
  /** Dollars an hour while it is ready, estimated when the job was created; null when no price is known. */
  readonly pricePerHour: number | null;
  /** Other places to ask, in the owner's order. `capacityOf` gives an allocation's own zone, type and price. */
  readonly alternatives?: readonly TpuPlace[];
  /** How long one place may let a request wait before the next is asked in its stead; absent means without limit. */
  readonly alternativesWait?: Duration;
  /** Id of a reservation in the project and zone, whose capacity is asked for. */
  readonly reservation?: string;
  /** Names in the project, as Compute Engine has them; absent means `default`. */
  readonly network?: string;
  readonly subnetwork?: string;
  /** E-mail of the service account that the machines act as; absent means the project's default one. */
  readonly serviceAccount?: string;
  readonly dataDisks?: readonly DataDisk[];
  /** How the chips are wired, in chips (`2x2x4`), where the type does not say it or has several; of this place only. */
  readonly topology?: string;
  /** Slices of one queued resource; absent means one. More than one are a multislice: all of them or none. */
  readonly nodeCount?: number;
  /** How long the queued resource stays in the queue before the cloud gives it up; absent means for ever. */
  readonly validUntil?: Duration;
}

/** Where else the same may be asked for: the parts of a TpuSpec that differ from place to place. */
export interface TpuPlace {
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: TpuSpec['pricing'];
  /** The image: another generation wants another. */
  readonly runtimeVersion: string;
  /** As in TpuSpec, of this place. */
  readonly topology?: string;
  readonly pricePerHour: number | null;
}

/** A disk that every machine gets. */
export interface DataDisk {
  /** Its id in the allocation's zone, or a full name `projects/P/zones/Z/disks/D`. */
  readonly source: string;
  readonly mode: 'read-only' | 'read-write';
}

/** A working directory. Copies of it are frozen in the job's folder, numbered from 1; `copyOf` of job.ts says which counts. */
export interface WorkdirSpec {
  /** Absolute; where a copy is taken from. */
  readonly from: string;
}

/**
 * One idempotent piece of setup on one worker: `check` says whether it holds already (exit 0), `apply` makes it hold.
 * Both are shell scripts that travel as files. `key` changes when anything that matters in the step changes; a proof
 * file of that name on the worker says that the step was seen to hold there.
 */
export interface SetupStep {
  readonly name: string;
  readonly key: string;
  readonly check: string | null;
  readonly apply: string;
  /** Files that the step needs on the worker first. Secrets (keys) are read from this machine when needed and never frozen here. */
  readonly files: readonly StepFile[];
  /** The copy of the job's working directory that has to be on the worker first. Absent: none. */
  readonly workdir?: number;
  /** Longest time one `apply` may take before it counts as failed. */
  readonly timeout: Duration;
}

export type StepFile =
  | { readonly kind: 'local'; readonly from: string; readonly to: string; readonly mode: number }
  | { readonly kind: 'frozen'; readonly base64: string; readonly to: string; readonly mode: number };

export interface CommandSpec {
  /** The user's script, already wrapped for its environment. May hold `nodeNameMark`. Never passed through a shell's quotes. */
  readonly script: string;
  /** There is no command: the attempt succeeds once every worker is set up, and nothing is started. */
  readonly isSetupOnly?: true;
  /** The user's own text where `script` wraps it for an environment; for people, and may hold `nodeNameMark` too. */
  readonly written?: string;
  /** On the allocation's workers, or on the machine that jobman runs on. */
  readonly place: 'workers' | 'here';
  /** Which workers run it. */
  readonly workers: 'all' | readonly number[];
  readonly env: Readonly<Record<string, string>>;
  /**
   * Environment variables whose values nobody but the program may see, by name, each with the file of this machine that holds
   * its value (absolute; one newline at the end does not count). Read at every start and never frozen here. Absent: none.
   */
  readonly secrets?: Readonly<Record<string, SecretSource>>;
  /** The folder the command starts in, perhaps below `workdirMark`; null means the login folder of the worker. */
  readonly workdir: string | null;
  /** Where the program keeps its checkpoints. The folder of one attempt is `checkpointFolder` (prepare.ts). */
  readonly checkpointDir: string | null;
  /**
   * `own`: a folder of jobman's for each start from the beginning. `named`: a folder that the manifest names, where JOBMAN_RESUME_FROM
   * names only entries that the job has made since its newest start from the beginning (see prepare.ts). `shared`: any
   * entry of a folder that the manifest names. Absent, in records of an earlier version, is `shared`.
   */
  readonly checkpoints?: 'own' | 'named' | 'shared';
  /** Names the checkpoint folder in storage that other jobs reach too (`gs://bucket/runs`). Absent: no other job can have it. */
  readonly checkpointStorage?: string;
  /** Where the job begins instead of from nothing. */
  readonly resumeFrom?: ResumeFrom;
}

/** A checkpoint that the job begins from. `create` replaces `job` by the folder that this job keeps its checkpoints in. */
export type ResumeFrom =
  | { readonly kind: 'job'; readonly job: string }
  /** Its newest complete entry counts. `job` is the id of the job that it belongs to. */
  | { readonly kind: 'folder'; readonly path: string; readonly job?: string }
  | { readonly kind: 'entry'; readonly path: string };

/**
 * Where a secret is. `file`: a file of its owner's, absolute. `environment`: a variable of whoever creates the job, whose
 * value is kept in the job's own folder from then on (`secretFile` of app/job-folder.ts).
 */
export type SecretSource =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'environment'; readonly variable: string };

/** The project that means the built-in cloud. jobman starts that cloud for no other name. */
export const builtInProject = 'emulator';

/** Stands in texts for the real name of the node, which is known only with the job's id and the allocation's number. */
export const nodeNameMark = '\uE000node-name\uE001';

/** The placeholder for the job's id in a spec's texts until the job exists; `${job.id}` in a manifest. */
export const jobIdMark = '\uE000job-id\uE001';

/** The placeholder for the installation id in a spec's texts until the job exists. */
const installationMark = '\uE000installation\uE001';

/** The level below `job.checkpoint_dir` that is the job's own: `000001-k3x9ab`. */
export const ownCheckpointLevel = `${jobIdMark}-${installationMark}`;

/** The spec with both ids in place of their markers. The same spec when it has none. */
export function withJobIds(spec: JobSpec, id: string, installation: string): JobSpec {
  const text = JSON.stringify(spec);
  if (!text.includes(jobIdMark) && !text.includes(installationMark)) return spec;
  return JSON.parse(text.replaceAll(jobIdMark, id).replaceAll(installationMark, installation)) as JobSpec;
}

/** Stands at the beginning of a path for the job's working directory on a worker, which only the worker can tell. */
export const workdirMark = '\uE000workdir\uE001';

/** Stands for the bucket of the allocation's region, by region. Names of regions and buckets hold neither separator. */
export function bucketMark(byRegion: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(byRegion).map(([region, bucket]) => `${region}=${bucket}`);
  return `\uE000bucket ${pairs.join(' ')}\uE001`;
}

/** The text with every `bucketMark` filled in for that region. A region that a mark does not name leaves it as it is. */
export function withBuckets(text: string, region: string): string {
  return text.replaceAll(/\uE000bucket ([^\uE001]*)\uE001/g, (mark, pairs: string) => {
    const pair = pairs.split(' ').find((one) => one.startsWith(`${region}=`));
    return pair === undefined ? mark : pair.slice(region.length + 1);
  });
}

/** Why an attempt ended. `preempted` is the cloud's act, `stopped` the owner's, `command_failed` the command's. */
export type Reason =
  | 'succeeded'
  | 'stopped'
  | 'preempted'
  | 'unreachable'
  | 'allocation_failed'
  | 'setup_failed'
  | 'command_failed'
  | 'hung'
  | 'timed_out';

/** Reasons that a rule may answer. The others end the job: as a success, on the owner's word, or for good. */
export type RuledReason = Exclude<Reason, 'stopped' | 'allocation_failed' | 'timed_out'>;

/** The answer of a rule: how to go on, and on which allocation. */
export interface Answer {
  /** `resume` continues from the last checkpoint (stage + 1); `rerun` starts from the beginning; `fail` ends the job. */
  readonly then: 'resume' | 'rerun' | 'fail' | 'done';
  /** `new` on a standing allocation: it is released, and one of the same name is requested. */
  readonly on: 'same' | 'new';
}

/** A row of the table of rules: for a reason, and where given more of how it ended, this answer. First match wins. */
export interface Rule {
  readonly reason: RuledReason;
  /** Name of a pattern in `patterns`, or a text of the job's own (`RecoverySpec.texts`); it must be what the evidence names. */
  readonly evidence?: string;
  /** One of these must be the exit code that the attempt ended of. */
  readonly exitCodes?: readonly number[];
  /** It must have ended of what happened on this worker. */
  readonly worker?: number;
  readonly answer: Answer;
  /** With a new allocation: not in the zone that it ended in, as long as the spec names places in another. */
  readonly avoidZone?: true;
  /** How many ends this rule answers with another attempt, in place of the budget; the next one fails the job. */
  readonly limit?: number;
  /** Waits of this rule in place of those of all; doubling up to the second. */
  readonly delay?: Duration;
  readonly delayMax?: Duration;
}

export interface RecoverySpec {
  /** Name of the preset that the rules come from, or `custom`; shown to people, decides nothing. */
  readonly preset: string;
  readonly rules: readonly Rule[];
  /** Texts that the job's own rules look for at the end of its logs, before any pattern; `*` stands for anything in a line. */
  readonly texts?: readonly string[];
  /**
   * How many ended attempts of each sort the job survives since its owner's last command, or its own last success. Setup
   * failures are counted in a row, until a command has run: a setup that cannot succeed must not hold a TPU for days. Records of
   * an earlier version lack that budget, and `budgetLimit` of recover.ts supplies the usual one.
   */
  readonly budget: { readonly preemptions: number; readonly failures: number; readonly setupFailures?: number };
  /** First wait before a new attempt after the program's own failure; doubles up to `delayMax`. */
  readonly delay: Duration;
  readonly delayMax: Duration;
  /** How long a worker may be silent while the cloud calls its machine ready. Other waits are multiples of it (`givenUpAt`). */
  readonly unreachableGrace: Duration;
}

interface LimitsSpec {
  /** The command's longest run in one attempt; null means none. */
  readonly maxRuntime: Duration | null;
  /** The longest time without output before the attempt counts as hung; null means none. */
  readonly silenceTimeout: Duration | null;
  /**
   * The longest time without output after a failed call between workers (`betweenWorkers`): a program that prints one and
   * then nothing waits for a worker that is gone. The attempt then counts as hung. Absent means none.
   */
  readonly troubleTimeout?: Duration;
  /** How long to wait for capacity before giving up; null means without limit. */
  readonly capacityWait: Duration | null;
  /** How often one setup step is tried on one worker before the attempt ends `setup_failed`, the first try included. */
  readonly setupTries: number;
}

interface StopSpec {
  /** The signal that asks the program to end, as Slurm and Docker name it: `TERM`, `INT`, `USR1`. */
  readonly signal: string;
  /** How long it has before it is killed with all its children. */
  readonly grace: Duration;
}

export interface FinishSpec {
  /** The fate of owned capacity when the job has finished. */
  readonly capacity: 'release' | 'keep';
  /** How long it is kept at most; null means until somebody releases it. */
  readonly keepFor: Duration | null;
  /** How long a job that has failed keeps it for a look, whatever `capacity` says. Absent: no longer than that says. */
  readonly holdOnFailure?: Duration;
}

// ------------------------------------------------------------------------------------------ alternatives

/** Every place that the spec names, its own first; the number of each in an allocation's `place` is its index. */
export function placesOf(spec: TpuSpec): readonly TpuPlace[] {
  const { zone, accelerator, pricing, runtimeVersion, topology, pricePerHour } = spec;
  const own = {
    zone,
    accelerator,
    pricing,
    runtimeVersion,
    pricePerHour,
    ...(topology === undefined ? {} : { topology }),
  };
  return [own, ...(spec.alternatives ?? [])];
}

export function placeCount(capacity: CapacitySpec): number {
  return capacity.kind === 'tpu' ? 1 + (capacity.alternatives?.length ?? 0) : 1;
}

/** The capacity to request at that place: the spec with the place's own values; the spec itself for a number it does not have. */
export function capacityAt(capacity: TpuSpec, place: number): TpuSpec;
export function capacityAt(capacity: CapacitySpec, place: number): CapacitySpec;
export function capacityAt(capacity: CapacitySpec, place: number): CapacitySpec {
  if (capacity.kind !== 'tpu' || place === 0) return capacity;
  const at = capacity.alternatives?.[place - 1];
  if (at === undefined) return capacity;
  // A wiring belongs to the type that it was written for.
  const { topology: _own, ...rest } = capacity;
  return { ...rest, ...at };
}
