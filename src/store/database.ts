// Database: what both drivers need: the version of the tables, their migrations, and the installation id.

import { StoreError } from '../app/errors.ts';
import type { Store } from '../app/ports.ts';
import { sql, type Database } from './sql.ts';

/** Rejects with StoreError when the database cannot be used. */
export type RunOperation = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

/** The connections to one database. Both open on first use, and again after a failure. */
export interface Connections {
  reader(): Promise<Database>;
  writer(): Promise<Database>;
  /** A StoreError if the database is the cause, else the error itself. */
  toStoreError(error: unknown): unknown;
  /** The operation reads the rows of one time only. Writers do not wait for it. */
  snapshot: RunOperation;
  /** Rejects as a write would do. */
  requireUsable(): Promise<void>;
  /** Runs this process's transactions on one database one after the other. */
  inSequence<T>(work: () => Promise<T>): Promise<T>;
  notify: Store['notify'];
  listen: Store['listen'];
  close(): Promise<void>;
}

/** The names of a database in messages. */
export interface DatabaseName {
  /** The path of the file, or the URL without its password. */
  readonly name: string;
  /** The way to an empty one, as a clause. */
  readonly replacement: string;
}

/** The database version that this program reads and writes: the number of the last migration. */
export const schemaVersion = 18;

/** 0 for a database without tables. Throws StoreError for a version that this program cannot use. */
export async function supportedVersion(db: Database, { name, replacement }: DatabaseName): Promise<number> {
  const tables = await db.tables();
  const names = tables.includes('migration') ? await migrationNames(db) : [];
  if (names.length === 0 && !tables.includes('job')) return 0;
  // Databases of version 1, which was never released, have other migrations and other tables.
  if (!names.includes('0001_baseline'))
    throw new StoreError(
      'unsupported',
      `The database ${name} was written by an older, unreleased jobman and cannot be read; to start again with an empty database, ${replacement}.`,
    );
  const version = Math.max(...names.map((one) => Number.parseInt(one, 10)));
  if (version > schemaVersion) throw newerError({ name, replacement }, version);
  return version;
}

function newerError({ name }: DatabaseName, version: number): StoreError {
  return new StoreError(
    'newer',
    `The database ${name} was written by a newer jobman: it has version ${version}, and this jobman supports version ${schemaVersion}. Upgrade jobman.`,
  );
}

/** For a reader that may not upgrade the database. `where` another command may: a clause. */
export function olderVersionError({ name }: DatabaseName, version: number, where: string): StoreError {
  return new StoreError(
    'older',
    `The database ${name} has version ${version} and needs an upgrade to version ${schemaVersion}, but it was opened for reading only. Run any jobman command ${where}.`,
  );
}

export function openedForReadingError({ name }: DatabaseName): StoreError {
  return new StoreError('read_only', `The database ${name} was opened for reading only.`);
}

async function migrationNames(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`select name from migration`.execute(db);
  return rows.map(({ name }) => name);
}

/**
 * In one transaction, so that a second process waits and finds nothing left to do. `backUp` is called before the tables
 * of an older version are changed: a migration may drop columns that an older jobman needs. `finish` is called at the end.
 */
export async function migrate(
  db: Database,
  {
    upTo = schemaVersion,
    backUp,
    finish,
  }: {
    readonly upTo?: number;
    readonly backUp?: () => Promise<unknown>;
    readonly finish?: (transaction: Database) => Promise<void>;
  } = {},
): Promise<void> {
  const { migrations } = await import('./migrations.ts');
  await db.transaction(async (transaction) => {
    await sql`create table if not exists migration (name text primary key, applied_at text not null)`.execute(
      transaction,
    );
    const done = new Set(await migrationNames(transaction));
    const missing = Object.entries(migrations).filter(([name]) => !done.has(name) && Number.parseInt(name, 10) <= upTo);
    if (done.size > 0 && missing.length > 0) await backUp?.();
    for (const [name, run] of missing.toSorted(([one], [other]) => (one < other ? -1 : 1))) {
      await run(transaction);
      await sql`insert into migration (name, applied_at) values (${name}, current_timestamp)`.execute(transaction);
    }
    await finish?.(transaction);
  });
}

/**
 * Each transaction of the returned database checks that another program has neither closed nor upgraded it since this one
 * was opened. Without that, a program of the former version could write rows that the next one does not understand, and
 * a controller could continue with a database that was moved.
 */
export function guarded<D extends Database>(db: D, named: DatabaseName): D {
  return {
    ...db,
    transaction: (operation) =>
      db.transaction(async (transaction) => {
        // Sent together with the statements of the operation.
        const check = requireUsable(transaction, named);
        check.catch(() => undefined);
        try {
          return await operation(transaction);
        } finally {
          await check;
        }
      }),
  };
}

/** Throws StoreError for a database that is closed, or that a newer program has upgraded. */
export async function requireUsable(db: Database, named: DatabaseName): Promise<void> {
  const { rows } = await sql<{ newest: string; closed: string | null }>`
    select (select max(name) from migration) as newest, (select value from meta where key = 'closed') as closed`.execute(
    db,
  );
  const [{ newest, closed } = { newest: '', closed: null }] = rows;
  const version = Number.parseInt(newest, 10);
  if (version > schemaVersion) throw newerError(named, version);
  if (closed !== null)
    throw new StoreError(
      'closed',
      `The database ${named.name} ${closed}, so it can only be read. Nothing was changed.`,
      ['Once no other jobman controls its jobs: jobman restore --takeover'],
    );
}

/** Creates the installation id of a new database. */
export async function ensureInstallationId(db: Database, given: string | undefined): Promise<void> {
  if ((await findInstallationId(db)) !== undefined) return;
  await sql`
    insert into meta (key, value) values ('installation_id', ${given ?? (await newInstallationId())})
    on conflict (key) do nothing`.execute(db);
}

export async function findInstallationId(db: Database): Promise<string | undefined> {
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation_id'`.execute(db);
  return rows[0]?.value;
}

async function newInstallationId(): Promise<string> {
  // Only a new database needs this module; loading it would slow every list.
  const { randomInt } = await import('node:crypto');
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789';
  return Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join('');
}

/** Throws if the database was never opened for writing. */
export async function readInstallationId(db: Database): Promise<string> {
  const found = await findInstallationId(db);
  if (found === undefined) throw new Error('the database has no installation id');
  return found;
}

/** An empty database in memory: what a reader sees before the first write. */
export async function openEmpty(): Promise<Database & { close(): void }> {
  const { inMemory, openForWriting } = await import('./sqlite.ts');
  const db = openForWriting(inMemory);
  await migrate(db);
  return db;
}

/** Forgets a failed connection: the next attempt may succeed. */
export async function clearOnFailure<T>(opening: Promise<T>, forget: () => void): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    forget();
    throw error;
  }
}
