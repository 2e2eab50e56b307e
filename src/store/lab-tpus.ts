// Lab TPUs: the statements about the registry of TPUs, their short names, and the table of bookings. Those that write want a
// transaction.

import type { LabTpu } from '../lab/tpus.ts';
import type { BookingRow } from '../lab/bookings.ts';
import { sql, type Database, type Sql } from './sql.ts';

interface TpuRow {
  readonly name: string;
  readonly project: string | null;
  readonly zone: string | null;
  readonly accelerator: string;
  readonly pricing: LabTpu['pricing'];
  readonly runtime_version: string | null;
}

/** In the order of their names. */
export function readTpus(db: Database): Promise<readonly LabTpu[]> {
  return tpusWhere(db, sql`1 = 1`);
}

/** See LabRecord. */
export async function changeTpu(
  db: Database,
  name: string,
  change: (tpu: LabTpu | null) => LabTpu | null,
): Promise<void> {
  const [stands = null] = await tpusWhere(db, sql`name = ${name}`);
  const tpu = change(stands);
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
  const { rows } = await sql<TpuRow>`
    select name, project, zone, accelerator, pricing, runtime_version from lab_tpu where ${where} order by name`.execute(
    db,
  );
  return rows.map(({ runtime_version, ...tpu }) => ({ ...tpu, runtimeVersion: runtime_version }));
}

/** Full names by alias, in the order of the aliases. */
export async function readAliases(db: Database): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ alias: string; tpu: string }>`
    select alias, tpu from lab_tpu_alias order by alias`.execute(db);
  return new Map(rows.map(({ alias, tpu }) => [alias, tpu]));
}

/** See LabRecord. */
export async function setAlias(db: Database, alias: string, name: string | null): Promise<string | null> {
  const { rows } = await sql<{ tpu: string }>`select tpu from lab_tpu_alias where alias = ${alias}`.execute(db);
  await sql`delete from lab_tpu_alias where alias = ${alias}`.execute(db);
  if (name !== null) await sql`insert into lab_tpu_alias (alias, tpu) values (${alias}, ${name})`.execute(db);
  return rows[0]?.tpu ?? null;
}

interface BookingColumns {
  readonly tpu: string;
  readonly status: BookingRow['status'];
  readonly owner: string;
  readonly note: string;
  readonly script_note: string;
  readonly at: number;
}

/** In the order of the TPUs' names. */
export function readBookings(db: Database): Promise<readonly BookingRow[]> {
  return bookingsWhere(db, sql`1 = 1`);
}

/** See LabRecord. */
export async function changeBooking(
  db: Database,
  tpu: string,
  change: (booking: BookingRow | null) => BookingRow | null,
): Promise<void> {
  const [stands = null] = await bookingsWhere(db, sql`tpu = ${tpu}`);
  const booking = change(stands);
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
  const { rows } = await sql<BookingColumns>`
    select tpu, status, owner, note, script_note, at from lab_booking where ${where} order by tpu`.execute(db);
  return rows.map(({ owner, script_note, ...booking }) => ({ ...booking, user: owner, scriptNote: script_note }));
}
