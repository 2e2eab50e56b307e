// Usage: the statements about the usage ledger. A job's rows are written in the transaction of its commit.

import type { UsageFilter } from '../app/ports.ts';
import { usageOf, type UsageRow } from '../reports/usage.ts';
import type { Job } from '../core/model/job.ts';
import { sql, type Database, type Sql } from './sql.ts';

/** Replaces the rows that differ. `before` is the job as stored; undefined for a new one. */
export async function writeUsage(db: Database, before: Job | undefined, job: Job): Promise<void> {
  await replaceRows(db, job.id, before === undefined ? [] : usageOf(before), usageOf(job));
}

async function replaceRows(
  db: Database,
  subject: string,
  before: readonly UsageRow[],
  rows: readonly UsageRow[],
): Promise<void> {
  const isSame = (row: UsageRow | undefined, other: UsageRow | undefined): boolean =>
    JSON.stringify(row) === JSON.stringify(other);
  const first = rows.findIndex((row, index) => !isSame(before[index], row));
  const kept = first < 0 ? rows.length : first;
  if (kept === before.length && kept === rows.length) return;
  if (kept < before.length) await sql`delete from usage where subject = ${subject} and seq >= ${kept}`.execute(db);
  await insertRows(db, subject, kept, rows.slice(kept));
}

const rowsPerInsert = 50;

async function insertRows(db: Database, subject: string, first: number, rows: readonly UsageRow[]): Promise<void> {
  for (let at = 0; at < rows.length; at += rowsPerInsert) {
    const values = rows.slice(at, at + rowsPerInsert).map((row, index) => valuesOf(subject, first + at + index, row));
    await sql`
      insert into usage (subject, seq, job, source, allocation, name, owner, job_name, project, location, accelerator,
        pricing, chips, ownership, used_for, attempt, began_at, ended_at, price, prices_of, simulated)
      values ${sql.join(values)}`.execute(db);
  }
}

function valuesOf(subject: string, seq: number, row: UsageRow): Sql {
  return sql`(${subject}, ${seq}, ${row.job}, ${row.source}, ${row.allocation}, ${row.name}, ${row.owner},
    ${row.jobName}, ${row.project}, ${row.location}, ${row.accelerator}, ${row.pricing}, ${row.chips},
    ${row.ownership}, ${row.use}, ${row.attempt}, ${row.from}, ${row.until}, ${row.pricePerHourUsd}, ${row.pricesOf},
    ${row.simulated ? 1 : 0})`;
}

interface StoredRow extends Omit<UsageRow, 'tags' | 'simulated'> {
  readonly subject: string;
  readonly simulated: number;
}

/** See `Store.usage`. */
export async function readUsage(db: Database, filter: UsageFilter): Promise<readonly UsageRow[]> {
  const where = matches(filter);
  const { rows } = await sql<StoredRow>`
    select subject, job, source, allocation, name, owner, job_name as "jobName", project, location, accelerator, pricing,
      chips, ownership, used_for as "use", attempt, began_at as "from", ended_at as "until",
      price as "pricePerHourUsd", prices_of as "pricesOf", simulated
    from usage where ${where} order by subject, seq`.execute(db);
  const tags = await readTags(db);
  return rows.map(({ subject, simulated, ...row }) => ({
    ...row,
    tags: tags.get(Number(subject)) ?? noTags,
    simulated: simulated === 1,
  }));
}

const noTags: readonly string[] = [];

async function readTags(db: Database): Promise<ReadonlyMap<number, readonly string[]>> {
  const { rows } = await sql<{ tag: string; job: number }>`select tag, job from job_tag order by job, tag`.execute(db);
  const tags = new Map<number, string[]>();
  for (const { tag, job } of rows) {
    const known = tags.get(job);
    if (known === undefined) tags.set(job, [tag]);
    else known.push(tag);
  }
  return tags;
}

function matches({ since, until, jobs, owner }: UsageFilter): Sql {
  const parts: Sql[] = [];
  if (since !== undefined) parts.push(sql`(ended_at is null or ended_at > ${since})`);
  if (until !== undefined) parts.push(sql`began_at < ${until}`);
  if (jobs !== undefined) parts.push(jobs.length === 0 ? sql`1 = 0` : sql`job in (${sql.join(jobs)})`);
  if (owner !== undefined) parts.push(sql`owner = ${owner}`);
  return parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `);
}
