// The booking sheet that is a table of the record: every TPU of the registry has a row, which says free until somebody says more.

import type { Instant } from '../core/time.ts';
import { aliasesOf } from './names-of-tpus.ts';
import type { LabRecord } from './record.ts';
import type { Booking, BookingChange, BookingRow, BookingSheet, LabTpu } from './tpus.ts';

/** What is refused (`unless`) leaves the row as it was. */
export function createRecordSheet(
  record: Pick<LabRecord, 'tpus' | 'tpuAliases' | 'bookings' | 'changeBooking'>,
  now: () => Instant,
): BookingSheet {
  /** What makes a booking of the row of a TPU. */
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
      // What a booking is called beside its row does not change while it is asked about.
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
