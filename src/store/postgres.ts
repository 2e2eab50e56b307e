// PostgreSQL: the driver of a database on a server. Only a URL loads it.
//
// A transaction holds the advisory lock of jobman from its beginning, as a transaction of SQLite holds the write lock:
// writers of all processes come one after the other. Readers never wait for them.

import { Socket } from 'node:net';
import pg from 'pg';
import pgpass from 'pgpass';
import { createLimiter } from '../app/concurrency.ts';
import { second } from '../core/model/time.ts';
import {
  clearOnFailure,
  ensureInstallationId,
  guarded,
  migrate,
  olderVersionError,
  openedForReadingError,
  openEmpty,
  requireUsable,
  schemaVersion,
  supportedVersion,
  type Connections,
  type DatabaseName,
} from './database.ts';
import type { ConnectionOptions } from './open-database.ts';
import {
  displayUrl,
  foreignTablesError,
  isRepeatable,
  mustReconnect,
  postgresError,
  unclearCommitError,
  wrongEncodingError,
} from './postgres-errors.ts';
import { rememberTimeline } from './job-ids.ts';
import { sql, type Database, type Statement } from './sql.ts';
import { listen, notify } from './wake-channel.ts';

/** Reads of one process at the same time, and its one write. */
const maxConnections = 5;
const connectTimeoutMs = 10 * second;
/** Time to wait for another program's transaction. */
const lockTimeoutMs = 30 * second;
const statementTimeoutMs = 60 * second;
/**
 * A transaction never waits for anything but the database. One of a process that was stopped, or whose connection is cut,
 * keeps all other writers waiting, also the controller that takes over.
 */
const idleInTransactionTimeoutMs = 5 * second;
/** The server ends a statement at its limit. A server that does not answer then is gone. */
const answerDelayMs = 10 * second;

/** After it, a connection that is to be closed is cut: the library waits for the server, which one that hangs never answers. */
const closeTimeoutMs = 3 * second;

/** After a restart of the server every connection may be lost. */
const maxTries = maxConnections + 1;

/** Limit of statements kept prepared by each connection; lists of ids make more. */
const maxStatements = 200;

/** Opens nothing yet, but throws StoreError for a URL that cannot be used. */
export function connectPostgres(given: ConnectionOptions & { readonly url: string }): Connections {
  const { url, readOnly = false, installation, busyTimeoutMs = lockTimeoutMs, skipFsync = false } = given;
  const { mayBeClosed = false, answerTimeoutMs } = given;
  const named: DatabaseName = { name: displayUrl(url), replacement: 'create another database and use its URL' };
  const config = {
    ...configOf(url, busyTimeoutMs, skipFsync),
    ...(answerTimeoutMs !== undefined && {
      connectionTimeoutMillis: answerTimeoutMs,
      statement_timeout: answerTimeoutMs,
      query_timeout: answerTimeoutMs,
    }),
  };
  const pool = createPool(config);
  const used = new Set<pg.PoolClient>();
  pool.on('connect', (client) => used.add(client));
  pool.on('remove', (client) => used.delete(client));
  const db = asDatabase(pool, named.name);
  let version: Promise<number> | undefined;
  let writing: Promise<Database> | undefined;
  let empty: ReturnType<typeof openEmpty> | undefined;

  const currentVersion = () =>
    (version ??= clearOnFailure(supportedVersion(db, named), () => (version = undefined)).then((found) => {
      // Another process may create or upgrade the tables.
      if (found < schemaVersion) version = undefined;
      return found;
    }));
  const writer = () => (writing ??= clearOnFailure(openWriter(), () => (writing = undefined)));

  async function openWriter(): Promise<Database> {
    if (readOnly) throw openedForReadingError(named);
    const found = await currentVersion();
    if (found === 0) await refuseUnsuitable(db, named.name);
    async function finish(transaction: Database): Promise<void> {
      await compareBytes(transaction);
      await ensureInstallationId(transaction, installation);
    }
    if (found < schemaVersion) await migrate(db, { finish });
    await ensureInstallationId(db, installation);
    // Some hosted servers have no function for it.
    await rememberTimeline(db, timeline).catch(() => undefined);
    if (mayBeClosed) return db;
    await requireUsable(db, named);
    return guarded(db, named);
  }

  async function reader(): Promise<Database> {
    if (writing !== undefined) return writer();
    const found = await currentVersion();
    if (found === 0) return (empty ??= openEmpty());
    if (found === schemaVersion) return db;
    if (readOnly) throw olderVersionError(named, found, 'that may write to it');
    return writer();
  }

  return {
    reader,
    writer,
    async snapshot(operation) {
      await reader();
      const client = await pool.connect();
      try {
        await client.query('begin isolation level repeatable read read only');
        // It keeps no writer waiting.
        await client.query('set local idle_in_transaction_session_timeout = 0');
        return await operation(withinTransaction(openSession(client), () => undefined));
      } finally {
        // Ends the transaction too.
        client.release(true);
      }
    },
    async requireUsable() {
      const current = await reader();
      await requireUsable(current, named);
      // Changes nothing, and is refused where every change would be.
      if (!readOnly) await sql`update meta set value = value where 1 = 0`.execute(current);
    },
    toStoreError: (error) => postgresError(named.name, error),
    inSequence: createLimiter(1),
    async notify(wakeUp) {
      await notify(pool, wakeUp).catch((error: unknown) => {
        if (wakeUp.topic === 'exit') throw error;
      });
    },
    listen: (receive) => listen(() => openClient(config), receive),
    async close() {
      const [opened] = await Promise.allSettled([empty, writing]);
      if (opened.status === 'fulfilled') opened.value?.close();
      empty = writing = version = undefined;
      const cut = (): void => used.forEach((client) => client instanceof Client && client.cut());
      setTimeout(cut, closeTimeoutMs).unref();
      await pool.end();
    },
  };
}

function configOf(url: string, busyTimeoutMs: number, skipFsync: boolean): pg.ClientConfig {
  // The library would read `sslmode` in its own way and print a warning.
  const needsLibpqMeaning = url.includes('sslmode=') && !url.includes('uselibpqcompat=');
  return {
    connectionString: needsLibpqMeaning ? `${url}&uselibpqcompat=true` : url,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs + busyTimeoutMs,
    lock_timeout: busyTimeoutMs,
    idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
    query_timeout: statementTimeoutMs + busyTimeoutMs + answerDelayMs,
    keepAlive: true,
    application_name: 'jobman',
    pipeline: true,
    types: { getTypeParser },
    ...(skipFsync && { options: '-c synchronous_commit=off' }),
  };
}

/** Reads the password from `~/.pgpass` for each connection: the library's own reading of it prints a warning. */
class Client extends pg.Client {
  readonly #socket: Socket;

  constructor(config?: pg.ClientConfig) {
    const socket = new Socket();
    super({ ...config, stream: () => socket });
    this.#socket = socket;
    // In the configuration it would lose against the missing password of a URL.
    if (!this.password) Object.assign(this, { password: () => this.#passwordInFile() });
  }

  cut(): void {
    this.#socket.destroy();
  }

  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    setTimeout(() => this.cut(), closeTimeoutMs).unref();
    return callback === undefined ? super.end() : super.end(callback);
  }

  #passwordInFile(): Promise<string | undefined> {
    return new Promise((resolve) => pgpass(this, resolve));
  }
}

function createPool(config: pg.ClientConfig): pg.Pool {
  // A command ends although its connections are open.
  const pool = new pg.Pool({ ...config, max: maxConnections, allowExitOnIdle: true, Client });
  // An idle connection was closed, by a restart of the server for example. The next statement opens another.
  pool.on('error', () => undefined);
  // One may be lost between two statements of a transaction; the second one then fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

async function openClient(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new Client(config);
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

/** The types of `bigint` and of a sum of them, which the library returns as text: 20 (int8) and 1700 (numeric). */
const getTypeParser: pg.CustomTypesConfig['getTypeParser'] = (type, format) =>
  Number(type) === 20 || Number(type) === 1700 ? parseNumber : pg.types.getTypeParser(type, format);

function parseNumber(text: string): number {
  const value = Number(text);
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) throw new RangeError(`${text} in the database is too large a number`);
  return value;
}

const statementNames = new Map<string, string>();

/** `$1` to `$n` for the values. The name lets each connection parse the text once. */
function queryOf({ pieces, values }: Statement): pg.QueryConfig {
  const text = pieces.map((piece, index) => (index === 0 ? piece : `$${index}${piece}`)).join('');
  let name = statementNames.get(text);
  if (name === undefined && statementNames.size < maxStatements) {
    name = `jobman_${statementNames.size + 1}`;
    statementNames.set(text, name);
  }
  return { text, values: [...values], ...(name !== undefined && { name }) };
}

interface Queryable {
  query(query: string | pg.QueryConfig): Promise<pg.QueryResult<object>>;
}

async function runStatement(connection: Queryable, statement: Statement): Promise<readonly unknown[]> {
  return (await connection.query(queryOf(statement))).rows;
}

async function runInTurn(connection: Queryable, statements: readonly Statement[]): Promise<void> {
  const answers = await Promise.allSettled(statements.map((statement) => runStatement(connection, statement)));
  for (const answer of answers) if (answer.status === 'rejected') throw answer.reason;
}

async function readTables(connection: Queryable): Promise<readonly string[]> {
  const statement = sql`select tablename as name from pg_tables where schemaname = current_schema() order by tablename`;
  return (await runStatement(connection, statement)).map((row) => (row as { readonly name: string }).name);
}

const clock = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;
/** The name of a file of the write-ahead log begins with the timeline. */
const timeline = sql<string>`substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`;

function asDatabase(pool: pg.Pool, name: string): Database {
  /** Undefined if the operation may succeed the next time. */
  async function attempt<T>(
    operation: (client: pg.PoolClient) => Promise<T>,
    isLast: boolean,
  ): Promise<{ readonly result: T } | undefined> {
    // A server that cannot be reached is not asked again.
    const client = await pool.connect();
    let failure: unknown;
    try {
      return { result: await operation(client) };
    } catch (error) {
      failure = error;
      if (isLast || !isRepeatable(error)) throw error;
      return undefined;
    } finally {
      client.release(mustReconnect(failure));
    }
  }

  async function repeat<T>(operation: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const done = await attempt(operation, tries === maxTries);
      if (done !== undefined) return done.result;
    }
  }

  return {
    clock,
    timeline,
    run: (statement) => repeat((client) => runStatement(client, statement)),
    runAll: (statements) => repeat((client) => runInTurn(client, statements)),
    tables: () => repeat(readTables),
    transaction: (operation) => repeat((client) => runTransaction(client, name, operation)),
  };
}

/** The statements of one transaction. A statement is sent without waiting for the answers to those before it. */
interface Session extends Queryable {
  /** The error that made the server refuse all later statements, until a rollback. */
  failure: { readonly error: unknown } | undefined;
}

function openSession(client: pg.PoolClient): Session {
  const session: Session = {
    failure: undefined,
    query: (query) => {
      const answer = client.query<object>(query).catch((error: unknown) => {
        session.failure ??= { error };
        throw session.failure.error;
      });
      // The first statements of a transaction are not awaited; the next one fails for the same reason.
      answer.catch(() => undefined);
      return answer;
    },
  };
  return session;
}

async function runTransaction<T>(
  client: pg.PoolClient,
  name: string,
  operation: (db: Database) => Promise<T>,
): Promise<T> {
  const session = openSession(client);
  /** The first error of a part that makes the whole transaction void, although the part reported it as its own. */
  let voidedBy: unknown;
  const noteFailure = (error: unknown) => {
    if (isRepeatable(error)) voidedBy ??= error;
  };
  try {
    void session.query(`begin; select pg_advisory_xact_lock(hashtext('jobman'))`);
    const result = await operation(withinTransaction(session, noteFailure));
    if (voidedBy !== undefined) throw voidedBy;
    await commit(session, name);
    return result;
  } catch (error) {
    if (!mustReconnect(session.failure?.error ?? error)) await client.query('rollback');
    throw error;
  }
}

async function commit(session: Session, name: string): Promise<void> {
  if (session.failure !== undefined) throw session.failure.error;
  let command: string;
  try {
    ({ command } = await session.query('commit'));
  } catch (error) {
    throw mustReconnect(error) ? unclearCommitError(name, error) : error;
  }
  if (command === 'COMMIT') return;
  throw new Error('a statement of the transaction failed, but its error was ignored');
}

/** Its parts run one after the other, so one savepoint name is enough. */
function withinTransaction(session: Session, noteFailure: (error: unknown) => void): Database {
  const db: Database = {
    clock,
    timeline,
    run: (statement) => runStatement(session, statement),
    runAll: (statements) => runInTurn(session, statements),
    tables: () => readTables(session),
    async transaction(operation) {
      void session.query('savepoint part');
      try {
        const result = await operation(db);
        void session.query('release part');
        return result;
      } catch (error) {
        noteFailure(error);
        if (!mustReconnect(error)) {
          await session.query('rollback to part; release part');
          session.failure = undefined;
        }
        throw error;
      }
    },
  };
  return db;
}

async function refuseUnsuitable(db: Database, name: string): Promise<void> {
  const tables = await db.tables();
  if (tables.length > 0) throw foreignTablesError(name, tables);
  const { rows } = await sql<{ server_encoding: string }>`show server_encoding`.execute(db);
  const encoding = rows[0]?.server_encoding ?? 'unknown';
  if (encoding !== 'UTF8') throw wrongEncodingError(name, encoding);
}

/** Gives all texts the order and the letter case of SQLite, which compares bytes, whatever the database's language. */
async function compareBytes(db: Database): Promise<void> {
  const { rows } = await sql<{ statement: string }>`
    select format('alter table %I alter column %I type text collate "C"', table_name, column_name) as statement
    from information_schema.columns
    where table_schema = current_schema() and data_type = 'text' and collation_name is distinct from 'C'
      and table_name in (select tablename from pg_tables where schemaname = current_schema())
    order by table_name, ordinal_position`.execute(db);
  for (const { statement } of rows) await db.run({ pieces: [statement], values: [] });
}
