// Opens one database: a file of SQLite, or a PostgreSQL server.
//
// Reads use a connection that changes nothing, so that a reading command writes nothing. The first write migrates the
// tables. Without a database, a reader gets an empty one in memory.

import { setImmediate } from 'node:timers/promises';
import { StoreError } from '../app/errors.ts';
import type { Store } from '../app/ports.ts';
import { connectFile, hasContents } from './database-file.ts';
import type { Connections, RunOperation } from './database.ts';
import type { Database } from './sql.ts';
import { inMemory } from './sqlite.ts';

/** `:memory:` as the file is a database that is gone when it is closed. The URL begins with `postgres://`. */
export type DatabaseAddress = { readonly file: string } | { readonly url: string };

export interface ConnectionOptions {
  /** Refuses every write. Without it the first write creates the file and its folder, or the tables. */
  readonly readOnly?: boolean;
  /** Installation id of a new database: six characters [a-z0-9], random by default. */
  readonly installation?: string;
  /** Time to wait for another process's transaction, in milliseconds; 5 s by default. */
  readonly busyTimeoutMs?: number;
  /** No write waits for the disk, because the contents exist elsewhere too. */
  readonly skipFsync?: boolean;
}

export type OpenDatabaseOptions = DatabaseAddress & ConnectionOptions;

interface OpenDatabase {
  readonly read: RunOperation;
  /** The operation is one transaction, or a part of one that is committed or undone independently. */
  readonly write: RunOperation;
  /** Reads a value that the first opening for writing creates, for callers that are about to write. */
  readonly readBeforeWriting: RunOperation;
  readonly notify: Store['notify'];
  readonly listen: Store['listen'];
  readonly close: () => Promise<void>;
}

/** Opens nothing yet: the first operation does, and rejects with StoreError when it cannot. */
export function openDatabase(given: OpenDatabaseOptions): OpenDatabase {
  let opened: Promise<Connections> | undefined;
  const connect = () => (opened ??= 'file' in given ? Promise.resolve(connectFile(given)) : loadPostgres(given));
  let batchWrite: BatchWrite | undefined;

  async function perform<T>(operation: (connections: Connections) => Promise<T>): Promise<T> {
    const connections = await connect();
    try {
      return await operation(connections);
    } catch (error) {
      throw connections.toStoreError(error);
    }
  }

  return {
    read: (operation) => perform(async (connections) => operation(await connections.reader())),
    readBeforeWriting: (operation) =>
      perform(async (connections) =>
        operation(given.readOnly === true ? await connections.reader() : await connections.writer()),
      ),
    write: (operation) =>
      perform(async (connections) => {
        const db = await connections.writer();
        const isShared = !('file' in given) || given.file !== inMemory;
        batchWrite ??= createBatchWrite(
          db,
          (work) => connections.inSequence(work),
          isShared ? () => setImmediate() : undefined,
        );
        return batchWrite(operation);
      }),
    notify: (wakeUp) => perform((connections) => connections.notify(wakeUp)),
    listen: (receive) => perform((connections) => connections.listen(receive)),
    async close() {
      const connections = await opened?.catch(() => undefined);
      opened = batchWrite = undefined;
      await connections?.close();
    },
  };
}

/** Only a database on a server needs this module and its library. */
async function loadPostgres(given: ConnectionOptions & { readonly url: string }): Promise<Connections> {
  const { connectPostgres } = await import('./postgres.ts');
  return connectPostgres(given);
}

/** Resolves once the operation is on the disk. */
type BatchWrite = <T>(operation: (db: Database) => Promise<T>) => Promise<T>;

interface BatchedOperation {
  /** With others of one transaction, a failure undoes this operation only. Alone it throws. */
  readonly run: (db: Database, isAlone: boolean) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/**
 * Writes that wait at the same time share one transaction, and therefore one wait for the disk. An operation that throws
 * is undone alone; if the transaction fails, each operation fails. `serialize` runs this process's transactions on one
 * database one after the other; `gather` resolves once the batch is complete.
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
    let callbacks: (() => void)[] = [];
    try {
      await db.transaction(async (transaction) => {
        // The transaction may be repeated.
        callbacks = [];
        for (const part of parts) callbacks.push(await part.run(transaction, parts.length === 1));
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
        async run(transaction, isAlone) {
          try {
            const result = await (isAlone ? operation(transaction) : transaction.transaction(operation));
            return () => resolve(result);
          } catch (error) {
            if (isAlone) throw error;
            return () => reject(error);
          }
        },
        fail: reject,
      });
      if (waiting.length === 1) void serialize(write);
    });
}

/**
 * Throws StoreError if the home is a copy of one that still exists. For commands that act on machines without a write,
 * because only a write detects a copy. Ignores a missing database and other errors. A database on a server has no copies.
 */
export async function requireOriginalHome(address: DatabaseAddress): Promise<void> {
  if ('url' in address) return;
  if (!hasContents(address.file)) return;
  const database = openDatabase(address);
  try {
    await database.write(() => Promise.resolve());
  } catch (error) {
    if (error instanceof StoreError && error.kind === 'copied') throw error;
  } finally {
    await database.close();
  }
}
