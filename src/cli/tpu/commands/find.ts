// find: which TPUs are free, reserved or running, by the booking sheet.

import { exitCode } from '../../../app/errors.ts';
import { findTpus, groupsOf, type FoundTpu } from '../../../lab/find.ts';
import { aligned } from '../../render/aligned.ts';
import { inertWord } from '../../render/inert.ts';
import { columnsOf } from '../../screen.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

type Style = 'full' | 'category' | 'category_note';

export async function find(cli: TpuCli, words: Words): Promise<number> {
  const { types, flags, keys } = words;
  const sheet = await cli.lab.sheet();
  const [{ bookings, problems }, tpus] = await Promise.all([sheet.read(), cli.lab.record.tpus()]);
  const only = flags.has('n') === flags.has('p') ? null : flags.has('n') ? 'normal' : 'preemptible';
  const found = findTpus(bookings, tpus, { types: flags.has('a') ? [] : types, only });
  if (cli.json) {
    for (const one of found) {
      const { booking, accelerator, isPreemptible } = one;
      cli.print(JSON.stringify({ ...booking, status: statusWord(one), accelerator, isPreemptible }));
    }
  } else if (found.length === 0) {
    cli.note(`${capital(sheet.called)} has no such TPU${types.length === 0 ? ' yet' : `: ${types.join(' ')}`}.`);
  } else
    for (const line of linesOf(cli, found, (keys['style'] ?? 'category_note') as Style)) cli.print(inertWord(line));
  for (const line of problems) cli.note(inertWord(`note: ${sheet.called}, ${line}.`));
  return exitCode.ok;
}

function linesOf(cli: TpuCli, found: readonly FoundTpu[], style: Style): readonly string[] {
  const columns = columnsOf(cli.io.stdout);
  if (style === 'full') {
    const head = ['ALIAS', 'TPU', 'STATUS', 'USER', 'NOTE', 'SCRIPT NOTE', 'BELONGS', 'ZONE'];
    const rows = found.map((one) => {
      const { alias, tpu, user, note, scriptNote, belongs, zone } = one.booking;
      return [alias, tpu, statusWord(one), user, note, scriptNote, belongs, zone].map((cell) => cell || '-');
    });
    return aligned(
      [head, ...rows],
      head.map(() => 'left' as const),
      columns,
    );
  }
  return groupsOf(found).flatMap(({ heading, found: ones }, index) => {
    const rows = ones.map(({ booking: { alias, user, note, scriptNote, status } }) => [
      `  ${alias}`,
      status.kind === 'unknown' ? `${status.words} ${user}`.trim() : user,
      ...(style === 'category' ? [] : [[note, scriptNote].filter((text) => text !== '').join('; ')]),
    ]);
    const sides = ['left', 'left', 'left'] as const;
    return [...(index === 0 ? [] : ['']), `${heading}:`, ...aligned(rows, sides, columns)];
  });
}

function statusWord({ booking: { status } }: FoundTpu): string {
  return status.kind === 'unknown' ? status.words : status.kind;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
