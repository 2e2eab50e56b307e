// Errors: one class for all failures that people read, and the exit codes. A message says what happened, to which job,
// and what to do next.
import type { UserName } from '../core/model/user.ts';

export const exitCode = {
  ok: 0,
  failed: 1,
  /** The command line or the manifest is wrong; nothing was changed. */
  usage: 2,
  notFound: 3,
  conflict: 4,
  unreachable: 5,
  interrupted: 130,
} as const;

/** The exit code after a signal, as shells count: 128 and the signal's number. */
export function exitCodeAfter(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP'): number {
  return { SIGHUP: 129, SIGINT: exitCode.interrupted, SIGTERM: 143 }[signal];
}

export type ErrorCode =
  | 'failed'
  | 'usage'
  | 'invalid_manifest'
  | 'not_found'
  | 'conflict'
  /** The job has another revision than the one for which the command was meant. */
  | 'changed'
  | 'confirmation_required'
  /** The role of the user, or the owner of the job, forbids it. */
  | 'forbidden'
  /** There is no token or session, or it does not count. */
  | 'unauthenticated'
  | 'unreachable'
  | 'interrupted';

/** A mistake in a manifest. */
export interface ManifestProblem {
  /** The manifest's path as typed. */
  readonly file: string;
  /** From 1; null if the problem is not in the text (`--set`, or a file that could not be read). */
  readonly line: number | null;
  readonly column: number | null;
  /** `command.workers[1]`; empty for the whole file. */
  readonly key: string;
  readonly message: string;
  /** The known name nearest to the typed one. */
  readonly suggestion: string | null;
  /** The `--set` argument with the problem; null for a problem in the file. */
  readonly set: string | null;
}

/** `train.yaml:3:5: job.name: must not be empty`; may contain control characters of the file. */
export function problemLine({ file, line, column, key, message }: ManifestProblem): string {
  const position = line === null ? '' : `:${line}:${column}`;
  return `${file}${position}: ${key === '' ? '' : `${key}: `}${message}`;
}

interface ErrorDetails extends ErrorOptions {
  /** Without it the exit code decides. */
  readonly errorCode?: ErrorCode;
  readonly problems?: readonly ManifestProblem[];
  readonly reasons?: readonly string[];
  readonly refusedFor?: UserName | null;
  readonly retryAfter?: number | null;
}

/** An expected failure: a message for the user and the exit code. Any other thrown error is a bug. */
export class JobmanError extends Error {
  readonly code: number;
  readonly lines: readonly string[];
  readonly errorCode: ErrorCode;
  /** The mistakes of an invalid manifest; `lines` has them for people. */
  readonly problems: readonly ManifestProblem[];
  /** The reasons for a required confirmation; `user_limit` if a limit of the user refuses the request. */
  readonly reasons: readonly string[];
  /** The owner of the job, if the actor may not do what the owner may; otherwise null. */
  readonly refusedFor: UserName | null;
  /** Seconds after which the same request may succeed, if a required part is busy or does not answer now; otherwise null. */
  readonly retryAfter: number | null;

  constructor(message: string, code: number, lines: readonly string[] = [], details: ErrorDetails = {}) {
    super(message, details);
    this.name = 'JobmanError';
    this.code = code;
    this.lines = lines;
    this.errorCode = details.errorCode ?? errorCodes[code] ?? 'failed';
    this.problems = details.problems ?? [];
    this.reasons = details.reasons ?? [];
    this.refusedFor = details.refusedFor ?? null;
    this.retryAfter = details.retryAfter ?? null;
  }
}

const errorCodes: Readonly<Record<number, ErrorCode>> = {
  [exitCode.usage]: 'usage',
  [exitCode.notFound]: 'not_found',
  [exitCode.conflict]: 'conflict',
  [exitCode.unreachable]: 'unreachable',
  [exitCode.interrupted]: 'interrupted',
};

/** The same error in other words: programs read the same code and details. */
export function reworded(
  error: JobmanError,
  { message = error.message, lines = error.lines }: Partial<Pick<JobmanError, 'message' | 'lines'>>,
): JobmanError {
  return new JobmanError(message, error.code, lines, error);
}

export function usageError(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.usage, lines);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** True if a file or folder does not exist. */
export function isFileMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

export type StoreErrorKind =
  | 'corrupt'
  | 'newer'
  | 'older'
  | 'unsupported'
  | 'read_only'
  | 'full'
  | 'busy'
  | 'broken'
  | 'copied'
  /** It was moved, or restored and not taken over: it can be read only. */
  | 'closed';

/** The database or its folder cannot be used. Nothing was changed or repaired. */
export class StoreError extends JobmanError {
  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, lines: readonly string[] = [], details: ErrorDetails = {}) {
    super(message, exitCode.unreachable, lines, {
      ...details,
      retryAfter: kind === 'busy' ? 1 : (details.retryAfter ?? null),
    });
    this.name = 'StoreError';
    this.kind = kind;
  }
}

/** A blob is missing, or its bytes do not match its digest. */
export class BlobError extends JobmanError {
  /** A clause about the blob. */
  readonly problem: string;

  constructor(problem: string) {
    super(`${problem}. Create the job again from the same files, which stores them again.`, exitCode.failed);
    this.problem = problem;
  }
}

const descriptorShortage = /\bE[MN]FILE: |\b(?:spawn|connect|bind|listen|getaddrinfo|query\w*)\b.* E[MN]FILE\b/u;

/** True if this machine lacks file descriptors: the error says nothing about the worker or the cloud. */
export function mentionsDescriptorShortage(text: string): boolean {
  return descriptorShortage.test(text);
}

/** True if a job, an object of a cluster, or another thing that a command names does not exist. */
export function isNotFoundError(error: unknown): boolean {
  return error instanceof JobmanError && error.code === exitCode.notFound;
}
