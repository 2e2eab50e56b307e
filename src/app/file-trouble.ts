// File trouble: what is said to people when the disk or the folder of jobman's files cannot be used.

import { dirname } from 'node:path';
import { StoreError } from './errors.ts';

/** The troubles that a file can have, of all that the record of jobs can have. */
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

/** The forms in which Node names the shortage: of an operation on a file, a program, a connection. */
const shortage = /\bE[MN]FILE: |\b(?:spawn|connect|bind|listen|getaddrinfo|query\w*)\b.* E[MN]FILE\b/u;

/**
 * True when an error's text says that this process, or this machine, has no file descriptor left. Such an error says nothing about
 * the worker or the cloud that was to be asked.
 */
export function namesFileShortage(text: string): boolean {
  return shortage.test(text);
}

/** The sentence for one sort of trouble with that file. */
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
