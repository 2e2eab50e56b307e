// Lab windows: the statements about the lab's jobs and their windows. They implement LabStore; those that write must
// run in a transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { WindowWithJob, LabEvent, LabJob, LabWindow, WindowQuery, WindowReport } from '../lab/lab-store.ts';
import { sql, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf } from './stored-job.ts';

/** The fields without a column of their own. The parent's id also has one, so that lineages can be searched. */
type LabJobDetails = Omit<LabJob, 'job' | 'user'>;

export async function addLabJob(db: Database, { job, user, ...details }: LabJob): Promise<void> {
  await sql`
    insert into lab_job (job, owner, parent, details)
    values (${jobNumber(job)}, ${user}, ${parentNumber(details)}, ${JSON.stringify(details)})`.execute(db);
}

export async function changeLabJob(db: Database, job: string, change: (job: LabJob) => LabJob): Promise<LabJob> {
  const stored = await labJobOf(db, job);
  const { job: _, user: __, ...details } = change(stored);
  await sql`
    update lab_job set parent = ${parentNumber(details)}, details = ${JSON.stringify(details)} where job = ${jobNumber(job)}`.execute(
    db,
  );
  return { job, user: stored.user, ...details };
}

/** In the order of their ids. */
export async function readLabJobs(
  db: Database,
  { job, user }: { readonly job?: string; readonly user?: string },
): Promise<readonly LabJob[]> {
  const number = job === undefined ? sql`1 = 1` : sql`job = ${numberOf(job) ?? null}`;
  const owner = user === undefined ? sql`1 = 1` : sql`owner = ${user}`;
  const { rows } = await sql<{ job: number; owner: string; details: string }>`
    select job, owner, details from lab_job where ${number} and ${owner} order by job`.execute(db);
  return rows.map(labJobOfRow);
}

async function labJobOf(db: Database, job: string): Promise<LabJob> {
  const [found] = await readLabJobs(db, { job });
  if (found === undefined) {
    throw new JobmanError(`Job ${job} is not a job of the lab: \`tpu run\` did not create it.`, exitCode.notFound);
  }
  return found;
}

function labJobOfRow({ job, owner, details }: { job: number; owner: string; details: string }): LabJob {
  return { job: idOf(job), user: owner, ...(JSON.parse(details) as LabJobDetails) };
}

function parentNumber({ parent }: LabJobDetails): number | null {
  return parent === null ? null : jobNumber(parent.job);
}

function jobNumber(job: string): number {
  const number = numberOf(job);
  if (number === undefined) throw new Error(`"${job}" is not a job id`);
  return number;
}

/** A window, joined with its job. */
interface Row extends Omit<LabWindow, 'job' | 'report'> {
  readonly job: number;
  readonly session: string;
  readonly report: string | null;
  readonly owner: string;
  readonly details: string;
}

export async function openWindow(
  db: Database,
  { job, attempt, now }: { readonly job: string; readonly attempt: number; readonly now: Instant },
): Promise<WindowWithJob & { readonly session: string }> {
  const labJob = await labJobOf(db, job);
  const find = async () => (await windowsWhere(db, sql`job = ${jobNumber(job)} and attempt = ${attempt}`))[0];
  const stored = await find();
  if (stored !== undefined) return { window: windowOfRow(stored), job: labJob, session: stored.session };
  const { user } = labJob;
  const { rows } = await sql<{ session: string; next_window: number }>`
    select session, next_window from lab_user where name = ${user}`.execute(db);
  // A job may outlive its user's registration. It then continues in the session of the user's last window, under the
  // next numbers.
  const { session, next_window } = rows[0] ?? (await nextWindowOf(db, user));
  let number = next_window;
  while (await isNumberTaken(db, user, session, number)) number += 1;
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at)
    values (${jobNumber(job)}, ${attempt}, ${user}, ${session}, ${number}, ${now})`.execute(db);
  await sql`update lab_user set next_window = ${number + 1} where name = ${user}`.execute(db);
  const opened = await find();
  if (opened === undefined) throw new Error(`the window of job ${job} was not stored`);
  return { window: windowOfRow(opened), job: labJob, session };
}

async function nextWindowOf(db: Database, user: string): Promise<{ session: string; next_window: number }> {
  const { rows } = await sql<{ session: string; number: number }>`
    select session, number from lab_window where owner = ${user} order by number desc limit 1`.execute(db);
  return { session: rows[0]?.session ?? user, next_window: (rows[0]?.number ?? 0) + 1 };
}

/**
 * True when a number is in use: on the user's list, in the session, or by a cleared attempt that a listed job descends
 * from. Users would confuse the new window with that ancestor.
 */
async function isNumberTaken(db: Database, user: string, session: string, number: number): Promise<boolean> {
  const { rows } = await sql`
    with recursive listed (job) as (
      select job from lab_window where owner = ${user} and cleared_at is null
      union
      select lab_job.parent from lab_job join listed on listed.job = lab_job.job where lab_job.parent is not null
    )
    select 1 from lab_window where session = ${session} and number = ${number} and cleared_at is null
    union all
    select 1 from lab_window
    where owner = ${user} and number = ${number} and (cleared_at is null or job in (select job from listed))
    limit 1`.execute(db);
  return rows.length > 0;
}

export async function readWindows(
  db: Database,
  { user, jobs, cleared }: WindowQuery,
): Promise<readonly WindowWithJob[]> {
  const owner = user === undefined ? sql`1 = 1` : sql`owner = ${user}`;
  const shown = sql`cleared_at is null and ${owner}`;
  const parts: Sql[] = [
    cleared === undefined ? shown : owner,
    ...(cleared === 'of listed jobs' ? [sql`job in (select job from lab_window where ${shown})`] : []),
  ];
  if (jobs !== undefined) {
    const numbers = jobs.map(numberOf).filter((number) => number !== undefined);
    parts.push(sql`job in (select value from json_each(${JSON.stringify(numbers)}))`);
  }
  const rows = await windowsWhere(db, sql.join(parts, sql` and `));
  const labJobs = new Map<number, LabJob>();
  return rows.map((row) => {
    const job = labJobs.get(row.job) ?? labJobOfRow(row);
    labJobs.set(row.job, job);
    return { window: windowOfRow(row), job };
  });
}

export async function findWindow(db: Database, session: string, window: number): Promise<WindowWithJob | null> {
  const [row] = await windowsWhere(db, sql`session = ${session} and number = ${window} and cleared_at is null`);
  return row === undefined ? null : { window: windowOfRow(row), job: labJobOfRow(row) };
}

export async function reportWindow(
  db: Database,
  session: string,
  window: number,
  report: WindowReport,
): Promise<WindowWithJob | null> {
  const found = await findWindow(db, session, window);
  if (found === null || isSameReport(found.window.report, report)) return found;
  await sql`
    update lab_window set report = ${JSON.stringify(report)}
    where session = ${session} and number = ${window} and cleared_at is null`.execute(db);
  return found;
}

/** Ignores the time: a script may repeat its report. */
function isSameReport(stored: WindowReport | null, reported: WindowReport): boolean {
  const fields = ['logFolder', 'stageFolder', 'tpu', 'startTime'] as const;
  return stored !== null && fields.every((field) => stored[field] === reported[field]);
}

export async function finishWindow(
  db: Database,
  session: string,
  window: number,
  at: Instant,
): Promise<WindowWithJob | null> {
  const found = await findWindow(db, session, window);
  if (found === null || found.window.finishedAt !== null) return found;
  await sql`
    update lab_window set finished_at = ${at}
    where session = ${session} and number = ${window} and cleared_at is null`.execute(db);
  return found;
}

/** A time that is already set stays. */
export async function setWindowTimes(
  db: Database,
  windows: readonly { readonly job: string; readonly attempt: number }[],
  kind: 'cleared' | 'closed',
  at: Instant,
): Promise<void> {
  for (const { job, attempt } of windows) {
    const which = sql`job = ${jobNumber(job)} and attempt = ${attempt}`;
    await (
      kind === 'cleared'
        ? sql`update lab_window set cleared_at = ${at} where ${which} and cleared_at is null`
        : sql`update lab_window set closed_at = ${at} where ${which} and closed_at is null`
    ).execute(db);
  }
}

/** In the order of their numbers; `where` names only columns of windows. */
async function windowsWhere(db: Database, where: Sql): Promise<readonly Row[]> {
  const { rows } = await sql<Row>`
    select found.*, lab_job.owner, lab_job.details from (
      select owner as "user", number as "window", job, attempt, session, opened_at as "openedAt", report,
        finished_at as "finishedAt", closed_at as "closedAt", cleared_at as "clearedAt"
      from lab_window where ${where}
    ) as found join lab_job on lab_job.job = found.job
    order by "window", "user", "openedAt", found.job, attempt`.execute(db);
  return rows;
}

function windowOfRow({ job, report, session: _session, owner: _owner, details: _details, ...window }: Row): LabWindow {
  return { ...window, job: idOf(job), report: report === null ? null : (JSON.parse(report) as WindowReport) };
}

/** An event's number is its rowid: history only grows, so a later event has a greater one, whatever the clock said. */
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

export async function readUserJobs(db: Database, user: string, ids: readonly string[]): Promise<readonly Job[]> {
  const numbers = ids.map(numberOf).filter((number) => number !== undefined);
  const { rows } = await sql<{ status: string; outline: string }>`
    select status, outline from job where number in (
      select number from job where finished_at is null and removed = 0 and owner = ${user}
      union
      select value from json_each(${JSON.stringify(numbers)})
    )
    order by number`.execute(db);
  return rows.map((row) => jobOf(row.status, row.outline));
}
