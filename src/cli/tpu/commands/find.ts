// find: which TPUs are free, reserved or running, by the booking sheet.

import { exitCode } from '../../../app/errors.ts';
import { capital } from '../../../app/reason-words.ts';
import { findTpus, groupsOf, type FoundTpu } from '../../../lab/find.ts';
import { jobsOfManifests, jobsThere } from '../../../lab/holds.ts';
import { notesIn, type Booking } from '../../../lab/tpus.ts';
import { inertWord } from '../../render/inert.ts';
import { printTable } from '../print-table.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

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
