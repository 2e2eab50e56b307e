// All words to people about what went wrong start here: one class, one table of exit codes.
// A message reads: what happened, to which job, what you can do.
import { dirname } from 'node:path';

export const exitCode = {
  ok: 0,
  failed: 1,
  /** The command line or the manifest is wrong; nothing was changed. */
  usage: 2,
  notFound: 3,
  conflict: 4,
  /** A backend or the store could not be reached or used. */
  unreachable: 5,
  interrupted: 130,
} as const;

/** The exit code of a command that a signal made leave, as shells count: 128 and the number of the signal. */
export function exitCodeAfter(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP'): number {
  return { SIGHUP: 129, SIGINT: exitCode.interrupted, SIGTERM: 143 }[signal];
}

/** An expected failure, with the sentence a person reads and the exit code it ends in. Anything else thrown is our own bug. */
export class JobmanError extends Error {
  readonly code: number;
  /** Further lines for the person: places in a file, a did-you-mean, the cloud's raw words. */
  readonly lines: readonly string[];

  constructor(message: string, code: number, lines: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.name = 'JobmanError';
    this.code = code;
    this.lines = lines;
  }
}

export function usageError(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.usage, lines);
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The trouble with the record of jobs, or with our files beside it. */
export type StoreTrouble = 'corrupt' | 'newer' | 'older' | 'read_only' | 'full' | 'busy' | 'broken' | 'copied';

/** The record of jobs, or the folder it lives in, cannot be used. Nothing was changed, and nothing was repaired. */
export class StoreError extends JobmanError {
  readonly trouble: StoreTrouble;

  constructor(trouble: StoreTrouble, message: string, lines: readonly string[] = [], options?: ErrorOptions) {
    super(message, exitCode.unreachable, lines, options);
    this.name = 'StoreError';
    this.trouble = trouble;
  }
}

// ------------------------------------------------------------------------------------------ files

export type FileTrouble = 'full' | 'read_only' | 'broken';

/** The meaning of an error of the file system; undefined when it is not one, or one that our own mistake would give. */
export function fileTrouble(error: unknown): FileTrouble | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'full';
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return 'read_only';
    case 'EIO':
    case 'ENOTDIR':
    case 'EEXIST':
    case 'EISDIR':
    case 'ELOOP':
    case 'ENAMETOOLONG':
    case 'EFBIG':
    case 'EMFILE':
    case 'ENFILE':
    case 'ERR_FS_EISDIR':
      return 'broken';
    default:
      return undefined;
  }
}

const shortage = /\bE[MN]FILE: |\b(?:spawn|connect|bind|listen|getaddrinfo|query\w*)\b.* E[MN]FILE\b/u;

/** True when this process or machine has no file descriptor left. Such an error says nothing about the worker or the cloud. */
export function namesFileShortage(text: string): boolean {
  return shortage.test(text);
}

export function troubleWith(path: string, trouble: FileTrouble, cause: unknown): StoreError {
  const error = (message: string, lines: readonly string[] = []): StoreError =>
    new StoreError(trouble, message, lines, { cause });
  switch (trouble) {
    case 'full':
      return error(`The disk is full: ${path} could not be written. Free some space and try again.`);
    case 'read_only':
      return error(
        `${path} cannot be written: ${dirname(path)} is read-only or belongs to somebody else. Nothing was changed.`,
        ['Set JOBMAN_HOME to a folder of yours that can be written, or make this one writable.'],
      );
    case 'broken':
      return error(`${path} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}.`);
  }
}

/** The error to throw for what an operation on that file threw: a StoreError when the world is to blame, else itself. */
export function fileError(path: string, error: unknown): unknown {
  const trouble = fileTrouble(error);
  return trouble === undefined ? error : troubleWith(path, trouble, error);
}
