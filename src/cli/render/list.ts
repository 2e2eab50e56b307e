import type { JobRow } from '../../app/client.ts';
import { formatAge, escapeLine, formatMachine, formatStatus } from '../../app/format.ts';
import { glyph, stylePhase, type Layout } from '../screen.ts';
import { cutEnd, cutMiddle, padEnd, padStart, width } from './cell.ts';

export interface ListLayout extends Layout {
  readonly bold?: ReadonlySet<string>;
  /** Rows from the first number up to before the second; column widths fit all rows. */
  readonly range?: readonly [number, number];
}

interface Column {
  readonly title: string;
  readonly text: (row: JobRow, layout: ListLayout) => string;
  readonly align?: 'right';
}

const columns = {
  id: { title: 'JOB ID', text: (row) => escapeLine(row.id) },
  user: { title: 'USER', text: (row) => escapeLine(row.owner ?? '-') },
  name: { title: 'NAME', text: (row) => escapeLine(row.name) },
  accelerator: { title: 'ACCELERATOR', text: (row) => escapeLine(formatMachine(row)) },
  zone: { title: 'ZONE', text: (row) => escapeLine(row.zone ?? '-') },
  host: { title: 'HOST', text: (row) => escapeLine(row.worker0Address ?? '-') },
  status: { title: 'STATUS', text: (row, layout) => `${glyph(layout, row.phase)} ${escapeLine(formatStatus(row))}` },
  age: { title: 'AGE', text: (row, layout) => formatAge(layout.now - row.createdAt), align: 'right' },
  reason: { title: 'DETAIL', text: (row) => escapeLine(row.message) },
} as const satisfies Readonly<Record<string, Column>>;

type ColumnName = keyof typeof columns;

/** JOB ID, NAME, STATUS and DETAIL always stay. USER is dropped early only if all rows have the same user. */
function dropOrder(users: number): readonly ColumnName[] {
  return users > 1 ? ['host', 'zone', 'age', 'accelerator', 'user'] : ['host', 'user', 'zone', 'age', 'accelerator'];
}

/** A name and a reason are cut to these widths before a column is dropped. */
const minNameWidth = 16;
const minReasonWidth = 24;
/** From this width on no column is dropped; names and reasons are cut further. */
const wideTerminal = 120;

const narrowTerminal = 60;

export function linesPerJob(columns: number): number {
  return columns < narrowTerminal ? 2 : 1;
}

/** `[]` without rows. Never wider than the terminal. */
export function listLines(rows: readonly JobRow[], layout: ListLayout): readonly string[] {
  if (rows.length === 0) return [];
  const [from, to] = layout.range ?? [0, rows.length];
  if (layout.columns !== null && layout.columns < narrowTerminal)
    return rows.slice(from, to).flatMap((row) => twoLines(row, layout));

  const cells = new Map(
    (Object.entries(columns) as [ColumnName, Column][]).map(([name, { title, text }]) => {
      return [name, [title, ...rows.map((row) => text(row, layout))]] as const;
    }),
  );
  const sizes = [...fitColumns(cells, new Set(rows.map((row) => row.owner)).size, layout.columns)];
  return [0, ...rows.slice(from, to).map((_, index) => from + index + 1)].map((line) => {
    const row = rows[line - 1];
    const shown = sizes.map(([name, size], index) => {
      const { align }: Column = columns[name];
      const cut = (name === 'name' ? cutMiddle : cutEnd)(cells.get(name)?.[line] ?? '', size);
      const padded = align === 'right' ? padStart(cut, size) : index === sizes.length - 1 ? cut : padEnd(cut, size);
      const isStyled = name === 'status' && row !== undefined;
      return styleRow(row, isStyled ? stylePhase(layout.styler, row.phase, padded) : padded, layout);
    });
    return shown.join('  ').trimEnd();
  });
}

function fitColumns(
  cells: ReadonlyMap<ColumnName, readonly string[]>,
  users: number,
  available: number | null,
): ReadonlyMap<ColumnName, number> {
  const widest = (texts: readonly string[]): number => texts.reduce((most, text) => Math.max(most, width(text)), 0);
  const sizes = new Map([...cells].map(([name, texts]) => [name, widest(texts)]));
  if (available === null) return sizes;

  const natural = { name: sizes.get('name') ?? 0, reason: sizes.get('reason') ?? 0 };
  const least = () =>
    total(sizes) -
    natural.name -
    natural.reason +
    Math.min(natural.name, minNameWidth) +
    Math.min(natural.reason, minReasonWidth);
  if (available < wideTerminal) {
    for (const name of dropOrder(users)) {
      if (least() <= available) break;
      sizes.delete(name);
    }
  }
  // The reason is cut first, because it is read from its beginning; a name keeps both of its ends.
  const over = () => total(sizes) - available;
  if (over() > 0) sizes.set('reason', Math.max(Math.min(natural.reason, minReasonWidth), natural.reason - over()));
  if (over() > 0) sizes.set('name', Math.max(Math.min(natural.name, minNameWidth), natural.name - over()));
  if (over() > 0) sizes.set('reason', Math.max(8, (sizes.get('reason') ?? 0) - over()));
  if (over() > 0) sizes.set('name', Math.max(6, (sizes.get('name') ?? 0) - over()));
  if (over() > 0) sizes.set('reason', Math.max(0, (sizes.get('reason') ?? 0) - over()));
  return sizes;
}

function total(sizes: ReadonlyMap<ColumnName, number>): number {
  return [...sizes.values()].reduce((sum, size) => sum + size, 0) + 2 * (sizes.size - 1);
}

/** For terminals that are too narrow for a table. */
function twoLines(row: JobRow, layout: ListLayout): readonly string[] {
  const most = layout.columns ?? Number.POSITIVE_INFINITY;
  const age = formatAge(layout.now - row.createdAt);
  const id = escapeLine(row.id);
  const name = cutMiddle(escapeLine(row.name), most - id.length - age.length - 4);
  const first = padEnd(`${id}  ${name}`, most - age.length) + age;
  const status = cutEnd(columns.status.text(row, layout), most - 2);
  const reason = cutEnd(escapeLine(row.message), most - 4 - width(status));
  const styled = stylePhase(layout.styler, row.phase, status);
  const rest = reason === '' ? '' : `  ${styleRow(row, reason, layout)}`;
  return [styleRow(row, first, layout), `  ${styleRow(row, styled, layout)}${rest}`];
}

/** Cell by cell, because the style of a phase switches bold off at its end. */
function styleRow(row: JobRow | undefined, text: string, { bold, styler }: ListLayout): string {
  return row !== undefined && bold?.has(row.id) === true ? styler('bold', text) : text;
}
