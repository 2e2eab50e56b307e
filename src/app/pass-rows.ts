// The recorded passes of the controller: each as a title with labelled sentences, and all in a sentence. The same in `replay` and
// on the page of a job.

import type { PassDifference, PassList, PassView } from './client.ts';
import { formatDuration, formatTimeOfDay, pluralize } from './format.ts';

/** For `--decide`. `version`: the one that decided again. */
export function summarizePasses({ passes, readable }: PassList, version: string): string {
  if (readable === 0) return 'No pass is recorded that can be decided again.';
  const decided = pluralize(readable, 'recorded pass', 'recorded passes');
  return passes.length === 0
    ? `Version ${version} makes the same decision in ${decided}.`
    : `Version ${version} decides differently in ${passes.length} of ${decided}.`;
}

/** Null if the inputs of all passes can be read. */
export function unreadableNote({ unreadable }: PassList): string | null {
  if (unreadable === 0) return null;
  const passes = pluralize(unreadable, 'pass', 'passes');
  return `The inputs of ${passes} cannot be read: another version of jobman recorded them or changed the job after them.`;
}

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
