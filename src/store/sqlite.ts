// SQLite: the one file that knows which database is used. Another driver is another file like this one.

import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fileModeIn } from '../app/files.ts';
import { sql, type Database, type Statement } from './sql.ts';

/** The name of a database that lives in memory and is gone when it is closed. */
export const inMemory = ':memory:';

/** How long a statement waits for another process's transaction. The whole process stands still meanwhile. */
const busyTimeoutMs = 5_000;

/** Statements kept prepared; the store has about forty, and lists of ids make more. */
const statementsMost = 200;

/**
 * Opens for writing, and makes the file when it is missing, for those who may use its folder. A commit is on the disk when it
 * returns (`synchronous = full`): a job whose id was printed survives a power cut. Write-ahead logging lets others read
 * meanwhile. Throws what SQLite says.
 */
export function openForWriting(file: string, timeout: number = busyTimeoutMs): Database {
  // SQLite would make the file readable to everybody; its side files take the rights of this one.
  if (file !== inMemory) closeSync(openSync(file, 'a', fileModeIn(dirname(file))));
  const connection = new DatabaseSync(file, { timeout, enableForeignKeyConstraints: true });
  try {
    // Setting the journal mode locks the whole file and does not wait, and two processes may make the record at once.
    untilNotBusy(() => connection.exec('pragma journal_mode = wal'));
    connection.exec('pragma synchronous = full');
  } catch (error) {
    connection.close();
    throw error;
  }
  return asDatabase(connection);
}

/**
 * Opens an existing file for reading; no statement on it can change a job. On a file system that is read-only SQLite
 * cannot make the small shared file that tells readers and writers of each other; then the file is read as one that
 * nobody changes, which is true there, as long as no unmerged log lies beside it.
 */
export function openForReading(file: string, hasUnmergedLog: boolean): Database {
  const connection = new DatabaseSync(file, { readOnly: true, timeout: busyTimeoutMs });
  try {
    connection.prepare('select count(*) from sqlite_master').get();
    return asDatabase(connection);
  } catch (error) {
    connection.close();
    if (primaryCode(error) !== cannotOpen || hasUnmergedLog) throw error;
  }
  const unchanging = pathToFileURL(file);
  unchanging.searchParams.set('immutable', '1');
  return asDatabase(new DatabaseSync(unchanging, { readOnly: true }));
}

/**
 * From now on a commit of this connection outlives the process and not always the power
 * (https://www.sqlite.org/pragma.html#pragma_synchronous). The next commit of another brings it to the disk.
 */
export async function waitForNoDisk(db: Database): Promise<void> {
  await sql`pragma synchronous = normal`.execute(db);
}

/** True when a table of that name exists. */
export async function hasTable(db: Database, name: string): Promise<boolean> {
  const { rows } = await sql`select 1 from sqlite_master where type = 'table' and name = ${name}`.execute(db);
  return rows.length > 0;
}

/** Writes a whole, tidy copy into a file that must not exist. Readers and writers go on meanwhile. */
export async function copyInto(db: Database, file: string): Promise<void> {
  await sql`vacuum into ${file}`.execute(db);
}

/** Null when the whole file is consistent, else the first thing that is wrong. */
export async function firstDamage(db: Database): Promise<string | null> {
  const { rows } = await sql<{ quick_check: string }>`pragma quick_check(1)`.execute(db);
  const said = rows[0]?.quick_check ?? 'no answer';
  return said === 'ok' ? null : said;
}

type Meaning = 'corrupt' | 'read_only' | 'full' | 'busy' | 'broken';

/** The meaning of an error of SQLite for people; undefined when it is not one, or our own mistake in a statement. */
export function meaningOf(error: unknown): Meaning | undefined {
  const code = primaryCode(error);
  return code === undefined ? undefined : meanings.get(code);
}

/** Of SQLite's primary result codes: https://www.sqlite.org/rescode.html */
const meanings: ReadonlyMap<number, Meaning> = new Map([
  [3, 'read_only'], // SQLITE_PERM
  [5, 'busy'], // SQLITE_BUSY
  [6, 'busy'], // SQLITE_LOCKED
  [8, 'read_only'], // SQLITE_READONLY
  [10, 'broken'], // SQLITE_IOERR
  [11, 'corrupt'], // SQLITE_CORRUPT
  [13, 'full'], // SQLITE_FULL
  [14, 'broken'], // SQLITE_CANTOPEN
  [26, 'corrupt'], // SQLITE_NOTADB
]);

const cannotOpen = 14;
const sqliteBusy = 5;

/**
 * True when a reader met a write that was cut off, which only a writer can take back: SQLITE_READONLY_RECOVERY and
 * SQLITE_READONLY_ROLLBACK (https://www.sqlite.org/rescode.html).
 */
export function needsWriter(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (error.errcode === 264 || error.errcode === 776);
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined;
  // The higher bytes are variants of the same error.
  return error.errcode & 0xff;
}

function untilNotBusy(attempt: () => void): void {
  for (let tries = 0; ; tries += 1) {
    try {
      attempt();
      return;
    } catch (error) {
      if (primaryCode(error) !== sqliteBusy || tries === 200) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 25);
    }
  }
}

function asDatabase(connection: DatabaseSync): Database {
  const prepared = new Map<string, StatementSync>();
  const run = ({ pieces, values }: Statement): readonly unknown[] =>
    cached(prepared, connection, pieces.join('?')).all(...(values as SQLInputValue[]));
  const say = (text: string): void => {
    cached(prepared, connection, text).run();
  };
  /** The transaction under way; statements from elsewhere wait for its end. */
  let underWay: Promise<unknown> | undefined;
  /** The error that made SQLite undo the whole transaction by itself: a full or failing disk. */
  let undoneBy: unknown;

  /** Within a transaction. Its parts follow each other, so one savepoint name is enough. */
  const inside: Database = {
    run: async (statement) => run(statement),
    transaction(operation) {
      // Without the transaction, a savepoint would begin one of its own.
      if (!connection.isTransaction) return Promise.reject(undoneBy);
      return between('savepoint part', 'release part', ['rollback to part', 'release part'], operation);
    },
    close: () => connection.close(),
  };

  async function between<T>(
    begin: string,
    end: string,
    undo: readonly string[],
    operation: (db: Database) => Promise<T>,
  ): Promise<T> {
    say(begin);
    try {
      const result = await operation(inside);
      if (!connection.isTransaction) throw undoneBy;
      say(end);
      return result;
    } catch (error) {
      if (connection.isTransaction) undo.forEach(say);
      else undoneBy = error;
      throw error;
    }
  }

  return {
    async run(statement) {
      while (underWay !== undefined) await underWay;
      return run(statement);
    },
    async transaction(operation) {
      while (underWay !== undefined) await underWay;
      // A plain `begin` takes the right to write only at the first write, and fails at once when another process wrote
      // since our first read, whatever the timeout.
      const result = between('begin immediate', 'commit', ['rollback'], operation);
      underWay = result.catch(() => {});
      try {
        return await result;
      } finally {
        underWay = undefined;
      }
    },
    close: () => connection.close(),
  };
}

/** The newest transaction of this process on a file, ended or not. */
const lastTurns = new Map<string, Promise<unknown>>();

/**
 * Transactions that this process makes on one file, one after the other. A statement that waits for another connection
 * stands still with the whole process, so two connections of one process would wait for each other in vain.
 */
export async function inTurn<T>(file: string, operation: () => Promise<T>): Promise<T> {
  const turn = (lastTurns.get(file) ?? Promise.resolve()).then(operation);
  const ended = turn.catch(() => {});
  lastTurns.set(file, ended);
  try {
    return await turn;
  } finally {
    if (lastTurns.get(file) === ended) lastTurns.delete(file);
  }
}

function cached(prepared: Map<string, StatementSync>, connection: DatabaseSync, text: string): StatementSync {
  const known = prepared.get(text);
  if (known !== undefined) return known;
  if (prepared.size >= statementsMost) prepared.clear();
  const statement = connection.prepare(text);
  prepared.set(text, statement);
  return statement;
}
