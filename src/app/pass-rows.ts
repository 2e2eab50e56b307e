// A recorded pass of the controller as a title with labelled sentences, the same in `replay` and on the page of a job.

import type { PassDifference, PassView } from './client.ts';
import { formatDuration, formatTimeOfDay, pluralize } from './format.ts';

export interface PassRows {
  /** The situation; for a command its sentence. */
  readonly title: string;
  /** Null without a description. */
  readonly description: string | null;
  readonly rows: readonly (readonly [label: string, texts: readonly string[]])[];
}

/** A row may have no text. */
export function passRows(pass: PassView): PassRows {
  const { situation, description, seen, decided, repeats, repeatedAt, recorded, differences } = pass;
  const [first = '', ...others] = decided;
  return {
    title: situation ?? first,
    description: situation === null ? null : description,
    rows:
      differences.length > 0
        ? [['saw', seen], ...differences.flatMap(differenceRows)]
        : [
            ['saw', seen],
            ['decided', situation === null ? others : decided],
            ['next', recorded === null ? [] : [nextOf(pass)]],
            [
              'then',
              repeats === 0
                ? []
                : [
                    `the same in ${pluralize(repeats, 'more pass', 'more passes')}${repeatedAt === null ? '' : `, until ${formatTimeOfDay(repeatedAt)}`}`,
                  ],
            ],
          ],
  };
}

function nextOf({ at, nextAt }: PassView): string {
  if (nextAt === null) return 'nothing until a command';
  return nextAt <= at ? 'a check at once' : `a check in ${formatDuration(nextAt - at)}`;
}

function differenceRows({ part, recorded, today }: PassDifference): readonly (readonly [string, readonly string[]])[] {
  const orNothing = (texts: readonly string[]) => (texts.length === 0 ? ['nothing'] : texts);
  const label = part === 'wakeAt' ? 'next' : part;
  return [
    ['recorded', orNothing(recorded).map((text) => `${label}: ${text}`)],
    ['today', orNothing(today).map((text) => `${label}: ${text}`)],
  ];
}
