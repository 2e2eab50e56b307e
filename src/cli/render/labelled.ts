// Labels with their sentences, as `show`, `why` and the plan set them.

import { padEnd, wrap } from './cell.ts';
import { inertWord } from './inert.ts';

/** `label     text` lines; a text that is too long goes on below its beginning. */
export function labelled(rows: readonly (readonly [string, string])[], columns: number | null): readonly string[] {
  const indent = ' '.repeat(labelWidth);
  return rows.flatMap(([label, text]) => {
    const clean = inertWord(text.replaceAll('\n', ' '));
    const shown = columns === null ? [clean] : wrap(clean, columns - labelWidth);
    return shown.map((line, index) => (index === 0 ? padEnd(label, labelWidth) : indent) + line);
  });
}

const labelWidth = 10;
