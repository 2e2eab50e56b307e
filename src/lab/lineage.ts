// Lineage: the attempts that an attempt continues. A resume or rerun on the same TPU is the job's next attempt; on
// another TPU it is the first attempt of a job that names its parent. Both belong to one lineage: the `12 < 11 < 9` of
// `tpu check`, and the source of a program's checkpoint.

import type { Attempt } from '../core/model/job.ts';
import { isFinishedPhase, type Phase } from '../core/decide/phase.ts';
import type { WindowWithJob, LabJob, LabStore, LabWindow, WindowReport } from './lab-store.ts';

export interface AttemptRef {
  readonly job: string;
  readonly attempt: number;
}

/** Jobs with all their ancestors, and all their windows, including cleared ones. */
export interface Lineages {
  readonly jobs: ReadonlyMap<string, LabJob>;
  readonly windows: ReadonlyMap<string, LabWindow>;
}

/** The part of a job that a lineage needs. */
export interface JobAttempts {
  readonly attempts: readonly Pick<Attempt, 'startMode' | 'startedByOwner' | 'stage' | 'startedAt'>[];
}

/** `000042/3`. */
export function attemptKey({ job, attempt }: AttemptRef): string {
  return `${job}/${attempt}`;
}

/** `read` has all windows of some jobs, which are not read again. */
export async function readLineages(
  store: LabStore,
  jobs: readonly LabJob[],
  read: readonly WindowWithJob[] = [],
): Promise<Lineages> {
  const known = new Map(jobs.map((job) => [job.job, job]));
  for (let wanted = missingParents(known); wanted.length > 0; wanted = missingParents(known)) {
    const found = await Promise.all(wanted.map((job) => store.job(job)));
    const there = found.filter((job) => job !== null);
    if (there.length === 0) break;
    for (const job of there) known.set(job.job, job);
  }
  const done = new Set(read.map(({ job }) => job.job));
  const missing = [...known.keys()].filter((job) => !done.has(job));
  const others = missing.length === 0 ? [] : await store.windows({ jobs: missing, cleared: true });
  return { jobs: known, windows: new Map([...read, ...others].map(({ window }) => [attemptKey(window), window])) };
}

function missingParents(known: ReadonlyMap<string, LabJob>): readonly string[] {
  const parents = [...known.values()].flatMap(({ parent }) => (parent === null ? [] : [parent.job]));
  return [...new Set(parents)].filter((job) => !known.has(job));
}

export function lineageOf({ jobs }: Pick<Lineages, 'jobs'>, { job, attempt }: AttemptRef): readonly AttemptRef[] {
  const lineage: AttemptRef[] = [];
  const visited = new Set<string>();
  for (let next: AttemptRef | null = { job, attempt }; next !== null && !visited.has(next.job);) {
    // Imported jobs may name each other as parent.
    visited.add(next.job);
    for (let one: number = next.attempt; one > 0; one -= 1) lineage.push({ job: next.job, attempt: one });
    next = jobs.get(next.job)?.parent ?? null;
  }
  return lineage;
}

/** The attempts whose work this one continues, newest first and including itself. */
export function continuedWork(
  { jobs }: Pick<Lineages, 'jobs'>,
  { job, attempt }: AttemptRef,
  jobOf: (job: string) => JobAttempts | null,
): readonly AttemptRef[] {
  const work: AttemptRef[] = [];
  const visited = new Set<string>();
  for (let next: AttemptRef | null = { job, attempt }; next !== null && !visited.has(next.job);) {
    visited.add(next.job);
    const { attempts } = jobOf(next.job) ?? { attempts: [] };
    const first = firstContinuedAttempt(attempts, next.attempt);
    for (let one: number = next.attempt; one >= first; one -= 1) work.push({ job: next.job, attempt: one });
    const parent: LabJob['parent'] = first === 1 ? (jobs.get(next.job)?.parent ?? null) : null;
    next = parent !== null && parent.startMode === 'resume' ? parent : null;
  }
  return work;
}

/** An attempt that never started saved nothing, so a later resume continues the work before it. */
function firstContinuedAttempt(attempts: JobAttempts['attempts'], ordinal: number): number {
  const hasStarted = (one: number): boolean => (attempts[one - 1]?.startedAt ?? null) !== null;
  let first = ordinal;
  while (first > 1) {
    const attempt = attempts[first - 1];
    const isReplacement = attempt?.startMode === 'fresh' && !attempt.startedByOwner && !hasStarted(first - 1);
    if (attempt?.startMode !== 'resume' && !isReplacement) return first;
    first -= 1;
    while (attempt.startMode === 'resume' && first > 1 && !hasStarted(first)) first -= 1;
  }
  return first;
}

export function newestReport(
  { windows }: Pick<Lineages, 'windows'>,
  lineage: readonly AttemptRef[],
): (AttemptRef & { readonly report: WindowReport }) | null {
  for (const one of lineage) {
    const report = windows.get(attemptKey(one))?.report ?? null;
    if (report !== null) return { ...one, report };
  }
  return null;
}

/** The number of resumes (`--config.stage`). A job resumed on another TPU adds its parent's stage. */
export function stageOf(labJob: Pick<LabJob, 'baseStage'>, { attempts }: JobAttempts, ordinal: number): number {
  return (firstContinuedAttempt(attempts, ordinal) === 1 ? labJob.baseStage : 0) + (attempts[ordinal - 1]?.stage ?? 0);
}

/** By job, in the order of the jobs' first windows. */
export function newestWindows(windows: readonly WindowWithJob[]): ReadonlyMap<string, WindowWithJob> {
  const newest = new Map<string, WindowWithJob>();
  for (const one of windows) {
    const before = newest.get(one.window.job);
    if (before === undefined || before.window.attempt < one.window.attempt) newest.set(one.window.job, one);
  }
  return newest;
}

export type LineageOutcome = 'live' | 'succeeded' | 'failed' | 'killed';

export type ClearFilter = 'all' | 'succeeded' | 'failed';

export interface UserJobs {
  readonly jobs: readonly LabJob[];
  /** Null for a deleted job. */
  readonly phaseOf: (job: string) => Phase | null;
}

/** A job with children has the outcome of the newest child, and is live while any of them is live. */
export function outcomesOf({ jobs, phaseOf }: UserJobs): (job: string) => LineageOutcome {
  const children = new Map<string, string[]>();
  for (const { job, parent } of jobs) {
    if (parent !== null) children.set(parent.job, [...(children.get(parent.job) ?? []), job]);
  }
  const outcomeOf = (job: string, visited: ReadonlySet<string>): LineageOutcome => {
    const phase = phaseOf(job);
    if (phase !== null && !isFinishedPhase(phase)) return 'live';
    // An import may have brought two jobs that each call the other their parent.
    const after = (children.get(job) ?? []).filter((one) => !visited.has(one));
    const outcomes = after.map((one) => outcomeOf(one, new Set([...visited, one])));
    if (outcomes.includes('live')) return 'live';
    return outcomes.at(-1) ?? (phase === 'succeeded' || phase === 'failed' ? phase : 'killed');
  };
  return (job) => outcomeOf(job, new Set([job]));
}

export function isContinuedIn(
  { jobs }: Pick<UserJobs, 'jobs'>,
  windows: readonly WindowWithJob[],
): (one: WindowWithJob) => boolean {
  const newest = newestWindows(windows);
  const parents = new Set(jobs.flatMap(({ parent }) => (parent === null ? [] : [parent.job])));
  return ({ window }) => parents.has(window.job) || window.attempt < (newest.get(window.job)?.window.attempt ?? 0);
}

/** The windows that leave the list. `includeContinued` (`-re`) adds windows whose work continues in another one. */
export function windowsToClear(
  user: UserJobs,
  windows: readonly WindowWithJob[],
  { filter, includeContinued }: { readonly filter: ClearFilter; readonly includeContinued: boolean },
): readonly WindowWithJob[] {
  const outcomeOf = outcomesOf(user);
  const isContinued = isContinuedIn(user, windows);
  return windows.filter((one) => {
    if (includeContinued && isContinued(one)) return true;
    const outcome = outcomeOf(one.window.job);
    return outcome !== 'live' && (filter === 'all' || filter === outcome);
  });
}
