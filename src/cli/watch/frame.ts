// One picture of a list that is watched: never wider than the terminal, and never taller.

import type { JobList, JobRow } from '../../app/client.ts';
import { localClockText, inertWord } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { cutEnd, padEnd, width, wrap } from '../render/cell.ts';
import { linesPerJob, listLines, type ListLayout } from '../render/list.ts';
import type { Ink } from '../screen.ts';

export interface Glass {
  readonly columns: number;
  readonly rows: number;
  readonly ink: Ink;
  /** False where bold rows look like all others. */
  readonly colour: boolean;
  readonly unicode: boolean;
  readonly now: Instant;
}

interface ListPicture extends Glass {
  readonly jobs: JobList;
  /** Marked with `>`; null where there are no keys to move it. */
  readonly selected: string | null;
  readonly changed: ReadonlySet<string>;
  readonly last: string;
}

export function listFrame(picture: ListPicture): readonly string[] {
  const { jobs, selected, changed, columns, rows, last, ink, unicode, now, colour } = picture;
  const hasMarks = selected !== null || !colour;
  const room = columns - (hasMarks ? 2 : 0);
  const perJob = linesPerJob(room);
  const at = jobs.rows.findIndex(({ id }) => id === selected);
  const part = partOn(rows, perJob, jobs.rows.length, Math.max(0, at));
  const layout: ListLayout = { columns: room, ink, unicode, now, bold: changed, only: [part.from, part.to] };
  const lines = listLines(jobs.rows, layout);
  const mark = ({ id }: JobRow) => `${id === selected ? '>' : ' '}${!colour && changed.has(id) ? '*' : ' '}`;
  const shown = jobs.rows.slice(part.from, part.to);
  const marks = [
    ...(perJob === 1 ? ['  '] : []),
    ...shown.flatMap((row) => [mark(row), ...Array.from({ length: perJob - 1 }, () => '  ')]),
  ];
  const marked = hasMarks ? lines.map((line, index) => `${marks[index] ?? ''}${line}`.trimEnd()) : lines;
  return [
    ...(perJob === 1 && !part.hasHeading ? marked.slice(1) : marked),
    ...(part.more === null ? [] : [part.more]),
    last,
  ];
}

/** The number of jobs that fit on a screen which is too small for all. */
export function jobsOnScreen(rows: number, columns: number): number {
  const perJob = linesPerJob(columns - 2);
  return Math.max(1, Math.floor((rows - 3 - (perJob === 1 ? 1 : 0)) / perJob));
}

/**
 * Which of so many jobs stand on the screen: whole ones, the one at `at` among them. One row is for the last line and one is
 * left for the cursor.
 */
function partOn(
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
  return { from, to, hasHeading: !isTiny, more: isTiny ? null : moreText(from, count - to) };
}

function moreText(above: number, below: number): string {
  if (above === 0) return `${below} more`;
  return below === 0 ? `${above} above` : `${above} above, ${below} below`;
}

interface StateWords {
  readonly now: Instant;
  /** Clusters and controllers that do not answer. */
  readonly notes: readonly string[];
  readonly keys: readonly string[];
}

/** The hint about keys, from the longest to the shortest. */
export const listKeys = ['j/k w l Enter ? q', '? q'];
export const noKeys = ['Ctrl-C leaves'];

/** `08:20:14  2 running, 1 queued   j/k w l Enter ? q`: the state of our knowledge. What does not fit is said in fewer words. */
export function stateLine(jobs: JobList, { now, notes, keys }: StateWords, columns: number): string {
  const what = countsText(jobs);
  const said = [...new Set([...notes, ...jobs.notes])].map(inertWord);
  const beside = said.length === 0 ? '' : `   ${said.join('; ')}`;
  const more = jobs.more === 0 ? '' : `, ${jobs.more} settled before (--all)`;
  const ways = keys.flatMap((way) => [`${what}${more}${beside}   ${way}`, `${what}${beside}   ${way}`]);
  // Missing information is more important than the hint.
  const least = beside === '' ? [...keys.map((way) => `${what}   ${way}`), what] : [`${what}${beside}`, beside.trim()];
  const lines = [...ways, ...least].map((way) => `${localClockText(now)}  ${way}`);
  return lines.find((line) => width(line) <= columns) ?? cutEnd(lines.at(-1) ?? '', columns);
}

export function countsText({ rows }: Pick<JobList, 'rows'>): string {
  const counts = new Map<string, number>();
  for (const { phase } of rows) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const phases = [...counts].map(([phase, count]) => `${count} ${phase}`);
  return phases.length === 0 ? 'no jobs' : phases.join(', ');
}

/** A text in place of the table, from the line to which it was scrolled, with a last line that says how to go on. */
export function textFrame(
  lines: readonly string[],
  scrolled: number,
  { columns, rows, now }: Pick<Glass, 'columns' | 'rows' | 'now'>,
): { readonly frame: readonly string[]; readonly scrolled: number } {
  const room = Math.max(1, rows - 2);
  const from = Math.min(scrolled, Math.max(0, lines.length - room));
  const shown = lines.slice(from, from + room).map((line) => (width(line) > columns ? cutEnd(line, columns) : line));
  const below = lines.length - from - shown.length;
  const where = lines.length <= room ? '' : `${moreText(from, below)}, j/k scrolls   `;
  const ways = [`${where}Esc goes back to the list   l logs   q leaves`, `${where}Esc back   q leaves`, `${where}Esc`];
  const last = ways.map((way) => `${localClockText(now)}  ${way}`);
  return {
    frame: [...shown, cutEnd(last.find((line) => width(line) <= columns) ?? last.at(-1) ?? '', columns)],
    scrolled: from,
  };
}

const keyWords: readonly (readonly [keys: string, meaning: string])[] = [
  ['j k, arrows', 'the job below, above; in a text, a line'],
  ['g G, Space', 'the first, the last; a page down'],
  ['Enter', 'show: where the job is, its attempts, its workers'],
  ['w', 'why it is in its phase'],
  ['l', 'its logs, followed; q comes back'],
  ['Esc', 'back to the list'],
  ['q, Ctrl-C', 'leave; the jobs go on'],
];

export function keyLines(columns: number): readonly string[] {
  const left = Math.max(...keyWords.map(([keys]) => keys.length));
  return keyWords.flatMap(([keys, meaning]) => {
    const parts = wrap(meaning, Math.max(12, columns - left - 4));
    return parts.map((part, index) => `  ${padEnd(index === 0 ? keys : '', left)}  ${part}`);
  });
}
