// The table of TPUs, made to fit.

import { ageText, countText, dollarsText, priceText } from '../../app/figures.ts';
import type { TpuList, TpuMissed, TpuRow } from '../../app/tpus.ts';
import type { Instant } from '../../core/time.ts';
import { cutEnd, width } from './cell.ts';
import { inertWord } from './inert.ts';
import { aligned } from './aligned.ts';

interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
  readonly text: (row: TpuRow, now: Instant) => string;
}

const columns = {
  name: { title: 'NAME', align: 'left', text: (row) => row.name },
  zone: { title: 'ZONE', align: 'left', text: (row) => row.zone },
  type: { title: 'TYPE', align: 'left', text: (row) => row.type ?? '?' },
  pricing: { title: 'PRICING', align: 'left', text: (row) => row.pricing },
  state: { title: 'STATE', align: 'left', text: (row) => row.state },
  whose: { title: 'WHOSE', align: 'left', text: (row) => whoseText(row) },
  job: { title: 'JOB', align: 'left', text: (row) => row.job ?? '-' },
  ready: {
    title: 'READY',
    align: 'right',
    text: ({ readySince }, now) => (readySince === null ? '-' : ageText(now - readySince)),
  },
  idle: { title: 'IDLE', align: 'right', text: (row) => idleText(row) },
  price: {
    title: 'PRICE',
    align: 'right',
    text: ({ pricePerHour }) => (pricePerHour === null ? '?' : priceText(pricePerHour)),
  },
} as const satisfies Readonly<Record<string, Column>>;

type ColumnName = keyof typeof columns;

/** Left out in this order when a terminal is too narrow. The page of the command tells it too. */
const dropOrder: readonly ColumnName[] = ['pricing', 'ready', 'job', 'zone', 'type'];
/** Below this width a TPU takes two lines. */
const narrowTerminal = 60;

/** The lines of the table, a heading first; `[]` for no rows. `terminal` is its width, null where nothing is to be cut. */
export function tpuLines(rows: readonly TpuRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  if (terminal !== null && terminal < narrowTerminal) return rows.flatMap((row) => twoLines(row, terminal));
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  const cells = new Map(
    (Object.entries(columns) as [ColumnName, Column][]).map(([name, { title, text }]) => [
      name,
      [
        title,
        ...rows.map((row) =>
          inertWord(name === 'zone' && !isOneProject ? `${row.project}/${row.zone}` : text(row, now)),
        ),
      ],
    ]),
  );
  for (const name of terminal === null ? [] : dropOrder) {
    if (tableWidth(cells) <= (terminal ?? 0)) break;
    cells.delete(name);
  }
  const table = [...cells.values()];
  const lines = (table[0] ?? []).map((_, line) => table.map((column) => column[line] ?? ''));
  return aligned(
    lines,
    [...cells.keys()].map((name) => columns[name].align),
    terminal,
  );
}

function tableWidth(cells: ReadonlyMap<ColumnName, readonly string[]>): number {
  const sizes = [...cells.values()].map((texts) => texts.reduce((most, text) => Math.max(most, width(text)), 0));
  return sizes.reduce((sum, size) => sum + size, 0) + 2 * (sizes.length - 1);
}

function twoLines(row: TpuRow, terminal: number): readonly string[] {
  const facts = [row.state, whoseText(row), `idle ${idleText(row)}`, columns.price.text(row)].map(inertWord);
  return [cutEnd(inertWord(`${row.name}  ${row.type ?? ''}`), terminal), cutEnd(`  ${facts.join('  ')}`, terminal)];
}

/** The owner in a word or two: that of its job, `stray`, another jobman by its id, a person, nobody. */
export function whoseText({ whose, owner }: Pick<TpuRow, 'whose' | 'owner'>): string {
  switch (whose.kind) {
    case 'job':
      return whose.owner;
    case 'stray':
      return 'stray';
    case 'installation':
      // Their jobman is a sign that nobody knows; the person is whom one asks.
      return `${owner === null || owner === '' ? '' : `${owner}, `}jobman ${whose.installation}`;
    case 'shared':
      return whose.name ?? 'shared';
    case 'person':
      return whose.name;
    case 'nobody':
      return 'nobody';
  }
}

/** `3d`; `-` while a command runs or it is not ready; `?` for what somebody else may be using. */
function idleText({ idle, readySince, whose }: TpuRow): string {
  if (idle !== null) return ageText(idle);
  return readySince === null || whose.kind === 'job' ? '-' : '?';
}

/** `4 TPUs, about $29.00/h; 2 idle, about $31.20 for nothing so far`. What is only pretended is not in the sums. */
export function tpuSum({ rows }: TpuList): string {
  const paid = rows.filter(({ pretended }) => !pretended);
  const hourly = paid.reduce((sum, { pricePerHour, state }) => sum + (state === 'READY' ? (pricePerHour ?? 0) : 0), 0);
  const idle = paid.filter((row) => row.idle !== null);
  const lost = idle.reduce((sum, { idleCost }) => sum + (idleCost ?? 0), 0);
  return [
    `${countText(rows.length, 'TPU')}${hourly === 0 ? '' : `, about ${priceText(hourly)}`}`,
    ...(idle.length === 0 ? [] : [`${idle.length} idle, about ${dollarsText(lost)} for nothing so far`]),
  ].join('; ');
}

/** `project lab, zone us-east5-b was not asked: ...`. */
export function missedText({ project, zone, says }: TpuMissed): string {
  const place = zone === null ? `project ${project}` : `zone ${zone} of project ${project}`;
  return inertWord(`${place} could not be asked: ${says}`);
}
