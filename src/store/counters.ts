// Counters: growing numbers that are never given twice. Statements that write must run in a transaction.

import { sql, wroteRow, type Database } from './sql.ts';

/** `change` counts changes of any job; the others number rows. */
type Counter = 'job' | 'event' | 'outcome' | 'change' | 'notice' | 'message';

/** The last of `count` new numbers. */
export async function nextNumber(db: Database, counter: Counter, count = 1): Promise<number> {
  const { rows } = await sql<{ value: number }>`
    update counter set value = value + ${count} where name = ${counter} returning value`.execute(db);
  return requireRow(rows[0]).value;
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
