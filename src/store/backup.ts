// Backup: a copy of the record, to go back to when the record is damaged.

import { closeSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { textOf } from '../app/errors.ts';
import { fileModeIn } from '../app/files.ts';
import type { Clock } from '../app/ports.ts';
import { day, hour, second, type Instant, type Duration } from '../core/time.ts';
import { copyInto, firstDamage, openForReading } from './sqlite.ts';
import { backupOf, troubleOf } from './trouble.ts';

/**
 * Makes `<file>.bak` unless one of less than a day is there, or the record is removed meanwhile; true if it did. The record is checked
 * first, so a damaged one never replaces a good copy. Throws StoreError when the record is damaged or the disk full.
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
    // A home that was removed meanwhile may have a new record, of which this is no copy.
    const isStillThere = statSync(file, { throwIfNoEntry: false })?.ino === read;
    if (isStillThere) renameSync(unfinished, copy);
    else rmSync(unfinished, { force: true });
    return isStillThere;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw troubleOf(file, error);
  }
}

/** First the jobs that wait for this controller, then the copy. */
const afterBegin: Duration = second;
const askEvery: Duration = hour;

/** Keeps a copy of that record while a controller runs, so that no command waits for it. A failure is logged and retried hourly. */
export function keepCopies(parts: {
  readonly file: string;
  readonly clock: Clock;
  readonly warn: (line: string) => void;
}): { readonly begin: () => void; readonly end: () => void } {
  const { file, clock, warn } = parts;
  let callOff: (() => void) | null = null;

  const plan = (wait: Duration): void => {
    callOff?.();
    callOff = clock.at(clock.now() + wait, () => void copy());
  };
  const copy = async (): Promise<void> => {
    try {
      await backUp(file, clock.now());
    } catch (error) {
      warn(`no copy of the record was made: ${textOf(error)}`);
    }
    if (callOff !== null) plan(askEvery);
  };

  return {
    begin: () => plan(afterBegin),
    end() {
      callOff?.();
      callOff = null;
    },
  };
}
