import type { JobList, JobRow } from '../../app/client.ts';
import { formatLocalTimeOfDay, escapeLine } from '../../app/format.ts';
import { phases, type Phase } from '../../core/decide/phase.ts';
import type { Instant } from '../../core/model/time.ts';
import { cutEnd, fitting, padEnd, wrap } from '../render/cell.ts';
import { linesPerJob, listLines, type ListLayout } from '../render/list.ts';
import type { Styler } from '../screen.ts';

export interface ScreenContext {
  readonly columns: number;
  readonly rows: number;
  readonly styler: Styler;
  /** False if bold rows look like all others. */
  readonly colour: boolean;
  readonly unicode: boolean;
  readonly now: Instant;
}

interface ListFrameInput extends ScreenContext {
  readonly jobs: JobList;
  /** The job with the marker `>`; null without keys to move it. */
  readonly selected: string | null;
  readonly changed: ReadonlySet<string>;
  readonly footer: string;
}

export function listFrame(input: ListFrameInput): readonly string[] {
  const { jobs, selected, changed, columns, rows, footer, styler, unicode, now, colour } = input;
  const hasMarkers = selected !== null || !colour;
  const room = columns - (hasMarkers ? 2 : 0);
  const perJob = linesPerJob(room);
  const at = jobs.rows.findIndex(({ id }) => id === selected);
  const part = visibleRange(rows, perJob, jobs.rows.length, Math.max(0, at));
  const layout: ListLayout = { columns: room, styler, unicode, now, bold: changed, range: [part.from, part.to] };
  const lines = listLines(jobs.rows, layout);
  const marker = ({ id }: JobRow) => `${id === selected ? '>' : ' '}${!colour && changed.has(id) ? '*' : ' '}`;
  const shown = jobs.rows.slice(part.from, part.to);
  const markers = [
    ...(perJob === 1 ? ['  '] : []),
    ...shown.flatMap((row) => [marker(row), ...Array.from({ length: perJob - 1 }, () => '  ')]),
  ];
  const withMarkers = hasMarkers ? lines.map((line, index) => `${markers[index] ?? ''}${line}`.trimEnd()) : lines;
  return [
    ...(perJob === 1 && !part.hasHeading ? withMarkers.slice(1) : withMarkers),
    ...(part.more === null ? [] : [part.more]),
    footer,
  ];
}

export function jobsOnScreen(rows: number, columns: number): number {
  const perJob = linesPerJob(columns - 2);
  return Math.max(1, Math.floor((rows - 3 - (perJob === 1 ? 1 : 0)) / perJob));
}

/** Of jobs of `perJob` lines: whole jobs only, including the one at `at`. One row is for the last line and one for the cursor. */
export function visibleRange(
  rows: number,
  perJob: number,
  count: number,
  at: number,
): { readonly from: number; readonly to: number; readonly hasHeading: boolean; readonly more: string | null } {
  const heading = perJob === 1 ? 1 : 0;
  const room = rows - 2;
  if (heading + count * perJob <= room) return { from: 0, to: count, hasHeading: true, more: null };
  const isTiny = room - 1 - heading < perJob;
  const jobs = Math.floor(Math.max(0, isTiny ? room : room - 1 - heading) / perJob);
  const from = Math.min(Math.max(0, at - jobs + 1), Math.max(0, count - jobs));
  const to = Math.min(count, from + jobs);
  return { from, to, hasHeading: !isTiny, more: isTiny ? null : formatMore(from, count - to) };
}

function formatMore(above: number, below: number): string {
  if (above === 0) return `${below} more`;
  return below === 0 ? `${above} above` : `${above} above, ${below} below`;
}

interface StatusLineOptions {
  readonly now: Instant;
  readonly notes: readonly string[];
  readonly keys: readonly string[];
}

/** From the longest to the shortest. */
export function listKeyHints(isUnicode: boolean): readonly string[] {
  return isUnicode
    ? ['↑↓ select · enter open · w why · l logs · ? help · q quit', '? help · q quit']
    : ['j/k select, enter open, w why, l logs, ? help, q quit', '? help, q quit'];
}

export const leaveHint = ['Ctrl-C quits'];

/** `08:20:14  2 running, 1 queued   ? help · q quit`, with the longest hint that fits. */
export function statusLine(jobs: JobList, { now, notes, keys }: StatusLineOptions, columns: number): string {
  const what = formatCounts(jobs);
  const allNotes = [...new Set([...notes, ...jobs.notes])].map(escapeLine);
  const notesText = allNotes.length === 0 ? '' : `   ${allNotes.join('; ')}`;
  const more = jobs.more === 0 ? '' : `, ${jobs.more} older (--all)`;
  const variants = keys.flatMap((variant) => [
    `${what}${more}${notesText}   ${variant}`,
    `${what}${notesText}   ${variant}`,
  ]);
  // Missing information is more important than the hint.
  const least =
    notesText === ''
      ? [...keys.map((variant) => `${what}   ${variant}`), what]
      : [`${what}${notesText}`, notesText.trim()];
  return fitting(
    [...variants, ...least].map((variant) => `${formatLocalTimeOfDay(now)}  ${variant}`),
    columns,
  );
}

/** In the order of the phases, so that the text changes only with the numbers. */
export function formatCounts({ rows }: { readonly rows: readonly { readonly phase: Phase }[] }): string {
  const counts = phases.flatMap((phase) => {
    const count = rows.filter((row) => row.phase === phase).length;
    return count === 0 ? [] : `${count} ${phase}`;
  });
  return counts.length === 0 ? 'no jobs' : counts.join(', ');
}

export function textFrame(
  lines: readonly string[],
  scrolled: number,
  { columns, rows, now }: Pick<ScreenContext, 'columns' | 'rows' | 'now'>,
): { readonly frame: readonly string[]; readonly scrolled: number } {
  const room = Math.max(1, rows - 2);
  const from = Math.min(scrolled, Math.max(0, lines.length - room));
  const shown = lines.slice(from, from + room).map((line) => cutEnd(line, columns));
  const below = lines.length - from - shown.length;
  const where = lines.length <= room ? '' : `${formatMore(from, below)}, j/k scroll   `;
  const variants = [`${where}q list   l logs   ? help`, `${where}q list   ? help`, `${where}q list`];
  const last = variants.map((variant) => `${formatLocalTimeOfDay(now)}  ${variant}`);
  return {
    frame: [...shown, fitting(last, columns)],
    scrolled: from,
  };
}

const keyHelp: readonly (readonly [keys: string, meaning: string])[] = [
  ['j k, arrows', 'select the next or previous job; scroll a text by a line'],
  ['g G, Space', 'first, last; a page down'],
  ['Enter', 'show the job: attempts, workers, capacity'],
  ['w', 'explain the phase of the job'],
  ['l', 'follow its logs; q returns to the list'],
  ['q, Esc', 'back to the list'],
  ['q, Ctrl-C', 'in the list: quit; the jobs keep running'],
];

export function keyLines(columns: number): readonly string[] {
  return keyHelpLines(keyHelp, columns);
}

/** Each key with its meaning, which is wrapped. */
export function keyHelpLines(
  help: readonly (readonly [keys: string, meaning: string])[],
  columns: number,
): readonly string[] {
  const left = Math.max(...help.map(([keys]) => keys.length));
  return help.flatMap(([keys, meaning]) => {
    const parts = wrap(meaning, Math.max(12, columns - left - 4));
    return parts.map((part, index) => `  ${padEnd(index === 0 ? keys : '', left)}  ${part}`);
  });
}
