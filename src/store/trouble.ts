// Trouble: the errors for people when the record of jobs cannot be used.

import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StoreError, textOf, fileTrouble, troubleWith, type FileTrouble } from '../app/errors.ts';
import { meaningOf } from './sqlite.ts';

/** The path of the copy that `backup.ts` makes. */
export function backupOf(file: string): string {
  return `${file}.bak`;
}

/** The error to throw for what a database or file operation threw: a StoreError for the world's failure, the same for our own bug. */
export function troubleOf(file: string, error: unknown): unknown {
  if (error instanceof StoreError) return error;
  const trouble = error instanceof SyntaxError ? 'corrupt' : (meaningOf(error) ?? fileTrouble(error));
  return trouble === undefined ? error : storeError(file, trouble, error);
}

function storeError(file: string, trouble: FileTrouble | 'corrupt' | 'busy', error: unknown): StoreError {
  const options = { cause: error };
  switch (trouble) {
    case 'corrupt': {
      const said = textOf(error);
      const message = `The record of jobs ${file} is damaged (${said}). It was left as it is.`;
      return new StoreError(trouble, message, wayBack(file), options);
    }
    case 'busy': {
      const message = `Another process has kept the record of jobs ${file} busy for seconds. Nothing was changed; try again.`;
      return new StoreError(trouble, message, [], options);
    }
    case 'full':
    case 'read_only':
    case 'broken':
      return troubleWith(file, trouble, error);
  }
}

/**
 * Throws when a missing or empty record was lost, because its copy is there: a new record would forget TPUs that go on and cost. Also
 * when the home is no folder.
 */
function refuseLost(file: string): void {
  const home = dirname(file);
  if (statSync(home, { throwIfNoEntry: false })?.isDirectory() === false) {
    throw new StoreError('broken', `${home} is no folder, so no jobs can be kept there.`, [
      'Set JOBMAN_HOME to a folder of yours, or to the path of one that is to be made.',
    ]);
  }
  if (!existsSync(backupOf(file))) return;
  const what = existsSync(file) ? 'is empty' : 'is gone';
  throw new StoreError('corrupt', `The record of jobs ${file} ${what}, while a copy of it is there.`, wayBack(file));
}

/** The smallest size of a SQLite database. SQLite treats a file of one byte as one that is still to be created. */
const recordLeast = 512;

/** Throws for a record that was lost, or cut so that it is too short for a database. */
export function refuseCut(file: string): void {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) refuseLost(file);
  else if (size < recordLeast)
    throw storeError(file, 'corrupt', new Error(`it has only ${size === 1 ? '1 byte' : `${size} bytes`}`));
}

/** The commands to type. They keep everything, also the log of what was not merged yet. */
function wayBack(file: string): readonly string[] {
  const home = dirname(file);
  const name = basename(file);
  let aside = 'damaged';
  for (let count = 2; existsSync(join(home, aside)); count += 1) aside = `damaged-${count}`;
  const putAside = `cd ${shellWord(home)} && mkdir ${aside} && mv ${name}* ${aside}/`;
  const first = 'First: jobman controller stop';
  const jobs = join(home, 'jobs');
  const kept = `Each job's manifest, its life so far and its logs are in ${jobs}/<user>/<job id>/ (config.yaml, job.json, logs/).`;
  const unwatched =
    'A job that is not in the record any more is not looked after: its job.json names its TPUs, which go on and cost.';
  const backup = backupOf(file);
  if (!existsSync(backup)) return [first, `To begin a new record: ${putAside}`, kept, unwatched];
  const made = new Date(statSync(backup).mtimeMs).toISOString();
  const back = `${putAside} && cp -p ${aside}/${basename(backup)} ${name}`;
  return [first, `To go back to the copy of ${made}: ${back}`, kept, unwatched];
}

function shellWord(path: string): string {
  return /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
