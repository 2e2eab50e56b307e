// book and release: what the booking sheet says of a TPU.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { capital } from '../../../app/reason-words.ts';
import { holdSentences, jobsOn } from '../../../lab/holds.ts';
import type { LabUser } from '../../../lab/people.ts';
import type { Booking, BookingChange, BookingSheet, LabTpu } from '../../../lab/tpus.ts';
import { confirm } from '../../prompt.ts';
import { inertWord } from '../../render/inert.ts';
import { actingFor, typing } from '../people.ts';
import { canAsk, question } from '../questions.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function book(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  const { user } = await actingFor(cli, words, `book ${tpu.name}`);
  const note = await noteOf(cli, words);
  const sheet = await cli.lab.sheet();
  const booking = await bookingNow(sheet, tpu);
  if (booking !== null && isOthers(booking, user) && !(await mayTake(cli, sheet, booking, user)))
    return exitCode.failed;
  // A running job of the user stays `running`.
  const isRunning = booking?.status.kind === 'running' && booking.user === user.sheetName;
  const change: BookingChange = {
    ...(isRunning ? {} : { status: 'reserved' }),
    user: user.sheetName,
    ...(note === null ? {} : { scriptNote: note }),
  };
  const { before } = await changed(sheet, tpu, change, booking);
  const was = before === null || before.user === user.sheetName ? '' : ` It was ${wordsOf(before)}.`;
  if (cli.json) printBooking(cli, tpu, isRunning ? 'running' : 'reserved', user.sheetName, before);
  else
    cli.tell(
      inertWord(`${tpu.name} is ${isRunning ? 'running' : 'reserved'} for ${user.sheetName} in ${sheet.called}.${was}`),
    );
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
    const isMeant = await confirm(
      cli,
      `${tpu.name} is ${wordsOf(booking)} by ${sheet.called}. Release it all the same?`,
      `${tpu.name} is ${wordsOf(booking)} by ${sheet.called}.`,
    );
    if (!isMeant) return exitCode.failed;
  }
  await refuseWhileInUse(cli, tpu);
  const free = { status: 'free', user: '', note: '', scriptNote: '' } as const;
  const { before } = await changed(sheet, tpu, free, booking);
  const was = before === null || before.status.kind === 'free' ? '' : ` It was ${wordsOf(before)}.`;
  if (cli.json) printBooking(cli, tpu, 'free', '', before);
  else cli.tell(inertWord(`${tpu.name} is free in ${sheet.called}.${was}`));
  return exitCode.ok;
}

/** The booking as it is now and was before, with the words of `tpu find --json`. */
function printBooking(cli: TpuCli, tpu: LabTpu, status: string, user: string, before: Booking | null): void {
  const was = before === null ? null : { status: before.status.kind, user: before.user };
  cli.print(JSON.stringify({ tpu: tpu.name, status, user, before: was }));
}

/** A booking says who uses a TPU, so one with a job under way is not free. Throws JobmanError (4) with what ends the job. */
async function refuseWhileInUse(cli: TpuCli, { name }: LabTpu): Promise<void> {
  const client = await cli.services.client();
  const { jobs, others } = await jobsOn(client, cli.lab.record, name);
  if (jobs.length === 0 && others.length === 0) return;
  const sentences = holdSentences({ jobs, others, booking: null, holders: [] }, name);
  const [first = ''] = sentences;
  throw new JobmanError(inertWord(`${capital(first)}, so its booking stays. Nothing was changed.`), exitCode.conflict, [
    ...sentences.slice(1).map((one) => inertWord(one)),
    ...jobs.map(({ job, window }) =>
      window === null ? `jobman cancel ${job.job}    ends it` : `tpu kill w=${window} ${job.user}    ends it`,
    ),
    ...others.map(({ id }) => `jobman cancel ${id}    ends it`),
  ]);
}

/** The note of the line, or of a question; null: the note stays. */
async function noteOf(cli: TpuCli, { keys, flags }: Words): Promise<string | null> {
  const said = keys['ssn'];
  if (said !== undefined) return said;
  if (!flags.has('ssn')) return null;
  if (!canAsk(cli)) throw new JobmanError('Which notes? Say them on the line: ssn=until_monday', exitCode.usage);
  return question(cli, 'Notes for the booking sheet');
}

/** Null if the sheet has no row of it. */
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
): Promise<{ readonly before: Booking | null }> {
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
  return { before };
}

function isOthers({ status, user }: Booking, me: LabUser): boolean {
  return (status.kind === 'running' || status.kind === 'reserved') && user !== '' && user !== me.sheetName;
}

function mayTake(cli: TpuCli, sheet: BookingSheet, booking: Booking, user: LabUser): Promise<boolean> {
  const stands = `${booking.alias} is ${wordsOf(booking)} by ${sheet.called}`;
  return confirm(cli, `${stands}. Book it for ${user.sheetName} all the same?`, `${stands}.`);
}

/** `reserved for Xibo (until monday)`. */
function wordsOf({ status, user, note, scriptNote }: Booking): string {
  const notes = [note, scriptNote].filter((text) => text !== '').join('; ');
  const word = status.kind === 'unknown' ? `"${status.words}"` : status.kind;
  const whose = user === '' ? '' : ` ${status.kind === 'running' ? 'by' : 'for'} ${user}`;
  return `${word}${whose}${notes === '' ? '' : ` (${notes})`}`;
}
