// The layout of a lab's spreadsheet: columns, TPU rows and status values. Pure.
//
// A row is a TPU's if its column B begins with `v`. B is the alias, C the owner, D the status, E the user, F the users'
// note, G the programs' note, H the zone. Other rows and columns are ignored.

import type { Booking, BookingChange, BookingStatus } from '../lab/bookings.ts';

/** Cells of the columns A to H as displayed, from row 1. Rows and cells at the end may be missing. */
export type Grid = readonly (readonly unknown[])[];

export interface SheetRow {
  readonly row: number;
  readonly booking: Booking;
}

/** The full name of the sheet's alias; null if the registry does not know it. */
export type ResolveName = (alias: string) => string | null;

const column = { alias: 1, owner: 2, status: 3, user: 4, note: 5, scriptNote: 6, zone: 7 } as const;
const columnLetter = { status: 'D', user: 'E', note: 'F', scriptNote: 'G' } as const;

type StatusKind = Exclude<BookingStatus['kind'], 'unknown'>;

/** All accepted labels. The first of each kind is written unless the sheet uses another one. */
const statusLabels: Readonly<Record<StatusKind, readonly string[]>> = {
  free: ['闲的', 'free', 'idle'],
  running: ['running'],
  reserved: ['reserved', 'reserved(error)'],
  gone: ['没了!', 'gone', 'deleted'],
};

/** Reads all TPU rows. A bad row does not affect the others. */
export function readGrid(
  grid: Grid,
  fullName: ResolveName,
): { readonly rows: readonly SheetRow[]; readonly problems: readonly string[] } {
  const rows: SheetRow[] = [];
  const problems: string[] = [];
  const byAlias = new Map<string, SheetRow>();
  const byTpu = new Map<string, SheetRow>();
  for (const [index, cells] of grid.entries()) {
    const cell = (at: number): string => cellText(cells[at]);
    const alias = cell(column.alias);
    if (!/^v/i.test(alias)) continue;
    const row = index + 1;
    const name = fullName(alias);
    // A heading above the rows of its type.
    if (name === null && cell(column.status) === '' && cell(column.user) === '') continue;
    const status = parseStatus(cell(column.status));
    const before = byAlias.get(alias) ?? (name === null ? undefined : byTpu.get(name));
    if (before !== undefined) {
      problems.push(`row ${row}: ignored, because row ${before.row} has ${alias} too`);
      continue;
    }
    if (name === null) problems.push(`row ${row}: ${alias} is not a registered TPU`);
    if (status.kind === 'unknown') problems.push(`row ${row}: ${alias} has the unknown status "${status.text}"`);
    const user = cell(column.user);
    const sheetRow: SheetRow = {
      row,
      booking: {
        tpu: name ?? alias,
        alias,
        status,
        // Users write the label for free into the user column of a free TPU.
        user: parseStatus(user).kind === 'free' ? '' : user,
        note: cell(column.note),
        scriptNote: cell(column.scriptNote),
        owner: cell(column.owner),
        zone: cell(column.zone),
        // Only the history of the spreadsheet has them, which the API does not show.
        changedAt: null,
        changedBy: null,
      },
    };
    rows.push(sheetRow);
    byAlias.set(alias, sheetRow);
    byTpu.set(sheetRow.booking.tpu, sheetRow);
  }
  return { rows, problems };
}

/** The cells to write, by address without the tab. */
export function changedCells(
  row: number,
  change: BookingChange,
  grid: Grid,
): readonly { readonly cell: string; readonly value: string }[] {
  const free = freeLabel(grid);
  const values: Readonly<Record<keyof typeof columnLetter, string | undefined>> = {
    status: change.status === undefined ? undefined : change.status === 'free' ? free : statusLabels[change.status][0],
    user: change.user === '' ? free : change.user,
    note: change.note,
    scriptNote: change.scriptNote,
  };
  return Object.entries(columnLetter).flatMap(([part, at]) => {
    const value = values[part as keyof typeof columnLetter];
    return value === undefined ? [] : [{ cell: `${at}${row}`, value }];
  });
}

function freeLabel(grid: Grid): string {
  const used = grid
    .map((cells) => cellText(cells[column.status]))
    .find((label) => label !== '' && parseStatus(label).kind === 'free');
  return used ?? statusLabels.free[0] ?? 'free';
}

function parseStatus(label: string): BookingStatus {
  // Users also type full-width characters.
  const normalized = label.normalize('NFKC').trim().toLowerCase();
  if (normalized === '') return { kind: 'free' };
  const found = (Object.entries(statusLabels) as [StatusKind, readonly string[]][]).find(([, known]) =>
    known.includes(normalized),
  );
  return found === undefined ? { kind: 'unknown', text: label } : { kind: found[0] };
}

function cellText(cell: unknown): string {
  return typeof cell === 'string' || typeof cell === 'number' || typeof cell === 'boolean' ? String(cell).trim() : '';
}
