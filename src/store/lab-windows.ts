// Lab windows: the statements about the lab's jobs and their windows. They do what LabRecord promises; those that write want a
// transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Event } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { LabAttempt, LabEvent, LabJob, LabWindow, WindowQuery, WindowReport } from '../lab/record.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf } from './stored-job.ts';

/** The fields without a column of their own; the father's id has one, so that lineages can be searched. */
type About = Omit<LabJob, 'job' | 'user'>;

export async function addLabJob(db: Database, { job, user, ...about }: LabJob): Promise<void> {
  await sql`
    insert into lab_job (job, owner, father, about)
    values (${numberIn(job)}, ${user}, ${fatherOf(about)}, ${JSON.stringify(about)})`.execute(db);
}

export async function changeLabJob(db: Database, job: string, change: (job: LabJob) => LabJob): Promise<LabJob> {
  const stands = await labJobOf(db, job);
  const { job: _, user: __, ...about } = change(stands);
  await sql`
    update lab_job set father = ${fatherOf(about)}, about = ${JSON.stringify(about)} where job = ${numberIn(job)}`.execute(
    db,
  );
  return { job, user: stands.user, ...about };
}

/** All of them, or of one user, or one; in the order of their ids. */
export async function readLabJobs(
  db: Database,
  { job, user }: { readonly job?: string; readonly user?: string },
): Promise<readonly LabJob[]> {
  const number = job === undefined ? sql`1 = 1` : sql`job = ${numberOf(job) ?? null}`;
  const owner = user === undefined ? sql`1 = 1` : sql`owner = ${user}`;
  const { rows } = await sql<{ job: number; owner: string; about: string }>`
    select job, owner, about from lab_job where ${number} and ${owner} order by job`.execute(db);
  return rows.map(labJobIn);
}

async function labJobOf(db: Database, job: string): Promise<LabJob> {
  const [found] = await readLabJobs(db, { job });
  if (found === undefined) {
    throw new JobmanError(`Job ${job} is none of the lab's: no \`tpu run\` has made it.`, exitCode.notFound);
  }
  return found;
}

function labJobIn({ job, owner, about }: { job: number; owner: string; about: string }): LabJob {
  return { job: idOf(job), user: owner, ...(JSON.parse(about) as About) };
}

function fatherOf({ father }: About): number | null {
  return father === null ? null : numberIn(father.job);
}

function numberIn(job: string): number {
  const number = numberOf(job);
  if (number === undefined) throw new Error(`"${job}" is no id of a job`);
  return number;
}

interface Row {
  readonly job: number;
  readonly attempt: number;
  readonly owner: string;
  readonly session: string;
  readonly number: number;
  readonly opened_at: number;
  readonly report: string | null;
  readonly finished_at: number | null;
  readonly closed_at: number | null;
  readonly cleared_at: number | null;
}

interface JobColumns {
  readonly job_owner: string;
  readonly about: string;
}

export async function openWindow(
  db: Database,
  { job, attempt, now }: { readonly job: string; readonly attempt: number; readonly now: Instant },
): Promise<LabAttempt & { readonly session: string }> {
  const labJob = await labJobOf(db, job);
  const [stands] = await windowsWhere(db, sql`job = ${numberIn(job)} and attempt = ${attempt}`);
  if (stands !== undefined) return { window: windowIn(stands), job: labJob, session: stands.session };
  const { user } = labJob;
  const { rows } = await sql<{ session: string; next_window: number }>`
    select session, next_window from lab_user where name = ${user}`.execute(db);
  // A job outlives its user's place in the registry: it goes on in the session that its windows were in, under the next numbers.
  const { session, next_window } = rows[0] ?? (await lastPlaceOf(db, user));
  let number = next_window;
  while (await isTaken(db, user, session, number)) number += 1;
  const row: Row = {
    job: numberIn(job),
    attempt,
    owner: user,
    session,
    number,
    opened_at: now,
    report: null,
    finished_at: null,
    closed_at: null,
    cleared_at: null,
  };
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at)
    values (${row.job}, ${attempt}, ${user}, ${session}, ${number}, ${now})`.execute(db);
  await sql`update lab_user set next_window = ${number + 1} where name = ${user}`.execute(db);
  return { window: windowIn(row), job: labJob, session };
}

async function lastPlaceOf(db: Database, user: string): Promise<{ session: string; next_window: number }> {
  const { rows } = await sql<{ session: string; number: number }>`
    select session, number from lab_window where owner = ${user} order by number desc limit 1`.execute(db);
  return { session: rows[0]?.session ?? user, next_window: (rows[0]?.number ?? 0) + 1 };
}

/**
 * Whether a number is in use: on the user's list, in the session, or, though cleared, as that of an attempt which one on the
 * list goes back to: people would take the new one for its ancestor.
 */
async function isTaken(db: Database, user: string, session: string, number: number): Promise<boolean> {
  const { rows } = await sql`
    with recursive shown (job) as (
      select job from lab_window where owner = ${user} and cleared_at is null
      union
      select lab_job.father from lab_job join shown on shown.job = lab_job.job where lab_job.father is not null
    )
    select 1 from lab_window where session = ${session} and number = ${number} and cleared_at is null
    union all
    select 1 from lab_window
    where owner = ${user} and number = ${number} and (cleared_at is null or job in (select job from shown))
    limit 1`.execute(db);
  return rows.length > 0;
}

export async function readWindows(db: Database, { user, jobs, cleared }: WindowQuery): Promise<readonly LabAttempt[]> {
  const owner = user === undefined ? sql`1 = 1` : sql`owner = ${user}`;
  const shown = sql`cleared_at is null and ${owner}`;
  const parts: Sql[] = [
    cleared === undefined ? shown : owner,
    ...(cleared === 'beside shown' ? [sql`job in (select job from lab_window where ${shown})`] : []),
  ];
  if (jobs !== undefined) {
    const numbers = jobs.map(numberOf).filter((number) => number !== undefined);
    parts.push(sql`job in (select value from json_each(${JSON.stringify(numbers)}))`);
  }
  const rows = await windowsWhere(db, sql.join(parts, sql` and `));
  const labJobs = new Map<number, LabJob>();
  return rows.map((row) => {
    const job = labJobs.get(row.job) ?? jobBeside(row);
    labJobs.set(row.job, job);
    return { window: windowIn(row), job };
  });
}

export async function findWindow(db: Database, session: string, window: number): Promise<LabAttempt | null> {
  const [row] = await windowsWhere(db, sql`session = ${session} and number = ${window} and cleared_at is null`);
  return row === undefined ? null : { window: windowIn(row), job: jobBeside(row) };
}

export async function reportWindow(
  db: Database,
  session: string,
  window: number,
  report: WindowReport,
): Promise<LabAttempt | null> {
  const found = await findWindow(db, session, window);
  if (found === null || isSame(found.window.report, report)) return found;
  await sql`
    update lab_window set report = ${JSON.stringify(report)}
    where session = ${session} and number = ${window} and cleared_at is null`.execute(db);
  return found;
}

/** Apart from the time: a script may repeat its report. */
function isSame(stands: WindowReport | null, told: WindowReport): boolean {
  if (stands === null) return false;
  const { logFolder, stageFolder, tpu, startTime } = told;
  return (
    stands.logFolder === logFolder &&
    stands.stageFolder === stageFolder &&
    stands.tpu === tpu &&
    stands.startTime === startTime
  );
}

export async function finishWindow(
  db: Database,
  session: string,
  window: number,
  at: Instant,
): Promise<LabAttempt | null> {
  const found = await findWindow(db, session, window);
  if (found === null || found.window.finishedAt !== null) return found;
  await sql`
    update lab_window set finished_at = ${at}
    where session = ${session} and number = ${window} and cleared_at is null`.execute(db);
  return found;
}

/** What is marked already keeps the moment of its mark. */
export async function markWindows(
  db: Database,
  windows: readonly { readonly job: string; readonly attempt: number }[],
  mark: 'cleared' | 'closed',
  at: Instant,
): Promise<void> {
  for (const { job, attempt } of windows) {
    const which = sql`job = ${numberIn(job)} and attempt = ${attempt}`;
    await (
      mark === 'cleared'
        ? sql`update lab_window set cleared_at = ${at} where ${which} and cleared_at is null`
        : sql`update lab_window set closed_at = ${at} where ${which} and closed_at is null`
    ).execute(db);
  }
}

/** In the order of their numbers; `where` names columns of windows alone. */
async function windowsWhere(db: Database, where: Sql): Promise<readonly (Row & JobColumns)[]> {
  const { rows } = await sql<Row & JobColumns>`
    select shown.*, lab_job.owner as job_owner, lab_job.about from (
      select job, attempt, owner, session, number, opened_at, report, finished_at, closed_at, cleared_at
      from lab_window where ${where}
    ) as shown join lab_job on lab_job.job = shown.job
    order by shown.number, shown.owner, shown.opened_at, shown.job, shown.attempt`.execute(db);
  return rows;
}

function jobBeside({ job, job_owner, about }: Pick<Row, 'job'> & JobColumns): LabJob {
  return labJobIn({ job, owner: job_owner, about });
}

function windowIn(row: Row): LabWindow {
  return {
    user: row.owner,
    window: row.number,
    job: idOf(row.job),
    attempt: row.attempt,
    openedAt: row.opened_at,
    report: row.report === null ? null : (JSON.parse(row.report) as WindowReport),
    finishedAt: row.finished_at,
    closedAt: row.closed_at,
    clearedAt: row.cleared_at,
  };
}

/**
 * The number of an event is that of its row: rows of history are only ever added, so a later one has a greater
 * number, whatever the clock said.
 */
export async function readEventsSince<Kind extends Event['kind']>(
  db: Database,
  user: string,
  after: number,
  kinds: readonly Kind[],
): Promise<readonly LabEvent<Kind>[]> {
  const { rows } = await sql<{ number: number; job: number; body: string }>`
    select event.rowid as number, event.job, event.body
    from event join lab_job on lab_job.job = event.job
    where event.rowid > ${after} and lab_job.owner = ${user}
      and event.body ->> 'kind' in (select value from json_each(${JSON.stringify(kinds)}))
    order by event.rowid`.execute(db);
  return rows.map(({ number, job, body }) => ({
    number,
    job: idOf(job),
    event: JSON.parse(body) as LabEvent<Kind>['event'],
  }));
}

/** The jobs of these ids, and the unfinished ones of that user. */
export async function readLives(db: Database, user: string, ids: readonly string[]): Promise<readonly Job[]> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  const { rows } = await sql<{ life: string; outline: string }>`
    select life, outline from job where number in (
      select number from job where settled_at is null and removed = 0 and owner = ${user}
      union
      select value from json_each(${JSON.stringify(numbers)})
    )
    order by number`.execute(db);
  return rows.map((row) => jobOf(row.life, row.outline));
}
