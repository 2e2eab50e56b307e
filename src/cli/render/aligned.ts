// Aligned: the rows of a table under their headings.

import { cutEnd, padEnd, padStart, width, wrap } from './cell.ts';

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
