// Migrate: brings the tables of a record up to what this program knows, and refuses one that knows more.

import { sql, type Database } from './sql.ts';
import { hasTable } from './sqlite.ts';

/** The version of the record that this program reads and writes: the number of the last migration. */
export const currentVersion = 7;

const migrationTable = 'migration';

/** The version of a record; 0 for one without tables. Reads only. */
export async function versionOf(db: Database): Promise<number> {
  if (!(await hasTable(db, migrationTable))) return 0;
  const { rows } = await sql<{ name: string | null }>`select max(name) as name from migration`.execute(db);
  return Number.parseInt(rows[0]?.name ?? '0', 10);
}

/**
 * Runs the migrations that are missing, in one transaction: another process that does the same waits and finds nothing
 * left to do. Safe to repeat. Throws what the database says.
 */
export async function migrate(db: Database): Promise<void> {
  // The texts are not loaded by a program that finds its tables in place, which is nearly always.
  const { migrations } = await import('./migrations.ts');
  await db.transaction(async (transaction) => {
    await sql`create table if not exists migration (name text primary key, timestamp text not null)`.execute(
      transaction,
    );
    const { rows } = await sql<{ name: string }>`select name from migration`.execute(transaction);
    const done = new Set(rows.map((row) => row.name));
    for (const [name, run] of Object.entries(migrations).toSorted(([one], [other]) => (one < other ? -1 : 1))) {
      if (done.has(name)) continue;
      await run(transaction);
      await sql`insert into migration (name, timestamp) values (${name}, current_timestamp)`.execute(transaction);
    }
  });
}
