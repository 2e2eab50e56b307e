// Worker access: a user's commands, copies, forwarded ports and logins on a job's workers. Jobman neither records nor
// repeats them; they last as long as the command that uses them.

import type { Duplex } from 'node:stream';
import { lastAllocation, type Allocation, type Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { exitCode, JobmanError } from './errors.ts';
import type { AllocationRef } from './ports.ts';

/** `line` is for the account's own shell, as with ssh; `argv` reaches one program unchanged. */
export type Program =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'argv'; readonly argv: readonly string[] };

export interface SessionRequest {
  readonly program: Program;
  readonly environment: 'host' | 'container';
  readonly hasInput: boolean;
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
  /** Ends the program and its process group: asks first, kills three seconds later. */
  stop(): void;
  /** Resolves after the last call of `onBytes`. Never rejects because of the worker. */
  readonly ended: Promise<SessionEnd>;
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

/** Closing it ends everything under way. */
export interface WorkerAccess {
  readonly workers: readonly number[];
  readonly allocation: number;
  start(worker: number, request: SessionRequest): Session;
  put(worker: number, request: CopyRequest): Promise<CopyEnd>;
  get(worker: number, request: CopyRequest): Promise<CopyEnd>;
  /** Connects to the worker's own loopback address. `isReached`: the worker itself answered. */
  tunnel(worker: number, port: number): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }>;
  sshHosts(): Promise<readonly SshHost[]>;
  close(): void;
}

/** Throws JobmanError if the job has no machines now. */
export function requireMachines(job: Job): Allocation {
  const { id, spec, finish } = job;
  if (spec.capacity.kind === 'local')
    throw new JobmanError(
      `Job ${id} is a local job: it runs on this machine and has no remote workers.`,
      exitCode.usage,
    );
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

export function requireWorker(ref: AllocationRef, worker: number): AllocationRef & { readonly worker: WorkerId } {
  const count = ref.allocation.hosts?.length ?? 0;
  if (worker >= count) throw workerNotFound(ref.job.id, worker, count);
  return { ...ref, worker };
}

export function workerNotFound(id: string, worker: number, count: number): JobmanError {
  const has = count === 1 ? 'its only worker is 0' : `its workers are 0 to ${count - 1}`;
  return new JobmanError(`Job ${id} has no worker ${worker}; ${has}.`, exitCode.usage);
}
