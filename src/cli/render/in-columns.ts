// In columns: the lists and sentences of a help.

import { hanging, padEnd, width, wrap } from './cell.ts';

/** Sentences as the table breaks them, or on a terminal as its width does. */
export function fitted(text: string, columns: number | null): readonly string[] {
  return columns === null || width(text) <= columns ? [text] : wrap(text.replaceAll('\n', ' '), columns);
}

/** Rows of a word and its meaning. Without `columns` no line is broken. */
export function inColumns(rows: readonly (readonly [string, string])[], columns: number | null): string[] {
  const left = Math.max(...rows.map(([first]) => width(first)).filter((size) => size <= 48), 0);
  return rows.flatMap(([first, second]) => {
    // A first part that is longer than the column has its meaning on the next line.
    const isLong = width(first) > left;
    const front = isLong ? `  ${' '.repeat(left)}  ` : `  ${padEnd(first, left)}  `;
    const lines = columns === null ? [`${front}${second}`.trimEnd()] : hanging(front, second, columns);
    return isLong ? [`  ${first}`, ...lines] : lines;
  });
}
