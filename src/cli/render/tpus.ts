// The table of TPUs, made to fit.

import { ageText, countText, dollarsText, priceText } from '../../app/figures.ts';
import type { TpuList, TpuMissed, TpuRow } from '../../app/tpus.ts';
import type { Instant } from '../../core/time.ts';
import { fittedTable, type Column } from './aligned.ts';
import { cutEnd } from './cell.ts';
import { inertWord } from './inert.ts';

const columnsOf = (isOneProject: boolean, now: Instant): readonly Column<TpuRow>[] => [
  { title: 'NAME', side: 'left', text: ({ name }) => name },
  { title: 'ZONE', side: 'left', text: ({ project, zone }) => (isOneProject ? zone : `${project}/${zone}`) },
  { title: 'TYPE', side: 'left', text: ({ type }) => type ?? '?' },
  { title: 'PRICING', side: 'left', text: ({ pricing }) => pricing },
  { title: 'STATE', side: 'left', text: ({ state }) => state },
  { title: 'WHOSE', side: 'left', text: whoseText },
  { title: 'JOB', side: 'left', text: ({ job }) => job ?? '-' },
  {
    title: 'READY',
    side: 'right',
    text: ({ readySince }) => (readySince === null ? '-' : ageText(now - readySince)),
  },
  { title: 'IDLE', side: 'right', text: idleText },
  { title: 'PRICE', side: 'right', text: hourlyText },
];

function hourlyText({ pricePerHour }: TpuRow): string {
  return pricePerHour === null ? '?' : priceText(pricePerHour);
}

/** The page of the command tells this order too. */
const dropOrder = ['PRICING', 'READY', 'JOB', 'ZONE', 'TYPE'] as const;
/** Below this width a TPU takes two lines. */
const narrowTerminal = 60;

/** The lines of the table, a heading first; `[]` for no rows. `terminal` is its width, null where nothing is to be cut. */
export function tpuLines(rows: readonly TpuRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  if (terminal !== null && terminal < narrowTerminal) return rows.flatMap((row) => twoLines(row, terminal));
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  return fittedTable(columnsOf(isOneProject, now), rows, dropOrder, terminal);
}

function twoLines(row: TpuRow, terminal: number): readonly string[] {
  const facts = [row.state, whoseText(row), `idle ${idleText(row)}`, hourlyText(row)].map(inertWord);
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
