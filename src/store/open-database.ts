// Opens one database: a file of SQLite, or a PostgreSQL server.
//
// Reads use a connection that changes nothing, so that a reading command writes nothing. The first write migrates the
// tables. Without a database, a reader gets an empty one in memory.

import { setImmediate } from 'node:timers/promises';
import { exitCode, JobmanError, StoreError } from '../app/errors.ts';
import { createPatience, type OnSignal } from '../app/patience.ts';
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
  /** Accepts a database that was moved, or restored and not taken over. */
  readonly mayBeClosed?: boolean;
  /** Limit for each statement on a server, in milliseconds; a minute by default. Then the connection is given up. */
  readonly answerTimeoutMs?: number;
  /** For a command: once a read has succeeded, the next ones wait while a server does not answer, until a signal. */
  readonly waits?: DatabaseWaits;
  /** No write waits for the disk, because the contents exist elsewhere too. */
  readonly skipFsync?: boolean;
}

export interface DatabaseWaits {
  /** Called once a wait is longer than a second, with the reason. */
  readonly onWait: (message: string) => void;
  readonly onSignal: OnSignal;
}

export type OpenDatabaseOptions = DatabaseAddress & ConnectionOptions;

/** The value of each key that has one. */
type ReadMany<T> = (db: Database, keys: readonly string[]) => Promise<ReadonlyMap<string, T>>;

interface OpenDatabase {
  readonly read: RunOperation;
  /** Reads of one turn of the event loop are one statement, because the answer of a server takes longer than the read. */
  readonly readTogether: <T>(readMany: ReadMany<T>) => (key: string) => Promise<T | undefined>;
  /** The operation is one transaction, or a part of one that is committed or undone independently. */
  readonly write: RunOperation;
  /**
   * The same for an operation that may run between the statements of others: what it reads must not depend on them, and
   * its own statements must decide whether it writes.
   */
  readonly writeTogether: RunOperation;
  /** Reads a value that the first opening for writing creates, for callers that are about to write. */
  readonly readBeforeWriting: RunOperation;
  readonly snapshot: RunOperation;
  readonly requireUsable: () => Promise<void>;
  readonly notify: Store['notify'];
  readonly listen: Store['listen'];
  readonly close: () => Promise<void>;
}

/** Opens nothing yet: the first operation does, and rejects with StoreError when it cannot. */
export function openDatabase(given: OpenDatabaseOptions): OpenDatabase {
  let opened: Promise<Connections> | undefined;
  const connect = () => (opened ??= 'file' in given ? Promise.resolve(connectFile(given)) : loadPostgres(given));
  const gather = 'file' in given && given.file === inMemory ? undefined : () => setImmediate();
  let batchWrite: BatchWrite | undefined;

  async function perform<T>(operation: (connections: Connections) => Promise<T>): Promise<T> {
    const connections = await connect();
    try {
      return await operation(connections);
    } catch (error) {
      throw connections.toStoreError(error);
    }
  }

  const readOnce: RunOperation = (operation) => perform(async (connections) => operation(await connections.reader()));
  const read = given.waits === undefined || 'file' in given ? readOnce : withPatience(readOnce, given.waits);
  const writeBatched = <T>(operation: (db: Database) => Promise<T>, isTogether: boolean): Promise<T> =>
    perform(async (connections) => {
      const db = await connections.writer();
      batchWrite ??= createBatchWrite(db, (work) => connections.inSequence(work), gather);
      return batchWrite(operation, isTogether);
    });

  return {
    read,
    readTogether: (readMany) => createBatchRead((keys) => read((db) => readMany(db, keys)), gather),
    readBeforeWriting: (operation) =>
      perform(async (connections) =>
        operation(given.readOnly === true ? await connections.reader() : await connections.writer()),
      ),
    write: (operation) => writeBatched(operation, false),
    writeTogether: (operation) => writeBatched(operation, true),
    snapshot: (operation) => perform((connections) => connections.snapshot(operation)),
    requireUsable: () => perform((connections) => connections.requireUsable()),
    notify: (wakeUp) => perform((connections) => connections.notify(wakeUp)),
    listen: (receive) => perform((connections) => connections.listen(receive)),
    async close() {
      // A second call meanwhile closes nothing again.
      const closing = opened;
      opened = batchWrite = undefined;
      await (await closing?.catch(() => undefined))?.close();
    },
  };
}

/** A command that follows jobs continues after a restart of the server, as it does if it uses a server of jobman. */
function withPatience(read: RunOperation, { onWait, onSignal }: DatabaseWaits): RunOperation {
  const patience = createPatience('database', onWait);
  return async (operation) => {
    const [over, since] = [new AbortController(), performance.now()];
    let release: (() => void) | undefined;
    try {
      for (let failures = 0; ; failures += 1) {
        try {
          const result = await read(operation);
          patience.served();
          return result;
        } catch (error) {
          const mayWait = patience.hasServed && error instanceof StoreError && error.retryAfter !== null;
          if (!mayWait) throw error;
          release ??= onSignal(() => over.abort());
          if (!(await patience.wait({ failures, since, isRead: true }, error, over.signal))) throw error;
        }
      }
    } catch (error) {
      if (!over.signal.aborted) throw error;
      throw new JobmanError('Interrupted while the database does not answer.', exitCode.interrupted);
    } finally {
      release?.();
    }
  };
}

/** Only a database on a server needs this module and its library. */
async function loadPostgres(given: ConnectionOptions & { readonly url: string }): Promise<Connections> {
  const { connectPostgres } = await import('./postgres.ts');
  return connectPostgres(given);
}

/** A statement has at most so many values. */
const maxKeys = 500;

/** `gather` resolves once the batch is complete; without it each key is read alone. */
function createBatchRead<T>(
  readMany: (keys: readonly string[]) => Promise<ReadonlyMap<string, T>>,
  gather: (() => Promise<void>) | undefined,
): (key: string) => Promise<T | undefined> {
  let waiting: { readonly keys: string[]; readonly values: Promise<ReadonlyMap<string, T>> } | undefined;
  return async (key) => {
    if (gather === undefined) return (await readMany([key])).get(key);
    if (waiting === undefined || waiting.keys.length === maxKeys) {
      const keys: string[] = [];
      const batch = {
        keys,
        values: gather().then(() => {
          if (waiting === batch) waiting = undefined;
          return readMany(keys);
        }),
      };
      waiting = batch;
    }
    const { keys, values } = waiting;
    keys.push(key);
    return (await values).get(key);
  };
}

/** Resolves once the operation is on the disk. `isTogether`: see `OpenDatabase.writeTogether`. */
type BatchWrite = <T>(operation: (db: Database) => Promise<T>, isTogether: boolean) => Promise<T>;

interface BatchedOperation {
  readonly isTogether: boolean;
  /** Throws the error of the operation. The callback reports its result. */
  readonly run: (db: Database) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/**
 * Writes that wait at the same time share one transaction, and therefore one wait for the disk. If the transaction fails,
 * each operation fails. `serialize` runs this process's transactions on one database one after the other; `gather`
 * resolves once the batch is complete.
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
    const [together, others] = [parts.filter((part) => part.isTogether), parts.filter((part) => !part.isTogether)];
    if (!(await writeParts(together, runTogether))) await writeParts(together, runOneByOne);
    await writeParts(others, runOneByOne);
  }

  /** False if an operation failed and nothing was written. */
  async function writeParts(parts: readonly BatchedOperation[], runParts: RunParts): Promise<boolean> {
    if (parts.length === 0) return true;
    let callbacks: readonly (() => void)[] = [];
    let hasFailed = false;
    try {
      await db.transaction(async (transaction) => {
        // The transaction may be repeated.
        hasFailed = false;
        try {
          callbacks = await runParts(parts, transaction);
        } catch (error) {
          hasFailed = true;
          throw error;
        }
      });
    } catch (error) {
      if (hasFailed && runParts === runTogether && parts.length > 1) return false;
      for (const part of parts) part.fail(error);
      return true;
    }
    for (const callback of callbacks) callback();
    return true;
  }

  return (operation, isTogether) =>
    new Promise((resolve, reject) => {
      waiting.push({
        isTogether,
        async run(transaction) {
          const result = await operation(transaction);
          return () => resolve(result);
        },
        fail: reject,
      });
      if (waiting.length === 1) void serialize(write);
    });
}

type RunParts = (parts: readonly BatchedOperation[], transaction: Database) => Promise<readonly (() => void)[]>;

/** A server gets the statements of all operations without waiting for the answers to one of them. */
const runTogether: RunParts = async (parts, transaction) => {
  const runs = parts.map((part) => part.run(transaction));
  // No operation may continue when the transaction ends.
  await Promise.allSettled(runs);
  return Promise.all(runs);
};

/** An operation that throws is undone alone. */
const runOneByOne: RunParts = async (parts, transaction) => {
  const callbacks: (() => void)[] = [];
  for (const part of parts) {
    if (parts.length === 1) callbacks.push(await part.run(transaction));
    else callbacks.push(await transaction.transaction(part.run).catch((error: unknown) => () => part.fail(error)));
  }
  return callbacks;
};

/**
 * Throws StoreError if the home is a copy of one that still exists, or its database is closed. For commands that act on
 * machines without a write, because only a write detects that. Ignores a missing database and other errors.
 */
export async function requireOriginalHome(address: DatabaseAddress): Promise<void> {
  if ('file' in address && !hasContents(address.file)) return;
  const database = openDatabase(address);
  try {
    await database.write(() => Promise.resolve());
  } catch (error) {
    if (error instanceof StoreError && (error.kind === 'copied' || error.kind === 'closed')) throw error;
  } finally {
    await database.close();
  }
}
