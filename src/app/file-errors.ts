// File errors: a failure of the file system as an error for people.

import { dirname } from 'node:path';
import { StoreError } from './errors.ts';

export type FileErrorKind = 'full' | 'read_only' | 'broken';

/** The kind of a file system error; undefined for another error, or one that only our own mistake causes. */
export function fileErrorKind(error: unknown): FileErrorKind | undefined {
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

export function fileStoreError(path: string, kind: FileErrorKind, cause: unknown): StoreError {
  const error = (message: string, lines: readonly string[] = []): StoreError =>
    new StoreError(kind, message, lines, { cause });
  switch (kind) {
    case 'full':
      return error(`The disk is full: ${path} could not be written. Free some space and try again.`);
    case 'read_only':
      return error(
        `${path} cannot be written: ${dirname(path)} is read-only or belongs to another user. Nothing was changed.`,
        ['Set JOBMAN_HOME to a writable folder, or make this one writable.'],
      );
    case 'broken':
      return error(`${path} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}.`);
  }
}

/** A StoreError if the file system is the cause, else the error itself. */
export function fileError(path: string, error: unknown): unknown {
  const kind = fileErrorKind(error);
  return kind === undefined ? error : fileStoreError(path, kind, error);
}
