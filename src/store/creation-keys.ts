// Creation keys: the jobs of requests with an idempotency key, for a day.

import type { CreatedWith, CreationKey } from '../app/ports.ts';
import { day, type Instant } from '../core/model/time.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { idOf } from './stored-job.ts';

/** The job that was stored with the key in the last day; null without one. */
export async function createdWith(
  db: Database,
  { actor, key }: Omit<CreationKey, 'digest'>,
  now: Instant,
): Promise<CreatedWith | null> {
  const { rows } = await sql<{ job: number; digest: string }>`
    select job, digest from creation_key
    where actor = ${actor} and key = ${key} and created_at > ${now - day}`.execute(db);
  const [row] = rows;
  return row === undefined ? null : { id: idOf(row.job), digest: row.digest };
}

/** In the transaction of the job. Keys that no longer count are removed. */
export function creationKeyWrites({ actor, key, digest }: CreationKey, id: string, at: Instant): readonly Sql[] {
  return [
    sql`delete from creation_key where created_at <= ${at - day}`,
    sql`
      insert into creation_key (actor, key, digest, job, created_at)
      values (${actor}, ${key}, ${digest}, ${Number(id)}, ${at})`,
  ];
}
