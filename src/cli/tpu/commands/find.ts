// find: which TPUs are free, reserved or running, by the booking sheet.

import { exitCode } from '../../../app/errors.ts';
import { capital } from '../../../app/reason-words.ts';
import { findTpus, groupsOf, type FoundTpu } from '../../../lab/find.ts';
import { jobsOfManifests, jobsThere } from '../../../lab/holds.ts';
import type { Booking } from '../../../lab/tpus.ts';
import { aligned } from '../../render/aligned.ts';
import { inertWord } from '../../render/inert.ts';
import { columnsOf } from '../../screen.ts';
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
  } else
    for (const line of linesOf(cli, found, (keys['style'] ?? 'category_note') as Style)) cli.print(inertWord(line));
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

function linesOf(cli: TpuCli, found: readonly FoundTpu[], style: Style): readonly string[] {
  const columns = columnsOf(cli.io.stdout);
  if (style === 'full') {
    const head = ['ALIAS', 'TPU', 'STATUS', 'USER', 'NOTE', 'SCRIPT NOTE', 'BELONGS', 'ZONE'];
    const rows = found.map((one) => {
      const { tpu, user, note, scriptNote, belongs, zone } = one.booking;
      return [one.aliases.join(', '), tpu, statusWord(one), user, note, scriptNote, belongs, zone].map(
        (cell) => cell || '-',
      );
    });
    return aligned(
      [head, ...rows],
      head.map(() => 'left' as const),
      columns,
    );
  }
  return groupsOf(found).flatMap(({ heading, found: ones }, index) => {
    const rows = ones.map((one) => {
      const { user, note, scriptNote, status } = one.booking;
      return [
        `  ${one.aliases.join(', ')}`,
        status.kind === 'unknown' ? `${status.words} ${user}`.trim() : user,
        ...(style === 'category' ? [] : [[note, scriptNote].filter((text) => text !== '').join('; ')]),
      ];
    });
    const sides = ['left', 'left', 'left'] as const;
    return [...(index === 0 ? [] : ['']), `${heading}:`, ...aligned(rows, sides, columns)];
  });
}

function statusWord({ booking: { status } }: FoundTpu): string {
  return status.kind === 'unknown' ? status.words : status.kind;
}
