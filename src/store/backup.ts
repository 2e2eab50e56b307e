// Backup: a copy of the record, to go back to when the record is damaged.

import { closeSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileModeIn } from '../app/make-folder.ts';
import { day, type Instant } from '../core/time.ts';
import { copyInto, firstDamage, openForReading } from './sqlite.ts';
import { backupOf, troubleOf } from './trouble.ts';

/**
 * Makes `<file>.bak` unless one of less than a day is there, or the record is taken away meanwhile; answers whether it did. The record is checked first and the
 * copy takes the place of the older one in one step, so a damaged record never replaces a good copy. For the
 * controller's start: reading the whole record takes a moment. Throws StoreError when the record is damaged or the disk full.
 */
export async function backUp(file: string, now: Instant): Promise<boolean> {
  const copy = backupOf(file);
  const age = now - (statSync(copy, { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY);
  if (age >= 0 && age < day) return false;
  const read = statSync(file, { throwIfNoEntry: false })?.ino;
  if (read === undefined) return false;
  const unfinished = `${copy}.new`;
  try {
    const db = openForReading(file, true);
    try {
      const damage = await firstDamage(db);
      if (damage !== null) throw new SyntaxError(damage);
      rmSync(unfinished, { force: true });
      // The copy gets its rights before its contents.
      closeSync(openSync(unfinished, 'wx', fileModeIn(dirname(unfinished))));
      await copyInto(db, unfinished);
    } finally {
      db.close();
    }
    // A home that was removed meanwhile may have begun anew: a copy of what was there before is none of its record.
    const isStillThere = statSync(file, { throwIfNoEntry: false })?.ino === read;
    if (isStillThere) renameSync(unfinished, copy);
    else rmSync(unfinished, { force: true });
    return isStillThere;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw troubleOf(file, error);
  }
}
