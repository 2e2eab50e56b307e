// Jobs: the statements about jobs, their history, the outcomes of their actions, and the lease, which says which controller may
// commit. Its epoch grows with each new holder, and every commit names the epoch, so that a controller which has lost the lease
// without knowing it cannot write. Statements that write must run in a transaction.

import type { JobRow } from '../app/client.ts';
import { outline } from '../app/json.ts';
import type {
  Commit,
  CommitResult,
  JobFilter,
  JobPage,
  LeaseState,
  NewJob,
  Pause,
  RowPage,
  Stored,
  StoredEvent,
  StoredOutcome,
} from '../app/ports.ts';
import { lastingRow, rowVersion } from '../app/views.ts';
import { newJob } from '../core/job.ts';
import type { Job } from '../core/job.ts';
import { subjectKey } from '../core/decision.ts';
import type { Event } from '../core/decision.ts';
import type { Outcome, OutcomeResult } from '../core/observation.ts';
import { answersIn } from '../core/alternatives.ts';
import { minute, type Duration, type Instant } from '../core/time.ts';
import { sweepColumns, writeAnswers, writePlaces, type SweepColumns } from './places.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf, objectOf, subjectOf } from './stored-job.ts';

/** Whether files of a job with that id exist, though the record does not know it. */
export type IsTaken = (id: string, owner: string) => boolean;

/** Gives the job its number and writes it with the first line of its history. */
export async function insertJob(db: Database, installation: string, given: NewJob, isTaken: IsTaken): Promise<Stored> {
  const { owner, by, spec, at } = given;
  const id = await nextId(db, owner, isTaken);
  const { job, event } = newJob({ id, installation, owner, spec, at, ...(by !== undefined && { by }) });
  await writeNew(db, { job, events: [event], manifest: given.manifest, wakeAt: at });
  return { job, revision: 1 };
}

/** The next id. A taken number is skipped: it may be that of a job of an earlier record, whose files would be mixed up with the new one's. */
export async function nextId(db: Database, owner: string, isTaken: IsTaken): Promise<string> {
  let number = await next(db, 'job');
  while (isTaken(idOf(number), owner)) number = await next(db, 'job');
  return idOf(number);
}

/** Writes a job that no row tells of yet, with its history and its snapshot. */
export async function writeNew(
  db: Database,
  { job, events, manifest, wakeAt }: Pick<Commit, 'job' | 'events' | 'wakeAt'> & { readonly manifest: string },
): Promise<void> {
  const { owner, spec, createdAt } = job;
  const number = Number(job.id);
  const { settled_at, removed, life, shown_version, shown } = lifeColumns(job);
  await sql`
    insert into job (number, revision, events, owner, name, created_at, settled_at, removed, wake_at,
                     outline, life, shown_version, shown)
    values (${number}, 1, ${events.length}, ${owner}, ${spec.name}, ${createdAt}, ${settled_at}, ${removed}, ${wakeAt},
            ${JSON.stringify(outline(spec))}, ${life}, ${shown_version}, ${shown})`.execute(db);
  await sql`
    insert into job_text (job, spec, manifest)
    values (${number}, ${JSON.stringify(spec)}, ${manifest})`.execute(db);
  for (const tag of new Set(spec.tags)) {
    await sql`insert into job_tag (tag, job) values (${tag}, ${number})`.execute(db);
  }
  await addEvents(db, number, 0, events);
  await next(db, 'change');
}

/** The jobs with these ids that exist, in the order of the ids, with their whole specs. */
export async function loadJobs(db: Database, ids: readonly string[]): Promise<readonly Stored[]> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  if (numbers.length === 0) return [];
  const { rows } = await sql<{ number: number; revision: number; life: string; spec: string }>`
    select job.number, job.revision, job.life, job_text.spec
    from job join job_text on job_text.job = job.number
    where job.number in (${sql.join(numbers)})`.execute(db);
  const found = new Map(rows.map((row) => [row.number, row]));
  return numbers.flatMap((number) => {
    const row = found.get(number);
    return row === undefined ? [] : [{ job: jobOf(row.life, row.spec), revision: row.revision }];
  });
}

/** The manifest as it was written. */
export async function readManifest(db: Database, id: string): Promise<string | undefined> {
  const number = numberOf(id);
  if (number === undefined) return undefined;
  const { rows } = await sql<{ manifest: string }>`select manifest from job_text where job = ${number}`.execute(db);
  return rows[0]?.manifest;
}

/** Writes the decision of a pass, or nothing when the job or the lease has changed meanwhile. */
export async function commitJob(db: Database, commit: Commit): Promise<CommitResult> {
  const { job } = commit;
  if (commit.epoch !== null) {
    const lease = await readLease(db);
    if (lease === undefined || lease.epoch !== commit.epoch) return 'lease_lost';
  }
  const number = numberOf(job.id);
  const { rows } = await sql<{ revision: number; events: number; life: string }>`
    select revision, events, life from job where number = ${number ?? null}`.execute(db);
  const stands = rows[0];
  if (number === undefined || stands === undefined) {
    throw new Error(`a commit names job ${job.id}, which was never inserted`);
  }
  if (stands.revision !== commit.revision) return 'stale';

  const { settled_at, removed, life, shown_version, shown, place, sweep_until } = lifeColumns(job);
  await sql`
    update job
    set revision = ${commit.revision + 1}, events = ${stands.events + commit.events.length},
        settled_at = ${settled_at}, removed = ${removed}, wake_at = ${commit.wakeAt},
        life = ${life}, shown_version = ${shown_version}, shown = ${shown},
        place = ${place}, sweep_until = ${sweep_until}
    where number = ${number}`.execute(db);
  await writePlaces(db, number, job);
  await writeAnswers(db, answersIn(job, commit.events));
  await addEvents(db, number, stands.events, commit.events);
  await deleteOutcomes(db, number, commit.folded);
  // Setting the time of the next pass is no change for those who follow the job.
  if (commit.events.length > 0 || life !== stands.life) await next(db, 'change');
  return 'committed';
}

/** Lines of history after that number, oldest first. */
export async function readEvents(db: Database, id: string, after: number): Promise<readonly StoredEvent[]> {
  const number = numberOf(id);
  if (number === undefined) return [];
  const { rows } = await sql<{ seq: number; body: string }>`
    select seq, body from event where job = ${number} and seq > ${after} order by seq`.execute(db);
  return rows.map((row) => ({ seq: row.seq, event: objectOf<Event>(row.body) }));
}

/** Newest first: all unfinished jobs, then the finished ones by when that was. Specs are outlines. */
export async function listJobs(db: Database, filter: JobFilter): Promise<JobPage> {
  const columns = sql`life, outline`;
  const { rows, more } = await readPage<{ life: string; outline: string }>(db, columns, filter);
  return { jobs: rows.map((row) => jobOf(row.life, row.outline)), more };
}

/** The same in the form of rows on screen; a row that was kept is taken as it is. */
export async function listRows(db: Database, filter: JobFilter, rowOf: (job: Job) => JobRow): Promise<RowPage> {
  const isKept = sql`shown is not null and shown_version = ${rowVersion}`;
  const columns = sql`
    case when ${isKept} then shown end as shown,
    case when ${isKept} then null else life end as life,
    case when ${isKept} then null else outline end as outline`;
  type Columns = { shown: string } | { shown: null; life: string; outline: string };
  const { rows, more } = await readPage<Columns>(db, columns, filter);
  return {
    rows: rows.map((row) => (row.shown === null ? rowOf(jobOf(row.life, row.outline)) : objectOf<JobRow>(row.shown))),
    more,
  };
}

async function readPage<Columns>(
  db: Database,
  columns: Sql,
  filter: JobFilter,
): Promise<{ readonly rows: readonly Columns[]; readonly more: number }> {
  const { settledMost } = filter;
  const { rows: live } = await sql<Columns>`
    select ${columns} from job
    where settled_at is null and ${matches(filter)}
    order by number desc`.execute(db);
  const { rows: settled } = await sql<Columns>`
    select ${columns} from job
    where settled_at is not null and ${matches(filter)}
    order by settled_at desc, number desc ${settledMost === null ? sql`` : sql`limit ${settledMost}`}`.execute(db);
  const isShortened = settledMost !== null && settled.length === settledMost;
  const more = isShortened ? (await countSettled(db, filter)) - settled.length : 0;
  return { rows: [...live, ...settled], more };
}

async function countSettled(db: Database, filter: JobFilter): Promise<number> {
  const { rows } = await sql<{ jobs: number }>`
    select count(*) as jobs from job where settled_at is not null and ${matches(filter)}`.execute(db);
  return Number(rows[0]?.jobs ?? 0);
}

function matches(filter: JobFilter): Sql {
  const parts: Sql[] = [];
  if (filter.withRemoved !== true) parts.push(sql`removed = 0`);
  if (filter.ids !== undefined) parts.push(isOneOf(sql`number`, filter.ids.map(numberOf)));
  if (filter.names !== undefined) parts.push(isOneOf(sql`name`, filter.names));
  if (filter.nameGlob !== undefined) parts.push(sql`lower(name) like ${likeOf(filter.nameGlob)} escape '\\'`);
  if (filter.owner !== undefined) parts.push(sql`owner = ${filter.owner}`);
  if (filter.tag !== undefined) parts.push(sql`number in (select job from job_tag where tag = ${filter.tag})`);
  return parts.length === 0 ? sql`1 = 1` : sql.join(parts, sql` and `);
}

function isOneOf(column: Sql, values: readonly (string | number | undefined)[]): Sql {
  const given = values.filter((value) => value !== undefined);
  return given.length === 0 ? sql`1 = 0` : sql`${column} in (${sql.join(given)})`;
}

/** `llama-*` as the pattern of `like`, in lower case. */
function likeOf(glob: string): string {
  return likeText(glob.toLowerCase()).replaceAll('*', '%').replaceAll('?', '_');
}

function likeText(text: string): string {
  return text.replaceAll(/[\\%_]/g, String.raw`\$&`);
}

/** Ids of jobs that are due at `now` or have an outcome that waits, the longest waiting first. */
export async function readDue(db: Database, now: number, most: number): Promise<readonly string[]> {
  const { rows } = await sql<{ number: number }>`
    select number from (
      select number, wake_at as since from job where wake_at <= ${now}
      union all
      select job as number, min(at) as since from outcome group by job
    ) as wanted
    group by number order by min(since), number limit ${most}`.execute(db);
  return rows.map((row) => idOf(row.number));
}

/** When the first job is due; null when none is. */
export async function readNextWake(db: Database): Promise<number | null> {
  const { rows } = await sql<{ at: number | null }>`
    select min(wake_at) as at from job where wake_at is not null`.execute(db);
  return rows[0]?.at ?? null;
}

/** When that job is due; null when it is not, or does not exist. */
export async function readWakeOf(db: Database, id: string): Promise<number | null> {
  const { rows } = await sql<{ at: number | null }>`
    select wake_at as at from job where number = ${numberOf(id) ?? null}`.execute(db);
  return rows[0]?.at ?? null;
}

/** The columns of a job that change with a commit. */
interface LifeColumns extends SweepColumns {
  readonly settled_at: number | null;
  readonly removed: number;
  readonly life: string;
  readonly shown_version: number;
  readonly shown: string | null;
}

/** All that has happened to a job, without its spec, which never changes. */
function lifeColumns(job: Job): LifeColumns {
  const { spec: _, ...life } = job;
  const row = lastingRow(job);
  return {
    settled_at: job.settled?.at ?? null,
    removed: job.removed ? 1 : 0,
    life: JSON.stringify(life),
    shown_version: rowVersion,
    shown: row === null ? null : JSON.stringify(row),
    ...sweepColumns(job),
  };
}

/** How many jobs `readAlike` reads at most, for one line of a screen. */
const alikeWithin = 2_000;

/** See `Store.alike`. */
export async function readAlike(
  db: Database,
  asked: { readonly accelerator: string; readonly zone: string; readonly pricing: string },
  since: number,
  most: number,
): Promise<readonly Job[]> {
  // A first choice by the text alone, so that few are parsed; a name may contain the same text.
  const holds = Object.entries(asked).map(
    ([key, value]) =>
      sql`outline like ${`%${likeText(`${JSON.stringify(key)}:${JSON.stringify(value)}`)}%`} escape '\\'`,
  );
  const { rows } = await sql<{ life: string; outline: string }>`
    select life, outline from job
    where number > (select max(number) from job) - ${alikeWithin} and created_at >= ${since}
      and ${sql.join(holds, sql` and `)}
    order by number desc limit ${most}`.execute(db);
  return rows
    .map((row) => jobOf(row.life, row.outline))
    .filter(({ spec: { capacity } }) => {
      if (capacity.kind !== 'tpu') return false;
      const { accelerator, zone, pricing } = capacity;
      return accelerator === asked.accelerator && zone === asked.zone && pricing === asked.pricing;
    });
}

async function addEvents(db: Database, number: number, last: number, events: readonly Event[]): Promise<void> {
  if (events.length === 0) return;
  const values = events.map(
    (event, index) => sql`(${number}, ${last + index + 1}, ${event.at}, ${JSON.stringify(event)})`,
  );
  await sql`insert into event (job, seq, at, body) values ${sql.join(values)}`.execute(db);
}

/** `job` and `outcome` number those; `change` counts changes of any job. */
type Counter = 'job' | 'outcome' | 'change';

/** The next number, which nobody else gets. */
async function next(db: Database, counter: Counter): Promise<number> {
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

/** Replaces an older one of the same action, under a new number: a pass that folded the older one must not delete this one. */
export async function writeOutcome(db: Database, id: string, outcome: Outcome): Promise<void> {
  const number = numberOf(id);
  if (number === undefined) throw new Error(`"${id}" is no id of a job`);
  const key = subjectKey(outcome.subject);
  await sql`delete from outcome where job = ${number} and key = ${key}`.execute(db);
  await sql`
    insert into outcome (id, job, key, attempt, at, result)
    values (
      ${await next(db, 'outcome')}, ${number}, ${key}, ${outcome.attempt ?? null}, ${outcome.at},
      ${JSON.stringify(outcome.result)}
    )
  `.execute(db);
}

/** Those that wait for the job's next pass, oldest first. */
export async function readOutcomes(db: Database, id: string): Promise<readonly StoredOutcome[]> {
  const number = numberOf(id);
  if (number === undefined) return [];
  const { rows } = await sql<{ id: number; key: string; attempt: number | null; at: number; result: string }>`
    select id, key, attempt, at, result from outcome where job = ${number} order by id`.execute(db);
  return rows.flatMap((row) => {
    const subject = subjectOf(row.key);
    // An action of another version of jobman. It is requested again if it is still needed.
    if (subject === undefined) return [];
    const of = row.attempt !== null && { attempt: row.attempt };
    const result = JSON.parse(row.result) as OutcomeResult;
    return [{ id: row.id, outcome: { subject, ...of, at: row.at, result } }];
  });
}

async function deleteOutcomes(db: Database, job: number, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  await sql`delete from outcome where job = ${job} and id in (${sql.join(ids)})`.execute(db);
}

// The lease.

/** A running controller renews much more often. */
const pauseLeast: Duration = minute;
/** Two pauses with less time between them count as one: what failed before the first may not be done yet. */
const betweenPauses: Duration = 10 * minute;

/** The lease while it is held, else undefined. A lease that has run out is held until another controller takes it. */
export async function readLease(db: Database): Promise<LeaseState | undefined> {
  const { rows } = await sql<{ holder: string | null; epoch: number; version: string; until: number }>`
    select holder, epoch, version, until from lease where only = 1`.execute(db);
  const row = rows[0];
  return row === undefined || row.holder === null ? undefined : { ...row, holder: row.holder };
}

/** Takes it when it is free, has run out, is ours already, or its holder is certainly dead; else answers who holds it. */
export async function takeLease(
  db: Database,
  wanted: {
    readonly holder: string;
    readonly version: string;
    readonly now: Instant;
    readonly ttl: Duration;
    readonly certain: boolean;
  },
): Promise<{ readonly taken: boolean; readonly lease: LeaseState }> {
  const held = await readLease(db);
  const ours = held?.holder === wanted.holder;
  if (held !== undefined && !ours && held.until > wanted.now && !wanted.certain) return { taken: false, lease: held };
  const pause = await pauseAt(db, wanted.now);
  const { rows } = await sql<{ epoch: number }>`
    update lease
    set holder = ${wanted.holder}, epoch = epoch + ${ours ? 0 : 1}, version = ${wanted.version},
        until = ${wanted.now + wanted.ttl}, renewed_at = ${wanted.now},
        paused_from = ${pause?.from ?? null}, paused_until = ${pause?.until ?? null}
    where only = 1 returning epoch`.execute(db);
  const epoch = rows[0]?.epoch;
  if (epoch === undefined) throw new Error('the record has no row for the lease, which its first migration makes');
  return {
    taken: true,
    lease: {
      holder: wanted.holder,
      epoch,
      version: wanted.version,
      until: wanted.now + wanted.ttl,
      ...(pause !== undefined && { pause }),
    },
  };
}

/** The newest pause for a lease that is taken or renewed now; a time of a clock that was ahead is brought back to now. */
async function pauseAt(db: Database, now: Instant): Promise<Pause | undefined> {
  const { rows } = await sql<{ renewedAt: number | null; from: number | null; until: number | null }>`
    select renewed_at as renewedAt, paused_from as "from", paused_until as until from lease where only = 1`.execute(db);
  const { renewedAt = null, from = null, until = null } = rows[0] ?? {};
  const last = from === null || until === null ? undefined : { from: Math.min(from, now), until: Math.min(until, now) };
  if (renewedAt === null || now - renewedAt <= pauseLeast) return last;
  const isSame = last !== undefined && renewedAt - last.until < betweenPauses;
  return { from: isSame ? last.from : renewedAt, until: now };
}

/** Gives it back; does nothing when another controller holds it. */
export async function dropLease(db: Database, holder: string): Promise<void> {
  await sql`update lease set holder = null, until = 0 where only = 1 and holder = ${holder}`.execute(db);
}
