// Tidy: which windows may leave a user's list. Pure. What is cleared stays in the record; but what a running job was resumed from
// stays on the list as well, because people would look for it there.

import { isSettledPhase, type Phase } from '../core/phase.ts';
import type { LabAttempt } from './record.ts';
import type { LabJob } from './windows.ts';

/** What has become of a job and of all that came of it. */
export type Fate = 'live' | 'finished' | 'failed' | 'killed';

/** Which of them are to leave the list. */
export type Which = 'all' | 'finished' | 'failed';

/** What is known of the user's jobs. */
export interface UserJobs {
  readonly jobs: readonly LabJob[];
  /** The phase of a job; null for one that was deleted. */
  readonly phaseOf: (job: string) => Phase | null;
}

/**
 * The fate of each job. One that was resumed or begun again on another TPU is judged by the newest that came of it, and is
 * live as long as any of them is.
 */
export function fatesOf({ jobs, phaseOf }: UserJobs): (job: string) => Fate {
  const children = new Map<string, string[]>();
  for (const { job, father } of jobs) {
    if (father !== null) children.set(father.job, [...(children.get(father.job) ?? []), job]);
  }
  const fate = (job: string, passed: ReadonlySet<string>): Fate => {
    const phase = phaseOf(job);
    if (phase !== null && !isSettledPhase(phase)) return 'live';
    // An import may have brought two jobs that each call the other their father.
    const after = (children.get(job) ?? []).filter((one) => !passed.has(one));
    const fates = after.map((one) => fate(one, new Set([...passed, one])));
    if (fates.includes('live')) return 'live';
    return fates.at(-1) ?? (phase === 'succeeded' ? 'finished' : phase === 'failed' ? 'failed' : 'killed');
  };
  return (job) => fate(job, new Set([job]));
}

/** Those attempts whose work went on in another: a later attempt of the same job, or a job that came of it. */
export function wentOn({ jobs }: Pick<UserJobs, 'jobs'>, windows: readonly LabAttempt[]): (one: LabAttempt) => boolean {
  const newest = new Map<string, number>();
  for (const { window } of windows) newest.set(window.job, Math.max(window.attempt, newest.get(window.job) ?? 0));
  const fathers = new Set(jobs.flatMap(({ father }) => (father === null ? [] : [father.job])));
  return ({ window }) => fathers.has(window.job) || window.attempt < (newest.get(window.job) ?? 0);
}

/** The windows that leave the list. `resumed`: those whose work went on in another as well, whatever became of it (`-re`). */
export function toClear(
  user: UserJobs,
  windows: readonly LabAttempt[],
  { which, resumed }: { readonly which: Which; readonly resumed: boolean },
): readonly LabAttempt[] {
  const fateOf = fatesOf(user);
  const hasGoneOn = wentOn(user, windows);
  return windows.filter((one) => {
    if (resumed && hasGoneOn(one)) return true;
    const fate = fateOf(one.window.job);
    return fate !== 'live' && (which === 'all' || which === fate);
  });
}
