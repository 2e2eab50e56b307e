// The check of a draft while a person types: the problems of the manifest, then the plan of its job. The server finds both, with
// the sentences of the commands.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ManifestAnswer, Plan } from '../../app/client.ts';
import { JobmanError, type ManifestProblem } from '../../app/errors.ts';
import { quotaLeftFor, quotaWarningsFor } from '../../app/new-job.ts';
import type { Duration } from '../../core/model/time.ts';
import { client, errorLines, session } from '../session.ts';

/** The name of the file from which the command of the page creates the same job. */
export const manifestFile = 'job.yaml';

export interface Check {
  /** The text that was checked. */
  readonly text: string;
  readonly problems: readonly ManifestProblem[];
  /** The spec, with the text to store; null with a problem or a failure. */
  readonly read: Extract<ManifestAnswer, { readonly kind: 'spec' }> | null;
  /** Null before it is known. */
  readonly plan: Plan | null;
  readonly quotaWarnings: readonly string[];
  readonly quotaLeft: readonly string[];
  /** The error of the check, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
}

/** After the last key. */
const delay: Duration = 300;

/** The newest check, whose `text` may be older than `text`; null before the first. `again` repeats it. */
export function useCheck(text: string | null): { readonly check: Check | null; readonly again: () => void } {
  const state = useSignal<Check | null>(null);
  const turn = useSignal(0);
  const isOpen = session.value.kind === 'open';
  useEffect(() => {
    if (text === null || !isOpen) return undefined;
    let isOver = false;
    const show = (next: Check): boolean => {
      if (!isOver) state.value = next;
      return !isOver;
    };
    const start = setTimeout(() => void check(text, show), state.peek() === null ? 0 : delay);
    return () => {
      isOver = true;
      clearTimeout(start);
    };
  }, [text, isOpen, turn.value]);
  return { check: state.value, again: () => (turn.value += 1) };
}

/** `show` returns false once another check has begun. */
async function check(text: string, show: (next: Check) => boolean): Promise<void> {
  const found = await readText(text);
  if (!show(found) || found.read === null) return;
  const { spec } = found.read;
  const [plan, quotaWarnings, quotaLeft] = await Promise.allSettled([
    client.plan(spec),
    quotaWarningsFor(client, spec),
    quotaLeftFor(client, spec),
  ]);
  show({
    ...found,
    plan: plan.status === 'fulfilled' ? plan.value : null,
    failure: plan.status === 'fulfilled' ? null : errorLines(plan.reason),
    quotaWarnings: quotaWarnings.status === 'fulfilled' ? quotaWarnings.value : [],
    quotaLeft: quotaLeft.status === 'fulfilled' ? quotaLeft.value : errorLines(quotaLeft.reason).slice(0, 1),
  });
}

async function readText(text: string): Promise<Check> {
  const none = { text, problems: [], read: null, plan: null, quotaWarnings: [], quotaLeft: [], failure: null };
  try {
    const answer = await client.readManifest({ text, file: manifestFile });
    return { ...none, read: answer.kind === 'spec' ? answer : null };
  } catch (error) {
    const problems = error instanceof JobmanError ? error.problems : [];
    return problems.length > 0 ? { ...none, problems } : { ...none, failure: errorLines(error) };
  }
}
