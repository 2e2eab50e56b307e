// All words to people about what went wrong start here: one class, one table of exit codes.
// A message reads: what happened, to which job, what you can do.

/** Exit codes of every command. */
export const exitCode = {
  ok: 0,
  /** The operation failed. */
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

/** The error for a wrong command line. */
export function usageError(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.usage, lines);
}

/** A thrown value as text. */
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
