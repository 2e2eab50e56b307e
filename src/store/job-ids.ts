// Job ids: the numbers of new jobs.

import { lastNumber, takeNumber } from './counters.ts';
import type { RunOperation } from './database.ts';
import { untilWritten, type Database } from './sql.ts';
import { idOf } from './stored-job.ts';

/** True if files of a job with that id exist, although the database does not contain the job. */
export type IsIdTaken = (id: string, owner: string) => boolean;

/**
 * The returned function performs a write that creates a job. It skips ids with files of a job in an earlier database, so
 * that the files of two jobs never mix. It checks for files before the transaction, in which other writers wait, and
 * chooses again if one of them has taken the id meanwhile.
 */
export function createWriteWithId(read: RunOperation, write: RunOperation, isIdTaken: IsIdTaken = () => false) {
  let chosen = 0;
  return <T extends object | string>(owner: string, operation: (db: Database, id: string) => Promise<T>): Promise<T> =>
    untilWritten<T>(async () => {
      const last = await read((db) => lastNumber(db, 'job'));
      // Later than the choices of this process that are not written yet, so that many writes at once do not collide.
      let number = Math.max(chosen, last) + 1;
      while (isIdTaken(idOf(number), owner)) number += 1;
      chosen = number;
      return write(async (db) => ((await takeNumber(db, 'job', number)) ? operation(db, idOf(number)) : undefined));
    });
}
