// Database file: opens one database, and checks its version and its home.
//
// Reads use a connection that cannot write, so that a reading command changes nothing. The first write opens the
// writing connection and migrates the tables; it then serves both. Without a database, a reader gets an empty one in
// memory.

import { statSync, realpathSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { dirname, basename, join } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { makeHome } from '../app/files.ts';
import { refuseTruncated, toStoreError } from './database-errors.ts';
import { sql, type Database } from './sql.ts';
import {
  inMemory,
  inSequence,
  needsRecovery,
  openForReading,
  openForWriting,
  disableFsync,
  hasTable,
} from './sqlite.ts';

export interface OpenDatabaseOptions {
  /** `:memory:` for a database that is gone when it is closed. */
  readonly file: string;
  /** Refuses every write. Without it the first write creates the file and its folder. */
  readonly readOnly?: boolean;
  /** Installation id of a new database: six characters [a-z0-9], random by default. */
  readonly installation?: string;
  /** In milliseconds; 5 s by default. */
  readonly busyTimeoutMs?: number;
  /** No write waits for the disk, because the contents exist elsewhere too. */
  readonly skipFsync?: boolean;
}

/** Rejects with StoreError when the database cannot be used. */
export type RunOperation = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface DatabaseFile {
  readonly read: RunOperation;
  /** The operation is one transaction, or a part of one that is committed or undone independently. */
  readonly write: RunOperation;
  /** Reads a value that the first opening for writing creates, for callers that are about to write. */
  readonly readBeforeWriting: RunOperation;
  readonly close: () => Promise<void>;
}

/** Opens nothing yet: the first operation does, and rejects with StoreError when it cannot. */
export function openDatabaseFile(given: OpenDatabaseOptions): DatabaseFile {
  const { file, readOnly = false, installation, busyTimeoutMs, skipFsync = false } = given;
  let writing: Promise<Database> | undefined;
  let reading: Promise<Database> | undefined;
  let empty: Promise<Database> | undefined;
  let batchWrite: BatchWrite | undefined;
  const writer = () => (writing ??= clearOnFailure(openWriter(), () => (writing = undefined)));
  const reader = () => {
    if (writing !== undefined || file === inMemory) return writer();
    // Another process may create the database meanwhile, so the empty one is not cached as `reading`.
    if (reading === undefined) refuseTruncated(file);
    if (reading === undefined && sizeOf(file) === 0) {
      return (empty ??= openEmpty());
    }
    return (reading ??= clearOnFailure(openReader(), () => (reading = undefined)));
  };

  async function openWriter(): Promise<Database> {
    if (readOnly) throw new StoreError('read_only', `The database ${file} was opened for reading only.`);
    if (file !== inMemory) {
      refuseTruncated(file);
      makeHome(dirname(file));
    }
    return file === inMemory ? prepareWriter() : inSequence(file, prepareWriter);
  }

  async function prepareWriter(): Promise<Database> {
    const db = openForWriting(file, busyTimeoutMs);
    return closeOnFailure(db, async () => {
      const version = await supportedVersion(db, file);
      if (version < schemaVersion) await migrate(db, file);
      const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation_id'`.execute(db);
      if (rows.length === 0) {
        await sql`
          insert into meta (key, value) values ('installation_id', ${installation ?? (await newInstallationId())})
          on conflict (key) do nothing`.execute(db);
      }
      if (file !== inMemory) await refuseCopiedHome(db, file);
      if (skipFsync) await disableFsync(db);
      return db;
    });
  }

  async function openReader(): Promise<Database> {
    const db = await openToRead();
    return closeOnFailure(db, async () => {
      const version = await supportedVersion(db, file);
      if (version < schemaVersion) {
        if (readOnly)
          throw new StoreError(
            'older',
            `The database ${file} has version ${version} and needs an upgrade to version ${schemaVersion}, but it was opened for reading only. Run any jobman command where ${dirname(file)} is writable.`,
          );
        await writer();
      }
      return db;
    });
  }

  async function openToRead(): Promise<Database> {
    const open = (): Database => openForReading(file, sizeOf(`${file}-wal`) > 0);
    try {
      return open();
    } catch (error) {
      if (readOnly || !needsRecovery(error)) throw error;
      await writer();
      return open();
    }
  }

  return {
    read: (operation) => withStoreErrors(file, async () => operation(await reader())),
    readBeforeWriting: (operation) =>
      withStoreErrors(file, async () => operation(readOnly ? await reader() : await writer())),
    write: (operation) =>
      withStoreErrors(file, async () => {
        const db = await writer();
        const isShared = file !== inMemory;
        batchWrite ??= createBatchWrite(
          db,
          (work) => (isShared ? inSequence(file, work) : work()),
          isShared ? () => setImmediate() : undefined,
        );
        return batchWrite(operation);
      }),
    async close() {
      const open = await Promise.allSettled([empty, reading, writing]);
      empty = reading = writing = batchWrite = undefined;
      for (const result of open) {
        if (result.status === 'fulfilled') result.value?.close();
      }
    },
  };
}

async function openEmpty(): Promise<Database> {
  const db = openForWriting(inMemory);
  return closeOnFailure(db, async () => {
    await migrate(db);
    return db;
  });
}

async function newInstallationId(): Promise<string> {
  // Only a new database needs this module; loading it would slow every list.
  const { randomInt } = await import('node:crypto');
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789';
  return Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join('');
}

/** 0 when the file is missing. */
function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Forgets a failed connection: the next attempt may succeed. */
async function clearOnFailure(opening: Promise<Database>, forget: () => void): Promise<Database> {
  try {
    return await opening;
  } catch (error) {
    forget();
    throw error;
  }
}

async function closeOnFailure(db: Database, prepare: () => Promise<Database>): Promise<Database> {
  try {
    return await prepare();
  } catch (error) {
    db.close();
    throw error;
  }
}

async function withStoreErrors<T>(file: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw toStoreError(file, error);
  }
}

/** Resolves once the operation is on the disk. */
type BatchWrite = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface BatchedOperation {
  readonly run: (db: Database) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/**
 * Writes that wait at the same time share one transaction, and therefore one wait for the disk. An operation that throws
 * is undone alone; if the transaction fails, each operation fails. `serialize` runs this process's transactions on one
 * file one after the other; `gather` resolves once the batch is complete.
 */
function createBatchWrite(
  db: Database,
  serialize: (work: () => Promise<void>) => Promise<void>,
  gather: (() => Promise<void>) | undefined,
): BatchWrite {
  let waiting: BatchedOperation[] = [];

  async function write(): Promise<void> {
    await gather?.();
    const parts = waiting;
    waiting = [];
    const callbacks: (() => void)[] = [];
    try {
      await db.transaction(async (transaction) => {
        for (const part of parts) callbacks.push(await part.run(transaction));
      });
    } catch (error) {
      for (const part of parts) part.fail(error);
      return;
    }
    for (const callback of callbacks) callback();
  }

  return (operation) =>
    new Promise((resolve, reject) => {
      waiting.push({
        async run(transaction) {
          try {
            const result = await transaction.transaction(operation);
            return () => resolve(result);
          } catch (error) {
            return () => reject(error);
          }
        },
        fail: reject,
      });
      if (waiting.length === 1) void serialize(write);
    });
}

/** Throws StoreError if this home is a copy of one that still exists. Records the path of a moved or restored home. */
async function refuseCopiedHome(db: Database, file: string): Promise<void> {
  const home = realpathSync(dirname(file));
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'home'`.execute(db);
  const recorded = rows[0]?.value;
  if (recorded === home) return;
  if (recorded !== undefined && areTwoFiles(join(recorded, basename(file)), file))
    throw new StoreError('copied', `${home} is a copy of ${recorded}, which still exists. Nothing was changed.`, [
      `Both contain the same jobs, so each could stop the jobs of the other. Use the original: JOBMAN_HOME=${recorded}`,
      'To use the copy instead, cancel the jobs of the original, and then move the original to another path.',
    ]);
  await sql`insert into meta (key, value) values ('home', ${home})
    on conflict (key) do update set value = excluded.value`.execute(db);
}

function areTwoFiles(one: string, other: string): boolean {
  try {
    const [first, second] = [statSync(one), statSync(other)];
    return first.ino !== second.ino || first.dev !== second.dev;
  } catch {
    return false;
  }
}

/** The database version that this program reads and writes: the number of the last migration. */
export const schemaVersion = 7;

/** 0 for a database without tables. Throws StoreError for a version that this program cannot use. */
async function supportedVersion(db: Database, file: string): Promise<number> {
  const names = await migrationNames(db);
  if (names.length === 0 && !(await hasTable(db, 'job'))) return 0;
  // Databases of version 1, which was never released, have other migrations and other tables.
  if (!names.includes('0001_baseline'))
    throw new StoreError(
      'unsupported',
      `The database ${file} was written by an older, unreleased jobman and cannot be read; to start again with an empty database, move ${dirname(file)} to another path or set JOBMAN_HOME to a new folder.`,
    );
  const version = Math.max(...names.map((name) => Number.parseInt(name, 10)));
  if (version > schemaVersion)
    throw new StoreError(
      'newer',
      `The database ${file} was written by a newer jobman: it has version ${version}, and this jobman supports version ${schemaVersion}. Upgrade jobman.`,
    );
  return version;
}

async function migrationNames(db: Database): Promise<readonly string[]> {
  if (!(await hasTable(db, 'migration'))) return [];
  const { rows } = await sql<{ name: string }>`select name from migration`.execute(db);
  return rows.map(({ name }) => name);
}

/**
 * In one transaction, so that a second process waits and finds nothing left to do. A database with tables is backed up
 * first: a migration may drop columns that an older jobman needs.
 */
export async function migrate(db: Database, file: string = inMemory): Promise<void> {
  const { migrations } = await import('./migrations.ts');
  await db.transaction(async (transaction) => {
    await sql`create table if not exists migration (name text primary key, applied_at text not null)`.execute(
      transaction,
    );
    const done = new Set(await migrationNames(transaction));
    const missing = Object.entries(migrations).filter(([name]) => !done.has(name));
    if (done.size > 0 && missing.length > 0 && file !== inMemory) {
      const { copyDatabase } = await import('./backup.ts');
      await copyDatabase(file);
    }
    for (const [name, run] of missing.toSorted(([one], [other]) => (one < other ? -1 : 1))) {
      await run(transaction);
      await sql`insert into migration (name, applied_at) values (${name}, current_timestamp)`.execute(transaction);
    }
  });
}

/** Throws if the database was never opened for writing. */
export async function readInstallationId(db: Database): Promise<string> {
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation_id'`.execute(db);
  const found = rows[0]?.value;
  if (found === undefined) throw new Error('the database has no installation id');
  return found;
}

/**
 * Throws StoreError if the home is a copy of one that still exists. For commands that act on machines without a write,
 * because only a write detects a copy. Ignores a missing database and other errors.
 */
export async function requireOriginalHome(file: string): Promise<void> {
  if (sizeOf(file) === 0) return;
  const database = openDatabaseFile({ file });
  try {
    await database.write(() => Promise.resolve());
  } catch (error) {
    if (error instanceof StoreError && error.kind === 'copied') throw error;
  } finally {
    await database.close();
  }
}
