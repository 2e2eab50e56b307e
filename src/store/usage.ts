// Usage: the statements about the usage ledger. A job's rows are written in the transaction of its commit.

import { generations } from '../catalogue/accelerators.ts';
import type { UserSpending } from '../core/policy/grants.ts';
import type { ArchivedObservation } from '../app/cluster/objects.ts';
import { archivedUsage } from '../app/cluster/usage.ts';
import { firstRows, withNext, type Key, type Rows, type Span } from '../app/pages.ts';
import type { CostliestJobs, UsageFilter } from '../app/ports.ts';
import type { CostGrouping, UsageSum } from '../reports/cost.ts';
import { usageOf, type UsageRow } from '../reports/usage.ts';
import type { BudgetPeriod, Job } from '../core/model/job.ts';
import { day, hour, utcDate, type Instant } from '../core/model/time.ts';
import { ownersLike } from '../core/model/user.ts';
import { advance } from './counters.ts';
import { atMost, isOneOf, matchesGlob, sql, type Database, type Sql } from './sql.ts';
import { jobOf } from './stored-job.ts';
import { readUsers } from './users.ts';

/** Replaces the rows that differ. `before` is the job as stored; undefined for a new one. */
export function usageWrites(before: Job | undefined, job: Job): readonly Sql[] {
  return rowReplacements(job.id, before === undefined ? [] : usageOf(before), usageOf(job));
}

/**
 * Writes the rows of all jobs again, once for each version of the database. An older controller may have run during the
 * upgrade, and its commits wrote other rows or none; call this when another controller has taken the lease from it. True
 * if the rows were written.
 */
export async function completeUsage(db: Database, version: number): Promise<boolean> {
  const { rows: written } = await sql`
    insert into meta (key, value) values ('usage_complete', ${String(version)})
    on conflict (key) do update set value = excluded.value where meta.value <> excluded.value returning key`.execute(
    db,
  );
  if (written.length === 0) return false;
  // In a database with several writers, the commits of jobs wait for the first row and those of the archive for the others.
  await advance('event', 0).execute(db);
  await sql`update cluster_job set observed_at = observed_at`.execute(db);
  const { rows } = await sql<{ status: string; outline: string }>`select status, outline from job`.execute(db);
  for (const { status, outline } of rows) {
    const job = jobOf(status, outline);
    await db.runAll([sql`delete from usage where subject = ${job.id}`, ...insertions(job.id, 0, usageOf(job))]);
  }
  // Rows of jobs that left the archive stay.
  for (const { uid, usage } of await readArchivedUsage(db)) {
    await db.runAll([sql`delete from usage where subject = ${uid}`, ...insertions(uid, 0, usage)]);
  }
  return true;
}

/** The rows of each job in the archive of clusters. */
export async function readArchivedUsage(
  db: Database,
): Promise<readonly { readonly uid: string; readonly usage: readonly UsageRow[] }[]> {
  const { rows } = await sql<{ uid: string; context: string; goneAt: number | null; observation: string }>`
    select uid, context, gone_at as "goneAt", observation from cluster_job`.execute(db);
  return rows.map(({ uid, context, goneAt, observation }) => {
    const observed = JSON.parse(observation) as ArchivedObservation;
    return { uid, usage: archivedUsage({ ...observed, context, goneAt }) };
  });
}

/** Replaces the rows of `subject` that differ: the id of a job, or the uid of a cluster's job. */
export function rowReplacements(
  subject: string,
  before: readonly UsageRow[],
  rows: readonly UsageRow[],
): readonly Sql[] {
  const isSame = (row: UsageRow | undefined, other: UsageRow | undefined): boolean =>
    JSON.stringify(row) === JSON.stringify(other);
  const first = rows.findIndex((row, index) => !isSame(before[index], row));
  const kept = first < 0 ? rows.length : first;
  if (kept === before.length && kept === rows.length) return [];
  return [
    sql`delete from usage where subject = ${subject} and seq >= ${kept}`,
    ...insertions(subject, kept, rows.slice(kept)),
  ];
}

const rowsPerInsert = 50;

function insertions(subject: string, first: number, rows: readonly UsageRow[]): readonly Sql[] {
  const writes: Sql[] = [];
  for (let at = 0; at < rows.length; at += rowsPerInsert) {
    const values = rows.slice(at, at + rowsPerInsert).map((row, index) => valuesOf(subject, first + at + index, row));
    writes.push(sql`
      insert into usage (subject, seq, job, source, allocation, name, owner, job_name, project, location, accelerator,
        pricing, chips, ownership, used_for, attempt, began_at, ended_at, price, prices_of, simulated)
      values ${sql.join(values)}`);
  }
  return writes;
}

function valuesOf(subject: string, seq: number, row: UsageRow): Sql {
  return sql`(${subject}, ${seq}, ${row.job}, ${row.source}, ${row.allocation}, ${row.name}, ${row.owner},
    ${row.jobName}, ${row.project}, ${row.location}, ${row.accelerator}, ${row.pricing}, ${row.chips},
    ${row.ownership}, ${row.use}, ${row.attempt}, ${row.from}, ${row.until}, ${row.pricePerHourUsd}, ${row.pricesOf},
    ${row.simulated ? 1 : 0})`;
}

interface StoredRow extends Omit<UsageRow, 'uid' | 'tags' | 'simulated'> {
  readonly subject: string;
  readonly seq: number;
  readonly simulated: number;
}

/** See `Store.usage`. */
export async function readUsage(
  db: Database,
  filter: UsageFilter,
  { after, limit }: Span = {},
): Promise<Rows<UsageRow, Key>> {
  const [subject = '', seq = 0] = after ?? [];
  const rest = after === undefined ? sql`` : sql`and (subject, seq) > (${subject}, ${seq})`;
  const { rows: found } = await sql<StoredRow>`
    select subject, seq, job, source, allocation, name, owner, job_name as "jobName", project, location, accelerator, pricing,
      chips, ownership, used_for as "use", attempt, began_at as "from", ended_at as "until",
      price as "pricePerHourUsd", prices_of as "pricesOf", simulated
    from usage where ${matches(filter)} ${rest} order by subject, seq ${atMost(limit)}`.execute(db);
  const rows = firstRows(found, limit, (row) => [row.subject, row.seq]);
  const tags = await readTags(db, limit === undefined ? null : rows.map((row) => Number(row.subject)));
  // Field by field: copies by spread take most of the time for thousands of rows.
  const usage = rows.map((row) => ({
    job: row.job,
    uid: row.source === 'kubernetes' ? row.subject : null,
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
  return withNext(usage, rows.next);
}

/** See `Store.costliestJobs`. */
export async function readCostliestJobs(
  db: Database,
  filter: UsageFilter,
  limit: number,
  now: Instant,
): Promise<CostliestJobs> {
  // By subject first: that is the order of the primary key, so only one row for each job remains to be sorted.
  const { rows } = await sql<{ subject: string; simulated: number; allCount: number; simulatedCount: number }>`
    select subject, simulated, count(*) over () as "allCount", sum(simulated) over () as "simulatedCount"
    from (
      select subject, min(job) as job, min(simulated) as simulated,
        sum(case when used_for = 'waiting' then 0 else ended - began end) as held,
        sum(case when used_for = 'waiting' then 0 else (ended - began) * coalesce(price, 0) end) as cost
      from (${clipped(filter, now)}) as clipped group by subject) as one
    order by simulated, cost desc, held desc, job, subject limit ${limit}`.execute(db);
  const jobs = rows.map(({ subject }) => subject);
  const { allCount, simulatedCount } = rows[0] ?? { allCount: 0, simulatedCount: 0 };
  const simulated = simulatedCount - rows.filter((row) => row.simulated === 1).length;
  return { jobs, restCounts: { real: allCount - rows.length - simulated, simulated } };
}

const noNames = sql`null as "name", null as "owner", null as "cluster", null as "uid"`;

/** The columns of a group, and those that make two groups different. */
const groupings: Readonly<Record<CostGrouping | 'none', readonly [columns: Sql, by: Sql]>> = {
  job: [
    sql`min(job) as "key", min(job_name) as "name", min(owner) as "owner",
      min(case when source = 'kubernetes' then location end) as "cluster",
      min(case when source = 'kubernetes' then subject end) as "uid"`,
    sql`subject`,
  ],
  user: [sql`owner as "key", ${noNames}`, sql`owner`],
  accelerator: [sql`accelerator as "key", ${noNames}`, sql`accelerator`],
  zone: [sql`location as "key", ${noNames}`, sql`location`],
  tag: [sql`tag as "key", ${noNames}`, sql`tag`],
  day: [sql`min(began) as "key", ${noNames}`, sql`began - began % ${day}`],
  none: [sql`null as "key", ${noNames}`, sql`simulated`],
};

/** See `Store.usageSums`. */
export async function readUsageSums(
  db: Database,
  filter: UsageFilter,
  by: CostGrouping | null,
  now: Instant,
): Promise<readonly UsageSum[]> {
  const [columns, group] = groupings[by ?? 'none'];
  const { rows } = await sql<Unconverted>`
    ${parts(by, clipped(filter, now))}
    select ${columns}, simulated, used_for as "use", prices_of as "pricesOf", min(began) as "firstAt",
      sum(ended - began) as "durationMs", coalesce(sum((ended - began) * chips), 0) as "chipMs",
      coalesce(sum((ended - began) * price), 0) / ${hour} as "usd",
      sum(case when price is null then ended - began else 0 end) as "unpricedMs",
      sum(case when used_for <> 'waiting' and price = 0 and prices_of is null then ended - began else 0 end) as "freeMs"
    from part group by ${group}, simulated, used_for, prices_of`.execute(db);
  // Changes the rows, because copies of thousands would take longer than the statement.
  for (const row of rows) {
    row.simulated = row.simulated === 1;
    if (by === 'day') row.key = utcDate(Number(row.key));
  }
  return rows as readonly unknown[] as readonly UsageSum[];
}

type Unconverted = Omit<UsageSum, 'simulated' | 'key'> & { simulated: number | boolean; key: string | number | null };

/** See `Store.spending`. */
export async function readSpending(
  db: Database,
  starts: Readonly<Record<BudgetPeriod, Instant>>,
  now: Instant,
): Promise<readonly UserSpending[]> {
  const used = clipped({ since: Math.min(starts.day, starts.week, starts.month) }, now);
  const since = (start: Instant): Sql =>
    sql`coalesce(sum((ended - case when began < ${start} then ${start} else began end) * price)
      filter (where ended > ${start}), 0) / ${hour}`;
  const { rows } = await sql<
    Omit<UserSpending, 'owners' | 'spentUsd' | 'simulated'> &
      Record<BudgetPeriod, number> & { readonly owner: string; readonly simulated: number }
  >`
    select owner, accelerator, location as "zone", pricing, simulated, ${since(starts.day)} as "day",
      ${since(starts.week)} as "week", ${since(starts.month)} as "month",
      sum(case when ended_at is null then price else 0 end) as "rateUsd"
    from (${used}) as used where source = 'tpu' and ownership = 'ephemeral' and used_for <> 'waiting' and price > 0
    group by owner, accelerator, location, pricing, simulated`.execute(db);
  const users = await readUsers(db);
  return rows.map(({ owner, day, week, month, simulated, ...group }) => ({
    ...group,
    owners: ownersLike(owner, users),
    simulated: simulated === 1,
    spentUsd: { day, week, month },
  }));
}

/** The table `part`: the rows of `rows`, once for each tag by tag, and divided at midnight in UTC by day. */
function parts(by: CostGrouping | null, rows: Sql): Sql {
  switch (by) {
    case 'tag':
      return sql`with part as (
        select used.*, tag from (${rows}) as used left join job_tag
        on source <> 'kubernetes' and job_tag.job = cast(subject as bigint))`;
    case 'day': {
      const columns = sql`simulated, used_for, prices_of, chips, price`;
      const until = (midnight: Sql, last: Sql): Sql =>
        sql`case when ${midnight} < ${last} then ${midnight} else ${last} end`;
      return sql`with recursive part (simulated, used_for, prices_of, chips, price, began, ended, last) as (
        select ${columns}, began, ${until(sql`began - began % ${day} + ${day}`, sql`ended`)}, ended
        from (${rows}) as used
        union all select ${columns}, ended, ${until(sql`ended + ${day}`, sql`last`)}, last from part
        where ended < last)`;
    }
    default:
      return sql`with part as (${rows})`;
  }
}

/** The rows with `began` and `ended`: their time in the period of the filter. `now` ends a row that continues. */
function clipped(filter: UsageFilter, now: Instant): Sql {
  const { since, ...others } = filter;
  const until = Math.min(filter.until ?? now, now);
  const ended = sql`case when ended_at is null or ended_at > ${until} then ${until} else ended_at end`;
  const where = matches({ ...others, until });
  if (since === undefined) return sql`select usage.*, began_at as began, ${ended} as ended from usage where ${where}`;
  // The sign keeps the database from using the index of `ended_at`: a report reads most rows, and a scan is faster.
  return sql`
    select usage.*, case when began_at < ${since} then ${since} else began_at end as began, ${ended} as ended
    from usage where (ended_at is null or +ended_at > ${since}) and ${where}`;
}

const noTags: readonly string[] = [];

/** Of all jobs with null. A job in a cluster has no number. */
async function readTags(db: Database, jobs: readonly number[] | null): Promise<ReadonlyMap<number, readonly string[]>> {
  const where = jobs === null ? sql`1 = 1` : isOneOf(sql`job`, [...new Set(jobs)].filter(Number.isSafeInteger));
  const { rows } = await sql<{ tag: string; job: number }>`
    select tag, job from job_tag where ${where} order by job, tag`.execute(db);
  const tags = new Map<number, string[]>();
  for (const { tag, job } of rows) {
    const known = tags.get(job);
    if (known === undefined) tags.set(job, [tag]);
    else known.push(tag);
  }
  return tags;
}

function matches(filter: UsageFilter): Sql {
  const { since, until, jobs, exceptJobs, name, nameGlob, owners, tag, zone, accelerator } = filter;
  const parts: Sql[] = [];
  if (since !== undefined) parts.push(sql`(ended_at is null or ended_at > ${since})`);
  if (until !== undefined) parts.push(sql`began_at < ${until}`);
  if (jobs !== undefined) parts.push(isOneOf(sql`subject`, jobs));
  if (exceptJobs !== undefined && exceptJobs.length > 0) parts.push(sql`subject not in (${sql.join(exceptJobs)})`);
  if (name !== undefined) parts.push(sql`job_name = ${name}`);
  if (nameGlob !== undefined) parts.push(matchesGlob(sql`job_name`, nameGlob));
  if (owners !== undefined) parts.push(isOneOf(sql`owner`, owners));
  if (tag !== undefined)
    parts.push(sql`source <> 'kubernetes'
      and cast(subject as bigint) in (select job_tag.job from job_tag where tag = ${tag})`);
  if (zone !== undefined) parts.push(sql`location = ${zone}`);
  if (accelerator !== undefined) {
    const generation = generations.find((one) => one.name === accelerator);
    const ofGeneration = generation === undefined ? sql`` : sql` or accelerator like ${`${generation.prefix}%`}`;
    parts.push(sql`(accelerator = ${accelerator}${ofGeneration})`);
  }
  return parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `);
}
