// Record file: the connections to one record, its version, and the home that it belongs to.
//
// Reads use a connection that cannot write, so that a reading command changes nothing. The first write opens the connection that
// writes and brings the tables up to date; from then on it serves both. Without a record, a reader gets an empty one in memory.

import { statSync, realpathSync } from 'node:fs';
import { dirname, basename, join } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { makeHome } from '../app/files.ts';
import { sql, type Database } from './sql.ts';
import { inMemory, inTurn, needsWriter, openForReading, openForWriting, waitForNoDisk, hasTable } from './sqlite.ts';
import { refuseCut, troubleOf } from './trouble.ts';

export interface OpenRecord {
  /** Path of the database, or `:memory:` for one that is gone when it is closed. */
  readonly file: string;
  /** Refuses every write. Without it the first write makes the file and its folder. */
  readonly readOnly?: boolean;
  /** The identity of a new record; six characters [a-z0-9], random when not given. An existing record keeps its own. */
  readonly installation?: string;
  /** How long a write waits for those of other processes before it is given up, in milliseconds; 5 s when not given. */
  readonly patienceMs?: number;
  /** The contents are kept elsewhere as well, so no write waits for the disk. A record that is made by it is on the disk anyway. */
  readonly isCopy?: boolean;
}

/** Runs an operation on the record, for reading or for writing. Rejects with StoreError when the record cannot be used. */
export type Run = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface RecordFile {
  readonly read: Run;
  /** The operation is one transaction, or a part of one that stands or falls by itself. */
  readonly write: Run;
  /** For those who read what a new record gets at its first opening for writing, and are about to write. */
  readonly readBeforeWriting: Run;
  readonly close: () => Promise<void>;
}

/** Opens nothing yet: the first operation does, and rejects with StoreError when it cannot. */
export function openRecordFile(given: OpenRecord): RecordFile {
  const { file, readOnly = false, installation, patienceMs, isCopy = false } = given;
  let writing: Promise<Database> | undefined;
  let reading: Promise<Database> | undefined;
  let empty: Promise<Database> | undefined;
  let together: Together | undefined;
  const writer = () => (writing ??= forgetting(openWriter(), () => (writing = undefined)));
  const reader = () => {
    if (writing !== undefined || file === inMemory) return writer();
    // Another process may make the record meanwhile, so an empty one is not kept.
    if (reading === undefined) refuseCut(file);
    if (reading === undefined && sizeOf(file) === 0) {
      return (empty ??= openEmpty());
    }
    return (reading ??= forgetting(openReader(), () => (reading = undefined)));
  };

  async function openWriter(): Promise<Database> {
    if (readOnly) throw new StoreError('read_only', `The record of jobs ${file} was opened for reading only.`);
    if (file !== inMemory) {
      refuseCut(file);
      makeHome(dirname(file));
    }
    return file === inMemory ? prepareWriter() : inTurn(file, prepareWriter);
  }

  async function prepareWriter(): Promise<Database> {
    const db = openForWriting(file, patienceMs);
    return orClose(db, async () => {
      const version = await versionOf(db);
      if (version > currentVersion) throw newerRecord(file, version);
      if (version < currentVersion) await migrate(db);
      const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation'`.execute(db);
      if (rows.length === 0) {
        await sql`
          insert into meta (key, value) values ('installation', ${installation ?? (await newInstallation())})
          on conflict (key) do nothing`.execute(db);
      }
      if (file !== inMemory) await refuseCopy(db, file);
      if (isCopy) await waitForNoDisk(db);
      return db;
    });
  }

  async function openReader(): Promise<Database> {
    const db = await openToRead();
    return orClose(db, async () => {
      const version = await versionOf(db);
      if (version > currentVersion) throw newerRecord(file, version);
      if (version < currentVersion) {
        if (readOnly) throw olderRecord(file, version);
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
      if (readOnly || !needsWriter(error)) throw error;
      await writer();
      return open();
    }
  }

  return {
    read: (operation) => guarded(file, async () => operation(await reader())),
    readBeforeWriting: (operation) => guarded(file, async () => operation(readOnly ? await reader() : await writer())),
    write: (operation) =>
      guarded(file, async () => {
        const db = await writer();
        const isShared = file !== inMemory;
        together ??= createTogether(
          db,
          (work) => (isShared ? inTurn(file, work) : work()),
          isShared ? nextTurn : undefined,
        );
        return together(operation);
      }),
    async close() {
      const open = await Promise.allSettled([empty, reading, writing]);
      empty = reading = writing = together = undefined;
      for (const result of open) {
        if (result.status === 'fulfilled') result.value?.close();
      }
    },
  };
}

async function openEmpty(): Promise<Database> {
  const db = openForWriting(inMemory);
  return orClose(db, async () => {
    await migrate(db);
    return db;
  });
}

async function newInstallation(): Promise<string> {
  // Loaded once in the life of a record, and not by each list.
  const { randomInt } = await import('node:crypto');
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789';
  return Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join('');
}

/** The size of a file in bytes; 0 when it is missing. */
function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** The next turn of the event loop: more writes may come in this one. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A failed connection is opened again next time: the cause may have been repaired. */
async function forgetting(opening: Promise<Database>, forget: () => void): Promise<Database> {
  try {
    return await opening;
  } catch (error) {
    forget();
    throw error;
  }
}

async function orClose(db: Database, prepare: () => Promise<Database>): Promise<Database> {
  try {
    return await prepare();
  } catch (error) {
    db.close();
    throw error;
  }
}

async function guarded<T>(file: string, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw troubleOf(file, error);
  }
}

/** Runs an operation as a part of a transaction, and resolves once that is on the disk. */
type Together = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface Part {
  readonly run: (db: Database) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/**
 * Writes that wait at the same time share one transaction, and with it one wait for the disk: a thousand jobs that move at once would
 * wait a thousand times. An operation that throws is undone alone; when the transaction fails, each operation fails. `turn` keeps this
 * process's transactions on one file apart; `gather` resolves when no more are waited for.
 */
function createTogether(
  db: Database,
  turn: (work: () => Promise<void>) => Promise<void>,
  gather: (() => Promise<void>) | undefined,
): Together {
  let waiting: Part[] = [];

  async function write(): Promise<void> {
    await gather?.();
    const parts = waiting;
    waiting = [];
    const answers: (() => void)[] = [];
    try {
      await db.transaction(async (transaction) => {
        for (const part of parts) answers.push(await part.run(transaction));
      });
    } catch (error) {
      for (const part of parts) part.fail(error);
      return;
    }
    for (const answer of answers) answer();
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
      if (waiting.length === 1) void turn(write);
    });
}

/**
 * Throws a StoreError when the home of this record is a copy and its original is still there: both have the same installation id and
 * jobs, so each could end the other's programs. A moved or restored home is accepted, and its path is recorded.
 */
async function refuseCopy(db: Database, file: string): Promise<void> {
  const home = realpathSync(dirname(file));
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'home'`.execute(db);
  const recorded = rows[0]?.value;
  if (recorded === home) return;
  if (recorded !== undefined && isOther(join(recorded, basename(file)), file))
    throw new StoreError('copied', `${home} is a copy of ${recorded}, which is still there. Nothing was changed.`, [
      `Both have the same jobs, so each could end the programs of the other. Use the original: JOBMAN_HOME=${recorded}`,
      'To use the copy instead, end the jobs of the original and then move the original to another path.',
    ]);
  await sql`insert into meta (key, value) values ('home', ${home})
    on conflict (key) do update set value = excluded.value`.execute(db);
}

/** True when both records are there and are two files. */
function isOther(one: string, other: string): boolean {
  const [first, second] = [one, other].map(statOf);
  return first !== undefined && second !== undefined && (first.ino !== second.ino || first.dev !== second.dev);
}

function statOf(path: string): { readonly ino: number; readonly dev: number } | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

/** The version of the record that this program reads and writes: the number of the last migration. */
export const currentVersion = 7;

const migrationTable = 'migration';

/** The version of a record; 0 for one without tables. Reads only. */
async function versionOf(db: Database): Promise<number> {
  if (!(await hasTable(db, migrationTable))) return 0;
  const { rows } = await sql<{ name: string | null }>`select max(name) as name from migration`.execute(db);
  return Number.parseInt(rows[0]?.name ?? '0', 10);
}

function newerRecord(file: string, version: number): StoreError {
  return new StoreError(
    'newer',
    `The record of jobs ${file} was written by a newer jobman: it has version ${version}, this program knows version ${currentVersion}. Upgrade jobman.`,
  );
}

function olderRecord(file: string, version: number): StoreError {
  return new StoreError(
    'older',
    `The record of jobs ${file} has version ${version} and must first be brought to version ${currentVersion}, but it is opened for reading only. Run any jobman command where ${dirname(file)} can be written.`,
  );
}

/** Runs the missing migrations in one transaction: another process waits and finds nothing left to do. Throws what the database says. */
export async function migrate(db: Database): Promise<void> {
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

/** The installation id, six characters [a-z0-9]. A record that was opened for writing has one. */
export async function readInstallation(db: Database): Promise<string> {
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'installation'`.execute(db);
  const found = rows[0]?.value;
  if (found === undefined) throw new Error('the record has no identity, which its first opening for writing gives it');
  return found;
}

/**
 * Throws the StoreError of a copied home whose original is still there. For what acts on machines without writing to the record, since
 * only a write finds this. A missing record and other trouble with it pass.
 */
export async function expectOriginal(file: string): Promise<void> {
  if (sizeOf(file) === 0) return;
  const record = openRecordFile({ file });
  try {
    await record.write(() => Promise.resolve());
  } catch (error) {
    if (error instanceof StoreError && error.trouble === 'copied') throw error;
  } finally {
    await record.close();
  }
}
