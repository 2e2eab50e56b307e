// The end of a job in one line.

import type { JobView } from '../../app/client.ts';
import { lengthText } from '../../app/figures.ts';
import { endText } from '../../app/phrases.ts';
import type { Instant } from '../../core/time.ts';
import { inertWord } from '../render/inert.ts';

/** `000042 vit-l16 failed after 2h05m: exit 1 on worker 3; its log says "…". jobman why 42 says more.` */
export function verdictLine(view: JobView): string {
  // It ended after that time; what it holds on purpose (`, holds v4-16`), it holds now.
  const holds = view.status.slice(view.phase.length);
  const end = `${view.id} ${view.name} ${view.phase} after ${lengthText(view.since - wantedSince(view))}${holds}`;
  if (view.phase === 'succeeded') return inertWord(end);
  const { evidence = null, reason = null } = view.attempts.at(-1) ?? {};
  const because = evidence === null || reason === null ? view.reason : endText(view, { reason, evidence });
  const more = view.phase === 'failed' ? `. \`jobman why ${Number(view.id)}\` says more.` : '';
  return inertWord(`${end}${because === '' ? '' : `: ${because}`}${more}`);
}

/** Since when it was to run: a job that was stopped last week and resumed today did not take a week. */
function wantedSince({ attempts, createdAt }: JobView): Instant {
  const newest = attempts.findLast(({ asked }) => asked);
  return newest === undefined || newest.attempt === 1 ? createdAt : newest.created;
}
