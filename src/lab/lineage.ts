// Lineage: which attempts an attempt continues. A resume or rerun on the same TPU is the next attempt of its job, one on another
// TPU is the first attempt of a job that names its father. Both make one line: what `tpu check` shows as `12 < 11 < 9`, and what a
// program loads.

import type { JobView } from '../app/client.ts';
import type { Attempt } from '../core/job.ts';
import { isSettledPhase, type Phase } from '../core/phase.ts';
import type { LabAttempt, LabJob, LabRecord, LabWindow, WindowReport } from './record.ts';

export interface AttemptName {
  readonly job: string;
  readonly attempt: number;
}

/** All that lines are read from: jobs with their fathers' fathers, and the windows of all of them, cleared ones too. */
export interface Families {
  readonly jobs: ReadonlyMap<string, LabJob>;
  /** By `nameOf`. */
  readonly windows: ReadonlyMap<string, LabWindow>;
}

/** The part of a job that lines need, from its record or from its view. */
export interface Tries {
  readonly attempts: readonly Pick<Attempt, 'how' | 'asked' | 'stage' | 'startedAt'>[];
}

export function triesOf(view: Pick<JobView, 'attempts'> | undefined): Tries | null {
  if (view === undefined) return null;
  return {
    attempts: view.attempts.map(({ asked, how, stage, started }) => ({ asked, how, stage, startedAt: started })),
  };
}

/** `000042/3`. */
export function nameOf({ job, attempt }: AttemptName): string {
  return `${job}/${attempt}`;
}

/** Those jobs, everything that they come from, and the windows of all. `read`, all windows of some of them, are not read again. */
export async function familiesOf(
  record: LabRecord,
  jobs: readonly LabJob[],
  read: readonly LabAttempt[] = [],
): Promise<Families> {
  const known = new Map(jobs.map((job) => [job.job, job]));
  for (let wanted = fathersIn(known); wanted.length > 0; wanted = fathersIn(known)) {
    const found = await Promise.all(wanted.map((job) => record.job(job)));
    const there = found.filter((job) => job !== null);
    if (there.length === 0) break;
    for (const job of there) known.set(job.job, job);
  }
  const done = new Set(read.map(({ job }) => job.job));
  const missing = [...known.keys()].filter((job) => !done.has(job));
  const others = missing.length === 0 ? [] : await record.windows({ jobs: missing, cleared: true });
  return { jobs: known, windows: new Map([...read, ...others].map(({ window }) => [nameOf(window), window])) };
}

function fathersIn(known: ReadonlyMap<string, LabJob>): readonly string[] {
  const fathers = [...known.values()].flatMap(({ father }) => (father === null ? [] : [father.job]));
  return [...new Set(fathers)].filter((job) => !known.has(job));
}

export function lineOf({ jobs }: Pick<Families, 'jobs'>, { job, attempt }: AttemptName): readonly AttemptName[] {
  const line: AttemptName[] = [];
  const passed = new Set<string>();
  for (let next: AttemptName | null = { job, attempt }; next !== null && !passed.has(next.job);) {
    // An import may have brought two jobs that each call the other their father.
    passed.add(next.job);
    for (let one: number = next.attempt; one > 0; one -= 1) line.push({ job: next.job, attempt: one });
    next = jobs.get(next.job)?.father ?? null;
  }
  return line;
}

/**
 * The part of its line whose work that attempt continues, the newest first and itself included, back to where the work began
 * from the start: what was saved before a rerun is no part of it. A job that is gone ends it.
 */
export function workOf(
  { jobs }: Pick<Families, 'jobs'>,
  { job, attempt }: AttemptName,
  jobOf: (job: string) => Tries | null,
): readonly AttemptName[] {
  const work: AttemptName[] = [];
  const passed = new Set<string>();
  for (let next: AttemptName | null = { job, attempt }; next !== null && !passed.has(next.job);) {
    passed.add(next.job);
    const { attempts } = jobOf(next.job) ?? { attempts: [] };
    const first = firstOfWork(attempts, next.attempt);
    for (let one: number = next.attempt; one >= first; one -= 1) work.push({ job: next.job, attempt: one });
    const father: LabJob['father'] = first === 1 ? (jobs.get(next.job)?.father ?? null) : null;
    next = father !== null && father.how === 'resume' ? father : null;
  }
  return work;
}

/**
 * The first attempt, within its job, of the work that an attempt continues. An attempt that never started saved nothing: a later
 * resume continues what ran before it, even over a rerun, and a rule that replaces it makes the same attempt again.
 */
function firstOfWork(attempts: Tries['attempts'], ordinal: number): number {
  const hasStarted = (one: number): boolean => (attempts[one - 1]?.startedAt ?? null) !== null;
  let first = ordinal;
  while (first > 1) {
    const attempt = attempts[first - 1];
    const isReplacement = attempt?.how === 'fresh' && !attempt.asked && !hasStarted(first - 1);
    if (attempt?.how !== 'resume' && !isReplacement) return first;
    first -= 1;
    while (attempt.how === 'resume' && first > 1 && !hasStarted(first)) first -= 1;
  }
  return first;
}

export function newestReport(
  { windows }: Pick<Families, 'windows'>,
  line: readonly AttemptName[],
): (AttemptName & { readonly report: WindowReport }) | null {
  for (const one of line) {
    const report = windows.get(nameOf(one))?.report ?? null;
    if (report !== null) return { ...one, report };
  }
  return null;
}

/**
 * The number of resumes of that attempt's work (`--config.stage`). A job resumed on another TPU counts on from its father;
 * whatever began from the start counts from 0.
 */
export function stageOf(labJob: Pick<LabJob, 'baseStage'>, { attempts }: Tries, ordinal: number): number {
  return (firstOfWork(attempts, ordinal) === 1 ? labJob.baseStage : 0) + (attempts[ordinal - 1]?.stage ?? 0);
}

/** The newest of these windows of each job, in the order of the jobs' first windows. */
export function newestOf(windows: readonly LabAttempt[]): ReadonlyMap<string, LabAttempt> {
  const newest = new Map<string, LabAttempt>();
  for (const one of windows) {
    const before = newest.get(one.window.job);
    if (before === undefined || before.window.attempt < one.window.attempt) newest.set(one.window.job, one);
  }
  return newest;
}

export type Fate = 'live' | 'finished' | 'failed' | 'killed';

export type Which = 'all' | 'finished' | 'failed';

export interface UserJobs {
  readonly jobs: readonly LabJob[];
  /** The phase of a job; null for one that was deleted. */
  readonly phaseOf: (job: string) => Phase | null;
}

/** The fate of each job. One that went on elsewhere is judged by the newest that came of it, and is live while any of them is. */
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

export function wentOn({ jobs }: Pick<UserJobs, 'jobs'>, windows: readonly LabAttempt[]): (one: LabAttempt) => boolean {
  const newest = newestOf(windows);
  const fathers = new Set(jobs.flatMap(({ father }) => (father === null ? [] : [father.job])));
  return ({ window }) => fathers.has(window.job) || window.attempt < (newest.get(window.job)?.window.attempt ?? 0);
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
