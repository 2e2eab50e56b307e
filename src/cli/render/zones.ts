// The table of places, made to fit.

import { ageText, lengthText } from '../../app/figures.ts';
import { refusalWords } from '../../app/phrases.ts';
import type { ZoneRow } from '../../app/zones.ts';
import type { Instant } from '../../core/time.ts';
import { cutEnd, width } from './cell.ts';
import { inertWord } from './inert.ts';
import { aligned } from './aligned.ts';

/** The lines of the table, a heading first; `[]` for no rows. `terminal` is its width, null where nothing is to be cut. */
export function zoneLines(rows: readonly ZoneRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  const head = ['ZONE', 'ACCELERATOR', 'PRICING', 'LAST ANSWER', 'GOT ONE', 'JOBS'];
  const cells = rows.map((row) =>
    [
      isOneProject ? row.zone : `${row.project}/${row.zone}`,
      row.accelerator,
      row.pricing,
      lastText(row, now),
      gaveText(row, now),
      jobsText(row),
    ].map(inertWord),
  );
  const all = [head, ...cells];
  const table = (titles: readonly string[]): readonly string[] =>
    aligned(
      all.map((row) => row.filter((_, column) => titles.includes(head[column] ?? ''))),
      titles.map(() => 'left' as const),
      null,
    );
  // A narrow terminal loses whole columns, so that no heading is cut.
  let titles: readonly string[] = head;
  for (const title of dropOrder) {
    if (terminal === null || table(titles).every((line) => width(line) <= terminal)) break;
    titles = titles.filter((one) => one !== title);
  }
  const lines = table(titles);
  return terminal === null ? lines : lines.map((line) => cutEnd(line, terminal));
}

/** The page of the command names this order, too. */
const dropOrder = ['GOT ONE', 'JOBS', 'PRICING'] as const;

function lastText({ last }: ZoneRow, now: Instant): string {
  if (last === null) return 'none yet';
  const word =
    last.answer === 'ready' ? 'gave one' : last.answer === 'waiting' ? 'a long queue' : refusalWords[last.answer];
  return `${word}, ${ageText(now - last.at)} ago`;
}

function gaveText({ gave }: ZoneRow, now: Instant): string {
  return gave === null ? 'never' : `${ageText(now - gave.at)} ago after ${lengthText(gave.waited)}`;
}

function jobsText({ holds, awaits }: ZoneRow): string {
  const parts = [
    ...(holds.length === 0 ? [] : [`held by ${holds.join(', ')}`]),
    ...(awaits.length === 0 ? [] : [`awaited by ${awaits.join(', ')}`]),
  ];
  return parts.length === 0 ? '-' : parts.join('; ');
}
