// Lab: the lab's part of the database. Statements that write run in a transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import { formatChoices } from '../app/format.ts';
import type { LabEntry } from '../app/lab-job.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import { bookRun, createLocalSheet, type BookingRow } from '../lab/bookings.ts';
import type { ImportedJob } from '../lab/imported-job.ts';
import type { WindowWithJob, LabEvent, LabJob, LabStore, LabWindow, WindowReport } from '../lab/lab-store.ts';
import type { LabTpu } from '../lab/tpus.ts';
import { lowestFreeId, type LabUser } from '../lab/users.ts';
import { openDatabaseFile, type OpenDatabaseOptions, type RunOperation } from './database-file.ts';
import type { IsIdTaken } from './jobs.ts';
import { isOneOf, sql, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf } from './stored-job.ts';
import { readLogins } from './users.ts';

/** A hundred lab commands may begin in the same second, and a script does not repeat its report. */
const busyTimeoutMs = 60_000;

/** Does not load the jobs' part, because training scripts wait for the lab's. Opens no file yet. */
export function openLabStore({
  isIdTaken = () => false,
  ...given
}: OpenDatabaseOptions & { readonly isIdTaken?: IsIdTaken }): {
  readonly store: LabStore;
  readonly close: () => Promise<void>;
} {
  const { read, write, close } = openDatabaseFile({ busyTimeoutMs, ...given });
  return { store: labStore(read, write, isIdTaken), close };
}

export function labStore(read: RunOperation, write: RunOperation, isIdTaken: IsIdTaken): LabStore {
  return {
    ...registryStore(read, write),
    addJob: (job) => write((db) => addLabJob(db, job)),
    changeJob: (job, change) =>
      write(async (db) => {
        const stored = await requireLabJob(db, job);
        const { job: _, user: __, ...details } = change(stored);
        await sql`
          update lab_job set parent = ${parentNumber(details)}, details = ${JSON.stringify(details)}
          where job = ${jobNumber(job)}`.execute(db);
        return { job, user: stored.user, ...details };
      }),
    job: (job) => read(async (db) => (await findLabJob(db, job)) ?? null),
    jobs: (user) => read((db) => readLabJobs(db, ownerIs(user))),
    jobStates: (user, ids) =>
      read(async (db) => {
        const { rows } = await sql<{ status: string; outline: string }>`
          select status, outline from job where number in (
            select number from job where finished_at is null and removed = 0 and owner = ${user}
            union
            select number from job where ${isOneOf(sql`number`, jobNumbers(ids))}
          )
          order by number`.execute(db);
        return rows.map((row) => jobOf(row.status, row.outline));
      }),
    eventsSince: <Kind extends Event['kind']>(user: string, after: number, kinds: readonly Kind[]) =>
      read(async (db) => {
        const { rows } = await sql<{ number: number; job: number; body: string }>`
          select event.id as number, event.job, event.body
          from event join lab_job on lab_job.job = event.job
          where event.id > ${after} and lab_job.owner = ${user}
            and ${isOneOf(sql`event.kind`, kinds)}
          order by event.id`.execute(db);
        return rows.map(({ number, job, body }) => ({
          number,
          job: idOf(job),
          event: JSON.parse(body) as LabEvent<Kind>['event'],
        }));
      }),

    openWindow: (job, attempt, now) => write((db) => openWindow(db, job, attempt, now)),
    windows: ({ user, jobs, cleared }) =>
      read(async (db) => {
        const shown = sql`cleared_at is null and ${ownerIs(user)}`;
        const parts: Sql[] = [cleared === undefined ? shown : ownerIs(user)];
        if (cleared === 'of listed jobs') parts.push(sql`job in (select job from lab_window where ${shown})`);
        if (jobs !== undefined) parts.push(isOneOf(sql`job`, jobNumbers(jobs)));
        const rows = await readWindows(db, sql.join(parts, sql` and `));
        const labJobs = new Map<number, LabJob>();
        return rows.map((row) => {
          const job = labJobs.get(row.job) ?? labJobOfRow(row);
          labJobs.set(row.job, job);
          return { window: windowOfRow(row), job };
        });
      }),
    findWindow: (session, window) => read((db) => findWindow(db, session, window)),
    reportWindow: (session, window, report) =>
      write(async (db) => {
        const found = await findWindow(db, session, window);
        if (found === null || isSameReport(found.window.report, report)) return found;
        await sql`
          update lab_window set report = ${JSON.stringify(report)} where ${isWindow(session, window)}`.execute(db);
        return found;
      }),
    finishWindow: (session, window, at) =>
      write(async (db) => {
        const found = await findWindow(db, session, window);
        if (found === null || found.window.finishedAt !== null) return found;
        await sql`update lab_window set finished_at = ${at} where ${isWindow(session, window)}`.execute(db);
        return found;
      }),
    // A time that is already set stays.
    setWindowState: (windows, state, at) =>
      write(async (db) => {
        const column = state === 'cleared' ? sql`cleared_at` : sql`closed_at`;
        for (const { job, attempt } of windows) {
          await sql`
            update lab_window set ${column} = ${at}
            where job = ${jobNumber(job)} and attempt = ${attempt} and ${column} is null`.execute(db);
        }
      }),

    async addImportedJob(past) {
      const { addPastJob } = await import('./past-jobs.ts');
      return write(async (db) => {
        const id = await addPastJob(db, past, isIdTaken);
        await addImportedWindow(db, id, past);
        return id;
      });
    },
    async similarJobs(requested, since, limit) {
      const { readSimilarJobs } = await import('./jobs.ts');
      return read((db) => readSimilarJobs(db, requested, since, limit));
    },
    transaction: (work) =>
      write((db) => {
        const inOrder = createSequence();
        return work(
          labStore(
            (operation) => inOrder(() => operation(db)),
            (operation) => inOrder(() => db.transaction(operation)),
            isIdTaken,
          ),
        );
      }),
  };
}

/** Users, TPUs and bookings. */
function registryStore(read: RunOperation, write: RunOperation) {
  return {
    users: () => read((db) => readMembers(db, all)),
    addUser: (given) =>
      write(async (db) => {
        const others = await readMembers(db, all);
        const user = { ...given, id: given.id ?? lowestFreeId(others) };
        checkUnique(user, others);
        await writeMember(db, user);
        return user;
      }),
    changeUser: (name, change) =>
      write(async (db) => {
        const [stored] = await readMembers(db, sql`name = ${name}`);
        if (stored === undefined) throw await userNotFound(db, name);
        const user = { ...change(stored), name: stored.name, id: stored.id };
        if (user.session !== stored.session || user.logins.some((login) => !stored.logins.includes(login))) {
          checkUnique(user, await readMembers(db, sql`name <> ${name}`));
        }
        await writeMember(db, user);
        return user;
      }),
    removeUser: (name) =>
      write(async (db) => {
        await sql`delete from login where owner = ${name}`.execute(db);
        const { rows } = await sql`delete from lab_member where name = ${name} returning name`.execute(db);
        if (rows.length === 0) throw await userNotFound(db, name);
        await sql`delete from users where name = ${name}`.execute(db);
      }),

    tpus: () => read((db) => readTpus(db, all)),
    tpuAliases: () =>
      read(async (db) => {
        const { rows } = await sql<{ alias: string; tpu: string }>`
          select alias, tpu from lab_tpu_alias order by alias`.execute(db);
        return new Map(rows.map(({ alias, tpu }) => [alias, tpu]));
      }),
    changeTpu: (name, change) =>
      write(async (db) => {
        const [stored = null] = await readTpus(db, sql`name = ${name}`);
        const tpu = change(stored);
        if (tpu === null) {
          await sql`delete from lab_tpu where name = ${name}`.execute(db);
          return;
        }
        const { project, zone, accelerator, pricing, runtimeVersion } = tpu;
        await sql`
          insert or replace into lab_tpu (name, project, zone, accelerator, pricing, runtime_version)
          values (${name}, ${project}, ${zone}, ${accelerator}, ${pricing}, ${runtimeVersion})`.execute(db);
      }),
    setTpuAlias: (alias, name) =>
      write(async (db) => {
        await sql`delete from lab_tpu_alias where alias = ${alias}`.execute(db);
        if (name !== null) await sql`insert into lab_tpu_alias (alias, tpu) values (${alias}, ${name})`.execute(db);
      }),
    bookings: () => read((db) => readBookings(db, all)),
    changeBooking: (tpu, change) =>
      write(async (db) => {
        const [stored = null] = await readBookings(db, sql`tpu = ${tpu}`);
        const booking = change(stored);
        if (booking === null) {
          await sql`delete from lab_booking where tpu = ${tpu}`.execute(db);
          return;
        }
        const { status, user, note, scriptNote, at } = booking;
        await sql`
          insert or replace into lab_booking (tpu, status, owner, note, script_note, at)
          values (${tpu}, ${status}, ${user}, ${note}, ${scriptNote}, ${at})`.execute(db);
      }),
  } satisfies Partial<LabStore>;
}

/** Runs the parts of a transaction one after the other, so that each can be rolled back alone. */
function createSequence(): <T>(operation: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (operation) => {
    const next = last.then(operation);
    last = next.catch(() => undefined);
    return next;
  };
}

const all = sql`1 = 1`;

// ------------------------------------------------------------------------------------------ users

type UserDetails = Pick<LabUser, 'sheetName' | 'directories' | 'aliases' | 'settings'>;

/** `where` names only columns of members. */
async function readMembers(db: Database, where: Sql): Promise<readonly LabUser[]> {
  type Columns = Omit<LabUser, 'logins' | keyof UserDetails> & { readonly details: string };
  const { rows } = await sql<Columns>`
    select member.*, users.role, users.created_at as "createdAt" from (
      select name, id, session, next_window as "nextWindow", news_seen as "newsSeen", details
      from lab_member where ${where}
    ) as member join users on users.name = member.name order by id`.execute(db);
  const logins = await readLogins(db);
  return rows.map(({ details, ...columns }) => ({
    ...(JSON.parse(details) as UserDetails),
    ...columns,
    logins: logins.get(columns.name) ?? [],
  }));
}

async function writeMember(db: Database, user: LabUser): Promise<void> {
  const { name, role, id, session, nextWindow, newsSeen, createdAt, logins, ...details } = user;
  await sql`
    insert into users (name, role, created_at) values (${name}, ${role}, ${createdAt})
    on conflict (name) do update set role = excluded.role`.execute(db);
  await sql`
    insert into lab_member (name, id, session, next_window, news_seen, details)
    values (${name}, ${id}, ${session}, ${nextWindow}, ${newsSeen}, ${JSON.stringify(details satisfies UserDetails)})
    on conflict (name) do update set session = excluded.session, next_window = excluded.next_window,
      news_seen = excluded.news_seen, details = excluded.details`.execute(db);
  await sql`delete from login where owner = ${name}`.execute(db);
  for (const login of new Set(logins)) {
    await sql`insert into login (login, owner) values (${login}, ${name})`.execute(db);
  }
}

/** Throws JobmanError (4) if another user has the same name, id, session or login. */
function checkUnique(user: LabUser, others: readonly LabUser[]): void {
  for (const other of others) {
    const login = user.logins.find((one) => other.logins.includes(one));
    const taken =
      (other.name === user.name && `The user "${user.name}" already exists.`) ||
      (other.id === user.id && `The id ${user.id} belongs to ${other.name}. Omit it to get a free one.`) ||
      (other.session === user.session && `The session "${user.session}" belongs to ${other.name}. Choose another.`) ||
      (login !== undefined && `The login "${login}" belongs to ${other.name}. Remove it from that user first.`);
    if (taken !== false) throw new JobmanError(taken, exitCode.conflict);
  }
}

async function userNotFound(db: Database, name: string): Promise<JobmanError> {
  const names = (await readMembers(db, all)).map((user) => user.name);
  const meant = didYouMean(name, names);
  const hint = meant === undefined ? formatChoices(names) : `Did you mean "${meant}"?`;
  return new JobmanError(`There is no user "${name}". ${hint}`, exitCode.notFound);
}

// ------------------------------------------------------------------------------------------ TPUs and bookings

async function readTpus(db: Database, where: Sql): Promise<readonly LabTpu[]> {
  const { rows } = await sql<LabTpu>`
    select name, project, zone, accelerator, pricing, runtime_version as "runtimeVersion"
    from lab_tpu where ${where} order by name`.execute(db);
  return rows.map((row) => ({ ...row }));
}

async function readBookings(db: Database, where: Sql): Promise<readonly BookingRow[]> {
  const { rows } = await sql<BookingRow>`
    select tpu, status, owner as "user", note, script_note as "scriptNote", at
    from lab_booking where ${where} order by tpu`.execute(db);
  return rows.map((row) => ({ ...row }));
}

// ------------------------------------------------------------------------------------------ jobs

/** The fields without a column of their own. The parent's id also has one, so that lineages can be searched. */
type LabJobDetails = Omit<LabJob, 'job' | 'user'>;

async function addLabJob(db: Database, { job, user, ...details }: LabJob): Promise<void> {
  await sql`
    insert into lab_job (job, owner, parent, details)
    values (${jobNumber(job)}, ${user}, ${parentNumber(details)}, ${JSON.stringify(details)})`.execute(db);
}

/** Throws JobmanError (4) if another command has created a job on the TPU, or booked it, since it was checked. */
export async function addLabEntry(
  db: Database,
  { id, owner, createdAt }: Job,
  { job, knownJobs, booking }: LabEntry,
): Promise<void> {
  const winner = (await readLabJobs(db, all)).find((one) => one.tpu === job.tpu && !knownJobs.includes(one.job));
  if (winner !== undefined)
    throw new JobmanError(
      `Job ${winner.job} of ${winner.user} has just started on ${job.tpu}. Yours was not started.`,
      exitCode.conflict,
      ['Run the command again to take the TPU.'],
    );
  await addLabJob(db, { ...job, job: id, user: owner });
  await openWindow(db, id, 1, createdAt);
  if (booking === null) return;
  const run: RunOperation = (operation) => operation(db);
  const sheet = createLocalSheet(
    labStore(run, run, () => false),
    () => createdAt,
  );
  await bookRun(sheet, job.tpu, booking);
}

async function readLabJobs(db: Database, where: Sql): Promise<readonly LabJob[]> {
  const { rows } = await sql<{ job: number; owner: string; details: string }>`
    select job, owner, details from lab_job where ${where} order by job`.execute(db);
  return rows.map(labJobOfRow);
}

async function findLabJob(db: Database, job: string): Promise<LabJob | undefined> {
  return (await readLabJobs(db, sql`job = ${numberOf(job) ?? null}`))[0];
}

async function requireLabJob(db: Database, job: string): Promise<LabJob> {
  const found = await findLabJob(db, job);
  if (found !== undefined) return found;
  throw new JobmanError(`Job ${job} is not a job of the lab: \`tpu run\` did not create it.`, exitCode.notFound);
}

function labJobOfRow({ job, owner, details }: { job: number; owner: string; details: string }): LabJob {
  return { job: idOf(job), user: owner, ...(JSON.parse(details) as LabJobDetails) };
}

function ownerIs(user: string | undefined): Sql {
  return user === undefined ? all : sql`owner = ${user}`;
}

function parentNumber({ parent }: LabJobDetails): number | null {
  return parent === null ? null : jobNumber(parent.job);
}

function jobNumber(job: string): number {
  const number = numberOf(job);
  if (number === undefined) throw new Error(`"${job}" is not a job id`);
  return number;
}

/** Without the ids that are no job ids. */
function jobNumbers(ids: readonly string[]): readonly number[] {
  return ids.map(numberOf).filter((number) => number !== undefined);
}

// ------------------------------------------------------------------------------------------ windows

/** A window, joined with its job. */
interface Row extends Omit<LabWindow, 'job' | 'report'> {
  readonly job: number;
  readonly session: string;
  readonly report: string | null;
  readonly owner: string;
  readonly details: string;
}

async function openWindow(
  db: Database,
  job: string,
  attempt: number,
  now: Instant,
): Promise<WindowWithJob & { readonly session: string }> {
  const labJob = await requireLabJob(db, job);
  const find = async () => (await readWindows(db, sql`job = ${jobNumber(job)} and attempt = ${attempt}`))[0];
  const stored = await find();
  if (stored !== undefined) return { window: windowOfRow(stored), job: labJob, session: stored.session };
  const { user } = labJob;
  const { rows } = await sql<{ session: string; next_window: number }>`
    select session, next_window from lab_member where name = ${user}`.execute(db);
  // A job may outlive its user's registration. It then continues in the session of the user's last window, under the
  // next numbers.
  const { session, next_window } = rows[0] ?? (await nextWindowOf(db, user));
  let number = next_window;
  while (await isNumberTaken(db, user, session, number)) number += 1;
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at)
    values (${jobNumber(job)}, ${attempt}, ${user}, ${session}, ${number}, ${now})`.execute(db);
  await sql`update lab_member set next_window = ${number + 1} where name = ${user}`.execute(db);
  const opened = await find();
  if (opened === undefined) throw new Error(`the window of job ${job} was not stored`);
  return { window: windowOfRow(opened), job: labJob, session };
}

async function addImportedWindow(db: Database, id: string, past: ImportedJob): Promise<void> {
  const { owner, lab, window, createdAt, endedAt } = past;
  if (lab === null) return;
  await addLabJob(db, { ...lab, job: id, user: owner });
  if (window === null) return;
  const report = window.report === null ? null : JSON.stringify(window.report);
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at, report, finished_at, cleared_at)
    values (${jobNumber(id)}, 1, ${owner}, ${window.session}, ${window.window}, ${createdAt}, ${report},
            ${window.finishedAt}, ${window.cleared ? endedAt : null})`.execute(db);
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
    select 1 from lab_window where ${isWindow(session, number)}
    union all
    select 1 from lab_window
    where owner = ${user} and number = ${number} and (cleared_at is null or job in (select job from listed))
    limit 1`.execute(db);
  return rows.length > 0;
}

async function findWindow(db: Database, session: string, window: number): Promise<WindowWithJob | null> {
  const [row] = await readWindows(db, isWindow(session, window));
  return row === undefined ? null : { window: windowOfRow(row), job: labJobOfRow(row) };
}

function isWindow(session: string, window: number): Sql {
  return sql`session = ${session} and number = ${window} and cleared_at is null`;
}

/** Ignores the time: a script may repeat its report. */
function isSameReport(stored: WindowReport | null, reported: WindowReport): boolean {
  const fields = ['logFolder', 'stageFolder', 'tpu', 'startTime'] as const;
  return stored !== null && fields.every((field) => stored[field] === reported[field]);
}

/** In the order of their numbers; `where` names only columns of windows. */
async function readWindows(db: Database, where: Sql): Promise<readonly Row[]> {
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
