// Lab lives: what became of jobs, for whoever shows the windows of a user. Loaded by them alone: `upd-log` reads no job. Statements of
// its own, because those of lists of jobs bring the making of rows with them.

import type { Job } from '../core/job.ts';
import { numberOf } from './job-numbers.ts';
import { jobOf } from './job-of-texts.ts';
import { sql, type Database } from './sql.ts';

/** See LabRecord. */
export async function readLives(db: Database, user: string, ids: readonly string[]): Promise<readonly Job[]> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  // One statement of one text, however many are asked for. `union` tells a job once that is both.
  const { rows } = await sql<{ life: string; outline: string }>`
    select life, outline from job where number in (
      select number from job where settled_at is null and removed = 0 and owner = ${user}
      union
      select value from json_each(${JSON.stringify(numbers)})
    )
    order by number`.execute(db);
  return rows.map((row) => jobOf(row.life, row.outline));
}
