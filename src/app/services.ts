// Services: the parts of the program that the terminal can use. Every part is loaded at its first use.

import type { SecretName } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { WorkerAccess } from './worker-access.ts';
import type { Client, Ref } from './client.ts';
import type { CheckResult } from './doctor.ts';
import type { HeldTpus } from './held-tpus.ts';
import type { ClusterSubmissions } from './cluster/commands.ts';
import type { Cluster, ClusterOptions } from './cluster/cluster.ts';
import type { Meter } from './meter.ts';
import type { LoadedClusterSettings } from './cluster/settings.ts';
import type { ServerLogin } from './oidc-logins.ts';
import type { Context, Contexts, ServerInUse } from './server-in-use.ts';
import type { Settings, SettingsFiles } from './settings.ts';
import type { UploadedWorkdir } from './workdir.ts';

/** The streams and facts of the process. Only main.ts touches `process`. */
export interface Io {
  readonly stdout: Stream;
  readonly stderr: Stream;
  readonly stdin: Input;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The login name: from the system, not from the environment. `Services.actor` has the user. */
  readonly user: string;
  /** The user id of the process. */
  readonly uid: number;
  readonly userHome: string;
  readonly pid: number;
  /** Absolute path of the launcher of this program, used to start the controller and the emulator. */
  readonly launcher: readonly string[];
  readonly version: string;
  /** Calls back on SIGINT, SIGTERM and SIGHUP until the returned function is called. */
  onSignal(call: (signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') => void): () => void;
  /**
   * Calls back on an error that no code has caught, until the returned function is called. If it returns false, the process ends
   * as without it. `isThrown`: the error was thrown in an event, and is not a rejection.
   */
  onUncaught(call: (error: unknown, isThrown: boolean) => boolean): () => void;
  /** Calls back on every kind of exit, to restore the terminal, until the returned function is called. */
  atExit(call: () => void): () => void;
  now(): number;
  /** Of this process: its memory, the part of it that objects use, and its processor time so far. */
  resourceUsage(): { readonly residentBytes: number; readonly heapBytes: number; readonly cpuSeconds: number };
}

export interface Stream {
  write(text: string | Uint8Array): void;
  flush(): Promise<void>;
  readonly isTerminal: boolean;
  /** 80 by 24 without a terminal. */
  size(): { readonly columns: number; readonly rows: number };
  onResize(call: () => void): () => void;
  /** True after the reader has closed its end (EPIPE): stop writing. */
  readonly closed: boolean;
  /** Detects a closed reader within seconds, even without writes, until the returned function is called. */
  watchReader(): () => void;
}

export interface Input {
  readonly isTerminal: boolean;
  /** One line without its end; null at the end of input or when a signal of `onSignal` comes first. */
  line(): Promise<string | null>;
  /** All bytes as they arrive, for a remote program, until the end or the signal. Nothing else may read then. */
  bytes(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Calls back with each key, without echo. Ctrl-C is then a key (`\u0003`). Ctrl-Z (`\u001a`) is reported before it
   * suspends the program, and the return from it as an empty text.
   */
  keys(call: (typed: string) => void): () => void;
  /** For a remote terminal: `bytes` yields every key as it is typed, and output reaches the screen unchanged. */
  raw(): Promise<() => void>;
}

export interface ControllerStatus {
  readonly running: boolean;
  readonly pid: number | null;
  readonly version: string | null;
  /** True if it is part of a running `jobman server`. */
  readonly isServer: boolean;
  /** True if it knows an older version of the database than this program. The next command that needs it replaces it. */
  readonly isOutdated: boolean;
  readonly startedAt: Instant | null;
  /** The database that it works for if it is not the one of this command; else null. */
  readonly otherDatabase: string | null;
  /** Time of its last sign of life if that is too long ago; null if it answers. */
  readonly silentSinceAt: Instant | null;
  /** The machine of the controller that runs the jobs if it is not this one, which waits meanwhile; else null. */
  readonly waitsFor: string | null;
  /** A server writes its log to standard error instead. */
  readonly logFile: string;
}

export interface ControllerService {
  /** Runs in the foreground; resolves with the exit code. `idleExitMs`: null for no limit, absent for the setting. */
  run(options: {
    readonly idleExitMs?: number | null;
    readonly isServer?: boolean;
    readonly meter?: Meter;
  }): Promise<number>;
  start(): Promise<{ readonly started: boolean; readonly pid: number }>;
  stop(): Promise<{ readonly stopped: boolean }>;
  status(): Promise<ControllerStatus>;
  /** TPUs of the jobs and orphans in the store; null for none, or if the store cannot be read. */
  held(): Promise<HeldTpus | null>;
  /** Makes a running controller read changed settings now instead of at its next lease renewal. */
  reload(): Promise<void>;
  /** Makes the controller survive logout and reboot. Returns what it installed and how to undo it. */
  install(): Promise<string>;
  uninstall(): Promise<string>;
}

/** Two tables with the same digest have the same rows, whatever their order and the kind of their database. */
export interface TableContents {
  readonly name: string;
  /** The number of rows. */
  readonly rows: number;
  /** The sum of the SHA-256 of all rows. */
  readonly digest: string;
}

/** The contents of a backup. */
export interface BackupContents {
  /** The absolute path of the backup. */
  readonly file: string;
  /** The number of jobs. */
  readonly jobs: number;
  /** The number of files of the home. */
  readonly files: number;
  /** Of the files of the home. */
  readonly bytes: number;
  /** Secrets of the home that the backup does not contain. */
  readonly secretsLeftOut: number;
  /** All tables of the database. */
  readonly tables: readonly TableContents[];
}

/** Each method throws JobmanError, and changes nothing then. */
export interface BackupService {
  /** `size`: of the backup, in bytes. `schema`: the version of the database. */
  save(
    file: string,
    options: { readonly withSecrets: boolean },
  ): Promise<BackupContents & { readonly size: number; readonly schema: number }>;
  restore(file: string): Promise<BackupContents & { readonly createdAt: Instant }>;
  /** Null if the database is open already. `lastId`: new jobs get later ids. */
  takeOver(): Promise<{ readonly lastId: string } | null>;
}

export interface EmulatorStatus {
  readonly running: boolean;
  readonly url: string | null;
  readonly pid: number | null;
  /** Relative to Google's cloud; null while it does not run. */
  readonly speed: number | null;
  readonly sshPort: number | null;
  readonly tpus: readonly EmulatorTpu[];
  /** Faults in force, for people. */
  readonly activeFaults: readonly string[];
}

/** A node, a queued resource without a node, or both together. The states are Google's names. */
export interface EmulatorTpu {
  readonly name: string;
  readonly zone: string;
  readonly accelerator: string;
  readonly nodeState: string | null;
  readonly queuedResourceState: string | null;
  readonly workers: readonly ('running' | 'hung' | 'dead' | 'rebooting' | 'ssh_refused' | 'disk_full')[];
  readonly job: string | null;
  readonly createdAt: Instant;
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
    /** Time without TPUs and requests after which the emulator exits, in milliseconds; without it, it never exits. */
    readonly idleExitMs?: number;
  }): Promise<number>;
  start(): Promise<{ readonly started: boolean; readonly url: string }>;
  stop(): Promise<{ readonly stopped: boolean }>;
  status(): Promise<EmulatorStatus>;
  /** Returns what happened. Starts the emulator if it does not run. Throws JobmanError. */
  act(verb: string, target: string | undefined, options: Readonly<Record<string, string>>): Promise<string>;
}

export interface ServerChoice {
  /** A context, an address or `local`, before the environment and the current context. */
  readonly named?: string | undefined;
  /** The current context does not count. */
  readonly ignoresCurrent?: boolean;
  /** Called before a request that changes something on the server. */
  readonly beforeChange?: (server: ServerInUse) => void;
  /** Called when a request waits for the server or its database, with the reason. */
  readonly onWait?: (message: string) => void;
}

/** The key of the secrets in the database. Each method throws JobmanError, and may be repeated after a kill. */
export interface SecretKeyService {
  /** Creates the key file if it is missing, and moves the values of files into the database. */
  encrypt(file: string | undefined): Promise<{ readonly keyFile: string; readonly secrets: number }>;
  /** All values that this login can decrypt, so that a report can leave them out. */
  values(): Promise<readonly string[]>;
  /** Encrypts all values with a new key. `keepsOthers`: the previous keys stay in the file, which cannot be written. */
  rotate(): Promise<{
    readonly keyFile: string;
    readonly secrets: number;
    readonly wasInterrupted: boolean;
    readonly keepsOthers: boolean;
  }>;
}

/** Of `jobman server`, instead of the settings in the section `server`. */
export interface ServerFlags {
  /** `HOST:PORT` or a port. */
  readonly listen?: string | undefined;
  readonly tlsCertificate?: string | undefined;
  readonly tlsKey?: string | undefined;
  readonly trustedProxy?: readonly string[] | undefined;
}

/** This machine, for a login at an identity provider. */
export interface LoginMachine {
  readonly name: string;
  /** True if a page that is opened here is probably seen by the person at the terminal. */
  readonly hasBrowser: boolean;
  /** False if no browser could be started. */
  openBrowser(url: string): Promise<boolean>;
}

/** The contexts that this login has stored. Each method throws JobmanError. */
export interface ServerContexts {
  read(): Promise<Contexts>;
  change(change: (contexts: Contexts) => Contexts): Promise<void>;
  /** Refuses what cannot be the address of a server. */
  requireUrl(url: string): void;
  clientOf(server: Pick<Context, 'server' | 'ca'> & { readonly token: string }): Client;
  loginAt(server: Pick<Context, 'server' | 'ca' | 'token'>): ServerLogin;
  readonly machine: LoginMachine;
}

export interface DashboardService {
  /** Without a code: for a browser that has a session. */
  readonly url: string;
  /** An address that begins a session, once. */
  newAddress(): string;
  /** The path of a page that only this user can read and that leads to a new address. `close` removes it. */
  writeOpeningPage(): Promise<string>;
  close(): Promise<void>;
}

export interface Services {
  readonly io: Io;
  readonly home: string;
  /** The server whose client `client` is; null for the home of this machine. Throws JobmanError. */
  server(): Promise<ServerInUse | null>;
  /** Call it before the first use of `server` and `client`. Without it, the environment and the current context count. */
  useServer(choice: ServerChoice): void;
  contexts(): Promise<ServerContexts>;
  settings(): Promise<Settings>;
  settingsFiles(): SettingsFiles;
  /** The first mistake in settings that the command did not need, with its position; null if it read them. */
  unreadMistake(): Promise<string | null>;
  /** Reads that file (an absolute path) above the others. Call it before the first read of settings. */
  useSettings(path: string): void;
  /** Throws JobmanError with every problem of the files. */
  clusterSettings(): Promise<LoadedClusterSettings>;
  /** The cluster of the options, settings and kubeconfig. The caller closes it. Throws JobmanError without one. */
  cluster(options: ClusterOptions): Promise<Cluster>;
  /** True if commands query a cluster in addition to the database. Reads files only. */
  isClusterConfigured(): Promise<boolean>;
  /** Opens no file yet. */
  clusterSubmissions(): Promise<ClusterSubmissions>;
  /** A sentence about a newer version already found, or null. Starts a due check in a separate process. */
  newerVersion(): Promise<string | null>;
  /** The body of that separate process: checks the configured source and stores the result. */
  checkVersion(): Promise<void>;
  client(): Promise<Client>;
  controller(): Promise<ControllerService>;
  /** Serves the HTTP API and runs the controller in the foreground; resolves with the exit code. Throws JobmanError. */
  serve(flags: ServerFlags): Promise<number>;
  /** Serves the dashboard of this home at a port of 127.0.0.1; 0: a free one. Throws JobmanError. */
  dashboard(port: number): Promise<DashboardService>;
  /** Backups of the home of this machine. */
  backups(): Promise<BackupService>;
  secretKeys(): Promise<SecretKeyService>;
  emulator(): Promise<EmulatorService>;
  /** The checks of `jobman doctor`. Changes and starts nothing. `onChange` gets the names of those that still run. */
  doctor(onChange: (running: readonly string[]) => void): Promise<readonly CheckResult[]>;
  /** Throws the JobmanError with which `create` would refuse to copy that folder (`job.workdir`). */
  checkWorkdir(from: string): Promise<void>;
  /** Stores a copy of that folder through the client. Throws JobmanError. */
  copyWorkdir(from: string): Promise<UploadedWorkdir>;
  /**
   * The value of a secret of that user, by default of this one, for a job in a cluster; null if the server in use adds it.
   * Throws JobmanError without it.
   */
  namedSecret(name: SecretName, owner?: UserName): Promise<Uint8Array | null>;
  /** Connects with the client's ticket. `shared`: over the controller's connections, if it has some. */
  workers(ref: Ref, connection: 'shared' | 'own'): Promise<WorkerAccess>;
  onTerminal(argv: readonly string[]): Promise<number>;
}
