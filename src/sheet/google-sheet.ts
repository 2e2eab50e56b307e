// The booking sheet that is a Google spreadsheet. People move rows, so a change finds the row by its alias again and writes single
// cells.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { LabRecord } from '../lab/record.ts';
import type { BookingSheet } from '../lab/bookings.ts';
import { cellsOf, readGrid } from './layout.ts';
import type { FullName, SheetRow } from './layout.ts';
import type { SheetsApi } from './sheets-api.ts';

/** `record` tells which TPU an alias of the sheet means; `prefix` may stand before it. */
export function createGoogleSheet(
  api: SheetsApi,
  record: Pick<LabRecord, 'tpus' | 'tpuAliases'>,
  { tab, prefix }: { readonly tab: string | null; readonly prefix: string },
): BookingSheet {
  async function names(): Promise<FullName> {
    const [tpus, aliases] = await Promise.all([record.tpus(), record.tpuAliases()]);
    const known = new Set(tpus.map(({ name }) => name));
    return (alias) =>
      [aliases.get(alias), alias, `${prefix}${alias}`].find((name) => name !== undefined && known.has(name)) ?? null;
  }

  return {
    called: tab === null ? 'the spreadsheet' : `the spreadsheet "${tab}"`,

    async read() {
      const [grid, fullName] = await Promise.all([api.read(), names()]);
      const { rows, problems } = readGrid(grid, fullName);
      return { bookings: rows.map(({ booking }) => booking), problems };
    },

    async change(tpu, change, unless) {
      const fullName = await names();
      const grid = await api.read();
      const found = readGrid(grid, fullName).rows.find(({ booking }) => booking.tpu === tpu);
      if (found === undefined) return { before: null, refused: null };
      const { row, booking } = found;
      const refused = unless?.(booking) ?? null;
      const cells = refused === null ? cellsOf(row, change, grid) : [];
      if (cells.length > 0) {
        await api.write(cells);
        await checkPlace(api, fullName, found);
      }
      return { before: booking, refused };
    },
  };
}

/** Rows that are moved between reading and writing take what was meant for another: the API knows no lock, so it is looked at. */
async function checkPlace(api: SheetsApi, fullName: FullName, { row, booking }: SheetRow): Promise<void> {
  const now = readGrid(await api.read(), fullName).rows.find((one) => one.booking.tpu === booking.tpu);
  if (now?.row === row) return;
  throw new JobmanError(
    `Somebody moved the rows of the spreadsheet while ${booking.alias} was written: look at row ${row}, which may hold what was meant for it.`,
    exitCode.conflict,
    now === undefined ? [] : [`${booking.alias} is in row ${now.row} now.`],
  );
}
