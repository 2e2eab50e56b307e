// SQL: statements are SQL text with their values inside. No query builder and no ORM, so that nothing more is loaded.

type Value = string | number | null;

export interface Database {
  /** Runs one statement and returns its rows. Throws the error of the database. */
  run(statement: Statement): Promise<readonly unknown[]>;
  /**
   * Runs the statements of a transaction in their order. A server gets all of them at once, because each answer takes
   * longer than its statement. Throws the first error.
   */
  runAll(statements: readonly Statement[]): Promise<void>;
  /** The time of a server, whose clients may have different clocks, in milliseconds; null for a database of this machine. */
  readonly clock: Sql<number> | null;
  /** Changes when a standby of the server takes over; null for a database of this machine. */
  readonly timeline: Sql<string> | null;
  /** The names of all tables. */
  tables(): Promise<readonly string[]>;
  /**
   * Runs the operation in one transaction, which holds the write lock from its beginning and is rolled back when the
   * operation throws. No other statement of this connection runs in between. Within a transaction it is a part that can
   * be rolled back alone.
   */
  transaction<T>(operation: (db: Database) => Promise<T>): Promise<T>;
}

/** The text between the values, and the values: `pieces` has one more. */
export interface Statement {
  readonly pieces: readonly string[];
  readonly values: readonly Value[];
}

/** May be a part of another statement. */
export interface Sql<Row = unknown> extends Statement {
  execute(db: Database): Promise<{ readonly rows: readonly Row[] }>;
}

type Given = Value | Sql;

/** Builds a statement: sql`select name from job where number = ${number}`. A value never becomes a part of the text. */
function write<Row = unknown>(texts: readonly string[], ...given: readonly Given[]): Sql<Row> {
  const pieces = [texts[0] ?? ''];
  const values: Value[] = [];
  const extend = (text: string): void => {
    pieces.push(`${pieces.pop() ?? ''}${text}`);
  };
  for (const [index, one] of given.entries()) {
    if (typeof one === 'object' && one !== null) {
      extend(one.pieces[0] ?? '');
      pieces.push(...one.pieces.slice(1));
      values.push(...one.values);
    } else {
      pieces.push('');
      // PostgreSQL stores no NUL, and a text must be the same in both databases.
      values.push(typeof one === 'string' && one.includes('\0') ? one.replaceAll('\0', '\uFFFD') : one);
    }
    extend(texts[index + 1] ?? '');
  }
  return {
    pieces,
    values,
    async execute(db) {
      return { rows: (await db.run(this)) as readonly Row[] };
    },
  };
}

function join(parts: readonly Given[], between: Sql = write([', '])): Sql {
  const pieces = [''];
  const given: Given[] = [];
  for (const part of parts) {
    if (given.length > 0) {
      given.push(between);
      pieces.push('');
    }
    given.push(part);
    pieces.push('');
  }
  return write(pieces, ...given);
}

export const sql: typeof write & { readonly join: typeof join } = Object.assign(write, { join });

const maxTries = 100;

/**
 * Repeats an operation that reads a row and then writes it, until no other writer has changed the row in between.
 * `attempt` returns undefined if one has. It must be safe to repeat.
 */
export async function untilWritten<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    const result = await attempt();
    if (result !== undefined) return result;
  }
  throw new Error(`another writer changed the row ${maxTries} times between a read and its write`);
}

/** True if the statement, which ends in `returning`, has written a row. */
export async function wroteRow(db: Database, statement: Sql): Promise<boolean> {
  return (await statement.execute(db)).rows.length > 0;
}

/** Longer lists are rare, and the number of values in a statement is limited. */
const maxRepeated = 1_024;

/**
 * False for an empty list, for which PostgreSQL has no `in ()`. The last value is repeated up to a power of two, so that
 * a few prepared statements serve lists of every length.
 */
export function isOneOf(column: Sql, values: readonly Value[]): Sql {
  const last = values.at(-1);
  if (last === undefined) return sql`1 = 0`;
  const size = values.length > maxRepeated ? values.length : 2 ** Math.ceil(Math.log2(values.length));
  const repeated = Array<Value>(size - values.length).fill(last);
  return sql`${column} in (${sql.join([...values, ...repeated])})`;
}

/** One more, so that the reader of a page knows whether more follow. */
export function atMost(limit: number | undefined): Sql {
  return limit === undefined ? sql`` : sql`limit ${limit + 1}`;
}

/** The case of ASCII letters does not matter: `lower` knows no others. */
export function matchesGlob(column: Sql, glob: string): Sql {
  const lower = glob.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  const pattern = escapeLike(lower).replaceAll('*', '%').replaceAll('?', '_');
  return sql`lower(${column}) like ${pattern} escape '\\'`;
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, String.raw`\$&`);
}
