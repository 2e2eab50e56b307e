// Lab registry: the statements about users, TPUs with their aliases, and bookings. They implement LabStore; those that
// write must run in a transaction.

import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { LabUser } from '../lab/users.ts';
import type { BookingRow } from '../lab/bookings.ts';
import type { LabTpu } from '../lab/tpus.ts';
import { sql, type Database, type Sql } from './sql.ts';

type UserDetails = Pick<LabUser, 'sheetName' | 'directories' | 'aliases' | 'settings' | 'createdAt'>;

export function readUsers(db: Database): Promise<readonly LabUser[]> {
  return readWhere(db, sql`1 = 1`);
}

export async function addUser(
  db: Database,
  given: Omit<LabUser, 'id'> & { readonly id: number | null },
): Promise<LabUser> {
  const others = await readUsers(db);
  const user = { ...given, id: given.id ?? lowestFreeId(others) };
  checkUnique(user, others);
  await sql`
    insert into lab_user (name, id, session, next_window, news_seen, details)
    values (${user.name}, ${user.id}, ${user.session}, ${user.nextWindow}, ${user.newsSeen}, ${detailsOf(user)})`.execute(
    db,
  );
  await writeLogins(db, user);
  return user;
}

export async function changeUser(db: Database, name: string, change: (user: LabUser) => LabUser): Promise<LabUser> {
  const [stored] = await readWhere(db, sql`name = ${name}`);
  if (stored === undefined) throw await userNotFound(db, name);
  const user = { ...change(stored), name: stored.name, id: stored.id };
  if (user.session !== stored.session || user.logins.some((login) => !stored.logins.includes(login))) {
    checkUnique(
      user,
      (await readUsers(db)).filter((other) => other.name !== name),
    );
  }
  await sql`
    update lab_user
    set session = ${user.session}, next_window = ${user.nextWindow}, news_seen = ${user.newsSeen}, details = ${detailsOf(user)}
    where name = ${name}`.execute(db);
  await writeLogins(db, user);
  return user;
}

export async function dropUser(db: Database, name: string): Promise<void> {
  await sql`delete from lab_login where owner = ${name}`.execute(db);
  const { rows } = await sql`delete from lab_user where name = ${name} returning name`.execute(db);
  if (rows.length === 0) throw await userNotFound(db, name);
}

async function readWhere(db: Database, where: Sql): Promise<readonly LabUser[]> {
  type Columns = Pick<LabUser, 'name' | 'id' | 'session' | 'nextWindow' | 'newsSeen'> & { readonly details: string };
  const { rows } = await sql<Columns>`
    select name, id, session, next_window as "nextWindow", news_seen as "newsSeen", details
    from lab_user where ${where} order by id`.execute(db);
  const { rows: logins } = await sql<{ login: string; owner: string }>`
    select login, owner from lab_login
    where owner in (select name from lab_user where ${where}) order by login`.execute(db);
  return rows.map(({ details, ...columns }) => ({
    ...columns,
    logins: logins.filter(({ owner }) => owner === columns.name).map(({ login }) => login),
    ...(JSON.parse(details) as UserDetails),
  }));
}

async function writeLogins(db: Database, { name, logins }: LabUser): Promise<void> {
  await sql`delete from lab_login where owner = ${name}`.execute(db);
  for (const login of new Set(logins)) {
    await sql`insert into lab_login (login, owner) values (${login}, ${name})`.execute(db);
  }
}

function detailsOf({ sheetName, directories, aliases, settings, createdAt }: LabUser): string {
  return JSON.stringify({ sheetName, directories, aliases, settings, createdAt } satisfies UserDetails);
}

function lowestFreeId(users: readonly LabUser[]): number {
  const taken = new Set(users.map(({ id }) => id));
  let id = 0;
  while (taken.has(id)) id += 1;
  return id;
}

/** Throws a readable error if another user has the same name, id, session or login. */
function checkUnique(user: LabUser, others: readonly LabUser[]): void {
  for (const other of others) {
    const taken =
      (other.name === user.name && `The user "${user.name}" already exists.`) ||
      (other.id === user.id && `The id ${user.id} belongs to ${other.name}. Omit it to get a free one.`) ||
      (other.session === user.session &&
        `The session "${user.session}" belongs to ${other.name}. Choose another name.`);
    if (taken !== false) throw new JobmanError(taken, exitCode.conflict);
    const login = user.logins.find((one) => other.logins.includes(one));
    if (login !== undefined) {
      throw new JobmanError(
        `The login "${login}" belongs to ${other.name}. Remove it from that user first.`,
        exitCode.conflict,
      );
    }
  }
}

async function userNotFound(db: Database, name: string): Promise<JobmanError> {
  const names = (await readUsers(db)).map((user) => user.name);
  const meant = didYouMean(name, names);
  const more =
    meant !== undefined
      ? `Did you mean "${meant}"?`
      : names.length > 0
        ? `Users: ${names.join(', ')}.`
        : 'No user exists yet.';
  return new JobmanError(`There is no user "${name}". ${more}`, exitCode.notFound);
}

export function readTpus(db: Database): Promise<readonly LabTpu[]> {
  return tpusWhere(db, sql`1 = 1`);
}

export async function changeTpu(
  db: Database,
  name: string,
  change: (tpu: LabTpu | null) => LabTpu | null,
): Promise<void> {
  const [stored = null] = await tpusWhere(db, sql`name = ${name}`);
  const tpu = change(stored);
  if (tpu === null) {
    await sql`delete from lab_tpu where name = ${name}`.execute(db);
    return;
  }
  const { project, zone, accelerator, pricing, runtimeVersion } = tpu;
  await sql`
    insert into lab_tpu (name, project, zone, accelerator, pricing, runtime_version)
    values (${name}, ${project}, ${zone}, ${accelerator}, ${pricing}, ${runtimeVersion})
    on conflict (name) do update
    set project = excluded.project, zone = excluded.zone, accelerator = excluded.accelerator,
        pricing = excluded.pricing, runtime_version = excluded.runtime_version`.execute(db);
}

async function tpusWhere(db: Database, where: Sql): Promise<readonly LabTpu[]> {
  const { rows } = await sql<LabTpu>`
    select name, project, zone, accelerator, pricing, runtime_version as "runtimeVersion"
    from lab_tpu where ${where} order by name`.execute(db);
  return rows.map((row) => ({ ...row }));
}

/** Full names by alias, in the order of the aliases. */
export async function readAliases(db: Database): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ alias: string; tpu: string }>`
    select alias, tpu from lab_tpu_alias order by alias`.execute(db);
  return new Map(rows.map(({ alias, tpu }) => [alias, tpu]));
}

export async function setAlias(db: Database, alias: string, name: string | null): Promise<string | null> {
  const { rows } = await sql<{ tpu: string }>`select tpu from lab_tpu_alias where alias = ${alias}`.execute(db);
  await sql`delete from lab_tpu_alias where alias = ${alias}`.execute(db);
  if (name !== null) await sql`insert into lab_tpu_alias (alias, tpu) values (${alias}, ${name})`.execute(db);
  return rows[0]?.tpu ?? null;
}

export function readBookings(db: Database): Promise<readonly BookingRow[]> {
  return bookingsWhere(db, sql`1 = 1`);
}

export async function changeBooking(
  db: Database,
  tpu: string,
  change: (booking: BookingRow | null) => BookingRow | null,
): Promise<void> {
  const [stored = null] = await bookingsWhere(db, sql`tpu = ${tpu}`);
  const booking = change(stored);
  if (booking === null) {
    await sql`delete from lab_booking where tpu = ${tpu}`.execute(db);
    return;
  }
  const { status, user, note, scriptNote, at } = booking;
  await sql`
    insert into lab_booking (tpu, status, owner, note, script_note, at)
    values (${tpu}, ${status}, ${user}, ${note}, ${scriptNote}, ${at})
    on conflict (tpu) do update
    set status = excluded.status, owner = excluded.owner, note = excluded.note,
        script_note = excluded.script_note, at = excluded.at`.execute(db);
}

async function bookingsWhere(db: Database, where: Sql): Promise<readonly BookingRow[]> {
  const { rows } = await sql<BookingRow>`
    select tpu, status, owner as "user", note, script_note as "scriptNote", at
    from lab_booking where ${where} order by tpu`.execute(db);
  return rows.map((row) => ({ ...row }));
}
