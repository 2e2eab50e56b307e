// Bookings: the contents of the booking sheet, and the sheet that is a table of the database. In that table a TPU
// without a row is free.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { LabStore } from './lab-store.ts';
import type { BookingCommand, SeenBooking } from './service.ts';
import { aliasesOf } from './tpus.ts';
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
  /** The time of its latest change; null if it has none, and in a spreadsheet. */
  readonly changedAt: Instant | null;
  /** The user who made that change; null if a job made it, or if it is not known. */
  readonly changedBy: UserName | null;
}

export function joinNotes({ note, scriptNote }: Pick<Booking, 'note' | 'scriptNote'>): string {
  return [note, scriptNote].filter((text) => text !== '').join('; ');
}

/** `reserved for Ada (until monday)`. */
export function formatBooking(booking: Booking): string {
  const notes = joinNotes(booking);
  return `${formatBooked(booking)}${notes === '' ? '' : ` (${notes})`}`;
}

/** `reserved for Ada`. */
export function formatBooked({ status, user }: Pick<Booking, 'status' | 'user'>): string {
  const label = status.kind === 'unknown' ? `"${status.text}"` : status.kind;
  return `${label}${user === '' ? '' : ` for ${user}`}`;
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
  /** Throws JobmanError (5) if the sheet does not answer. */
  read(): Promise<SheetContents>;
  /** The newest contents that a read of this installation had. Null without one, and for a table of the database. */
  lastRead(): Promise<LastRead | null>;
  /**
   * Applies the command to the booking as it is now. Null without a row in the sheet. Throws JobmanError: (5), or the
   * error of the command.
   */
  change(tpu: string, command: BookingCommand): Promise<ChangedBooking | null>;
  /** As `change`, for a change that no user waits for: it is stored, and repeated until the sheet has it. */
  changeLater(tpu: string, command: BookingCommand): Promise<Delivery>;
  /** Writes the stored changes that are due. */
  deliver(): Promise<Delivery>;
}

export interface SheetContents {
  readonly bookings: readonly Booking[];
  /** A sentence for each unreadable row. */
  readonly problems: readonly string[];
  readonly late: readonly LateChange[];
}

interface LastRead {
  readonly contents: SheetContents;
  readonly readAt: Instant;
}

/** A stored change that the sheet does not have. */
export interface LateChange {
  readonly tpu: string;
  /** A sentence with the reason. */
  readonly message: string;
}

export interface Delivery {
  readonly late: readonly LateChange[];
  /** The time of the next try; null if there is none. */
  readonly nextAt: Instant | null;
}

export interface ChangedBooking {
  readonly before: Booking;
  readonly after: Booking;
}

export function changedBooking(now: Booking, change: BookingChange | null): Booking {
  const { status, ...texts } = change ?? {};
  return { ...now, ...texts, ...(status !== undefined && { status: { kind: status } }) };
}

/** Null: the booking stays. Throws the JobmanError of the command; see `BookingCommand`. */
export function bookingChange(now: Booking, command: BookingCommand): BookingChange | null {
  switch (command.kind) {
    case 'run': {
      const { kind: _, user, seenUser, ...notes } = command;
      if (isBookedByOther(now, { sheetName: user }) && now.user !== seenUser)
        throw new JobmanError(`${now.user} has just booked ${now.tpu}.`, exitCode.conflict, ['Nothing was started.']);
      return { status: 'running', user, ...notes };
    }
    case 'begin_attempt':
      return now.status.kind === 'reserved' && now.user === command.user ? { status: 'running' } : null;
    case 'end_attempt':
      return now.status.kind === 'running' && now.user === command.user ? { status: 'reserved' } : null;
    case 'book': {
      const { kind: _, seen, by: __, user, ...notes } = command;
      checkSeen(now, seen);
      const isRunning = now.status.kind === 'running' && now.user === user;
      return { status: isRunning ? 'running' : 'reserved', user, ...notes };
    }
    case 'release':
      checkSeen(now, command.seen);
      return unbooked('free');
    case 'observe':
      if (command.exists) return now.status.kind === 'gone' ? { status: 'free' } : null;
      return unbooked('gone');
  }
}

function unbooked(status: 'free' | 'gone'): BookingChange {
  return { status, user: '', note: '', scriptNote: '' };
}

function checkSeen(now: Booking, seen: SeenBooking | null | undefined): void {
  if (seen === undefined) return;
  const isSame =
    seen?.status.kind === now.status.kind &&
    (['user', 'note', 'scriptNote'] as const).every((key) => seen[key] === now[key]);
  if (!isSame)
    throw new JobmanError(
      `The booking of ${now.tpu} has just changed: ${formatBooking(now)}. Nothing was changed.`,
      exitCode.conflict,
    );
}

export interface BookingRow {
  readonly tpu: string;
  readonly status: 'free' | 'running' | 'reserved' | 'gone';
  readonly user: string;
  readonly note: string;
  readonly scriptNote: string;
  readonly at: Instant;
  /** As `changedBy` of a booking. */
  readonly by: UserName | null;
}

export function createLocalSheet(
  store: Pick<LabStore, 'tpus' | 'tpuAliases' | 'bookings' | 'changeBooking'>,
  now: () => Instant,
): BookingSheet {
  async function aliasOf(): Promise<(tpu: string) => string> {
    const aliases = await store.tpuAliases();
    return (tpu) => aliasesOf(tpu, aliases)[0] ?? tpu;
  }

  return {
    name: 'the booking table',

    async read() {
      const [rows, tpus, alias] = await Promise.all([store.bookings(), store.tpus(), aliasOf()]);
      const zones = new Map(tpus.map(({ name, zone }) => [name, zone ?? '']));
      const names = new Set([...zones.keys(), ...rows.map(({ tpu }) => tpu)]);
      const bookings = [...names].map((name) => ({
        ...bookingOfRow(name, rows.find(({ tpu }) => tpu === name) ?? null),
        alias: alias(name),
        zone: zones.get(name) ?? '',
      }));
      return { bookings, problems: [], late: [] };
    },

    lastRead: async () => null,

    async change(tpu, command) {
      const { before, after } = await store.changeBooking(tpu, command, now());
      const alias = (await aliasOf())(tpu);
      return { before: { ...bookingOfRow(tpu, before), alias }, after: { ...bookingOfRow(tpu, after), alias } };
    },

    async changeLater(tpu, command) {
      await store.changeBooking(tpu, command, now());
      return nothingLate;
    },

    deliver: async () => nothingLate,
  };
}

const nothingLate: Delivery = { late: [], nextAt: null };

/** Without the facts of the registry. */
function bookingOfRow(tpu: string, row: BookingRow | null): Booking {
  const { status, user, note, scriptNote, by } = row ?? emptyRow(tpu);
  const changed = { changedAt: row?.at ?? null, changedBy: by };
  return { tpu, alias: tpu, status: { kind: status }, user, note, scriptNote, owner: '', zone: '', ...changed };
}

function emptyRow(tpu: string): BookingRow {
  return { tpu, status: 'free', user: '', note: '', scriptNote: '', at: 0, by: null };
}

/**
 * The row after the command. A free booking without user and notes is the default, so it needs no row. Throws the
 * JobmanError of the command.
 */
export function changedRow(
  tpu: string,
  row: BookingRow | null,
  command: BookingCommand,
  at: Instant,
): BookingRow | null {
  const change = bookingChange(bookingOfRow(tpu, row), command);
  if (change === null) return row;
  const by = 'by' in command ? (command.by ?? null) : null;
  const next = { ...(row ?? emptyRow(tpu)), ...change, at, by };
  const isDefault = next.status === 'free' && next.user === '' && next.note === '' && next.scriptNote === '';
  return isDefault ? null : next;
}
