// Strays: capacity of ours that no job claims, kept until it has been let go.

import { sql, type Database } from './sql.ts';
import type { Stray } from '../app/ports.ts';

/** Keeps it; the newest word on the same resource stands. */
export async function writeStray(db: Database, stray: Stray): Promise<void> {
  await sql`
    insert into stray (backend, resource, installation, job, allocation, state)
    values (${stray.backend}, ${stray.resource}, ${stray.installation}, ${stray.job}, ${stray.allocation}, ${stray.state})
    on conflict (backend, resource)
    do update set installation = excluded.installation, job = excluded.job, allocation = excluded.allocation, state = excluded.state`.execute(
    db,
  );
}

/** All of them, by backend and name. */
export async function readStrays(db: Database): Promise<readonly Stray[]> {
  const { rows } = await sql<Stray>`
    select backend, resource, installation, job, allocation, state from stray order by backend, resource`.execute(db);
  return rows.map((row) => ({ ...row }));
}

/** Forgets it; nothing happens when it is not known. */
export async function deleteStray(db: Database, stray: Stray): Promise<void> {
  await sql`delete from stray where backend = ${stray.backend} and resource = ${stray.resource}`.execute(db);
}
