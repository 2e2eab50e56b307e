// Rows that part one attempt's log from the next one's, so that nobody takes two lives of a program for one.

import type { AttemptView, JobView } from '../../app/client.ts';
import { countText, lengthText, momentText } from '../../app/figures.ts';
import { evidenceText } from '../../app/phrases.ts';
import { reasonWords } from '../../app/reason-words.ts';
import type { WorkerId } from '../../core/spec.ts';
import type { Instant } from '../../core/time.ts';
import { workersLabel } from '../logs/fold.ts';
import { inertWord } from '../render/inert.ts';

/** Of what came before, so many attempts have a row of their own. */
const mostBefore = 3;

/** `attempt 3, stage 2, workers 0-3`: whose lines follow. */
export function attemptText({ attempt, stage }: AttemptView, workers: readonly WorkerId[]): string {
  return [`attempt ${attempt}`, ...(stage === 0 ? [] : [`stage ${stage}`]), ...placesText(workers)].join(', ');
}

/** The same when its log begins behind that of another: how long nothing ran in between. */
export function beginsText(
  view: Pick<JobView, 'attempts'>,
  attempt: AttemptView,
  workers: readonly WorkerId[],
): string {
  const before = view.attempts.findLast((one) => one.attempt < attempt.attempt);
  const ended = before?.ending ?? before?.ended ?? null;
  const { started } = attempt;
  const gap =
    ended === null || started === null ? '' : `, ${lengthText(started - ended)} after attempt ${before?.attempt}`;
  return `${attemptText(attempt, workers)}${gap}`;
}

/**
 * What became of the attempts before this one, a row each: somebody who comes back in the third does not know of the first
 * two. Of many, the newest.
 */
export function beforeTexts(view: Pick<JobView, 'id' | 'attempts'>, attempt: number, now: Instant): readonly string[] {
  const before = view.attempts.filter((one) => one.attempt < attempt && one.reason !== null);
  const told = before.slice(-mostBefore).map((one) => inertWord(endText(one, now)));
  const more = before.length - told.length;
  return more === 0 ? told : [`${countText(more, 'attempt')} before these: jobman history ${Number(view.id)}`, ...told];
}

/** `attempt 1 ran 2h38m until 20 Nov 22:31:07 UTC: preempted; the cloud took it`. */
function endText({ attempt, started, ending, ended, reason, evidence }: AttemptView, now: Instant): string {
  const end = ending ?? ended;
  const ran = started === null || end === null ? 'did not run' : `ran ${lengthText(end - started)}`;
  const until = end === null ? '' : ` until ${momentText(end, now)}`;
  const because = evidence === null ? '' : evidenceText(evidence);
  return `attempt ${attempt} ${ran}${until}: ${reason === null ? '' : reasonWords[reason]}${because === '' ? '' : `; ${because}`}`;
}

function placesText(workers: readonly WorkerId[]): readonly string[] {
  if (workers.length === 0) return [];
  if (workers.length === 1 && workers[0] === 'here') return ['on this machine'];
  return [`${workers.length === 1 ? 'worker' : 'workers'} ${workersLabel(workers)}`];
}
