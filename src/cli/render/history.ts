// Events of a job, a line each.

import { clockText, dateText, lengthText, stampText } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { hanging, padStart } from './cell.ts';
import { inertWord } from './inert.ts';

/**
 * On a terminal of so many columns: the time of day, how long after the event before, and the sentence, under a line for each new day.
 * Elsewhere every line has its whole time, so that lines can be sorted and searched.
 */
export function historyLines(
  events: readonly { readonly at: Instant; readonly sentence: string }[],
  columns: number | null,
  now: Instant,
): readonly string[] {
  if (columns === null) return events.map(({ at, sentence }) => `${stampText(at)}  ${inertWord(sentence)}`);

  const lines: string[] = [];
  let before: Instant | undefined;
  for (const { at, sentence } of events) {
    if (before === undefined || dateText(before, now) !== dateText(at, now)) lines.push(`${dateText(at, now)}, UTC`);
    const later = before === undefined || at - before < 1_000 ? '' : `+${lengthText(at - before)}`;
    const front = `${clockText(at)}  ${padStart(later, 7)}  `;
    lines.push(...hanging(front, inertWord(sentence), columns));
    before = at;
  }
  return lines;
}
