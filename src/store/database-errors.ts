// Database errors: why a database cannot be used, and the commands that restore it.

import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StoreError, messageOf } from '../app/errors.ts';
import { fileErrorKind, fileStoreError, type FileErrorKind } from '../app/file-errors.ts';
import { quote } from '../catalogue/shell.ts';
import { sqliteErrorKind } from './sqlite.ts';

export function backupPath(file: string): string {
  return `${file}.bak`;
}

/** Turns a failure of SQLite or the file system into a StoreError. Other errors are bugs and stay. */
export function toStoreError(file: string, error: unknown): unknown {
  if (error instanceof StoreError) return error;
  const trouble = error instanceof SyntaxError ? 'corrupt' : (sqliteErrorKind(error) ?? fileErrorKind(error));
  return trouble === undefined ? error : storeError(file, trouble, error);
}

function storeError(file: string, trouble: FileErrorKind | 'corrupt' | 'busy', error: unknown): StoreError {
  const options = { cause: error };
  switch (trouble) {
    case 'corrupt': {
      const detail = messageOf(error);
      const message = `The database ${file} is damaged (${detail}). Nothing was changed.`;
      return new StoreError(trouble, message, recoverySteps(file), options);
    }
    case 'busy': {
      const message = `The database ${file} is locked by another process. Nothing was changed. Try again.`;
      return new StoreError(trouble, message, [], options);
    }
    case 'full':
    case 'read_only':
    case 'broken':
      return fileStoreError(file, trouble, error);
  }
}

/** If a backup exists, the database was lost. A new one would not contain TPUs that still run and cost. */
function refuseLostDatabase(file: string): void {
  const home = dirname(file);
  if (statSync(home, { throwIfNoEntry: false })?.isDirectory() === false) {
    throw new StoreError('broken', `${home} is not a folder. Set JOBMAN_HOME to the path of a folder.`);
  }
  if (!existsSync(backupPath(file))) return;
  const state = existsSync(file) ? 'is empty' : 'is missing';
  throw new StoreError('corrupt', `The database ${file} ${state}, but its backup exists.`, recoverySteps(file));
}

/** The smallest size of a SQLite database. SQLite treats a file of one byte as not created yet. */
const minDatabaseBytes = 512;

/** Throws for a database that was lost, or truncated below the smallest size. */
export function refuseTruncated(file: string): void {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) refuseLostDatabase(file);
  else if (size < minDatabaseBytes)
    throw storeError(file, 'corrupt', new Error(`it has only ${size === 1 ? '1 byte' : `${size} bytes`}`));
}

/** The commands to type. They keep every file. */
function recoverySteps(file: string): readonly string[] {
  const home = dirname(file);
  const name = basename(file);
  let aside = 'damaged';
  for (let count = 2; existsSync(join(home, aside)); count += 1) aside = `damaged-${count}`;
  const putAside = `cd ${quote(home)} && mkdir ${aside} && mv ${name}* ${aside}/`;
  const first = 'First: jobman controller stop';
  const jobs = join(home, 'jobs');
  const filesNote = `The files of each job are in ${jobs}/<user>/<job id>/ (config.yaml, job.json, logs/).`;
  const orphanNote =
    'jobman no longer manages jobs that are not in the database. Their TPUs keep running and cost money; job.json names them.';
  const backup = backupPath(file);
  if (!existsSync(backup)) return [first, `To start with an empty database: ${putAside}`, filesNote, orphanNote];
  const made = new Date(statSync(backup).mtimeMs).toISOString();
  const back = `${putAside} && cp -p ${aside}/${basename(backup)} ${name}`;
  return [first, `To restore the backup of ${made}: ${back}`, filesNote, orphanNote];
}
