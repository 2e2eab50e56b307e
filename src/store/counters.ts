// Counters: numbers that only grow.

import { sql, type Database } from './sql.ts';

/** `job` and `outcome` number those; `change` counts changes of any job. */
export type Counter = 'job' | 'outcome' | 'change';

/** The next number, which nobody else gets. */
export async function next(db: Database, counter: Counter): Promise<number> {
  const { rows } = await sql<{ value: number }>`
    update counter set value = value + 1 where name = ${counter} returning value`.execute(db);
  return found(counter, rows[0]?.value);
}

/** The newest number that was given; 0 when none was. */
export async function newest(db: Database, counter: Counter): Promise<number> {
  const { rows } = await sql<{ value: number }>`select value from counter where name = ${counter}`.execute(db);
  return found(counter, rows[0]?.value);
}

function found(counter: Counter, value: number | undefined): number {
  if (value === undefined) throw new Error(`the record has no counter "${counter}", which its first migration makes`);
  return value;
}
