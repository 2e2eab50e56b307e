// Why a job is in its phase, as a person reads it: the sentence, then what it rests on and what follows.

import type { Why } from '../../app/client.ts';
import { lengthText } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { wrap } from './cell.ts';
import { inertWord } from './inert.ts';
import { labelled } from './labelled.ts';

export function whyLines(why: Why, columns: number | null, now: Instant, isExplained = false): readonly string[] {
  const sentence = inertWord(why.sentence);
  const head = columns === null ? [sentence] : wrap(sentence, columns);
  return [...head, ...labelled([...whyRows(why, now), ...(isExplained ? [situationRow(why)] : [])], columns)];
}

function situationRow({ situation }: Why): readonly [string, string] {
  if (situation === null) return ['situation', 'none is recorded yet'];
  const { name, means } = situation;
  return ['situation', means === null ? name : `${name}: ${means}`];
}

/** The rows below the sentence, with labels. */
export function whyRows(why: Why, now: Instant): readonly (readonly [string, string])[] {
  const rows: (readonly [string, string])[] = [];
  if (why.because !== null) rows.push(['because', why.because]);
  for (const [index, line] of why.log.entries()) rows.push([index === 0 ? 'log' : '', line]);
  if (why.rule !== null) rows.push(['rule', why.rule]);
  if (why.usually !== null) rows.push(['usually', why.usually]);
  return [...rows, ['next', nextText(why, now)]];
}

/** The next step, in how long, and the next check. The time belongs to the part before the first `;`. */
function nextText({ next, nextAt, lookAt }: Why, now: Instant): string {
  const [first = '', ...others] = next.split('; ');
  const when = nextAt !== null && nextAt > now ? ` (in ${lengthText(nextAt - now)})` : '';
  const look = lookAt !== null && lookAt > now ? [`looked at again in ${lengthText(lookAt - now)}`] : [];
  return [`${first}${when}`, ...others, ...look].join('; ');
}
