// Bookings: what the booking sheet says of each TPU, and the sheet that is a table of the record, which says free until somebody
// says more.

import type { Instant } from '../core/time.ts';
import type { LabRecord } from './record.ts';
import { aliasesOf, type LabTpu } from './tpus.ts';

export interface Booking {
  /** The full name where the sheet's word for it is known here, else that word. */
  readonly tpu: string;
  readonly alias: string;
  readonly status: BookingStatus;
  /** The sheet name of who holds it; empty when free. */
  readonly user: string;
  readonly note: string;
  /** The note of a program: that of `tpu run`, or the cloud's state. */
  readonly scriptNote: string;
  readonly belongs: string;
  readonly zone: string;
}

/** People's note and the program's, joined; empty where there is none. */
export function notesIn({ note, scriptNote }: Pick<Booking, 'note' | 'scriptNote'>): string {
  return [note, scriptNote].filter((text) => text !== '').join('; ');
}

/** `unknown`: a word that nobody here knows; `words` keeps it. */
export type BookingStatus =
  | { readonly kind: 'free' | 'running' | 'reserved' | 'gone' }
  | { readonly kind: 'unknown'; readonly words: string };

/** A change of one booking: what is named is written, the rest is left as it is. */
export interface BookingChange {
  readonly status?: 'free' | 'running' | 'reserved' | 'gone';
  readonly user?: string;
  readonly note?: string;
  readonly scriptNote?: string;
}

export interface BookingSheet {
  /** The name for people: `the booking table`, `the spreadsheet "TPUs"`. */
  readonly called: string;
  /** Every row that can be read, and what could not, a sentence each. Throws JobmanError (5) where the sheet does not answer. */
  read(): Promise<{ readonly bookings: readonly Booking[]; readonly problems: readonly string[] }>;
  /**
   * Changes one TPU's booking after reading it again; `unless` gets what is there and answers why nothing is written. Resolves
   * with the booking before, null where the TPU has no row. Throws JobmanError (5) where the sheet does not answer.
   */
  change(
    tpu: string,
    change: BookingChange,
    unless?: (now: Booking) => string | null,
  ): Promise<{ readonly before: Booking | null; readonly refused: string | null }>;
}

export interface BookingRow {
  readonly tpu: string;
  readonly status: 'free' | 'running' | 'reserved' | 'gone';
  readonly user: string;
  readonly note: string;
  readonly scriptNote: string;
  readonly at: Instant;
}

export function createRecordSheet(
  record: Pick<LabRecord, 'tpus' | 'tpuAliases' | 'bookings' | 'changeBooking'>,
  now: () => Instant,
): BookingSheet {
  async function bookings(tpus: readonly LabTpu[]): Promise<(name: string, row: BookingRow | null) => Booking> {
    const aliases = await record.tpuAliases();
    return (name, row) => ({
      tpu: name,
      alias: aliasesOf(name, aliases)[0] ?? name,
      ...rowParts(row ?? emptyRow(name)),
      belongs: '',
      zone: tpus.find((tpu) => tpu.name === name)?.zone ?? '',
    });
  }

  return {
    called: 'the booking table',

    async read() {
      const [rows, tpus] = await Promise.all([record.bookings(), record.tpus()]);
      const booking = await bookings(tpus);
      const names = new Set([...tpus.map(({ name }) => name), ...rows.map(({ tpu }) => tpu)]);
      const all = [...names].map((name) => booking(name, rows.find(({ tpu }) => tpu === name) ?? null));
      return { bookings: all, problems: [] };
    },

    async change(tpu, change, unless) {
      // The other fields of a booking do not change meanwhile.
      const stands = (await bookings(await record.tpus()))(tpu, null);
      let before = stands;
      let refused: string | null = null;
      await record.changeBooking(tpu, (row) => {
        before = row === null ? stands : { ...stands, ...rowParts(row) };
        refused = unless?.(before) ?? null;
        return refused === null ? changed(tpu, row, change, now()) : row;
      });
      return { before, refused };
    },
  };
}

function rowParts({
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

/** A row that says nothing more than that the TPU is free need not stand. */
function changed(tpu: string, row: BookingRow | null, change: BookingChange, at: Instant): BookingRow | null {
  const next = { ...(row ?? emptyRow(tpu)), ...change, at };
  const saysNothing = next.status === 'free' && next.user === '' && next.note === '' && next.scriptNote === '';
  return saysNothing ? null : next;
}
