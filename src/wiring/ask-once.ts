// One question for all who ask at the same moment: 64 workers of a job are one job, in one cloud.

import type { Duration } from '../core/time.ts';

/** Asks, and answers whoever asks the same within that time with the same answer. A failure is not remembered. */
export function askOnce<Answer>(
  ask: (about: string) => Promise<Answer>,
  within: Duration,
): (about: string) => Promise<Answer> {
  const answers = new Map<string, { readonly at: number; readonly answer: Promise<Answer> }>();
  return (about) => {
    const before = answers.get(about);
    if (before !== undefined && performance.now() - before.at < within) return before.answer;
    const answer = ask(about);
    answers.set(about, { at: performance.now(), answer });
    answer.catch(() => answers.delete(about));
    return answer;
  };
}
