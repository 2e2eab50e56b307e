// find, book and release: the commands about the booking sheet.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { capitalize, escapeLine } from '../../../app/format.ts';
import { bookingResult, formatBookingNow, noRowError, releaseConflict } from '../../../lab/booking-changes.ts';
import type { BookingCommand } from '../../../lab/service.ts';
import { findTpus, type FoundTpu, groupByStatus } from '../../../lab/find-tpus.ts';
import { readJobsByTpu } from '../../../lab/tpu-usage.ts';
import type { LabUser } from '../../../lab/users.ts';
import { type LabTpu } from '../../../lab/tpus.ts';
import { type Booking, type BookingSheet, formatBooking, isBookedByOther, joinNotes } from '../../../lab/bookings.ts';
import { type TpuCli, requiredTpu, type ParsedArguments } from '../command.ts';
import { actorName, currentUser, resolveActingUser } from '../resolve-user.ts';
import { confirmDespite, printTable, readNotes } from '../terminal.ts';

type Style = 'full' | 'category' | 'category_note';

export async function find(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { types, flags, keys } = args;
  const sheet = await cli.lab.sheet();
  const { store } = cli.lab;
  const [{ bookings, problems, late }, tpus, aliases] = await Promise.all([
    sheet.read(),
    store.tpus(),
    store.tpuAliases(),
  ]);
  const only = flags.has('n') === flags.has('p') ? null : flags.has('n') ? 'normal' : 'preemptible';
  const found = findTpus(
    await withJobs(cli, bookings),
    { tpus, aliases },
    { types: flags.has('a') ? [] : types, only },
  );
  if (cli.json) {
    for (const { booking, isPreemptible: preemptible, ...known } of found) {
      const { status, ...row } = booking;
      const statusText = status.kind === 'unknown' ? status.text : null;
      cli.printJson({ ...row, status: status.kind, statusText, ...known, preemptible });
    }
  } else if (found.length === 0) {
    cli.note(`${capitalize(sheet.name)} has no ${types.length === 0 ? 'TPUs yet' : `such TPU: ${types.join(' ')}`}.`);
  } else printFound(cli, found, (keys['style'] ?? 'category_note') as Style);
  for (const line of problems) cli.note(escapeLine(`note: ${sheet.name}, ${line}.`));
  for (const { message } of late) cli.note(escapeLine(message));
  return exitCode.ok;
}

/** Shows a TPU as running if the sheet calls it free but a job is under way there, because people take free TPUs. */
async function withJobs(cli: TpuCli, bookings: readonly Booking[]): Promise<readonly Booking[]> {
  const jobsByTpu = await readJobsByTpu(await cli.services.client(), cli.lab.store);
  const users = await cli.lab.store.users();
  return bookings.map((booking) => {
    if (booking.status.kind !== 'free') return booking;
    const { jobs, otherJobs } = jobsByTpu.on(booking.tpu);
    const [first, other] = [jobs[0], otherJobs[0]];
    const owner = first?.job.user ?? other?.owner ?? undefined;
    if (owner === undefined) return booking;
    const user = users.find(({ name }) => name === owner)?.sheetName ?? owner;
    const where = typeof first?.window !== 'number' ? `job ${first?.job.job ?? other?.id}` : `window ${first.window}`;
    return { ...booking, status: { kind: 'running' }, user, scriptNote: `${where}; not booked` };
  });
}

function printFound(cli: TpuCli, found: readonly FoundTpu[], style: Style): void {
  if (style === 'full') {
    const head = ['ALIAS', 'TPU', 'STATUS', 'USER', 'NOTE', 'SCRIPT NOTE', 'BELONGS', 'ZONE'];
    const rows = found.map((one) => {
      const { tpu, user, note, scriptNote, owner, zone } = one.booking;
      return [one.aliases.join(', '), tpu, formatStatus(one), user, note, scriptNote, owner, zone];
    });
    return printTable(cli, [head, ...rows.map((row) => row.map((cell) => cell || '-'))]);
  }
  for (const [index, { heading, found: ones }] of groupByStatus(found).entries()) {
    if (index > 0) cli.print('');
    cli.print(`${heading}:`);
    const rows = ones.map(({ aliases, booking }) => [
      `  ${aliases.join(', ')}`,
      booking.status.kind === 'unknown' ? `${booking.status.text} ${booking.user}`.trim() : booking.user,
      style === 'category' ? '' : joinNotes(booking),
    ]);
    printTable(cli, rows);
  }
}

function formatStatus({ booking: { status } }: FoundTpu): string {
  return status.kind === 'unknown' ? status.text : status.kind;
}

export async function book(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const tpu = requiredTpu(args);
  const user = await resolveActingUser(cli, args, `book ${tpu.name}`);
  const note = await readNotes(cli, args, 'Without a terminal, give the notes: ssn=until_monday');
  const sheet = await cli.lab.sheet();
  const booking = await readBooking(sheet, tpu);
  if (!(await confirmTaking(cli, sheet, booking, user, `Book it for ${user.sheetName} anyway?`)))
    return exitCode.failed;
  const { sheetName } = user;
  await changeBooking(cli, sheet, tpu, {
    kind: 'book',
    user: sheetName,
    ...(note !== null && { scriptNote: note }),
    seen: booking,
    by: actorName(cli, await cli.lab.store.users(), user.name),
  });
  return exitCode.ok;
}

export async function release(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const tpu = requiredTpu(args);
  const users = await cli.lab.store.users();
  const named = users.find(({ name }) => name === args.user);
  const actor = currentUser(cli, users);
  const sheet = await cli.lab.sheet();
  const booking = await readBooking(sheet, tpu);
  if (booking !== null && named !== undefined && isBookedByOther(booking, named))
    throw new JobmanError(
      `In ${sheet.name}, ${tpu.name} is ${formatBooking(booking)}, not for ${named.name}. Nothing was changed.`,
      exitCode.conflict,
    );
  // Without a name on the line, the user who types confirms before another user's booking is released.
  if (named === undefined && actor !== null)
    if (!(await confirmTaking(cli, sheet, booking, actor, 'Release it anyway?'))) return exitCode.failed;
  const conflict = releaseConflict(
    tpu.name,
    (await readJobsByTpu(await cli.services.client(), cli.lab.store)).on(tpu.name),
  );
  if (conflict !== null) throw conflict;
  await changeBooking(cli, sheet, tpu, { kind: 'release', seen: booking, by: actorName(cli, users) });
  return exitCode.ok;
}

async function confirmTaking(
  cli: TpuCli,
  { name }: BookingSheet,
  booking: Booking | null,
  user: LabUser,
  question: string,
): Promise<boolean> {
  if (booking === null || !isBookedByOther(booking, user)) return true;
  return confirmDespite(cli, formatBookingNow(name, booking, cli.io.now()), question);
}

async function readBooking(sheet: BookingSheet, { name }: LabTpu): Promise<Booking | null> {
  const { bookings } = await sheet.read();
  return bookings.find(({ tpu }) => tpu === name) ?? null;
}

/** Throws JobmanError: (3) if the sheet has no row for the TPU, (4) if another user changed it first. */
async function changeBooking(
  cli: TpuCli,
  sheet: BookingSheet,
  { name: tpu }: LabTpu,
  command: Extract<BookingCommand, { readonly kind: 'book' | 'release' }>,
): Promise<void> {
  const changed = await sheet.change(tpu, command);
  if (changed === null) throw noRowError(sheet.name, tpu);
  const { before, after } = changed;
  const { status, message } = bookingResult(sheet.name, command.kind, changed);
  cli.printResult(
    { tpu, status, user: after.user, before: { status: before.status.kind, user: before.user } },
    escapeLine(message),
  );
}
