// A booking sheet that is a Google spreadsheet. Users move rows, so a change finds the row by its alias again and
// writes single cells.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { LabStore } from '../lab/lab-store.ts';
import { bookingChange, changedBooking, type BookingSheet } from '../lab/bookings.ts';
import type { SheetRows } from '../lab/sheet-outbox.ts';
import { changedCells, readGrid, type ResolveName, type SheetRow } from './layout.ts';
import type { SheetsApi } from './sheets-api.ts';

/** `store` resolves the sheet's aliases to TPUs, also without `prefix`. */
export function createGoogleSheet(
  api: SheetsApi,
  store: Pick<LabStore, 'tpus' | 'tpuAliases'>,
  { tab, prefix }: { readonly tab: string | null; readonly prefix: string },
): Pick<BookingSheet, 'name' | 'change'> & { read(): Promise<SheetRows> } {
  async function names(): Promise<ResolveName> {
    const [tpus, aliases] = await Promise.all([store.tpus(), store.tpuAliases()]);
    const known = new Set(tpus.map(({ name }) => name));
    return (alias) =>
      [aliases.get(alias), alias, `${prefix}${alias}`].find((name) => name !== undefined && known.has(name)) ?? null;
  }

  return {
    name: tab === null ? 'the spreadsheet' : `the spreadsheet "${tab}"`,

    async read() {
      const [grid, fullName] = await Promise.all([api.read(), names()]);
      const { rows, problems } = readGrid(grid, fullName);
      return { bookings: rows.map(({ booking }) => booking), problems };
    },

    async change(tpu, command) {
      const fullName = await names();
      const grid = await api.read();
      const found = readGrid(grid, fullName).rows.find(({ booking }) => booking.tpu === tpu);
      if (found === undefined) return null;
      const { row, booking } = found;
      const change = bookingChange(booking, command);
      if (change === null) return { before: booking, after: booking };
      await api.write(changedCells(row, change, grid));
      await checkRow(api, fullName, found);
      return { before: booking, after: changedBooking(booking, change) };
    },
  };
}

/**
 * The API has no lock. If rows move between the read and the write, the write hits another row, so the row is checked
 * again.
 */
async function checkRow(api: SheetsApi, fullName: ResolveName, { row, booking }: SheetRow): Promise<void> {
  const now = readGrid(await api.read(), fullName).rows.find((one) => one.booking.tpu === booking.tpu);
  if (now?.row === row) return;
  throw new JobmanError(
    `A user moved rows of the spreadsheet while jobman changed ${booking.alias}. Check row ${row}, which may have its values.`,
    exitCode.conflict,
    now === undefined ? [] : [`${booking.alias} is in row ${now.row} now.`],
  );
}
