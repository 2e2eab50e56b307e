// Sheet outbox: changes of the spreadsheet, which cannot take part in a transaction of the database. A change is stored
// with the change of the job that causes it, and written to the sheet afterwards, by the command that stored it or by the
// controller. It is repeated until the sheet has it. Changes of one TPU keep their order.

import { exitCode, JobmanError } from '../app/errors.ts';
import { day, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import {
  bookingChange,
  changedBooking,
  type Booking,
  type BookingSheet,
  type Delivery,
  type LateChange,
  type SheetContents,
} from './bookings.ts';
import type { LabStore } from './lab-store.ts';
import type { BookingCommand } from './service.ts';

export interface SheetChange {
  readonly id: number;
  readonly tpu: string;
  readonly command: BookingCommand;
  readonly createdAt: Instant;
  /** The time of its next try. Null: the sheet has refused it, and it is kept until the TPU's next change. */
  readonly nextAt: Instant | null;
  readonly tries: number;
  /** The reason of the last failed try. */
  readonly error: string | null;
}

/** A process that writes a change has it for itself this long: longer than all requests of one change may take. */
const claimFor: Duration = 2 * minute;
const firstRetry: Duration = 30 * second;
const maxRetry: Duration = 15 * minute;
/** An older change is tried only while a controller runs for other work. */
const urgentFor: Duration = day;

type OutboxStore = Pick<LabStore, 'sheetChanges' | 'addSheetChange' | 'claimSheetChange' | 'endSheetChange'>;

/** The contents of the spreadsheet itself. */
export type SheetRows = Omit<SheetContents, 'late'>;

/** The newest contents of the spreadsheet, for times at which it does not answer. */
export interface SheetCopy {
  /** Null before the first `write`. */
  read(): { readonly contents: SheetRows; readonly readAt: Instant } | null;
  write(contents: SheetRows, readAt: Instant): void;
}

/** The spreadsheet `sheet`, together with the changes that it does not have yet. */
export function createSheetOutbox(
  sheet: Pick<BookingSheet, 'name'> & { read(): Promise<SheetRows>; change: BookingSheet['change'] },
  store: OutboxStore,
  now: () => Instant,
  copy: SheetCopy,
): BookingSheet {
  /** The copy gets the change too. */
  const changeSheet: BookingSheet['change'] = async (tpu, command) => {
    const changed = await sheet.change(tpu, command);
    const known = copy.read();
    if (changed === null || known === null) return changed;
    const { contents, readAt } = known;
    const bookings = contents.bookings.map((one) => (one.tpu === tpu ? changed.after : one));
    copy.write({ ...contents, bookings }, readAt);
    return changed;
  };

  async function withOutbox({ bookings, problems }: SheetRows): Promise<SheetContents> {
    const changes = await store.sheetChanges();
    const changed = bookings.map((booking) => withChanges(booking, changes));
    return { bookings: changed, problems, late: lateChanges(changes, sheet.name, now()) };
  }

  /** False if no change is due. */
  async function deliverNext(): Promise<boolean> {
    const due = nextOfEachTpu(await store.sheetChanges()).find(({ nextAt }) => nextAt <= now());
    if (due === undefined) return false;
    if (!(await store.claimSheetChange(due, now() + claimFor))) return true;
    try {
      await changeSheet(due.tpu, due.command);
      await store.endSheetChange(due, null);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      const isRefused = error.code === exitCode.conflict;
      const pause = Math.min(firstRetry * 2 ** Math.min(due.tries, 10), maxRetry);
      const text = error.message.replace(/\.$/, '');
      await store.endSheetChange(due, { error: text, nextAt: isRefused ? null : now() + pause });
    }
    return true;
  }

  async function deliver(): Promise<Delivery> {
    while (await deliverNext());
    const changes = await store.sheetChanges();
    const times = nextOfEachTpu(changes)
      .filter(({ createdAt }) => createdAt > now() - urgentFor)
      .map(({ nextAt }) => nextAt);
    return { late: lateChanges(changes, sheet.name, now()), nextAt: times.length === 0 ? null : Math.min(...times) };
  }

  return {
    name: sheet.name,

    async read() {
      const contents = await sheet.read();
      copy.write(contents, now());
      return withOutbox(contents);
    },

    async lastRead() {
      const known = copy.read();
      return known && { contents: await withOutbox(known.contents), readAt: known.readAt };
    },

    async change(tpu, command) {
      await deliver();
      const changed = await changeSheet(tpu, command);
      for (const change of await store.sheetChanges())
        if (change.tpu === tpu && change.nextAt === null) await store.endSheetChange(change, null);
      return changed;
    },

    async changeLater(tpu, command) {
      await store.addSheetChange(tpu, command, now());
      return deliver();
    },

    deliver,
  };
}

/** The changes that the sheet with that name has refused, or should have by now. */
export function lateChanges(changes: readonly SheetChange[], name: string, now: Instant): readonly LateChange[] {
  return changes
    .filter(({ error, createdAt }) => error !== null || createdAt < now - claimFor)
    .map((change) => ({ tpu: change.tpu, message: formatLate(change, name) }));
}

function nextOfEachTpu(changes: readonly SheetChange[]): readonly (SheetChange & { readonly nextAt: Instant })[] {
  const seen = new Set<string>();
  return changes.flatMap((change) => {
    const { tpu, nextAt } = change;
    if (nextAt === null || seen.has(tpu)) return [];
    seen.add(tpu);
    return [{ ...change, nextAt }];
  });
}

/** The booking with the changes that the sheet does not have yet. */
function withChanges(booking: Booking, changes: readonly SheetChange[]): Booking {
  let now = booking;
  for (const { tpu, nextAt, command } of changes) {
    if (tpu !== booking.tpu || nextAt === null) continue;
    try {
      now = changedBooking(now, bookingChange(now, command));
    } catch (error) {
      // The sheet will refuse the change for the same reason.
      if (!(error instanceof JobmanError)) throw error;
    }
  }
  return now;
}

function formatLate({ tpu, command, nextAt, error }: SheetChange, name: string): string {
  if (nextAt === null) return `The booking sheet was not changed: ${error}.`;
  const why = error === null ? '' : `: ${error}`;
  return `The booking sheet is late: ${tpu} is not ${formatCommand(command)} in ${name} yet${why}. The change is repeated.`;
}

function formatCommand(command: BookingCommand): string {
  switch (command.kind) {
    case 'run':
      return `running for ${command.user}`;
    case 'begin_attempt':
      return 'running';
    case 'end_attempt':
    case 'book':
      return 'reserved';
    case 'release':
      return 'free';
    case 'observe':
      return command.exists ? 'free' : 'gone';
  }
}
