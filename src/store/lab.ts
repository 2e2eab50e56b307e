// Lab: the lab's part of the database. Statements that write run in a transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import { formatChoices } from '../app/format.ts';
import type { LabEntry, LabRestart } from '../app/lab-job.ts';
import type { LoadFinalRows, Store } from '../app/ports.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import { operationOf } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import { changedRow, type BookingRow } from '../lab/bookings.ts';
import type { ImportedJob } from '../lab/imported-job.ts';
import type { WindowWithJob, LabEvent, LabJob, LabStore, LabWindow, WindowReport } from '../lab/lab-store.ts';
import type { BookingCommand, LabChange, TpuChange } from '../lab/service.ts';
import type { SheetChange } from '../lab/sheet-outbox.ts';
import { changedTpu, type LabTpu } from '../lab/tpus.ts';
import { changedUser, lowestFreeId, type LabUser } from '../lab/users.ts';
import { auditWrites } from './audit.ts';
import { nextNumber, requireRow } from './counters.ts';
import type { RunOperation } from './database.ts';
import { createWriteWithId, type IsIdTaken } from './job-ids.ts';
import { openDatabase, type OpenDatabaseOptions } from './open-database.ts';
import { isOneOf, sql, untilWritten, wroteRow, type Database, type Sql } from './sql.ts';
import { idOf, numberOf, jobOf } from './stored-job.ts';
import { readLogins } from './users.ts';

/** A hundred lab commands may begin in the same second, and a script does not repeat its report. */
const busyTimeoutMs = 60_000;

/** Does not load the jobs' part, because training scripts wait for the lab's. Opens no file yet. */
export function openLabStore({ isIdTaken, finalRows, ...given }: OpenDatabaseOptions & ImportOptions): {
  readonly store: LabStore;
  readonly notify: Store['notify'];
  readonly close: () => Promise<void>;
} {
  const { read, write, notify, close } = openDatabase({ busyTimeoutMs, ...given });
  return { store: labStore(read, write, { isIdTaken, finalRows }), notify, close };
}

/** For imported jobs; see `openStore`. */
interface ImportOptions {
  readonly isIdTaken?: IsIdTaken | undefined;
  readonly finalRows?: LoadFinalRows | undefined;
}

export function labStore(read: RunOperation, write: RunOperation, options: ImportOptions = {}): LabStore {
  return {
    ...registryStore(read, write),
    addJob: (job) => write((db) => addLabJob(db, job)),
    tagJob: (job, tag) =>
      write(async (db) => {
        await untilWritten(async () => {
          const row = await requireLabJobRow(db, job);
          const details = { ...(JSON.parse(row.details) as LabJobDetails), tag } satisfies LabJobDetails;
          const isWritten = await wroteRow(
            db,
            sql`
              update lab_job set details = ${JSON.stringify(details)}
              where job = ${row.job} and details = ${row.details} returning job`,
          );
          return isWritten ? row : undefined;
        });
      }),
    job: (job) => read(async (db) => (await readLabJobs(db, sql`job = ${numberOf(job) ?? null}`))[0] ?? null),
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
          update lab_window set report = ${JSON.stringify(report)} where ${isListed(found.window)}`.execute(db);
        return found;
      }),
    finishWindow: (session, window, at) =>
      write(async (db) => {
        const found = await findWindow(db, session, window);
        if (found === null) return found;
        await sql`
          update lab_window set finished_at = ${at}
          where ${isListed(found.window)} and finished_at is null`.execute(db);
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

    async similarJobs(requested, since, limit) {
      const { readSimilarJobs } = await import('./jobs.ts');
      return read((db) => readSimilarJobs(db, requested, since, limit));
    },
    async applyChanges(changes) {
      const [{ addPastJob }, rows] = await Promise.all([import('./past-jobs.ts'), options.finalRows?.()]);
      return write((db) => writeChanges(db, changes, options, (id, past) => addPastJob(db, id, past, rows)));
    },
  };
}

async function writeChanges(
  db: Database,
  changes: readonly LabChange[],
  { isIdTaken }: ImportOptions,
  addPastJob: (id: string, past: ImportedJob) => Promise<void>,
): Promise<readonly (string | null)[]> {
  const inTransaction: RunOperation = (operation) => operation(db);
  const registry = registryStore(inTransaction, inTransaction);
  const writeWithId = createWriteWithId(inTransaction, inTransaction, isIdTaken);
  const ids: (string | null)[] = [];
  for (const change of changes) ids.push(await apply(change));
  return ids;

  async function apply(change: LabChange): Promise<string | null> {
    switch (change.kind) {
      case 'add_user':
        await registry.addUser(change.user);
        return null;
      case 'change_user':
        await registry.changeUser(change.name, change.change);
        return null;
      case 'change_tpu':
        await registry.changeTpu(change.name, change.change);
        return null;
      case 'set_tpu_alias':
        await registry.setTpuAlias(change.alias, change.name);
        return null;
      case 'add_job': {
        const past = withParent(change, ids);
        const found = await findImportedJob(db, past);
        return (
          found ??
          writeWithId(past.owner, async (_db, id) => {
            await addPastJob(id, past);
            await addImportedWindow(db, id, past);
            return id;
          })
        );
      }
    }
  }
}

/** Users, TPUs and bookings. */
function registryStore(read: RunOperation, write: RunOperation) {
  return {
    users: () => read((db) => readMembers(db, all)),
    addUser: (given, audit?) =>
      write(async (db) => {
        const user = await untilWritten(async () => {
          const others = await readMembers(db, all);
          const wanted = { ...given, id: given.id ?? lowestFreeId(others) };
          checkUnique(wanted, others);
          return (await insertMember(db, wanted)) ? wanted : undefined;
        });
        // `jobman user add` may have added the user with a role and logins.
        const { writeLogins } = await import('./user-changes.ts');
        const logins = [...new Set([...((await readLogins(db)).get(user.name) ?? []), ...user.logins])];
        await writeLogins(db, user.name, logins, loginRemedy);
        await db.runAll(auditWrites(audit));
        return requireRow((await readMembers(db, sql`name = ${user.name}`))[0]);
      }),
    changeUser: (name, change, audit?) =>
      write(async (db) => {
        const changed = await untilWritten(async () => {
          const [row] = await readMemberRows(db, sql`name = ${name}`);
          if (row === undefined) throw await userNotFound(db, name);
          const before = memberOf(row, await readLogins(db));
          const after = changedUser(before, change);
          if (after.session !== before.session) checkUnique(after, await readMembers(db, sql`name <> ${name}`));
          return (await updateMember(db, row, after)) ? { before, after } : undefined;
        });
        const { before, after } = changed;
        if (after.logins.join() !== before.logins.join()) {
          const { refuseAdmin, writeLogins } = await import('./user-changes.ts');
          refuseAdmin(before, ['jobman user logins', name, ...after.logins].join(' '));
          await writeLogins(db, name, after.logins, loginRemedy);
          await db.runAll(auditWrites(audit));
        }
        return changed;
      }),
    removeUser: (name, audit?) =>
      write(async (db) => {
        const [row] = await readMemberRows(db, sql`name = ${name}`);
        if (row === undefined) throw await userNotFound(db, name);
        const { refuseAdmin, removeUser } = await import('./user-changes.ts');
        refuseAdmin(row, `jobman user role ${name} member`);
        await sql`delete from lab_member where name = ${name}`.execute(db);
        await removeUser(db, name);
        await db.runAll(auditWrites(audit));
      }),

    tpus: () => read((db) => readTpus(db, all)),
    tpuAliases: () =>
      read(async (db) => {
        const { rows } = await sql<{ alias: string; tpu: string }>`
          select alias, tpu from lab_tpu_alias order by alias`.execute(db);
        return new Map(rows.map(({ alias, tpu }) => [alias, tpu]));
      }),
    changeTpu: (name, change, alias?: string) =>
      write(async (db) => {
        const tpu = await changeTpu(db, name, change);
        if (alias !== undefined) await writeTpuAlias(db, alias, name);
        return tpu;
      }),
    removeTpu: (name) =>
      write(async (db) => {
        await sql`delete from lab_tpu_alias where tpu = ${name}`.execute(db);
        await sql`delete from lab_tpu where name = ${name}`.execute(db);
        await sql`delete from lab_booking where tpu = ${name} and status = 'gone'`.execute(db);
      }),
    setTpuAlias: (alias, name) => write((db) => writeTpuAlias(db, alias, name)),
    bookings: () => read((db) => readBookings(db, all)),
    changeBooking: (tpu, command, at) => write((db) => changeBooking(db, tpu, command, at)),
    lastUses: (since) =>
      read(async (db) => {
        const { rows } = await sql<{ name: string; endedAt: number }>`
          select name, max(ended_at) as "endedAt" from usage
          where ended_at > ${since} and ownership = 'persistent' and used_for in ('useful', 'lost')
          group by name`.execute(db);
        return new Map(rows.map(({ name, endedAt }) => [name, endedAt]));
      }),
    sheetChanges: () => read(readSheetChanges),
    addSheetChange: (tpu, command, at) => write((db) => addSheetChange(db, tpu, command, at)),
    claimSheetChange: ({ id, nextAt }, until) =>
      write((db) =>
        wroteRow(
          db,
          sql`
            update lab_sheet_change set next_at = ${until}, tries = tries + 1
            where id = ${id} and next_at = ${nextAt} returning id`,
        ),
      ),
    endSheetChange: ({ id, tpu }, failure) =>
      write(async (db) => {
        if (failure === null)
          await sql`
            delete from lab_sheet_change
            where id = ${id} or (tpu = ${tpu} and id < ${id} and next_at is null)`.execute(db);
        else
          await sql`
            update lab_sheet_change set error = ${failure.error}, next_at = ${failure.nextAt}
            where id = ${id}`.execute(db);
      }),
  } satisfies Partial<LabStore>;
}

const all = sql`1 = 1`;

// ------------------------------------------------------------------------------------------ users

type UserDetails = Pick<LabUser, 'sheetName' | 'directories' | 'aliases' | 'settings'>;

interface MemberRow extends Omit<LabUser, 'logins' | keyof UserDetails> {
  readonly details: string;
}

async function readMembers(db: Database, where: Sql): Promise<readonly LabUser[]> {
  const rows = await readMemberRows(db, where);
  const logins = await readLogins(db);
  return rows.map((row) => memberOf(row, logins));
}

/** `where` names only columns of members. */
async function readMemberRows(db: Database, where: Sql): Promise<readonly MemberRow[]> {
  const { rows } = await sql<MemberRow>`
    select member.*, users.role, users.created_at as "createdAt" from (
      select name, id, session, next_window as "nextWindow", news_seen as "newsSeen", details
      from lab_member where ${where}
    ) as member join users on users.name = member.name order by id`.execute(db);
  return rows;
}

function memberOf({ details, ...columns }: MemberRow, logins: ReadonlyMap<string, readonly string[]>): LabUser {
  return { ...(JSON.parse(details) as UserDetails), ...columns, logins: logins.get(columns.name) ?? [] };
}

function detailsOf({ sheetName, directories, aliases, settings }: LabUser): string {
  return JSON.stringify({ sheetName, directories, aliases, settings } satisfies UserDetails);
}

/** False if another writer has added a user with the same name, id or session. */
async function insertMember(db: Database, user: LabUser): Promise<boolean> {
  const { name, role, id, session, nextWindow, newsSeen, createdAt } = user;
  await sql`
    insert into users (name, role, created_at) values (${name}, ${role}, ${createdAt})
    on conflict (name) do nothing`.execute(db);
  return wroteRow(
    db,
    sql`
      insert into lab_member (name, id, session, next_window, news_seen, details)
      values (${name}, ${id}, ${session}, ${nextWindow}, ${newsSeen}, ${detailsOf(user)})
      on conflict do nothing returning name`,
  );
}

/** False if another writer has changed the row. */
async function updateMember(db: Database, row: MemberRow, user: LabUser): Promise<boolean> {
  return wroteRow(
    db,
    sql`
      update lab_member
      set session = ${user.session}, next_window = ${user.nextWindow}, news_seen = ${user.newsSeen},
        details = ${detailsOf(user)}
      where name = ${row.name} and session = ${row.session} and next_window = ${row.nextWindow}
        and news_seen = ${row.newsSeen} and details = ${row.details} returning name`,
  );
}

function loginRemedy(owner: string, others: readonly string[]): string {
  return `tpu set-logins ${owner} login=${others.join(',') || '-'}`;
}

/** Throws JobmanError (4) if another user has the same name, id or session. */
function checkUnique(user: LabUser, others: readonly LabUser[]): void {
  for (const other of others) {
    const taken =
      (other.name === user.name && `The user "${user.name}" already exists.`) ||
      (other.id === user.id && `The id ${user.id} belongs to ${other.name}. Omit it to get a free one.`) ||
      (other.session === user.session && `The session "${user.session}" belongs to ${other.name}. Choose another.`);
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

async function changeTpu(db: Database, name: string, change: TpuChange): Promise<LabTpu | null> {
  const { tpu } = await untilWritten(async () => {
    const [stored = null] = await readTpus(db, sql`name = ${name}`);
    const changed = changedTpu(name, stored, change);
    if (changed === null || (await wroteRow(db, tpuChange(stored, changed)))) return { tpu: changed };
    return undefined;
  });
  return tpu;
}

async function writeTpuAlias(db: Database, alias: string, name: string | null): Promise<void> {
  await sql`delete from lab_tpu_alias where alias = ${alias}`.execute(db);
  if (name !== null) await sql`insert into lab_tpu_alias (alias, tpu) values (${alias}, ${name})`.execute(db);
}

/** Writes no row if another writer has changed it. */
function tpuChange(stored: LabTpu | null, tpu: LabTpu): Sql {
  const { name, project, zone, accelerator, pricing, runtimeVersion } = tpu;
  if (stored === null)
    return sql`
      insert into lab_tpu (name, project, zone, accelerator, pricing, runtime_version)
      values (${name}, ${project}, ${zone}, ${accelerator}, ${pricing}, ${runtimeVersion})
      on conflict (name) do nothing returning name`;
  return sql`
    update lab_tpu
    set project = ${project}, zone = ${zone}, accelerator = ${accelerator}, pricing = ${pricing},
      runtime_version = ${runtimeVersion}
    where name = ${name} and project is not distinct from ${stored.project} and zone is not distinct from ${stored.zone}
      and accelerator = ${stored.accelerator} and pricing = ${stored.pricing}
      and runtime_version is not distinct from ${stored.runtimeVersion} returning name`;
}

async function readBookings(db: Database, where: Sql): Promise<readonly BookingRow[]> {
  const { rows } = await sql<BookingRow>`
    select tpu, status, owner as "user", note, script_note as "scriptNote", at, changed_by as "by"
    from lab_booking where ${where} order by tpu`.execute(db);
  return rows.map((row) => ({ ...row }));
}

async function changeBooking(
  db: Database,
  tpu: string,
  command: BookingCommand,
  at: Instant,
): ReturnType<LabStore['changeBooking']> {
  return untilWritten(async () => {
    const [before = null] = await readBookings(db, sql`tpu = ${tpu}`);
    const after = changedRow(tpu, before, command, at);
    const statement = after === before ? null : rowChange(tpu, before, after);
    return statement === null || (await wroteRow(db, statement)) ? { before, after } : undefined;
  });
}

async function readSheetChanges(db: Database): Promise<readonly SheetChange[]> {
  const { rows } = await sql<Omit<SheetChange, 'command'> & { readonly command: string }>`
    select id, tpu, command, created_at as "createdAt", next_at as "nextAt", tries, error
    from lab_sheet_change order by id`.execute(db);
  return rows.map((row) => ({ ...row, command: JSON.parse(row.command) as BookingCommand }));
}

async function addSheetChange(db: Database, tpu: string, command: BookingCommand, at: Instant): Promise<void> {
  await sql`
    insert into lab_sheet_change (id, tpu, command, created_at, next_at, tries)
    values (${await nextNumber(db, 'sheet_change')}, ${tpu}, ${JSON.stringify(command)}, ${at}, ${at}, 0)`.execute(db);
}

/** As `tpuChange`. */
function rowChange(tpu: string, stored: BookingRow | null, booking: BookingRow | null): Sql | null {
  const isStored = (row: BookingRow): Sql => sql`
    tpu = ${tpu} and status = ${row.status} and owner = ${row.user} and note = ${row.note}
      and script_note = ${row.scriptNote} and at = ${row.at}`;
  if (booking === null) return stored && sql`delete from lab_booking where ${isStored(stored)} returning tpu`;
  const { status, user, note, scriptNote, at, by } = booking;
  if (stored === null)
    return sql`
      insert into lab_booking (tpu, status, owner, note, script_note, at, changed_by)
      values (${tpu}, ${status}, ${user}, ${note}, ${scriptNote}, ${at}, ${by})
      on conflict (tpu) do nothing returning tpu`;
  return sql`
    update lab_booking
    set status = ${status}, owner = ${user}, note = ${note}, script_note = ${scriptNote}, at = ${at},
      changed_by = ${by}
    where ${isStored(stored)} returning tpu`;
}

// ------------------------------------------------------------------------------------------ jobs

/** The fields without a column of their own. The parent's id also has one, so that lineages can be searched. */
type LabJobDetails = Omit<LabJob, 'job' | 'user'>;

async function addLabJob(db: Database, { job, user, ...details }: LabJob): Promise<void> {
  await sql`
    insert into lab_job (job, owner, parent, details)
    values (${jobNumber(job)}, ${user}, ${parentNumber(details)}, ${JSON.stringify(details)})`.execute(db);
}

/** Throws JobmanError (4) if another user has booked the TPU since it was checked. */
export async function addLabEntry(
  db: Database,
  { id, owner, createdAt }: Job,
  { job, booking }: LabEntry,
): Promise<void> {
  await addLabJob(db, { ...job, job: id, user: owner });
  await openWindow(db, id, 1, createdAt);
  await bookLater(db, job, { kind: 'run', ...booking }, createdAt);
}

/** As `addLabEntry`, for a job that starts again. */
export async function addLabRestart(
  db: Database,
  { id, startRequest }: Job,
  { attempt, booking, replaces = [], foreignPrograms = [], spreadsheet }: LabRestart,
): Promise<void> {
  const at = startRequest?.at ?? 0;
  const { job: _job, user: _user, spreadsheet: _before, ...rest } = labJobOfRow(await requireLabJobRow(db, id));
  const details: LabJobDetails = { ...rest, replaces, foreignPrograms, ...(spreadsheet && { spreadsheet }) };
  await sql`
    update lab_job set details = ${JSON.stringify(details)} where job = ${jobNumber(id)}`.execute(db);
  await openWindow(db, id, attempt, at);
  await bookLater(db, details, { kind: 'run', ...booking }, at);
}

const bookingEvents: Readonly<Partial<Record<Event['kind'], 'begin_attempt' | 'end_attempt'>>> = {
  attempt_started: 'begin_attempt',
  attempt_ended: 'end_attempt',
  finished: 'end_attempt',
};

/** The booking follows the attempts of a lab's job and the operations on its TPU, so that it is right however they end. */
export async function followEvents(db: Database, job: Job, events: readonly Event[]): Promise<void> {
  await bookAttempts(db, job, events);
  await observeTpu(db, job, events);
}

async function bookAttempts(db: Database, { id }: Job, events: readonly Event[]): Promise<void> {
  const booked = events.flatMap(({ kind: event, at }) => {
    const kind = bookingEvents[event];
    return kind === undefined ? [] : [{ kind, at }];
  });
  if (booked.length === 0) return;
  const [job] = await readLabJobs(db, sql`job = ${numberOf(id) ?? null}`);
  const [member] = job === undefined ? [] : await readMemberRows(db, sql`name = ${job.user}`);
  if (job === undefined || member === undefined) return;
  const { sheetName: user } = JSON.parse(member.details) as UserDetails;
  for (const { kind, at } of booked) await bookLater(db, job, { kind, user }, at);
}

/** Records in the booking and in the registry what an operation has made of its TPU. */
async function observeTpu(db: Database, { spec }: Job, events: readonly Event[]): Promise<void> {
  const operation = operationOf(spec);
  if (operation === undefined || spec.capacity.kind !== 'tpu') return;
  const { name: tpu, zone } = spec.capacity;
  const exists = operation.kind !== 'delete';
  for (const event of events) {
    const isReady = event.kind === 'allocation_seen' && event.state === 'ready';
    const isDone = event.kind === 'finished' && event.verdict === 'succeeded';
    if (exists ? !isReady : !isDone) continue;
    await bookLater(db, { tpu, ...operation }, { kind: 'observe', exists }, event.at);
    if (exists) await changeTpu(db, tpu, { kind: 'observe_zone', zone });
  }
}

async function bookLater(
  db: Database,
  { tpu, spreadsheet }: Pick<LabJob, 'tpu' | 'spreadsheet'>,
  command: BookingCommand,
  at: Instant,
): Promise<void> {
  if (spreadsheet === true) await addSheetChange(db, tpu, command, at);
  else await changeBooking(db, tpu, command, at);
}

interface LabJobRow {
  readonly job: number;
  readonly owner: string;
  readonly details: string;
}

async function readLabJobs(db: Database, where: Sql): Promise<readonly LabJob[]> {
  return (await readLabJobRows(db, where)).map(labJobOfRow);
}

async function readLabJobRows(db: Database, where: Sql): Promise<readonly LabJobRow[]> {
  const { rows } = await sql<LabJobRow>`
    select job, owner, details from lab_job where ${where} order by job`.execute(db);
  return rows;
}

async function requireLabJobRow(db: Database, job: string): Promise<LabJobRow> {
  const [row] = await readLabJobRows(db, sql`job = ${numberOf(job) ?? null}`);
  if (row !== undefined) return row;
  throw new JobmanError(`Job ${job} is not a job of the lab: \`tpu run\` did not create it.`, exitCode.notFound);
}

function labJobOfRow({ job, owner, details }: LabJobRow): LabJob {
  return { job: idOf(job), user: owner, ...(JSON.parse(details) as LabJobDetails) };
}

function ownerIs(user: string | undefined): Sql {
  return user === undefined ? all : sql`owner = ${user}`;
}

function parentNumber({ parent }: LabJobDetails): number | null {
  return parent === null ? null : jobNumber(parent.job);
}

/** Throws JobmanError (3) for a text that is no job id, which a client may send. */
function jobNumber(job: string): number {
  const number = numberOf(job);
  if (number === undefined) throw new JobmanError(`There is no job ${JSON.stringify(job)}.`, exitCode.notFound);
  return number;
}

/** Without the ids that are not job ids. */
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
  const labJob = labJobOfRow(await requireLabJobRow(db, job));
  const { user } = labJob;
  const find = async () => {
    const [stored] = await readWindows(db, sql`job = ${jobNumber(job)} and attempt = ${attempt}`);
    return stored && { window: windowOfRow(stored), job: labJob, session: stored.session };
  };
  return untilWritten(async () => {
    const stored = await find();
    if (stored !== undefined) return stored;
    const { rows } = await sql<{ session: string; next_window: number }>`
      select session, next_window from lab_member where name = ${user}`.execute(db);
    // A job may outlive its user's registration. It then continues in the session of the user's last window, under the
    // next numbers.
    const { session, next_window } = rows[0] ?? (await nextWindowOf(db, user));
    let number = next_window;
    while (await isNumberTaken(db, user, session, number)) number += 1;
    // Another writer may have taken the number, or opened the window, since it was read.
    await sql`
      insert into lab_window (job, attempt, owner, session, number, opened_at)
      values (${jobNumber(job)}, ${attempt}, ${user}, ${session}, ${number}, ${now})
      on conflict do nothing`.execute(db);
    await sql`
      update lab_member set next_window = ${number + 1}
      where name = ${user} and next_window = ${next_window}`.execute(db);
    return find();
  });
}

function withParent(
  { job, parent }: Extract<LabChange, { readonly kind: 'add_job' }>,
  ids: readonly (string | null)[],
): ImportedJob {
  if (parent === undefined || job.lab === null) return job;
  const { change, startMode } = parent;
  return { ...job, lab: { ...job.lab, parent: { job: requireRow(ids[change] ?? undefined), attempt: 1, startMode } } };
}

/** Another import may have added the job since this one was planned. */
async function findImportedJob(db: Database, { owner, window, createdAt }: ImportedJob): Promise<string | null> {
  if (window === null) return null;
  const { rows } = await sql<{ job: number }>`
    select job from lab_window
    where owner = ${owner} and number = ${window.window} and opened_at = ${createdAt}
      and report is not distinct from ${reportText(window)}`.execute(db);
  return rows[0] === undefined ? null : idOf(rows[0].job);
}

function reportText({ report }: Pick<LabWindow, 'report'>): string | null {
  return report === null ? null : JSON.stringify(report);
}

async function addImportedWindow(db: Database, id: string, past: ImportedJob): Promise<void> {
  const { owner, lab, window, createdAt, endedAt } = past;
  if (lab === null) return;
  await addLabJob(db, { ...lab, job: id, user: owner });
  if (window === null) return;
  await sql`
    insert into lab_window (job, attempt, owner, session, number, opened_at, report, finished_at, cleared_at)
    values (${jobNumber(id)}, 1, ${owner}, ${window.session}, ${window.window}, ${createdAt}, ${reportText(window)},
            ${window.finishedAt}, ${window.cleared ? endedAt : null})`.execute(db);
  await sql`
    update lab_member set news_seen = (select value from counter where name = 'event')
    where name = ${owner}`.execute(db);
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

/** The number and session of a cleared window may belong to another one. */
function isListed({ job, attempt }: LabWindow): Sql {
  return sql`job = ${jobNumber(job)} and attempt = ${attempt} and cleared_at is null`;
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
