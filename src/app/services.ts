// Services: what the terminal may ask of the rest of the program. Every part is loaded when it is first used.

import type { Job } from '../core/job.ts';
import type { OutcomeResult } from '../core/observation.ts';
import type { JobSpec } from '../core/spec.ts';
import type { WorkerDoor } from './by-hand.ts';
import type { Client } from './client.ts';
import type { ImagePort } from './images.ts';
import type { BucketPort, StepByHand } from './ports.ts';
import type { ClusterKeeper } from './cluster/client.ts';
import type { Cluster, ClusterOptions } from './cluster/cluster.ts';
import type { ClusterSettingsRead } from './cluster/settings.ts';
import type { Settings, SettingsFiles } from './settings.ts';
import type { StepPlan } from './setup-by-hand.ts';
import type { StrayKeeper } from './strays.ts';
import type { TpuList, TpuQuery } from './tpus.ts';

/** The streams and facts of the process, handed down from main.ts, the only file that touches `process`. */
export interface Io {
  readonly stdout: Stream;
  readonly stderr: Stream;
  readonly stdin: Input;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The login name that jobs are owned by, from the system and not from the environment. */
  readonly user: string;
  readonly userHome: string;
  readonly pid: number;
  /** Absolute path of the launcher that started this program, to start it again (controller, cloud). */
  readonly launcher: readonly string[];
  readonly version: string;
  /** Calls back on SIGINT (and SIGTERM, SIGHUP for servers) until the returned function is called. */
  onSignal(call: (signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') => void): () => void;
  /** Calls back when the program ends in any way, for putting the terminal right; until the returned function is called. */
  atExit(call: () => void): () => void;
  now(): number;
}

export interface Stream {
  write(text: string | Uint8Array): void;
  /** Resolves when what was written is out; used where much is written. */
  flush(): Promise<void>;
  readonly isTerminal: boolean;
  /** Columns and rows of the terminal now; 80 by 24 where there is none. */
  size(): { readonly columns: number; readonly rows: number };
  onResize(call: () => void): () => void;
  /** True once the reader has gone away (EPIPE): stop writing. */
  readonly closed: boolean;
  /** Notices within seconds that the reader has gone, also where nothing is written; until the returned function is called. */
  watchReader(): () => void;
}

export interface Input {
  readonly isTerminal: boolean;
  /** One line, without its end; null at the end of input, and when a signal that the command hears itself (`onSignal`) comes first. */
  line(): Promise<string | null>;
  /** All bytes as they come, for a program elsewhere, until the input ends or the signal is aborted. Nothing else reads then. */
  bytes(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Calls back with each key, unseen. Ctrl-C is a key then (`\u0003`); coming back from Ctrl-Z is an empty text. */
  keys(call: (typed: string) => void): () => void;
  /** Every key is handed on by `bytes` as it is typed, and output reaches the screen as it is, for a terminal elsewhere. */
  raw(): Promise<() => void>;
}

export interface ControllerStatus {
  readonly running: boolean;
  readonly pid: number | null;
  readonly version: string | null;
  readonly startedAt: number | null;
  readonly log: string;
}

export interface ControllerService {
  /** In the foreground; resolves with the exit code. `idleExitMs` null is without limit, absent: as the settings say. */
  run(options: { readonly idleExitMs?: number | null }): Promise<number>;
  /** In the background; resolves when it answers. Says whether it was there already. */
  start(): Promise<{ readonly started: boolean; readonly pid: number }>;
  stop(): Promise<{ readonly stopped: boolean }>;
  status(): Promise<ControllerStatus>;
  /** Has a running controller notice changed settings now, instead of at its next renewal. */
  reload(): Promise<void>;
  /** Makes it outlive logout and reboot; answers what was installed and how to undo it, or throws a clear refusal. */
  install(): Promise<string>;
  uninstall(): Promise<string>;
}

export interface CloudView {
  readonly speed: number;
  readonly sshPort: number;
  readonly tpus: readonly CloudTpu[];
  /** Conditions that were laid on it and stand, each in its own words: `stockout us-central2-b, for 10m`. */
  readonly inForce: readonly string[];
  readonly raw: Readonly<Record<string, unknown>>;
}

/** A node, a queued resource that has none (yet), or the two together. States are Google's words. */
export interface CloudTpu {
  readonly name: string;
  readonly zone: string;
  readonly type: string;
  readonly node: string | null;
  readonly queued: string | null;
  readonly workers: readonly ('runs' | 'hangs' | 'is dead' | 'reboots' | 'refuses SSH' | 'has a full disk')[];
  readonly job: string | null;
  readonly createdAt: number;
}

export interface EmulatorService {
  serve(options: {
    readonly port?: number;
    readonly sshPort?: number;
    readonly seed?: number;
    readonly speed?: number;
    readonly state?: string;
    readonly hosts?: 'process' | 'sshd';
    readonly gcsfuse?: string;
    readonly schedule?: string;
    /** How long it stays while it is empty and unasked, in milliseconds; for ever without it. */
    readonly idleExitMs?: number;
  }): Promise<number>;
  start(): Promise<{ readonly started: boolean; readonly url: string }>;
  stop(): Promise<{ readonly stopped: boolean }>;
  status(): Promise<{
    readonly running: boolean;
    readonly url: string | null;
    readonly pid: number | null;
    readonly cloud: CloudView | null;
  }>;
  /** One admin verb; answers what happened. Starts a cloud that does not run. Throws JobmanError. */
  act(verb: string, target: string | undefined, options: Readonly<Record<string, string>>): Promise<string>;
}

/** Goes through a setup step on one worker after another person's word, not the core's; see app/setup-by-hand.ts. */
export interface StepRunner {
  run(worker: number, plan: StepPlan, byHand: StepByHand): Promise<OutcomeResult>;
  close(): void;
}

export interface Services {
  readonly io: Io;
  readonly home: string;
  settings(): Promise<Settings>;
  /** The files that settings are read from; others than the home's own may not be there. */
  settingsFiles(): SettingsFiles;
  /** Reads that file, absolute, above the others; to be said before anything asks for settings. */
  useSettings(path: string): void;
  /** The settings of Kubernetes jobs. Throws JobmanError with every problem of the files. */
  clusterSettings(): Promise<ClusterSettingsRead>;
  /** The mark of this record; null where there is none yet. Reads only. */
  installation(): Promise<string | null>;
  /** The cluster of the options, the settings and the kubeconfig; to be closed after use. Throws JobmanError when none is named. */
  cluster(options: ClusterOptions): Promise<Cluster>;
  /** Whether commands ask a cluster in addition to the record. Reads files only. */
  usesCluster(): Promise<boolean>;
  hasSubmitted(): boolean;
  /** What is kept here of clusters' jobs. Opens nothing yet. */
  keeper(): Promise<ClusterKeeper>;
  /** The images of the registry that the settings name; to be closed after use. Throws JobmanError when they name none. */
  images(): Promise<ImagePort>;
  /** A sentence about a newer version that was seen before, or null. Starts the next check as a process of its own when it is due. */
  newerVersion(): Promise<string | null>;
  /** Looks for a newer version where the settings say, and writes down what was found: that process. */
  lookForVersion(): Promise<void>;
  client(): Promise<Client>;
  controller(): Promise<ControllerService>;
  emulator(): Promise<EmulatorService>;
  /** The TPUs in the clouds that the settings, the jobs and the query name. Throws JobmanError when nothing names a project. */
  tpus(query: TpuQuery): Promise<TpuList>;
  /** Resolves when this machine can log in to the cloud of that job. Throws JobmanError (5); its sentence begins with `undone`. */
  checkLogin(spec: JobSpec, undone: string): Promise<void>;
  /** Makes `tpus` and `gc` stop asking about a project that only finished jobs used. Throws JobmanError (4) where it is in use. */
  forgetProject(project: string, mayForget: (resources: readonly string[]) => Promise<boolean>): Promise<boolean>;
  /** Where the buckets of that project's jobs are. With `coming`, a built-in cloud that does not run is started for it. */
  buckets(
    project: string,
    coming?: { readonly spec: JobSpec; readonly say: (sentence: string) => void },
  ): Promise<BucketPort>;
  /** Throws the JobmanError with which `create` would refuse to copy that folder (`job.workdir`): its size, what git says of it. */
  checkWorkdir(from: string): Promise<void>;
  /** The strays of this record; to be closed after use. */
  strays(): Promise<StrayKeeper>;
  /** The workers of a job that has machines now; `shared`: over the controller's connections. Throws JobmanError when it has none. */
  workers(id: string, way: 'shared' | 'own'): Promise<WorkerDoor>;
  /** The one who goes through setup steps for a person, on the machines of that job; to be closed after use. */
  stepRunner(job: Job): Promise<StepRunner>;
  /** The argv of the system's ssh for a shell on that worker. Throws JobmanError when it cannot be reached. */
  sshArgv(id: string, worker: number, command: readonly string[]): Promise<readonly string[]>;
  /** Runs a program on this terminal with its streams, for `ssh`; resolves with its exit code. */
  onTerminal(argv: readonly string[]): Promise<number>;
}
