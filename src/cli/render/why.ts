// Why a job is in its phase, as a person reads it: the sentence, then what it rests on and what follows.

import type { Why } from '../../app/client.ts';
import { lengthText } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { wrap } from './cell.ts';
import { inertWord } from './inert.ts';
import { labelled } from './show.ts';

export function whyLines(why: Why, columns: number | null, now: Instant): readonly string[] {
  const sentence = inertWord(why.sentence);
  const rows: (readonly [string, string])[] = [];
  if (why.because !== null) rows.push(['because', why.because]);
  if (why.rule !== null) rows.push(['rule', why.rule]);
  rows.push([
    'next',
    why.nextAt !== null && why.nextAt > now ? `${why.next} (in ${lengthText(why.nextAt - now)})` : why.next,
  ]);
  const head = columns === null ? [sentence] : wrap(sentence, columns);
  return [...head, ...labelled(rows, columns)];
}
