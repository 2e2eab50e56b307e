// SQLite: the driver of the database on this machine. postgres.ts is the other driver.

import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fileModeIn } from '../files/files.ts';
import { sql, type Database, type Statement } from './sql.ts';

export const inMemory = ':memory:';

export interface Connection extends Database {
  close(): void;
}

/** Time to wait for another process's transaction. The whole process is blocked meanwhile. */
const busyTimeoutMs = 5_000;

/** Limit of statements kept prepared; the store has about forty, and lists of ids make more. */
const maxStatements = 200;

/**
 * Opens for writing; a missing file is created with the rights of its folder. With `synchronous = full` a commit is on
 * the disk when it returns, so a job whose id was printed survives a power cut. Write-ahead logging allows readers at
 * the same time. Throws the error of SQLite.
 */
export function openForWriting(file: string, timeout: number = busyTimeoutMs): Connection {
  if (file !== inMemory) createPrivately(file);
  const connection = new DatabaseSync(file, { timeout, enableForeignKeyConstraints: true });
  try {
    // Setting the journal mode locks the whole file and does not wait, and two processes may create the database at
    // once.
    retryWhileBusy(() => connection.exec('pragma journal_mode = wal'));
    connection.exec('pragma synchronous = full');
  } catch (error) {
    connection.close();
    throw error;
  }
  return asDatabase(connection);
}

/**
 * Creates the file if it does not exist: SQLite would make it readable to everyone, and its side files take the rights of
 * this file. An existing file must not be opened: closing it would release the locks of all connections of this process,
 * and the next program that closes the database would remove the log under them (https://www.sqlite.org/howtocorrupt.html,
 * 2.2).
 */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'ax', fileModeIn(dirname(file))));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/**
 * Opens an existing file for reading; no statement on it can change a job. On a read-only file system SQLite cannot
 * create the shared file that coordinates readers and writers. The file is then opened as immutable, which is correct
 * there unless it has an unmerged log.
 */
export function openForReading(file: string, hasUnmergedLog: boolean): Connection {
  const connection = new DatabaseSync(file, { readOnly: true, timeout: busyTimeoutMs });
  try {
    connection.prepare('select count(*) from sqlite_master').get();
    return asDatabase(connection);
  } catch (error) {
    connection.close();
    if (primaryCode(error) !== sqliteCannotOpen || hasUnmergedLog) throw error;
  }
  const unchanging = pathToFileURL(file);
  unchanging.searchParams.set('immutable', '1');
  return asDatabase(new DatabaseSync(unchanging, { readOnly: true }));
}

/**
 * Commits of this connection no longer wait for the disk: they survive the process, but perhaps not a power cut
 * (https://www.sqlite.org/pragma.html#pragma_synchronous). The next commit of another connection brings them to the
 * disk.
 */
export async function disableFsync(db: Database): Promise<void> {
  await sql`pragma synchronous = normal`.execute(db);
}

/** Writes a complete, compact copy into a file that must not exist. Readers and writers continue meanwhile. */
export async function copyInto(db: Database, file: string): Promise<void> {
  await sql`vacuum into ${file}`.execute(db);
}

/** Null when the whole file is consistent, else the first problem. */
export async function findCorruption(db: Database): Promise<string | null> {
  const { rows } = await sql<{ quick_check: string }>`pragma quick_check(1)`.execute(db);
  const answer = rows[0]?.quick_check ?? 'no answer';
  return answer === 'ok' ? null : answer;
}

type SqliteErrorKind = 'corrupt' | 'read_only' | 'full' | 'busy' | 'broken';

/** Undefined for an error that is not from SQLite, or that is a mistake in our own statement. */
export function sqliteErrorKind(error: unknown): SqliteErrorKind | undefined {
  const code = primaryCode(error);
  return code === undefined ? undefined : errorKinds.get(code);
}

/** By SQLite's primary result codes: https://www.sqlite.org/rescode.html */
const errorKinds: ReadonlyMap<number, SqliteErrorKind> = new Map([
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

const sqliteCannotOpen = 14;
const sqliteBusy = 5;

/**
 * True when an interrupted write needs a writer to undo it: SQLITE_READONLY_RECOVERY and SQLITE_READONLY_ROLLBACK
 * (https://www.sqlite.org/rescode.html).
 */
export function needsRecovery(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (error.errcode === 264 || error.errcode === 776);
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined;
  return error.errcode & 0xff;
}

function retryWhileBusy(attempt: () => void): void {
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

function asDatabase(connection: DatabaseSync): Connection {
  const prepared = new Map<string, StatementSync>();
  const run = ({ pieces, values }: Statement): readonly unknown[] =>
    cached(prepared, connection, pieces.join('?')).all(...(values as SQLInputValue[]));
  const runText = (text: string): void => {
    cached(prepared, connection, text).run();
  };
  const tables = (): readonly string[] =>
    run(sql`select name from sqlite_master where type = 'table' order by name`).map(
      (row) => (row as { readonly name: string }).name,
    );
  /** The active transaction; other statements wait for its end. */
  let active: Promise<unknown> | undefined;
  /** The error after which SQLite rolled back the whole transaction itself: a full or failing disk. */
  let undoneBy: unknown;

  /** Another operation of the transaction may have failed meanwhile. */
  function runWithin(statement: Statement): readonly unknown[] {
    if (!connection.isTransaction) throw undoneBy;
    try {
      return run(statement);
    } catch (error) {
      undoneBy = error;
      throw error;
    }
  }

  /** The database within a transaction. Its parts run one after the other, so one savepoint name is enough. */
  const nested: Database = {
    clock: null,
    timeline: null,
    run: async (statement) => runWithin(statement),
    runAll: async (statements) => statements.forEach(runWithin),
    tables: async () => tables(),
    transaction(operation) {
      // Without the transaction, a savepoint would start a new one.
      if (!connection.isTransaction) return Promise.reject(undoneBy);
      return runTransaction('savepoint part', 'release part', ['rollback to part', 'release part'], operation);
    },
  };

  async function runTransaction<T>(
    begin: string,
    end: string,
    undo: readonly string[],
    operation: (db: Database) => Promise<T>,
  ): Promise<T> {
    runText(begin);
    try {
      const result = await operation(nested);
      if (!connection.isTransaction) throw undoneBy;
      runText(end);
      return result;
    } catch (error) {
      if (connection.isTransaction) undo.forEach(runText);
      else undoneBy = error;
      throw error;
    }
  }

  return {
    clock: null,
    timeline: null,
    async run(statement) {
      while (active !== undefined) await active;
      return run(statement);
    },
    async runAll(statements) {
      while (active !== undefined) await active;
      statements.forEach(run);
    },
    async tables() {
      while (active !== undefined) await active;
      return tables();
    },
    async transaction(operation) {
      while (active !== undefined) await active;
      // A plain `begin` takes the write lock only at the first write, and fails at once, whatever the timeout, when
      // another process has written since our first read.
      const result = runTransaction('begin immediate', 'commit', ['rollback'], operation);
      active = result.catch(() => {});
      try {
        return await result;
      } finally {
        active = undefined;
      }
    },
    close: () => connection.close(),
  };
}

const lastTransactions = new Map<string, Promise<unknown>>();

/**
 * Runs this process's transactions on one file one after the other. A statement that waits for another connection
 * blocks the whole process, so two connections of one process would wait for each other until the timeout.
 */
export async function inSequence<T>(file: string, operation: () => Promise<T>): Promise<T> {
  const turn = (lastTransactions.get(file) ?? Promise.resolve()).then(operation);
  const ended = turn.catch(() => {});
  lastTransactions.set(file, ended);
  try {
    return await turn;
  } finally {
    if (lastTransactions.get(file) === ended) lastTransactions.delete(file);
  }
}

function cached(prepared: Map<string, StatementSync>, connection: DatabaseSync, text: string): StatementSync {
  const known = prepared.get(text);
  if (known !== undefined) return known;
  if (prepared.size >= maxStatements) prepared.clear();
  const statement = connection.prepare(text);
  prepared.set(text, statement);
  return statement;
}
