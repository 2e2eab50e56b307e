// Services: what the terminal may ask of the rest of the program. `wiring/services.ts` builds it; the terminal never imports the
// store, the backends or the controller. Every part is loaded when it is first asked for, so that a read loads little.

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
  /**
   * Calls back when the program ends, however it does: in order, by an error, or by a signal that nobody listens to. For
   * putting the terminal right, and nothing that waits. Until the returned function is called.
   */
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
  /**
   * Has `closed` become true within seconds also where nothing is written, as far as the system can tell, until the returned function
   * is called. For commands that wait for changes.
   */
  watchReader(): () => void;
}

export interface Input {
  readonly isTerminal: boolean;
  /** One line, without its end; null at the end of input, and when a signal that the command hears itself (`onSignal`) comes first. */
  line(): Promise<string | null>;
  /** All bytes as they come, for a program elsewhere, until the input ends or the signal is aborted. Nothing else reads then. */
  bytes(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Calls back with what is typed, key by key and unseen, until the returned function is called. Ctrl-C is a key then
   * (`\u0003`) and no signal. Ctrl-Z rests the program as ever; coming back is told as an empty text.
   */
  keys(call: (typed: string) => void): () => void;
  /**
   * Every key is handed on by `bytes` as it is typed, Ctrl-C and Ctrl-Z too, and what is printed reaches the screen as it is,
   * for a terminal elsewhere; until the returned function is called. For a terminal only.
   */
  raw(): Promise<() => void>;
}

export interface ControllerStatus {
  readonly running: boolean;
  readonly pid: number | null;
  readonly version: string | null;
  readonly startedAt: number | null;
  readonly log: string;
}

/** All of the controller's life as a process. */
export interface ControllerService {
  /**
   * In the foreground, until a signal or until nothing is left to watch; resolves with the exit code. Without `idleExitMs` the
   * settings say how long it stays with nothing to do; null is without limit.
   */
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

/** The content of the built-in cloud at one moment. */
export interface CloudView {
  /** How many times faster than Google's things happen. */
  readonly speed: number;
  /** The port that all workers share. */
  readonly sshPort: number;
  readonly tpus: readonly CloudTpu[];
  /** Conditions that were laid on it and stand, each in its own words: `stockout us-central2-b, for 10m`. */
  readonly inForce: readonly string[];
  /** Everything, as the cloud itself tells it. */
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
  /** The id of the job that asked for it; null when it was no job of jobman. */
  readonly job: string | null;
  readonly createdAt: number;
}

/** The built-in cloud as a process, and its temper. */
export interface EmulatorService {
  serve(options: {
    readonly port?: number;
    readonly sshPort?: number;
    readonly seed?: number;
    readonly speed?: number;
    readonly state?: string;
    readonly hosts?: 'process' | 'sshd';
    /** The path of Google's gcsfuse, for its workers. */
    readonly gcsfuse?: string;
    /** A rehearsal file. */
    readonly schedule?: string;
    /** How long it stays while it is empty and unasked, in milliseconds; for ever without it. */
    readonly idleExitMs?: number;
  }): Promise<number>;
  start(): Promise<{ readonly started: boolean; readonly url: string }>;
  stop(): Promise<{ readonly stopped: boolean }>;
  /** `cloud` is null while it does not run. */
  status(): Promise<{
    readonly running: boolean;
    readonly url: string | null;
    readonly pid: number | null;
    readonly cloud: CloudView | null;
  }>;
  /**
   * One admin verb (`preempt`, `stockout`, …) with its target and options; answers what happened. A cloud that does not
   * run is started for it. Throws JobmanError.
   */
  act(verb: string, target: string | undefined, options: Readonly<Record<string, string>>): Promise<string>;
}

/** Goes through a setup step on one worker after another person's word, not the core's; see app/setup-by-hand.ts. */
export interface StepRunner {
  run(worker: number, plan: StepPlan, byHand: StepByHand): Promise<OutcomeResult>;
  close(): void;
}

export interface Services {
  readonly io: Io;
  /** `$JOBMAN_HOME`, absolute. */
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
  /**
   * The cluster that the options, the settings and the kubeconfig name; to be closed after use. Nothing of Kubernetes is
   * loaded before. Throws JobmanError when none is named.
   */
  cluster(options: ClusterOptions): Promise<Cluster>;
  /**
   * Whether a cluster is in use here, for commands that ask it beside the record: KUBECONFIG is set, the settings say where it
   * is, one was submitted from here before; or a settings file of one's own speaks of Kubernetes jobs, and a kubeconfig is
   * there. Looks at files only.
   */
  usesCluster(): Promise<boolean>;
  /** True once a job was submitted to a cluster from this home. */
  hasSubmitted(): boolean;
  /** What is kept here of clusters' jobs. Opens nothing yet. */
  keeper(): Promise<ClusterKeeper>;
  /** The images of the registry that the settings name; to be closed after use. Throws JobmanError when they name none. */
  images(): Promise<ImagePort>;
  /**
   * A sentence about a newer version that was seen before, for the end of a command; null where there is none. Where it is time
   * to look again a process of its own begins to. Never rejects, and waits for nobody.
   */
  newerVersion(): Promise<string | null>;
  /** Looks for a newer version where the settings say, and writes down what was found: that process. */
  lookForVersion(): Promise<void>;
  client(): Promise<Client>;
  controller(): Promise<ControllerService>;
  emulator(): Promise<EmulatorService>;
  /** The TPUs in the clouds that the settings, the jobs and the query name. Throws JobmanError when nothing names a project. */
  tpus(query: TpuQuery): Promise<TpuList>;
  /**
   * Resolves when this machine can log in to the cloud of that job, or when the job needs no login. Throws JobmanError (5) with
   * the command that logs in; the sentence begins with `undone`. Sends no request to a cloud.
   */
  checkLogin(spec: JobSpec, undone: string): Promise<void>;
  /**
   * Makes `tpus` and `gc` stop asking about a project that only finished jobs used. `mayForget` is asked about resources that are
   * recorded as left behind there; false when it says no, and nothing has changed then. Throws JobmanError (4) where a job or a
   * setting still uses the project.
   */
  forgetProject(project: string, mayForget: (resources: readonly string[]) => Promise<boolean>): Promise<boolean>;
  /**
   * Where the buckets of that project's jobs are. A built-in cloud that does not run cannot be asked, unless a job that is
   * about to be created wants it anyway (`coming`): then it is started first, and `say` is told so.
   */
  buckets(
    project: string,
    coming?: { readonly spec: JobSpec; readonly say: (sentence: string) => void },
  ): Promise<BucketPort>;
  /** Throws the JobmanError with which `create` would refuse to copy that folder (`job.workdir`): its size, what git says of it. */
  checkWorkdir(from: string): Promise<void>;
  /** The strays of this record; to be closed after use. */
  strays(): Promise<StrayKeeper>;
  /**
   * The workers of a job that has machines now. `shared` goes over the controller's connections where it has a controller,
   * so that nothing has to be opened; what is long or large has connections of its own. Throws JobmanError when the job has
   * no machines now, or none to log in to.
   */
  workers(id: string, way: 'shared' | 'own'): Promise<WorkerDoor>;
  /** The one who goes through setup steps for a person, on the machines of that job; to be closed after use. */
  stepRunner(job: Job): Promise<StepRunner>;
  /** The argv of the system's ssh for a shell on that worker. Throws JobmanError when it cannot be reached. */
  sshArgv(id: string, worker: number, command: readonly string[]): Promise<readonly string[]>;
  /** Runs a program on this terminal with its streams, for `ssh`; resolves with its exit code. */
  onTerminal(argv: readonly string[]): Promise<number>;
}
