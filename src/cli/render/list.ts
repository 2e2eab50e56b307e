// The table of jobs. Rows come from app/views.ts; here they are only made to fit.

import type { JobRow } from '../../app/client.ts';
import { ageText, inertWord } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { glyph, inPhaseStyle, type Ink } from '../screen.ts';
import { cutEnd, cutMiddle, padEnd, padStart, width } from './cell.ts';

export interface ListLayout {
  /** Columns of the terminal; null where there is none: then nothing is cut and no column is left out. */
  readonly columns: number | null;
  readonly ink: Ink;
  readonly unicode: boolean;
  readonly now: Instant;
  readonly bold?: ReadonlySet<string>;
  /** Only the rows from the first number up to before the second are written; columns are as wide as all of them need. */
  readonly only?: readonly [number, number];
}

interface Column {
  readonly title: string;
  readonly text: (row: JobRow, layout: ListLayout) => string;
  readonly align?: 'right';
}

const columns = {
  id: { title: 'JOB ID', text: (row) => inertWord(row.id) },
  user: { title: 'USER', text: (row) => inertWord(row.user) },
  name: { title: 'NAME', text: (row) => inertWord(row.name) },
  accelerator: { title: 'ACCELERATOR', text: (row) => inertWord(row.accelerator) },
  zone: { title: 'ZONE', text: (row) => inertWord(row.zone ?? '-') },
  host0: { title: 'HOST0 IP', text: (row) => inertWord(row.host0 ?? '-') },
  status: { title: 'STATUS', text: (row, layout) => `${glyph(layout, row.phase)} ${inertWord(row.status)}` },
  age: { title: 'AGE', text: (row, layout) => ageText(layout.now - row.createdAt), align: 'right' },
  reason: { title: 'REASON', text: (row) => inertWord(row.reason) },
} as const satisfies Readonly<Record<string, Column>>;

type ColumnName = keyof typeof columns;

/**
 * Left out in this order when a terminal is too narrow; JOB ID, NAME, STATUS and REASON always stay. USER goes early only
 * where it says nothing because all rows are of one.
 */
function dropOrder(users: number): readonly ColumnName[] {
  return users > 1 ? ['host0', 'zone', 'age', 'accelerator', 'user'] : ['host0', 'user', 'zone', 'age', 'accelerator'];
}

/** A name and a reason are cut to this before a whole column is left out. */
const nameLeast = 16;
const reasonLeast = 24;
/** From this width on nothing is left out: names and reasons are cut further instead. */
const wideTerminal = 120;

const narrowTerminal = 60;

export function linesPerJob(columns: number): number {
  return columns < narrowTerminal ? 2 : 1;
}

/** The lines of the table, a heading first; `[]` for no rows. Never wider than the terminal. */
export function listLines(rows: readonly JobRow[], layout: ListLayout): readonly string[] {
  if (rows.length === 0) return [];
  const [from, to] = layout.only ?? [0, rows.length];
  if (layout.columns !== null && layout.columns < narrowTerminal)
    return rows.slice(from, to).flatMap((row) => twoLines(row, layout));

  const cells = new Map<ColumnName, Cells>();
  for (const [name, column] of Object.entries(columns) as [ColumnName, Column][]) {
    cells.set(name, cellsOf([column.title, ...rows.map((row) => column.text(row, layout))]));
  }
  const sizes = fit(cells, new Set(rows.map((row) => row.user)).size, layout.columns);
  const shown = [...sizes].map(([name, size], index) => ({
    name,
    texts: cells.get(name)?.texts ?? [],
    padded: padding(name, size, cells.get(name)?.isEven === true, index === sizes.size - 1),
  }));

  return [0, ...rows.slice(from, to).map((_, index) => from + index + 1)].map((line) => {
    const row = rows[line - 1];
    let text = '';
    for (const { name, texts, padded } of shown) {
      const cell = padded(texts[line] ?? '');
      const styled = name === 'status' && row !== undefined ? inPhaseStyle(layout.ink, row.phase, cell) : cell;
      text += (text === '' ? '' : '  ') + inRow(row, styled, layout);
    }
    return text.trimEnd();
  });
}

interface Cells {
  readonly texts: readonly string[];
  readonly widest: number;
  /** Each text takes as many columns as it has letters, which nearly all do. */
  readonly isEven: boolean;
}

function cellsOf(texts: readonly string[]): Cells {
  let [widest, isEven, before] = [0, true, ''];
  for (const text of texts) {
    // Of thousands of jobs most have in each column what the one before has.
    if (text === before) continue;
    before = text;
    const size = width(text);
    if (size > widest) widest = size;
    isEven &&= size === text.length;
  }
  return { texts, widest, isEven };
}

/** Makes a text of that column fit. Of thousands of rows most cells need nothing looked at again. */
function padding(name: ColumnName, size: number, isEven: boolean, isLast: boolean): (text: string) => string {
  const isRight = (columns[name] as Column).align === 'right';
  let before: string | undefined;
  let made = '';
  const fitted = (text: string): string => {
    if (isEven && text.length <= size) return isRight ? text.padStart(size) : isLast ? text : text.padEnd(size);
    const cell = cut(name, text, size);
    return isRight ? padStart(cell, size) : isLast ? cell : padEnd(cell, size);
  };
  return (text) => {
    if (text !== before) [before, made] = [text, fitted(text)];
    return made;
  };
}

function fit(
  cells: ReadonlyMap<ColumnName, Cells>,
  users: number,
  available: number | null,
): ReadonlyMap<ColumnName, number> {
  const sizes = new Map([...cells].map(([name, { widest }]) => [name, widest]));
  if (available === null) return sizes;

  const natural = { name: sizes.get('name') ?? 0, reason: sizes.get('reason') ?? 0 };
  const least = () =>
    total(sizes) -
    natural.name -
    natural.reason +
    Math.min(natural.name, nameLeast) +
    Math.min(natural.reason, reasonLeast);
  if (available < wideTerminal) {
    for (const name of dropOrder(users)) {
      if (least() <= available) break;
      sizes.delete(name);
    }
  }
  // A reason is read from its beginning, so it gives way first; a name keeps both of its ends.
  const over = () => total(sizes) - available;
  if (over() > 0) sizes.set('reason', Math.max(Math.min(natural.reason, reasonLeast), natural.reason - over()));
  if (over() > 0) sizes.set('name', Math.max(Math.min(natural.name, nameLeast), natural.name - over()));
  if (over() > 0) sizes.set('reason', Math.max(8, (sizes.get('reason') ?? 0) - over()));
  if (over() > 0) sizes.set('name', Math.max(6, (sizes.get('name') ?? 0) - over()));
  if (over() > 0) sizes.set('reason', Math.max(0, (sizes.get('reason') ?? 0) - over()));
  return sizes;
}

function total(sizes: ReadonlyMap<ColumnName, number>): number {
  return [...sizes.values()].reduce((sum, size) => sum + size, 0) + 2 * (sizes.size - 1);
}

function cut(name: ColumnName, text: string, size: number): string {
  return name === 'name' ? cutMiddle(text, size) : cutEnd(text, size);
}

/** `000042  vit-l16-3e4` above `> running  2h05m, 2 preemptions`, for terminals that hold no table. */
function twoLines(row: JobRow, layout: ListLayout): readonly string[] {
  const most = layout.columns ?? Number.POSITIVE_INFINITY;
  const age = ageText(layout.now - row.createdAt);
  const id = inertWord(row.id);
  const name = cutMiddle(inertWord(row.name), most - id.length - age.length - 4);
  const first = padEnd(`${id}  ${name}`, most - age.length) + age;
  const status = cutEnd(columns.status.text(row, layout), most - 2);
  const reason = cutEnd(inertWord(row.reason), most - 4 - width(status));
  const styled = inPhaseStyle(layout.ink, row.phase, status);
  const rest = reason === '' ? '' : `  ${inRow(row, reason, layout)}`;
  return [inRow(row, first, layout), `  ${inRow(row, styled, layout)}${rest}`];
}

/** Cell by cell, because the style of a phase switches bold off at its end. */
function inRow(row: JobRow | undefined, text: string, { bold, ink }: ListLayout): string {
  return row !== undefined && bold?.has(row.id) === true ? ink('bold', text) : text;
}
