// Counters: growing numbers that are never given twice. Statements that write must run in a transaction.

import { sql, wroteRow, type Database, type Sql } from './sql.ts';

/** `change` counts changes of any job; the others number rows. */
type Counter = 'job' | 'event' | 'outcome' | 'change' | 'notice' | 'message' | 'sheet_change' | 'audit';

/** Takes `count` new numbers; `value` is then the last of them. */
export function advance(counter: Counter, count = 1): Sql<{ value: number }> {
  return sql`update counter set value = value + ${count} where name = ${counter} returning value`;
}

/** The last number that was given, within a statement that follows `advance` in the same transaction. */
export function lastGiven(counter: Counter): Sql {
  return sql`(select value from counter where name = ${counter})`;
}

/** Takes `count` new numbers, and returns the last of them. */
export async function nextNumber(db: Database, counter: Counter, count = 1): Promise<number> {
  return requireRow((await advance(counter, count).execute(db)).rows[0]).value;
}

export async function lastNumber(db: Database, counter: Counter): Promise<number> {
  const { rows } = await sql<{ value: number }>`select value from counter where name = ${counter}`.execute(db);
  return requireRow(rows[0]).value;
}

/** False if this number or a later one was given already. */
export function takeNumber(db: Database, counter: Counter, number: number): Promise<boolean> {
  return wroteRow(
    db,
    sql`update counter set value = ${number} where name = ${counter} and value < ${number} returning value`,
  );
}

/** A row that a migration inserts. */
export function requireRow<Row>(row: Row | undefined): Row {
  if (row === undefined) throw new Error('the database lacks a row that its migrations insert');
  return row;
}
