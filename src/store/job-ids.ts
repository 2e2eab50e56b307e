// Job ids: the numbers of new jobs.

import { lastNumber, nextNumber, takeNumber } from './counters.ts';
import type { RunOperation } from './database.ts';
import { sql, untilWritten, wroteRow, type Database, type Sql } from './sql.ts';
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
      return write(async (db) => {
        if (await isAfterFailover(db)) await skipIds(db);
        return (await takeNumber(db, 'job', number)) ? operation(db, idOf(number)) : undefined;
      });
    });
}

/**
 * Skips ids that the original of this database may have used after the copy: for run folders on workers, and for names of TPUs.
 * Returns the number of the last one.
 */
export function skipIds(db: Database): Promise<number> {
  return nextNumber(db, 'job', 1_000);
}

export async function rememberTimeline(db: Database, timeline: Sql<string>): Promise<void> {
  await sql`insert into meta (key, value) values ('timeline', ${timeline}) on conflict (key) do nothing`.execute(db);
}

/** True once after each failover. The standby may lack the newest jobs. */
async function isAfterFailover(db: Database): Promise<boolean> {
  const { timeline } = db;
  if (timeline === null) return false;
  return wroteRow(
    db,
    sql`update meta set value = ${timeline} where key = 'timeline' and value <> ${timeline} returning key`,
  );
}
