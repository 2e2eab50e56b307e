import { cutEnd, hangingIndent, padEnd, padStart, width, wrap } from './cell.ts';
import { escapeLine } from '../../app/format.ts';
import type { ReportColumn } from '../../app/report-columns.ts';

/** A line end in a cell is made visible: the text behind it would look like a row. */
export function aligned(
  given: readonly (readonly string[])[],
  sides: readonly ('left' | 'right')[],
  columns: number | null,
  last: 'cut' | 'wrap' = 'cut',
): readonly string[] {
  const rows = given.map((row) => row.map((cell) => cell.replaceAll('\n', String.raw`\x0a`)));
  const sizes = sides.map((_, index) =>
    Math.max(0, ...rows.map((row) => width(row[index] ?? '')).filter((size) => size <= maxPadding)),
  );
  const indent = sizes.slice(0, -1).reduce((sum, size) => sum + size + 2, 0);
  return rows.flatMap((row) => {
    const cells = sides.map((side, index) =>
      (side === 'right' ? padStart : padEnd)(row[index] ?? '', sizes[index] ?? 0),
    );
    const line = cells.join('  ').trimEnd();
    if (columns === null || width(line) <= columns) return [line];
    if (last === 'cut' || columns - indent < minWrappedWidth) return [cutEnd(line, columns)];
    const [first = '', ...rest] = wrap(row.at(-1) ?? '', columns - indent);
    return [[...cells.slice(0, -1), first].join('  '), ...rest.map((part) => ' '.repeat(indent) + part)];
  });
}

const minWrappedWidth = 16;
/** A cell may be the JSON of 200 hosts: only its own row is longer then. */
const maxPadding = 240;

export type Column<Row> = Pick<ReportColumn<Row>, 'title' | 'side' | 'text'>;

/**
 * A narrow terminal loses whole columns, in the order of `dropOrder`, so that no heading is cut. A line that is still too
 * long is cut, or its last cell is wrapped.
 */
export function fittedTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  dropOrder: readonly string[],
  terminal: number | null,
  last: 'cut' | 'wrap' = 'cut',
): readonly string[] {
  const linesOf = (shown: readonly Column<Row>[], most: number | null): readonly string[] =>
    aligned(
      [shown.map(({ title }) => title), ...rows.map((row) => shown.map(({ text }) => escapeLine(text(row))))],
      shown.map(({ side }) => side ?? 'left'),
      most,
      last,
    );
  let shown = columns;
  for (const dropped of dropOrder) {
    if (terminal === null || linesOf(shown, null).every((line) => width(line) <= terminal)) break;
    shown = shown.filter(({ title }) => title !== dropped);
  }
  return linesOf(shown, terminal);
}

export function labelled(rows: readonly (readonly [string, string])[], columns: number | null): readonly string[] {
  const indent = ' '.repeat(labelWidth);
  return rows.flatMap(([label, text]) => {
    const clean = escapeLine(text.replaceAll('\n', ' '));
    const shown = columns === null ? [clean] : wrap(clean, columns - labelWidth);
    return shown.map((line, index) => (index === 0 ? padEnd(label, labelWidth) : indent) + line);
  });
}

const labelWidth = 10;

export function inColumns(rows: readonly (readonly [string, string])[], columns: number | null): string[] {
  const left = Math.max(...rows.map(([first]) => width(first)).filter((size) => size <= 48), 0);
  return rows.flatMap(([first, second]) => {
    const isLong = width(first) > left;
    const front = isLong ? `  ${' '.repeat(left)}  ` : `  ${padEnd(first, left)}  `;
    const lines = columns === null ? [`${front}${second}`.trimEnd()] : hangingIndent(front, second, columns);
    return isLong ? [`  ${first}`, ...lines] : lines;
  });
}
