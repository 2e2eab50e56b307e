// Usage: the statements about the usage ledger. A job's rows are written in the transaction of its commit.

import type { UsageFilter } from '../app/ports.ts';
import type { JobUsage, SummedGrouping, UsageSum } from '../reports/cost.ts';
import { usageOf, type UsageRow } from '../reports/usage.ts';
import type { Job } from '../core/model/job.ts';
import { hour, type Instant } from '../core/model/time.ts';
import { schemaVersion } from './database-file.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { jobOf } from './stored-job.ts';

/** Replaces the rows that differ. `before` is the job as stored; undefined for a new one. */
export async function writeUsage(db: Database, before: Job | undefined, job: Job): Promise<void> {
  await replaceRows(db, job.id, before === undefined ? [] : usageOf(before), usageOf(job));
}

/**
 * Writes the rows of all jobs again, once for each version of the database. An older controller may have run during the
 * upgrade, and its commits wrote other rows or none; call this when another controller has taken the lease from it.
 */
export async function completeUsage(db: Database): Promise<void> {
  const { rows: written } = await sql`
    insert into meta (key, value) values ('usage_complete', ${String(schemaVersion)})
    on conflict (key) do update set value = excluded.value where meta.value <> excluded.value returning key`.execute(
    db,
  );
  if (written.length === 0) return;
  const { rows } = await sql<{ status: string; outline: string }>`select status, outline from job`.execute(db);
  for (const { status, outline } of rows) {
    const job = jobOf(status, outline);
    await sql`delete from usage where subject = ${job.id}`.execute(db);
    await insertRows(db, job.id, 0, usageOf(job));
  }
}

/** Replaces the rows of `subject` that differ: the id of a job, or the uid of a cluster's job. */
export async function replaceRows(
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
  await sql`delete from usage where subject = ${subject} and seq >= ${kept}`.execute(db);
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
  // Field by field: copies by spread take most of the time for thousands of rows.
  return rows.map((row) => ({
    job: row.job,
    source: row.source,
    allocation: row.allocation,
    name: row.name,
    owner: row.owner,
    jobName: row.jobName,
    tags: tags.get(Number(row.subject)) ?? noTags,
    project: row.project,
    location: row.location,
    accelerator: row.accelerator,
    pricing: row.pricing,
    chips: row.chips,
    ownership: row.ownership,
    use: row.use,
    attempt: row.attempt,
    from: row.from,
    until: row.until,
    pricePerHourUsd: row.pricePerHourUsd,
    pricesOf: row.pricesOf,
    simulated: row.simulated === 1,
  }));
}

/** See `Store.usageByJob`. */
export async function readUsageByJob(db: Database, filter: UsageFilter, now: Instant): Promise<readonly JobUsage[]> {
  const duration = clippedDuration(filter, now);
  const { rows } = await sql<Unconverted<JobUsage>>`
    select subject, min(job) as "job", min(case when source = 'kubernetes' then location end) as "cluster",
      min(simulated) as "simulated", coalesce(sum(case when used_for <> 'waiting' then ${duration} end), 0) as "heldMs",
      coalesce(sum(case when used_for <> 'waiting' then ${duration} * price end), 0) / ${hour} as "usd"
    from usage where ${matches({ ...filter, until: end(filter, now) })} group by subject`.execute(db);
  return withBooleans<JobUsage>(rows);
}

const noNames = sql`null as "name", null as "owner", null as "cluster"`;

/** The columns of a group, and those that make two groups different. */
const groupings: Readonly<Record<SummedGrouping | 'none', readonly [columns: Sql, by: Sql]>> = {
  job: [
    sql`min(job) as "key", min(job_name) as "name", min(owner) as "owner",
      min(case when source = 'kubernetes' then location end) as "cluster"`,
    sql`subject`,
  ],
  user: [sql`owner as "key", ${noNames}`, sql`owner`],
  accelerator: [sql`accelerator as "key", ${noNames}`, sql`accelerator`],
  zone: [sql`location as "key", ${noNames}`, sql`location`],
  none: [sql`null as "key", ${noNames}`, sql`simulated`],
};

/** See `Store.usageSums`. */
export async function readUsageSums(
  db: Database,
  filter: UsageFilter,
  by: SummedGrouping | null,
  now: Instant,
): Promise<readonly UsageSum[]> {
  const duration = clippedDuration(filter, now);
  const [columns, group] = groupings[by ?? 'none'];
  const { rows } = await sql<Unconverted<UsageSum>>`
    select ${columns}, simulated, used_for as "use", prices_of as "pricesOf", min(${beginning(filter)}) as "firstAt",
      sum(${duration}) as "durationMs", coalesce(sum(${duration} * chips), 0) as "chipMs",
      coalesce(sum(${duration} * price), 0) / ${hour} as "usd",
      sum(case when price is null then ${duration} else 0 end) as "unpricedMs"
    from usage where ${matches({ ...filter, until: end(filter, now) })}
    group by ${group}, simulated, used_for, prices_of`.execute(db);
  return withBooleans<UsageSum>(rows);
}

type Unconverted<Row> = Omit<Row, 'simulated'> & { simulated: number | boolean };

/** Changes the rows, because copies of thousands would take longer than the statement. */
function withBooleans<Row extends { readonly simulated: boolean }>(rows: readonly Unconverted<Row>[]): readonly Row[] {
  for (const row of rows) row.simulated = row.simulated === 1;
  return rows as readonly unknown[] as readonly Row[];
}

function end({ until }: UsageFilter, now: Instant): Instant {
  return Math.min(until ?? now, now);
}

function beginning({ since }: UsageFilter): Sql {
  return since === undefined ? sql`began_at` : sql`case when began_at < ${since} then ${since} else began_at end`;
}

/** The part of a row in the period of the filter, in milliseconds. `now` ends a row that continues. */
function clippedDuration(filter: UsageFilter, now: Instant): Sql {
  const last = end(filter, now);
  return sql`(case when ended_at is null or ended_at > ${last} then ${last} else ended_at end - ${beginning(filter)})`;
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

const never = sql`1 = 0`;

function matches({ since, until, jobs, owner, subjects, exceptSubjects }: UsageFilter): Sql {
  const parts: Sql[] = [];
  if (since !== undefined) parts.push(sql`(ended_at is null or ended_at > ${since})`);
  if (until !== undefined) parts.push(sql`began_at < ${until}`);
  if (jobs !== undefined) parts.push(jobs.length === 0 ? never : sql`job in (${sql.join(jobs)})`);
  if (owner !== undefined) parts.push(sql`owner = ${owner}`);
  if (subjects !== undefined) parts.push(subjects.length === 0 ? never : sql`subject in (${sql.join(subjects)})`);
  if (exceptSubjects !== undefined && exceptSubjects.length > 0)
    parts.push(sql`subject not in (${sql.join(exceptSubjects)})`);
  return parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `);
}
