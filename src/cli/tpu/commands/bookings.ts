// find, book and release: what the booking sheet says of TPUs.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { capital, inertWord } from '../../../app/figures.ts';
import { findTpus, type FoundTpu, groupsOf } from '../../../lab/find.ts';
import { holdSentences, jobsOfManifests, jobsOn, jobsThere } from '../../../lab/holds.ts';
import type { LabUser } from '../../../lab/people.ts';
import { type LabTpu } from '../../../lab/tpus.ts';
import { type Booking, type BookingChange, type BookingSheet, notesIn } from '../../../lab/bookings.ts';
import { type TpuCli, tpuOf, type Words } from '../command.ts';
import { actingFor, typing } from '../people.ts';
import { confirmDespite, notesOf, printTable } from '../terminal.ts';

type Style = 'full' | 'category' | 'category_note';

export async function find(cli: TpuCli, words: Words): Promise<number> {
  const { types, flags, keys } = words;
  const sheet = await cli.lab.sheet();
  const { record } = cli.lab;
  const [{ bookings, problems }, tpus, aliases] = await Promise.all([sheet.read(), record.tpus(), record.tpuAliases()]);
  const only = flags.has('n') === flags.has('p') ? null : flags.has('n') ? 'normal' : 'preemptible';
  const found = findTpus(
    await withJobs(cli, bookings),
    { tpus, aliases },
    { types: flags.has('a') ? [] : types, only },
  );
  if (cli.json) {
    for (const one of found) {
      const { booking, ...known } = one;
      cli.print(JSON.stringify({ ...booking, status: statusWord(one), ...known }));
    }
  } else if (found.length === 0) {
    cli.note(`${capital(sheet.called)} has no such TPU${types.length === 0 ? ' yet' : `: ${types.join(' ')}`}.`);
  } else printFound(cli, found, (keys['style'] ?? 'category_note') as Style);
  for (const line of problems) cli.note(inertWord(`note: ${sheet.called}, ${line}.`));
  return exitCode.ok;
}

/** The bookings, and `running` for what the sheet calls free although a job is under way there: people take what is free. */
async function withJobs(cli: TpuCli, bookings: readonly Booking[]): Promise<readonly Booking[]> {
  const client = await cli.services.client();
  const views = new Map<string, ReturnType<typeof client.show>>();
  const show: typeof client.show = (ref) => {
    const view = views.get(ref) ?? client.show(ref);
    views.set(ref, view);
    return view;
  };
  const { rows } = await client.list({});
  const there = await jobsThere(cli.lab.record, rows);
  const users = await cli.lab.record.users();
  return Promise.all(
    bookings.map(async (booking) => {
      if (booking.status.kind !== 'free') return booking;
      const [first] = there.on(booking.tpu);
      const [other] = first === undefined ? await jobsOfManifests({ show }, rows, there, booking.tpu) : [];
      const owner = first?.job.user ?? other?.user;
      if (owner === undefined) return booking;
      const user = users.find(({ name }) => name === owner)?.sheetName ?? owner;
      const where = typeof first?.window !== 'number' ? `job ${first?.job.job ?? other?.id}` : `window ${first.window}`;
      return { ...booking, status: { kind: 'running' }, user, scriptNote: `${where}; not booked` };
    }),
  );
}

function printFound(cli: TpuCli, found: readonly FoundTpu[], style: Style): void {
  if (style === 'full') {
    const head = ['ALIAS', 'TPU', 'STATUS', 'USER', 'NOTE', 'SCRIPT NOTE', 'BELONGS', 'ZONE'];
    const rows = found.map((one) => {
      const { tpu, user, note, scriptNote, belongs, zone } = one.booking;
      return [one.aliases.join(', '), tpu, statusWord(one), user, note, scriptNote, belongs, zone];
    });
    return printTable(cli, [head, ...rows.map((row) => row.map((cell) => cell || '-'))]);
  }
  for (const [index, { heading, found: ones }] of groupsOf(found).entries()) {
    if (index > 0) cli.print('');
    cli.print(`${heading}:`);
    const rows = ones.map(({ aliases, booking }) => [
      `  ${aliases.join(', ')}`,
      booking.status.kind === 'unknown' ? `${booking.status.words} ${booking.user}`.trim() : booking.user,
      style === 'category' ? '' : notesIn(booking),
    ]);
    printTable(cli, rows);
  }
}

function statusWord({ booking: { status } }: FoundTpu): string {
  return status.kind === 'unknown' ? status.words : status.kind;
}

export async function book(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  const { user } = await actingFor(cli, words, `book ${tpu.name}`);
  const note = await notesOf(cli, words, 'Which notes? Say them on the line: ssn=until_monday');
  const sheet = await cli.lab.sheet();
  const booking = await bookingNow(sheet, tpu);
  if (booking !== null && isOthers(booking, user)) {
    const fact = `${booking.alias} is ${wordsOf(booking)} by ${sheet.called}.`;
    if (!(await confirmDespite(cli, fact, `Book it for ${user.sheetName} all the same?`))) return exitCode.failed;
  }
  // A user who runs there keeps running; everybody else reserves it.
  const isRunning = booking?.status.kind === 'running' && booking.user === user.sheetName;
  const change: BookingChange = {
    ...(isRunning ? {} : { status: 'reserved' }),
    user: user.sheetName,
    ...(note === null ? {} : { scriptNote: note }),
  };
  const before = await changed(sheet, tpu, change, booking);
  const was = before.user === user.sheetName ? '' : ` It was ${wordsOf(before)}.`;
  const status = isRunning ? 'running' : 'reserved';
  if (cli.json) printBooking(cli, tpu, status, user.sheetName, before);
  else cli.tell(inertWord(`${tpu.name} is ${status} for ${user.sheetName} in ${sheet.called}.${was}`));
  return exitCode.ok;
}

export async function release(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  const users = await cli.lab.record.users();
  const named = words.user === null ? null : (users.find(({ name }) => name === words.user) ?? null);
  const typist = typing(cli, users);
  const sheet = await cli.lab.sheet();
  const booking = await bookingNow(sheet, tpu);
  if (booking !== null && named !== null && isOthers(booking, named)) {
    throw new JobmanError(
      `${tpu.name} is ${wordsOf(booking)} by ${sheet.called}, and not ${named.name}'s. Nothing was changed.`,
      exitCode.conflict,
    );
  }
  // Without a name on the line whoever types is asked before somebody else's is let go.
  if (booking !== null && named === null && typist !== null && isOthers(booking, typist)) {
    const fact = `${tpu.name} is ${wordsOf(booking)} by ${sheet.called}.`;
    if (!(await confirmDespite(cli, fact, 'Release it all the same?'))) return exitCode.failed;
  }
  await refuseWhileInUse(cli, tpu);
  const free = { status: 'free', user: '', note: '', scriptNote: '' } as const;
  const before = await changed(sheet, tpu, free, booking);
  const was = before.status.kind === 'free' ? '' : ` It was ${wordsOf(before)}.`;
  if (cli.json) printBooking(cli, tpu, 'free', '', before);
  else cli.tell(inertWord(`${tpu.name} is free in ${sheet.called}.${was}`));
  return exitCode.ok;
}

function printBooking(cli: TpuCli, tpu: LabTpu, status: string, user: string, before: Booking): void {
  cli.print(JSON.stringify({ tpu: tpu.name, status, user, before: { status: before.status.kind, user: before.user } }));
}

/** A booking says who uses a TPU, so one with a job under way is not free. Throws JobmanError (4) with what ends the job. */
async function refuseWhileInUse(cli: TpuCli, { name }: LabTpu): Promise<void> {
  const client = await cli.services.client();
  const { jobs, others } = await jobsOn(client, cli.lab.record, name);
  if (jobs.length === 0 && others.length === 0) return;
  const sentences = holdSentences({ jobs, others }, name);
  const [first = ''] = sentences;
  throw new JobmanError(inertWord(`${capital(first)}, so its booking stays. Nothing was changed.`), exitCode.conflict, [
    ...sentences.slice(1).map((one) => inertWord(one)),
    ...jobs.map(({ job, window }) =>
      window === null ? `jobman cancel ${job.job}    ends it` : `tpu kill w=${window} ${job.user}    ends it`,
    ),
    ...others.map(({ id }) => `jobman cancel ${id}    ends it`),
  ]);
}

async function bookingNow(sheet: BookingSheet, { name }: LabTpu): Promise<Booking | null> {
  const { bookings } = await sheet.read();
  return bookings.find(({ tpu }) => tpu === name) ?? null;
}

/** Changes it unless somebody else came first. Throws JobmanError (3) where it has no row, (4) where somebody did. */
async function changed(
  sheet: BookingSheet,
  { name }: LabTpu,
  change: BookingChange,
  asked: Booking | null,
): Promise<Booking> {
  const { before, refused } = await sheet.change(name, change, (now) =>
    now.user === asked?.user && now.status.kind === asked.status.kind
      ? null
      : `${name} is ${wordsOf(now)} since a moment ago. Nothing was changed.`,
  );
  if (refused !== null) throw new JobmanError(refused, exitCode.conflict);
  if (before === null) {
    throw new JobmanError(`${sheet.called} has no row for ${name}.`, exitCode.notFound, [
      'A row has the alias of the TPU in its column B; `tpu -lta` shows them.',
    ]);
  }
  return before;
}

function isOthers({ status, user }: Booking, me: LabUser): boolean {
  return (status.kind === 'running' || status.kind === 'reserved') && user !== '' && user !== me.sheetName;
}

function wordsOf(booking: Booking): string {
  const { status, user } = booking;
  const notes = notesIn(booking);
  const word = status.kind === 'unknown' ? `"${status.words}"` : status.kind;
  const whose = user === '' ? '' : ` ${status.kind === 'running' ? 'by' : 'for'} ${user}`;
  return `${word}${whose}${notes === '' ? '' : ` (${notes})`}`;
}
