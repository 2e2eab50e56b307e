// Store errors: the errors that users see when the database cannot be used.

import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StoreError, messageOf, fileErrorKind, fileStoreError, type FileErrorKind } from '../app/errors.ts';
import { sqliteErrorKind } from './sqlite.ts';

export function backupPath(file: string): string {
  return `${file}.bak`;
}

/** A failure of the outside becomes a StoreError; our own bug stays as it is. */
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
      const message = `The record of jobs ${file} is damaged (${detail}). It was left as it is.`;
      return new StoreError(trouble, message, recoverySteps(file), options);
    }
    case 'busy': {
      const message = `Another process has kept the record of jobs ${file} busy for seconds. Nothing was changed; try again.`;
      return new StoreError(trouble, message, [], options);
    }
    case 'full':
    case 'read_only':
    case 'broken':
      return fileStoreError(file, trouble, error);
  }
}

/** A backup shows that the database was lost: a new one would forget TPUs that still run and cost. */
function refuseLostDatabase(file: string): void {
  const home = dirname(file);
  if (statSync(home, { throwIfNoEntry: false })?.isDirectory() === false) {
    throw new StoreError('broken', `${home} is no folder, so no jobs can be kept there.`, [
      'Set JOBMAN_HOME to a folder of yours, or to the path of one that is to be made.',
    ]);
  }
  if (!existsSync(backupPath(file))) return;
  const what = existsSync(file) ? 'is empty' : 'is gone';
  throw new StoreError(
    'corrupt',
    `The record of jobs ${file} ${what}, while a copy of it is there.`,
    recoverySteps(file),
  );
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

/** The commands to type. They keep every file, including the unmerged log. */
function recoverySteps(file: string): readonly string[] {
  const home = dirname(file);
  const name = basename(file);
  let aside = 'damaged';
  for (let count = 2; existsSync(join(home, aside)); count += 1) aside = `damaged-${count}`;
  const putAside = `cd ${shellQuote(home)} && mkdir ${aside} && mv ${name}* ${aside}/`;
  const first = 'First: jobman controller stop';
  const jobs = join(home, 'jobs');
  const filesNote = `Each job's manifest, its life so far and its logs are in ${jobs}/<user>/<job id>/ (config.yaml, job.json, logs/).`;
  const orphanNote =
    'A job that is not in the record any more is not looked after: its job.json names its TPUs, which go on and cost.';
  const backup = backupPath(file);
  if (!existsSync(backup)) return [first, `To begin a new record: ${putAside}`, filesNote, orphanNote];
  const made = new Date(statSync(backup).mtimeMs).toISOString();
  const back = `${putAside} && cp -p ${aside}/${basename(backup)} ${name}`;
  return [first, `To go back to the copy of ${made}: ${back}`, filesNote, orphanNote];
}

function shellQuote(path: string): string {
  return /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
