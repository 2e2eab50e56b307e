// Rows: all rows of a database, to copy them into another one and to compare two. A backup is a file of SQLite with the
// same tables, so every copy has a driver of jobman at both ends.

import { createHash } from 'node:crypto';
import { closeSync, openSync, rmSync } from 'node:fs';
import { exitCode, JobmanError, messageOf, StoreError } from '../app/errors.ts';
import type { TableContents } from '../app/services.ts';
import { skipIds } from './job-ids.ts';
import { idOf } from './stored-job.ts';
import { migrate, schemaVersion, supportedVersion } from './database.ts';
import { openDatabase, type DatabaseAddress } from './open-database.ts';
import { toStoreError } from './database-errors.ts';
import { openForReading, openForWriting, inMemory, type Connection } from './sqlite.ts';
import { sql, type Database, type Statement } from './sql.ts';

interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  /** The columns of the primary key. */
  readonly key: readonly string[];
}

type Row = Readonly<Record<string, string | number | null>>;

/** The tables of jobman, each after those that it references. `migration` is not copied: each database has its own. */
async function tablesOf(db: Database): Promise<readonly Table[]> {
  const names = (await db.tables()).filter((name) => !/^(migration$|backup|sqlite_)/.test(name));
  const parents = new Map<string, readonly string[]>();
  const tables = new Map<string, Table>();
  for (const name of names) {
    const { rows: columns } = await sql<{ name: string; pk: number }>`
      select name, pk from pragma_table_info(${name}) order by name`.execute(db);
    const { rows: references } = await sql<{ parent: string }>`
      select "table" as parent from pragma_foreign_key_list(${name})`.execute(db);
    const key = columns.filter(({ pk }) => pk > 0).toSorted((one, other) => one.pk - other.pk);
    tables.set(name, { name, columns: columns.map((column) => column.name), key: key.map((column) => column.name) });
    parents.set(
      name,
      references.map(({ parent }) => parent),
    );
  }
  const ordered = new Set<Table>();
  const add = (name: string): void => {
    const table = tables.get(name);
    if (table === undefined || ordered.has(table)) return;
    for (const parent of parents.get(name) ?? []) if (parent !== name) add(parent);
    ordered.add(table);
  };
  names.forEach(add);
  return [...ordered];
}

/** The tables that this program creates. */
async function currentTables(): Promise<readonly Table[]> {
  const db = openForWriting(inMemory);
  try {
    await migrate(db);
    return await tablesOf(db);
  } finally {
    db.close();
  }
}

const quoted = (name: string): string => `"${name}"`;
const listed = (names: readonly string[]): string => names.map(quoted).join(', ');

/** Rows of one page are in memory together, and a job's texts may be large. */
const pageSize = 200;

async function* pagesOf(db: Database, { name, columns, key }: Table): AsyncIterable<readonly Row[]> {
  const select = `select ${listed(columns)} from ${quoted(name)}`;
  const end = ` order by ${listed(key)} limit ${pageSize}`;
  for (let page = (await db.run({ pieces: [select + end], values: [] })) as readonly Row[]; ;) {
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    if (page.length < pageSize) return;
    const values = key.map((column) => last[column] ?? null);
    const pieces = [`${select} where (${listed(key)}) > (`, ...values.slice(1).map(() => ', '), `)${end}`];
    page = (await db.run({ pieces, values })) as readonly Row[];
  }
}

/** The sum of the hashes of the rows, each in one form for both kinds of databases. */
function createTableDigest({ name, columns }: Table) {
  let [rows, sum] = [0, 0n];
  return {
    add: (row: Row): void => {
      const text = JSON.stringify(columns.map((column) => row[column] ?? null));
      rows += 1;
      sum = BigInt.asUintN(256, sum + BigInt(`0x${createHash('sha256').update(text).digest('hex')}`));
    },
    result: (): TableContents => ({ name, rows, digest: sum.toString(16).padStart(64, '0') }),
  };
}

async function digestsOf(db: Database, tables: readonly Table[]): Promise<readonly TableContents[]> {
  const digests: TableContents[] = [];
  for (const table of tables) {
    const digest = createTableDigest(table);
    for await (const page of pagesOf(db, table)) page.forEach((row) => digest.add(row));
    digests.push(digest.result());
  }
  return digests;
}

/** The rows that each new database has. */
const initialTables = ['meta', 'counter', 'lease'];

/** Fills a new database. Call it in a transaction. */
async function copyRows(from: Database, to: Database, tables: readonly Table[]): Promise<readonly TableContents[]> {
  for (const name of initialTables) await to.run({ pieces: [`delete from ${quoted(name)}`], values: [] });
  const digests: TableContents[] = [];
  for (const table of tables) {
    const digest = createTableDigest(table);
    for await (const page of pagesOf(from, table)) {
      page.forEach((row) => digest.add(row));
      await to.runAll(page.map((row) => insertOf(table, row)));
    }
    digests.push(digest.result());
  }
  return digests;
}

function insertOf({ name, columns }: Table, row: Row): Statement {
  const between = columns.slice(1).map(() => ', ');
  return {
    pieces: [`insert into ${quoted(name)} (${listed(columns)}) values (`, ...between, ')'],
    values: columns.map((column) => row[column] ?? null),
  };
}

/** Throws if the tables differ. `what`: the beginning of the message. */
function requireSame(copied: readonly TableContents[], original: readonly TableContents[], what: string): void {
  const different = original.filter(({ name, rows, digest }) => {
    const found = copied.find((one) => one.name === name);
    return found === undefined || found.rows !== rows || found.digest !== digest;
  });
  if (different.length === 0) return;
  const names = different.map(({ name, rows }) => `${name} (${rows} rows)`).join(', ');
  throw new JobmanError(`${what}: ${names}. Nothing was changed.`, exitCode.failed);
}

// ------------------------------------------------------------------------------------------ a backup

interface SavedRows {
  readonly installation: string | null;
  readonly tables: readonly TableContents[];
  readonly jobs: ReadonlySet<string>;
}

/** Creates the file, which must not exist, with all rows of the database as they are at one time. Throws StoreError. */
export async function saveRows(address: DatabaseAddress, file: string): Promise<SavedRows> {
  const source = openDatabase(address);
  const tables = await currentTables();
  // Private before it has contents.
  closeSync(openSync(file, 'wx', 0o600));
  const copy = openForWriting(file);
  try {
    await migrate(copy);
    await sql`create table backup_table (name text primary key, rows integer not null, digest text not null)`.execute(
      copy,
    );
    return await source.snapshot((from) =>
      copy.transaction(async (to) => {
        const digests = await copyRows(from, to, tables);
        for (const { name, rows, digest } of digests)
          await sql`insert into backup_table (name, rows, digest) values (${name}, ${rows}, ${digest})`.execute(to);
        return { ...(await describeRows(to)), tables: digests };
      }),
    );
  } catch (error) {
    throw toStoreError(file, error);
  } finally {
    copy.close();
    await source.close();
  }
}

async function describeRows(db: Database): Promise<Omit<SavedRows, 'tables'>> {
  const { rows: jobs } = await sql<{ number: number }>`select number from job`.execute(db);
  const { rows: meta } = await sql<{ value: string }>`
    select value from meta where key = 'installation_id'`.execute(db);
  return { installation: meta[0]?.value ?? null, jobs: new Set(jobs.map(({ number }) => idOf(number))) };
}

/**
 * Throws for a file that is no backup, is damaged, or is of a newer jobman. The rows of an older one are brought up to
 * date in the file `scratch`, which is removed.
 */
export async function withSavedRows<T>(
  file: string,
  scratch: string,
  use: (rows: Database, saved: SavedRows) => Promise<T>,
): Promise<T> {
  let backup: Connection | undefined;
  let current: Connection | undefined;
  try {
    backup = openForReading(file, false);
    const version = await supportedVersion(backup, { name: file, replacement: 'use another backup' });
    if (version === 0 || !(await backup.tables()).includes('backup_table'))
      throw new JobmanError(`${file} is no backup of jobman. Nothing was changed.`, exitCode.usage);
    const tables = await tablesOf(backup);
    const { rows: recorded } = await sql<TableContents>`select name, rows, digest from backup_table`.execute(backup);
    requireSame(await digestsOf(backup, tables), recorded, `${file} is damaged: these tables have other rows`);
    if (version < schemaVersion) {
      const old = backup;
      rmSync(scratch, { force: true });
      current = openForWriting(scratch);
      await migrate(current, { upTo: version });
      await current.transaction((to) => copyRows(old, to, tables));
      await migrate(current);
    }
    const rows = current ?? backup;
    return await use(rows, { ...(await describeRows(rows)), tables: await digestsOf(rows, await currentTables()) });
  } catch (error) {
    throw backupError(file, error);
  } finally {
    backup?.close();
    current?.close();
    for (const end of ['', '-wal', '-shm']) rmSync(scratch + end, { force: true });
  }
}

/** The steps that recover the database of a home do not apply to a backup. */
function backupError(file: string, error: unknown): unknown {
  const failure = toStoreError(file, error);
  if (failure === error || !(failure instanceof StoreError) || failure.kind !== 'corrupt') return failure;
  const message = `${file} is damaged (${messageOf(error)}). Nothing was changed.`;
  return new JobmanError(message, exitCode.failed, ['Use another backup.']);
}

/** Throws unless the database has no rows of its own. Creates its tables. */
export async function requireEmptyDatabase(address: DatabaseAddress): Promise<void> {
  const database = openDatabase({ ...address, mayBeClosed: true });
  try {
    await database.write(requireNoRows);
  } finally {
    await database.close();
  }
}

async function requireNoRows(db: Database): Promise<void> {
  const used: string[] = [];
  for (const { name } of await currentTables()) {
    if (initialTables.includes(name)) continue;
    const rows = await db.run({ pieces: [`select 1 from ${quoted(name)} limit 1`], values: [] });
    if (rows.length > 0) used.push(name);
  }
  if (used.length > 0)
    throw new JobmanError(
      `The database is not empty: it has rows in ${used.join(', ')}. Nothing was changed.`,
      exitCode.conflict,
      ['Restore into an empty one: set JOBMAN_HOME to a new folder, or JOBMAN_DATABASE to a new database.'],
    );
}

/**
 * Fills an empty database in one transaction, compares it with the rows, and closes it, so that no controller acts on
 * it. `closed` is why, as a clause. Throws JobmanError.
 */
export async function loadRows(
  rows: Database,
  { tables: expected }: SavedRows,
  address: DatabaseAddress,
  closed: string,
): Promise<void> {
  const tables = await currentTables();
  const target = openDatabase({ ...address, mayBeClosed: true });
  try {
    await target.write(async (db) => {
      await requireNoRows(db);
      await copyRows(rows, db, tables);
      requireSame(await digestsOf(db, tables), expected, 'The copy differs from the backup in these tables');
      await close(db, closed);
    });
  } finally {
    await target.close();
  }
}

async function close(db: Database, closed: string): Promise<void> {
  await sql`insert into meta (key, value) values ('closed', ${closed})
    on conflict (key) do update set value = excluded.value`.execute(db);
  await sql`delete from meta where key = 'timeline'`.execute(db);
  await sql`update lease set holder = null, expires_at = 0, epoch = epoch + 1 where id = 1`.execute(db);
}

/** Opens a closed database again. Null if it is open. Returns the number of the last id that no new job gets. */
export async function openClosed(address: DatabaseAddress): Promise<{ readonly lastId: string } | null> {
  const database = openDatabase({ ...address, mayBeClosed: true });
  try {
    return await database.write(async (db) => {
      const { rows } = await sql`delete from meta where key = 'closed' returning key`.execute(db);
      if (rows.length === 0) return null;
      return { lastId: idOf(await skipIds(db)) };
    });
  } finally {
    await database.close();
  }
}

/** The reason why the database can only be read, as a clause; null if it is open. */
export async function readClosed(address: DatabaseAddress): Promise<string | null> {
  const database = openDatabase({ ...address, readOnly: true });
  try {
    return await database.read(async (db) => {
      const { rows } = await sql<{ value: string }>`select value from meta where key = 'closed'`.execute(db);
      return rows[0]?.value ?? null;
    });
  } finally {
    await database.close();
  }
}
