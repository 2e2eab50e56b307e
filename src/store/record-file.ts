// Record file: the connections to one record, and the two ways to run an operation on it.
//
// Reads go through a connection that cannot write, so that a command which only looks changes nothing, also by
// accident. The connection that writes is opened, and the tables made or brought up to date, when the first write comes;
// from then on it serves both. Where no record is there yet, a reader meets an empty one in memory.

import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { makeHome } from '../app/make-folder.ts';
import { currentVersion, migrate, versionOf } from './migrate.ts';
import { sql, type Database } from './sql.ts';
import { inMemory, inTurn, needsWriter, openForReading, openForWriting, waitForNoDisk } from './sqlite.ts';
import { createTogether, type Together } from './together.ts';
import { refuseCopy } from './copied-home.ts';
import { newerRecord, olderRecord, refuseCut, troubleOf } from './trouble.ts';

export interface OpenRecord {
  /** Path of the database, or `:memory:` for one that is gone when it is closed. */
  readonly file: string;
  /** Refuses every write. Without it the first write makes the file and its folder. */
  readonly readOnly?: boolean;
  /** The identity of a new record; six characters [a-z0-9], random when not given. An existing record keeps its own. */
  readonly installation?: string;
  /** How long a write waits for those of other processes before it is given up, in milliseconds; 5 s when not given. */
  readonly patienceMs?: number;
  /**
   * The contents stand elsewhere as well, so they need only outlive this process and not the power: then no write waits for the
   * disk. A record that is made by it is on the disk all the same.
   */
  readonly isCopy?: boolean;
}

/** Runs an operation on the record, for reading or for writing. Rejects with StoreError when the record cannot be used. */
export type Run = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

/** An open record. */
export interface RecordFile {
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
  // Both may be open: a reader that was opened first may still be answering when the first write comes.
  const writer = () => (writing ??= forgetting(openWriter(), () => (writing = undefined)));
  const reader = () => {
    if (writing !== undefined || file === inMemory) return writer();
    // Somebody else may make the record while we watch, so an empty one never stands for it for good.
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
        together ??=
          file === inMemory
            ? createTogether(
                db,
                (work) => work(),
                () => Promise.resolve(),
              )
            : createTogether(db, (work) => inTurn(file, work), nextTurn);
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
  // Once in the life of a record; a list must not pay for loading it.
  const { randomInt } = await import('node:crypto');
  const letters = 'abcdefghijklmnopqrstuvwxyz0123456789';
  return Array.from({ length: 6 }, () => letters[randomInt(letters.length)]).join('');
}

/** The size of a file in bytes; 0 when it is missing. */
function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** The turn of the event loop after this one: what else came to its end in this turn may want to write as well. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A connection that could not be made is asked for anew next time: what was wrong may have been put right. */
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
