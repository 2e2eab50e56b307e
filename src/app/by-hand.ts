// By hand: what a person does on a job's workers beside the job itself: commands, copies, forwarded ports, logins.
// Nothing of it is recorded or repeated; it lasts as long as the command that asked for it.

import type { Duplex } from 'node:stream';
import { lastAllocation, type Allocation, type Job } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';
import { exitCode, JobmanError } from './errors.ts';
import type { AllocationRef } from './ports.ts';

/** `line` is a text for the account's own shell, as ssh takes it; `argv` reaches one program as it is. */
export type Program =
  | { readonly kind: 'line'; readonly line: string }
  | { readonly kind: 'argv'; readonly argv: readonly string[] };

export interface SessionRequest {
  readonly program: Program;
  /** On the worker itself, or inside the container that the job's command runs in. */
  readonly inside: 'host' | 'container';
  /** Whether the program reads what is written to the session. Without it, its input is empty. */
  readonly receives: boolean;
  /** Receives the output of the program, in order within each stream, nothing left out. While it is awaited no more of it is read. */
  readonly onBytes: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void | Promise<void>;
}

export type SessionEnd =
  /** One of the two is null. The signal is named without SIG: `KILL`. */
  | { readonly kind: 'ended'; readonly exitCode: number | null; readonly signal: string | null }
  /** The worker could not be reached, or the line to it broke. `sent` is false when nothing can have run there. */
  | {
      readonly kind: 'no_answer';
      readonly reason: string;
      readonly sent: boolean;
      /** The cluster refused, as it would for every pod: a right is missing. */
      readonly refusal?: JobmanError;
    };

/** `isForbidden`: a right is missing, for this pod as for every other. */
export function notOpened(error: JobmanError, isForbidden: boolean): SessionEnd {
  const reason = [error.message, ...error.lines].join(' ');
  return { kind: 'no_answer', reason, sent: false, ...(isForbidden ? { refusal: error } : {}) };
}

/** One program on one worker, for as long as somebody listens: a line that breaks ends the program as `stop` does. */
export interface Session {
  /** Resolves when more may be written. Does nothing once the session is over. */
  write(bytes: Uint8Array): Promise<void>;
  end(): void;
  /** Ends the program and what it started in its own process group: asked first, killed three seconds later. */
  stop(): void;
  /** Settles after the last call of `onBytes`; never rejects for what the worker does. */
  readonly ended: Promise<SessionEnd>;
}

export type CopyEnd =
  /** `bytes`: of all files together. `leftOut`: how many device nodes, FIFOs and sockets were not copied. */
  | { readonly kind: 'done'; readonly path: string; readonly bytes?: number; readonly leftOut?: number }
  /** `conflict`: something stands in the way; `missing`: there is nothing to copy, or no folder to copy it to. */
  | { readonly kind: 'failed'; readonly because: 'conflict' | 'missing' | 'failed'; readonly reason: string }
  | { readonly kind: 'no_answer'; readonly reason: string };

export interface CopyRequest {
  /** A file or a folder. On a worker, relative paths begin in the login folder, and `~/` is that folder. */
  readonly from: string;
  /** A folder that is there, to copy into, or the new path; with a slash at its end a folder, which is made if need be. */
  readonly to: string;
  /** Allows a file or folder that is there already to be replaced by the copy. */
  readonly replace: boolean;
  readonly onProgress: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** How the system's ssh reaches one worker: options of ssh_config(5), in order, each with its value as it stands there. */
export interface SshHost {
  readonly worker: number;
  readonly host: string;
  readonly options: readonly (readonly [name: string, value: string])[];
}

/** The workers of a job that has machines now. To be closed after use, which ends what is still under way. */
export interface WorkerDoor {
  readonly workers: readonly number[];
  readonly allocation: number;
  start(worker: number, request: SessionRequest): Session;
  put(worker: number, request: CopyRequest): Promise<CopyEnd>;
  get(worker: number, request: CopyRequest): Promise<CopyEnd>;
  /** A connection to a port of the worker's own loopback address. `isReached` says whether the worker itself answered. */
  tunnel(worker: number, port: number): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }>;
  sshHosts(): Promise<readonly SshHost[]>;
  close(): void;
}

/** The allocation of that job whose machines a person may use now. Throws JobmanError where it has none that is known. */
export function machinesAtHand(job: Job): Allocation {
  const { id, spec, settled } = job;
  if (spec.capacity.kind === 'local')
    throw new JobmanError(`Job ${id} runs on this machine; there is nowhere to log in to.`, exitCode.usage);
  const allocation = lastAllocation(job);
  const isThere = allocation?.goneAt === null && allocation.releasedAt === null && allocation.hosts !== null;
  if (isThere) return allocation;
  throw new JobmanError(
    settled === null
      ? `Job ${id} has no machines now; \`jobman why ${Number(id)}\` says what it waits for.`
      : `Job ${id} has no machines any more: it is over (${settled.verdict}). To go on: jobman resume ${Number(id)}`,
    exitCode.conflict,
  );
}

export function workerAtHand(ref: AllocationRef, worker: number): AllocationRef & { readonly worker: WorkerId } {
  const count = ref.allocation.hosts?.length ?? 0;
  if (worker >= count) throw noSuchWorker(ref.job.id, worker, count);
  return { ...ref, worker };
}

export function noSuchWorker(id: string, worker: number, count: number): JobmanError {
  const has = count === 1 ? 'its only worker is 0' : `its workers are 0 to ${count - 1}`;
  return new JobmanError(`Job ${id} has no worker ${worker}; ${has}.`, exitCode.usage);
}
