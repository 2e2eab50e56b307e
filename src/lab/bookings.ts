// Bookings: the contents of the booking sheet, and the sheet that is a table of the database. In that table a TPU
// without a row is free.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { RunBooking } from '../app/lab-job.ts';
import type { Instant } from '../core/model/time.ts';
import type { LabStore } from './lab-store.ts';
import { aliasesOf, type LabTpu } from './tpus.ts';
import type { LabUser } from './users.ts';

export interface Booking {
  /** The full name if the registry knows the sheet's name, else the sheet's name. */
  readonly tpu: string;
  readonly alias: string;
  readonly status: BookingStatus;
  /** The sheet name of the user; empty if free. */
  readonly user: string;
  readonly note: string;
  /** The note of `tpu run`, or the cloud's state. */
  readonly scriptNote: string;
  readonly owner: string;
  readonly zone: string;
}

export function joinNotes({ note, scriptNote }: Pick<Booking, 'note' | 'scriptNote'>): string {
  return [note, scriptNote].filter((text) => text !== '').join('; ');
}

/** `reserved for Ada (until monday)`. */
export function formatBooking(booking: Booking): string {
  const { status, user } = booking;
  const notes = joinNotes(booking);
  const label = status.kind === 'unknown' ? `"${status.text}"` : status.kind;
  return `${label}${user === '' ? '' : ` for ${user}`}${notes === '' ? '' : ` (${notes})`}`;
}

/** True if another user has booked the TPU; any user if `user` is null. */
export function isBookedByOther({ status, user }: Booking, me: Pick<LabUser, 'sheetName'> | null): boolean {
  return (status.kind === 'running' || status.kind === 'reserved') && user !== '' && user !== me?.sheetName;
}

/** `unknown`: a status that jobman does not understand, kept in `text`. */
export type BookingStatus =
  | { readonly kind: 'free' | 'running' | 'reserved' | 'gone' }
  | { readonly kind: 'unknown'; readonly text: string };

/** A change of one booking. Absent fields keep their value. */
export interface BookingChange {
  readonly status?: 'free' | 'running' | 'reserved' | 'gone';
  readonly user?: string;
  readonly note?: string;
  readonly scriptNote?: string;
}

export interface BookingSheet {
  /** The name in messages: `the booking table`, `the spreadsheet "TPUs"`. */
  readonly name: string;
  /** All readable rows, and a sentence for each unreadable one. Throws JobmanError (5) if the sheet does not answer. */
  read(): Promise<{ readonly bookings: readonly Booking[]; readonly problems: readonly string[] }>;
  /** Reads the booking again (null without a row); changes it unless `unless` objects. Throws JobmanError (5). */
  change(
    tpu: string,
    change: BookingChange,
    unless?: (now: Booking) => string | null,
  ): Promise<{ readonly before: Booking | null; readonly refused: string | null }>;
}

/** Books the TPU for a run. Throws JobmanError (4) if another user has booked it since it was checked. */
export async function bookRun(sheet: BookingSheet, tpu: string, run: RunBooking): Promise<void> {
  const { user, seenUser, ...notes } = run;
  const { refused } = await sheet.change(tpu, { status: 'running', user, ...notes }, (now) =>
    isBookedByOther(now, { sheetName: user }) && now.user !== seenUser ? now.user : null,
  );
  if (refused !== null)
    throw new JobmanError(`${refused} has just booked ${tpu}.`, exitCode.conflict, ['Nothing was started.']);
}

export interface BookingRow {
  readonly tpu: string;
  readonly status: 'free' | 'running' | 'reserved' | 'gone';
  readonly user: string;
  readonly note: string;
  readonly scriptNote: string;
  readonly at: Instant;
}

export function createLocalSheet(
  store: Pick<LabStore, 'tpus' | 'tpuAliases' | 'bookings' | 'changeBooking'>,
  now: () => Instant,
): BookingSheet {
  async function bookings(tpus: readonly LabTpu[]): Promise<(name: string, row: BookingRow | null) => Booking> {
    const aliases = await store.tpuAliases();
    return (name, row) => ({
      tpu: name,
      alias: aliasesOf(name, aliases)[0] ?? name,
      ...bookingFields(row ?? emptyRow(name)),
      owner: '',
      zone: tpus.find((tpu) => tpu.name === name)?.zone ?? '',
    });
  }

  return {
    name: 'the booking table',

    async read() {
      const [rows, tpus] = await Promise.all([store.bookings(), store.tpus()]);
      const booking = await bookings(tpus);
      const names = new Set([...tpus.map(({ name }) => name), ...rows.map(({ tpu }) => tpu)]);
      const all = [...names].map((name) => booking(name, rows.find(({ tpu }) => tpu === name) ?? null));
      return { bookings: all, problems: [] };
    },

    async change(tpu, change, unless) {
      // The transaction below changes no field of `base`.
      const base = (await bookings(await store.tpus()))(tpu, null);
      let before = base;
      let refused: string | null = null;
      await store.changeBooking(tpu, (row) => {
        before = row === null ? base : { ...base, ...bookingFields(row) };
        refused = unless?.(before) ?? null;
        return refused === null ? updatedRow(tpu, row, change, now()) : row;
      });
      return { before, refused };
    },
  };
}

function bookingFields({
  status,
  user,
  note,
  scriptNote,
}: BookingRow): Pick<Booking, 'status' | 'user' | 'note' | 'scriptNote'> {
  return { status: { kind: status }, user, note, scriptNote };
}

function emptyRow(tpu: string): BookingRow {
  return { tpu, status: 'free', user: '', note: '', scriptNote: '', at: 0 };
}

/** A free booking without user and notes is the default, so it needs no row. */
function updatedRow(tpu: string, row: BookingRow | null, change: BookingChange, at: Instant): BookingRow | null {
  const next = { ...(row ?? emptyRow(tpu)), ...change, at };
  const isDefault = next.status === 'free' && next.user === '' && next.note === '' && next.scriptNote === '';
  return isDefault ? null : next;
}
