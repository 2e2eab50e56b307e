// Backup: a copy of the database, for recovery when the database is damaged.

import { closeSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf } from '../app/errors.ts';
import { fileModeIn } from '../files/files.ts';
import type { Clock } from '../app/ports.ts';
import { day, hour, second, type Instant, type Duration } from '../core/model/time.ts';
import { copyInto, findCorruption, openForReading } from './sqlite.ts';
import { backupPath, toStoreError } from './database-errors.ts';

/** Makes `<file>.bak` unless a copy younger than a day exists; returns true if it did. Throws as `copyDatabase`. */
export async function backUp(file: string, now: Instant): Promise<boolean> {
  const age = now - (statSync(backupPath(file), { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY);
  return age >= 0 && age < day ? false : copyDatabase(file);
}

/**
 * Makes `<file>.bak`, or returns false if the database is missing. Checks the database first, so that a damaged one
 * never replaces a good copy. Throws StoreError when the database is damaged or the disk is full.
 */
export async function copyDatabase(file: string): Promise<boolean> {
  const copy = backupPath(file);
  const inode = statSync(file, { throwIfNoEntry: false })?.ino;
  if (inode === undefined) return false;
  const unfinished = `${copy}.new`;
  try {
    const db = openForReading(file, true);
    try {
      const damage = await findCorruption(db);
      if (damage !== null) throw new SyntaxError(damage);
      rmSync(unfinished, { force: true });
      // The file gets its permissions before its contents.
      closeSync(openSync(unfinished, 'wx', fileModeIn(dirname(unfinished))));
      await copyInto(db, unfinished);
    } finally {
      db.close();
    }
    // The home may have been removed and have a new database now, of which this is not a copy.
    const isStillThere = statSync(file, { throwIfNoEntry: false })?.ino === inode;
    if (isStillThere) renameSync(unfinished, copy);
    else rmSync(unfinished, { force: true });
    return isStillThere;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw toStoreError(file, error);
  }
}

/** Jobs that wait for the controller come before the copy. */
const firstBackupDelay: Duration = second;
const backupCheckInterval: Duration = hour;

/** The returned function backs up if it is time. A failure is logged and retried hourly. */
export function createBackups(
  file: string,
  clock: Pick<Clock, 'now'>,
  warn: (line: string) => void,
): () => Promise<void> {
  let nextAt = clock.now() + firstBackupDelay;
  return async () => {
    const now = clock.now();
    if (now < nextAt) return;
    nextAt = now + backupCheckInterval;
    await backUp(file, now).catch((error: unknown) => warn(`cannot back up the database: ${messageOf(error)}`));
  };
}
