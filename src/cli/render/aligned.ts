// Aligned: the rows of a table under their headings.

import { cutEnd, padEnd, padStart, width, wrap } from './cell.ts';
import { inertWord } from './inert.ts';

/**
 * Rows under their headings, two blanks apart. What does not fit where the terminal ends is cut, or a last column of
 * sentences goes on below its beginning. A line end in a cell is made visible, because what is behind it would look like a row.
 */
export function aligned(
  given: readonly (readonly string[])[],
  sides: readonly ('left' | 'right')[],
  columns: number | null,
  last: 'cut' | 'wrap' = 'cut',
): readonly string[] {
  const rows = given.map((row) => row.map((cell) => cell.replaceAll('\n', String.raw`\x0a`)));
  const sizes = sides.map((_, index) => Math.max(...rows.map((row) => width(row[index] ?? ''))));
  const indent = sizes.slice(0, -1).reduce((sum, size) => sum + size + 2, 0);
  return rows.flatMap((row) => {
    const cells = sides.map((side, index) =>
      (side === 'right' ? padStart : padEnd)(row[index] ?? '', sizes[index] ?? 0),
    );
    const line = cells.join('  ').trimEnd();
    if (columns === null || width(line) <= columns) return [line];
    if (last === 'cut' || columns - indent < leastWrapped) return [cutEnd(line, columns)];
    const [first = '', ...rest] = wrap(row.at(-1) ?? '', columns - indent);
    return [[...cells.slice(0, -1), first].join('  '), ...rest.map((part) => ' '.repeat(indent) + part)];
  });
}

/** A column that is narrower than this is no place for sentences. */
const leastWrapped = 16;

export interface Column<Row> {
  readonly title: string;
  readonly side: 'left' | 'right';
  readonly text: (row: Row) => string;
}

/** One row each. On a terminal that is too narrow whole columns are left out, in the order of these titles, so that no heading is cut. */
export function fittedTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  dropOrder: readonly string[],
  terminal: number | null,
): readonly string[] {
  const linesOf = (shown: readonly Column<Row>[]): readonly string[] =>
    aligned(
      [shown.map(({ title }) => title), ...rows.map((row) => shown.map(({ text }) => inertWord(text(row))))],
      shown.map(({ side }) => side),
      null,
    );
  let shown = columns;
  let lines = linesOf(shown);
  for (const dropped of dropOrder) {
    if (terminal === null || lines.every((line) => width(line) <= terminal)) break;
    shown = shown.filter(({ title }) => title !== dropped);
    lines = linesOf(shown);
  }
  return terminal === null ? lines : lines.map((line) => cutEnd(line, terminal));
}
