// Migrate: brings the tables of a record up to what this program knows, and refuses one that knows more.

import { sql } from 'kysely';
import { hasTable, type Database } from './sqlite.ts';

/** The version of the record that this program reads and writes: the number of the last migration. */
export const currentVersion = 1;

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
  // Neither the texts nor the machinery are loaded by a program that finds its tables in place, which is nearly always.
  const [{ Migrator }, { migrations }] = await Promise.all([import('kysely/migration'), import('./migrations.ts')]);
  await db.transaction().execute(async (transaction) => {
    const migrator = new Migrator({
      db: transaction,
      provider: { getMigrations: () => Promise.resolve({ ...migrations }) },
      migrationTableName: migrationTable,
      migrationLockTableName: 'migration_lock',
    });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  });
}
