// Worker access: a user's commands, copies, forwarded ports and logins on a job's workers. The client gives a ticket, which
// says how to reach them, and the terminal connects. Jobman neither records nor repeats what the user does there; it lasts
// as long as the command that uses it.

import type { Duplex } from 'node:stream';
import { lastAllocation, type Allocation, type Job } from '../core/model/job.ts';
import { isOnThisMachine, type SecretRef } from '../core/model/spec.ts';
import type { OnBehalf } from './client.ts';
import { exitCode, JobmanError, messageOf } from './errors.ts';
import type { AllocationRef } from './ports.ts';

/** A reference to a private key, with the job that it belongs to. */
export interface LoginKey {
  readonly job: Pick<Job, 'id' | 'owner'>;
  readonly secret: SecretRef;
}

/** The login to one worker over SSH, without secrets. */
export interface WorkerLogin {
  readonly worker: number;
  readonly host: string;
  /** Null: as the terminal's ssh_config says. */
  readonly port: number | null;
  readonly user: string | null;
  /** The private key, which the terminal must have: null for the key of jobman, or the user's own keys of a host. */
  readonly privateKey: LoginKey | null;
  /** The name under which the terminal pins the host key. A recreated worker has another. */
  readonly pinName: string;
  /** The worker must show one of these keys (`type base64`). If empty, the first key is pinned. */
  readonly hostKeys: readonly string[];
  /** True if the terminal's ssh_config applies: a jump host, a tunnel. */
  readonly usesUserConfig: boolean;
  /** For a machine that jobman did not create: the command that adds the user's own key to it. */
  readonly addKey: string | null;
  /** The user's own machine: the terminal's known_hosts must have its key, and nothing is pinned. */
  readonly verifiesKnownHosts?: true;
}

export interface TicketOptions extends OnBehalf {
  /** Includes the login to each worker, which may need a request to the cloud. */
  readonly logins?: boolean;
  /** The worker that the client uses now, and the port of a connection. The audit log records both. */
  readonly use?: { readonly worker: number; readonly port?: number };
}

/** The way to the workers of a job, for a program that connects by itself. */
export interface WorkerTicket {
  readonly job: string;
  readonly allocation: number;
  /** The number of workers. */
  readonly workers: number;
  /** The label of the container of the job's command; null if it runs in none. */
  readonly container: string | null;
  /** In worker order, if asked for. A worker without a known address has a reason instead. */
  readonly logins: readonly (WorkerLogin | { readonly worker: number; readonly problem: string })[] | null;
}

/** The ways to the workers, for tickets. */
export interface WorkerRoutes {
  /** Rejects in a copied home whose original still exists: it must not change machines. */
  requireOriginal(): Promise<void>;
  /** Rejects with a sentence if the worker cannot be reached now. */
  login(ref: AllocationRef, worker: number): Promise<WorkerLogin>;
  /** Over the connections of this process, which it makes on demand. Rejects as `login`. */
  connect(ref: AllocationRef, worker: number): Promise<WorkerConnection>;
  /** Removes the job's run folders from other machines. A reason for each machine that keeps its folder. */
  removeRunFolders(ref: AllocationRef): Promise<readonly string[]>;
}

/** Throws JobmanError if the job has no workers now. */
export async function workerTicket(
  routes: WorkerRoutes,
  job: Job,
  options: Pick<TicketOptions, 'logins'>,
): Promise<WorkerTicket> {
  await routes.requireOriginal();
  const ref = { job, allocation: requireMachines(job) };
  const workers = (ref.allocation.hosts ?? []).map((_, worker) => worker);
  return {
    job: job.id,
    allocation: ref.allocation.ordinal,
    workers: workers.length,
    container: job.spec.steps.some(({ name }) => name === 'docker') ? containerLabel(job) : null,
    logins:
      options.logins === true
        ? await Promise.all(
            workers.map((worker) =>
              routes.login(ref, worker).catch((error: unknown) => ({ worker, problem: messageOf(error) })),
            ),
          )
        : null,
  };
}

export function containerLabel({ installation, id }: Job): string {
  return `${installation}/${id}`;
}

/** `line` is for the account's own shell, as with ssh; `argv` reaches one program unchanged. */
export type Program =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'argv'; readonly argv: readonly string[] };

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface SessionRequest {
  readonly program: Program;
  readonly environment: 'host' | 'container';
  readonly hasInput: boolean;
  /** The program gets a terminal of this size: keys are its input, and all its output is standard output. */
  readonly terminal?: TerminalSize | null;
  /** Receives all output, in order within each stream. Reading pauses until the promise resolves. */
  readonly onBytes: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void | Promise<void>;
}

export type SessionEnd =
  /** One of the two is null. `signal` is without SIG: `KILL`. */
  | { readonly kind: 'ended'; readonly exitCode: number | null; readonly signal: string | null }
  /** The worker was unreachable or the connection broke. `mayHaveRun` is false if the program surely did not run. */
  | {
      readonly kind: 'unreachable';
      readonly reason: string;
      readonly mayHaveRun: boolean;
      /** Set if a right is missing, so that the cluster would refuse for every pod. */
      readonly refusal?: JobmanError;
    };

export function sessionNotOpened(error: JobmanError, isForbidden: boolean): SessionEnd {
  const reason = [error.message, ...error.lines].join(' ');
  return { kind: 'unreachable', reason, mayHaveRun: false, ...(isForbidden ? { refusal: error } : {}) };
}

/** One program on one worker. A lost connection ends the program as `stop` does. */
export interface Session {
  /** Resolves when more may be written. Does nothing after the session's end. */
  write(bytes: Uint8Array): Promise<void>;
  end(): void;
  /** Of its terminal, if it has one. */
  resize(size: TerminalSize): void;
  /** Ends the program and its process group: asks first, kills three seconds later. A terminal is hung up. */
  stop(): void;
  /** Resolves after the last call of `onBytes`. Never rejects because of the worker. */
  readonly ended: Promise<SessionEnd>;
}

/** A session whose start is still pending; calls are passed on in order. */
export function deferSession(pending: Promise<Session>): Session {
  let isStopped = false;
  // All calls use one `then`, so that none overtakes another. A failure is part of the session's end.
  const later = (call: (session: Session) => void | Promise<void>): Promise<void> =>
    pending.then(call).catch(() => undefined);
  const problem = (error: unknown): SessionEnd =>
    error instanceof JobmanError
      ? sessionNotOpened(error, ['forbidden', 'unauthenticated'].includes(error.errorCode))
      : { kind: 'unreachable', reason: messageOf(error), mayHaveRun: false };
  const bug = (error: unknown): SessionEnd => ({ kind: 'unreachable', reason: messageOf(error), mayHaveRun: true });
  return {
    write: (bytes) => later((session) => session.write(bytes)),
    end: () => void later((session) => session.end()),
    resize: (size) => void later((session) => session.resize(size)),
    stop() {
      if (isStopped) return;
      isStopped = true;
      void later((session) => session.stop());
    },
    ended: pending.then((session) => session.ended.catch(bug), problem),
  };
}

export type CopyEnd =
  /** `bytes`: total of all files. `skipped`: number of device nodes, FIFOs and sockets, which are not copied. */
  | { readonly kind: 'done'; readonly path: string; readonly bytes?: number; readonly skipped?: number }
  /** `conflict`: another file or folder is at the target; `missing`: no source, or no folder for the target. */
  | { readonly kind: 'failed'; readonly cause: 'conflict' | 'missing' | 'failed'; readonly reason: string }
  | { readonly kind: 'unreachable'; readonly reason: string };

export interface CopyRequest {
  /** A file or a folder. On a worker, relative paths and `~/` begin at the login folder. */
  readonly from: string;
  /** An existing folder to copy into, or the new path; with a slash at its end a folder, created if needed. */
  readonly to: string;
  readonly replace: boolean;
  readonly onProgress: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** Options of ssh_config(5) in order, each with its value as written there. */
export interface SshHost {
  readonly worker: number;
  readonly host: string;
  readonly options: readonly (readonly [name: string, value: string])[];
}

/** A connection to a port, or the reason why there is none. `isReached`: the worker itself answered. */
export type Tunnel = Duplex | { readonly problem: string; readonly isReached: boolean };

/** One worker, as a process sees it that can connect to it. */
export interface WorkerConnection {
  start(request: SessionRequest): Session;
  /** To a port of the worker's own loopback address. */
  tunnel(port: number): Promise<Tunnel>;
}

/** The system's ssh, with the keys of this machine. */
interface SystemSsh {
  hosts(): Promise<readonly SshHost[]>;
  /** The argv for a shell on that worker. Throws JobmanError if the worker cannot be reached. */
  argv(worker: number, command: readonly string[]): Promise<readonly string[]>;
}

/** Closing it ends everything under way. */
export interface WorkerAccess {
  readonly ticket: WorkerTicket;
  start(worker: number, request: SessionRequest): Session;
  put(worker: number, request: CopyRequest): Promise<CopyEnd>;
  get(worker: number, request: CopyRequest): Promise<CopyEnd>;
  tunnel(worker: number, port: number): Promise<Tunnel>;
  /** Null through a server, whose keys never leave it. */
  readonly ssh: SystemSsh | null;
  close(): void;
}

/** Throws JobmanError if the job has no machines now. */
export function requireMachines(job: Job): Allocation {
  const { id, spec, finish } = job;
  if (isOnThisMachine(spec))
    throw new JobmanError(`Job ${id} is a local job and has no remote workers.`, exitCode.usage);
  const allocation = lastAllocation(job);
  const isUsable = allocation?.goneAt === null && allocation.releasedAt === null && allocation.hosts !== null;
  if (isUsable) return allocation;
  throw new JobmanError(
    finish === null
      ? `Job ${id} has no workers yet. Explain: jobman why ${Number(id)}`
      : `Job ${id} has finished (${finish.verdict}) and has no workers. Resume: jobman resume ${Number(id)}`,
    exitCode.conflict,
  );
}

/** Throws JobmanError if the job has no worker of that number. */
export function requireWorker(job: string, worker: number, count: number): void {
  if (worker < count) return;
  const has = count === 1 ? 'its only worker is 0' : `its workers are 0 to ${count - 1}`;
  throw new JobmanError(`Job ${job} has no worker ${worker}; ${has}.`, exitCode.usage);
}
