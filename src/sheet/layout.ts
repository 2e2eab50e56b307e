// The layout of a lab's spreadsheet: what each column means, which rows are TPUs, and the words for a status. Pure.
//
// A row is a TPU's when its column B begins with `v`. B is the alias, C whom it belongs to, D the status, E the user, F people's
// note, G the programs' note, H the zone. Anything else in the sheet is its owners' own business.

import type { Booking, BookingChange, BookingStatus } from '../lab/bookings.ts';

/** Cells of the columns A to H as they are shown, from row 1 on. Rows and cells at the end may be missing. */
export type Grid = readonly (readonly unknown[])[];

export interface SheetRow {
  readonly row: number;
  readonly booking: Booking;
}

/** Resolves what the sheet calls a TPU to its full name; null where the registry knows none of that name. */
export type FullName = (alias: string) => string | null;

const column = { alias: 1, belongs: 2, status: 3, user: 4, note: 5, scriptNote: 6, zone: 7 } as const;
const letter = { status: 'D', user: 'E', note: 'F', scriptNote: 'G' } as const;

type Kind = Exclude<BookingStatus['kind'], 'unknown'>;

/** Every word that is understood; the first of each kind is written where the sheet shows no other habit. */
const words: Readonly<Record<Kind, readonly string[]>> = {
  free: ['闲的', 'free', 'idle'],
  running: ['running'],
  reserved: ['reserved', 'reserved(error)'],
  gone: ['没了!', 'gone', 'deleted'],
};

/** Reads all rows of TPUs. Nothing that stands in a row keeps the others from being read. */
export function readGrid(
  grid: Grid,
  fullName: FullName,
): { readonly rows: readonly SheetRow[]; readonly problems: readonly string[] } {
  const rows: SheetRow[] = [];
  const problems: string[] = [];
  const byAlias = new Map<string, SheetRow>();
  const byTpu = new Map<string, SheetRow>();
  for (const [index, cells] of grid.entries()) {
    const cell = (at: number): string => textOf(cells[at]);
    const alias = cell(column.alias);
    if (!/^v/i.test(alias)) continue;
    const row = index + 1;
    const name = fullName(alias);
    // A heading above the rows of its type.
    if (name === null && cell(column.status) === '' && cell(column.user) === '') continue;
    const status = statusOf(cell(column.status));
    const before = byAlias.get(alias) ?? (name === null ? undefined : byTpu.get(name));
    if (before !== undefined) {
      problems.push(`row ${row} is a second one of ${alias}, after row ${before.row}; it is not read`);
      continue;
    }
    if (name === null) problems.push(`row ${row}: ${alias} is no TPU that is registered here`);
    if (status.kind === 'unknown') {
      problems.push(`row ${row}: ${alias} has the status "${status.words}", which means nothing here`);
    }
    const user = cell(column.user);
    const read: SheetRow = {
      row,
      booking: {
        tpu: name ?? alias,
        alias,
        status,
        // A row without a user says so with the word for free.
        user: statusOf(user).kind === 'free' ? '' : user,
        note: cell(column.note),
        scriptNote: cell(column.scriptNote),
        belongs: cell(column.belongs),
        zone: cell(column.zone),
      },
    };
    rows.push(read);
    byAlias.set(alias, read);
    byTpu.set(read.booking.tpu, read);
  }
  return { rows, problems };
}

/** The cells to write for that change, by their address without the tab. */
export function cellsOf(
  row: number,
  change: BookingChange,
  grid: Grid,
): readonly { readonly cell: string; readonly value: string }[] {
  const free = freeWord(grid);
  const values: Readonly<Record<keyof typeof letter, string | undefined>> = {
    status: change.status === undefined ? undefined : change.status === 'free' ? free : words[change.status][0],
    user: change.user === '' ? free : change.user,
    note: change.note,
    scriptNote: change.scriptNote,
  };
  return Object.entries(letter).flatMap(([part, at]) => {
    const value = values[part as keyof typeof letter];
    return value === undefined ? [] : [{ cell: `${at}${row}`, value }];
  });
}

function freeWord(grid: Grid): string {
  const used = grid
    .map((cells) => textOf(cells[column.status]))
    .find((word) => word !== '' && statusOf(word).kind === 'free');
  return used ?? words.free[0] ?? 'free';
}

function statusOf(word: string): BookingStatus {
  // Full-width signs are written as well as the plain ones.
  const plain = word.normalize('NFKC').trim().toLowerCase();
  if (plain === '') return { kind: 'free' };
  const found = (Object.entries(words) as [Kind, readonly string[]][]).find(([, known]) => known.includes(plain));
  return found === undefined ? { kind: 'unknown', words: word } : { kind: found[0] };
}

function textOf(cell: unknown): string {
  return typeof cell === 'string' || typeof cell === 'number' || typeof cell === 'boolean' ? String(cell).trim() : '';
}
