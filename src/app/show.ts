// Show: everything about one job, for one look; and why, which is a part of it.

import { existsSync } from 'node:fs';
import { capacityTraits } from '../core/allocate.ts';
import { turnOf, waitsForSlot, type Turn } from '../core/admit.ts';
import { lastAllocation, openAttempt, type Job, type Attempt } from '../core/job.ts';
import { phaseOf } from '../core/phase.ts';
import { allowance, answerFor } from '../core/recover.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { JobView, SavedView, Why } from './client.ts';
import { spentOn } from './phrases.ts';
import { lengthText } from './figures.ts';
import { folderOf } from './job-folder.ts';
import { hangOf, lastWords, progressOf, workerViews } from './logs.ts';
import type { Store } from './ports.ts';
import { progressText } from './log-lines.ts';
import { usualWait } from './usual.ts';
import { acceleratorOf, allocationViews, attemptViews, jobRow } from './views.ts';
import { failureOf, whyOf, type Around } from './why.ts';
import { workdirViews } from './workdir.ts';
import { checkpointFolder, checkpointOwner, checkpointRecord } from '../core/prepare.ts';
import { readRegularFile } from './files.ts';
import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';

/** The sources of a view of one job. Nothing outside is asked: the record, our copies of logs, and folders of this machine. */
export interface Sources {
  readonly store: Store;
  readonly home: string;
  readonly slots: () => Promise<number>;
  readonly now: () => Instant;
}

export async function showJob(sources: Sources, job: Job): Promise<JobView> {
  const { home } = sources;
  const [around, workers, saved, workdirs] = await Promise.all([
    aroundOf(sources, job),
    workerViews(home, job),
    newestSaved(job),
    workdirViews(folderOf(home, job), job),
  ]);
  const progress = await progressOf(home, job);
  const newest = job.attempts.at(-1);
  // After everything was read: no age of what was read is then less than nothing.
  const now = sources.now();
  return {
    ...jobRow(job, now),
    why: whyOf(job, now, around),
    progress: progress === null ? null : progressText(progress),
    saved,
    checkpointDir: newest === undefined ? job.spec.command.checkpointDir : checkpointFolder(job, newest),
    ifTaken: ifTaken(job, around, saved, now),
    spent: spentOn(job, now),
    attempts: attemptViews(job),
    workdirs,
    allocations: allocationViews(job, now),
    workers: workers.map(({ changedAt, ...worker }) => ({
      ...worker,
      logAgeMs: changedAt === null ? null : Math.max(0, now - changedAt),
    })),
    spec: job.spec,
    folder: folderOf(home, job),
    hasFiles: existsSync(folderOf(home, job)),
  };
}

export async function whyJob(sources: Sources, job: Job): Promise<Why> {
  const around = await aroundOf(sources, job);
  return whyOf(job, sources.now(), around);
}

async function aroundOf({ store, home, slots, now }: Sources, job: Job): Promise<Around> {
  const failure = failureOf(job);
  const isWaiting = job.settled === null;
  const [events, turn, nextLook, usual, log, hang] = await Promise.all([
    store.events(job.id, 0),
    turnIn(store, slots, job),
    store.wakeOf(job.id),
    isWaiting ? usualWait(store, job, now()) : null,
    failure === undefined ? [] : lastWords(home, job, failure),
    hangOf(home, job),
  ]);
  return { events: events.map(({ event }) => event), turn, nextLook, usual, log, hang };
}

/**
 * The job's turn among those that wait for a place of this machine; undefined for a job that waits for none. Worked out when it is
 * asked for: with each job that begins it changes for all behind it, which would be a write for each of them.
 */
async function turnIn(store: Store, slots: () => Promise<number>, job: Job): Promise<Turn | undefined> {
  if (!waitsForSlot(job)) return undefined;
  // A job that has left the list may hold its place until its program has ended.
  const [limit, { jobs }] = await Promise.all([slots(), store.list({ settledMost: 0, withRemoved: true })]);
  return turnOf(limit, jobs, job);
}

// ------------------------------------------------------------------------------------------ if it were taken now

/**
 * Says what a preemption now would cost and lead to. Null where none can come: nothing runs, the cloud does not take
 * such capacity back, or nobody can say that it runs.
 */
function ifTaken(job: Job, { usual }: Around, saved: SavedView | null, now: Instant): string | null {
  const attempt = openAttempt(job);
  const isSilent = (lastAllocation(job)?.silentSince ?? null) !== null;
  if (phaseOf(job) !== 'running' || attempt === undefined || isSilent) return null;
  if (!capacityTraits(job.spec.capacity).revocable) return null;
  const { then } = answerFor(job.spec.recovery, 'preempted', { detail: '' });
  if (then === 'fail' || then === 'done') return 'the job would fail: no rule of its goes on after a preemption';
  const { used: ends, limit } = allowance(job, attempt, 'preempted', { detail: '' });
  const used = ends.length;
  if (used >= limit) return `the job would fail: all ${limit} preemptions that it may have are used up`;
  const wait = usual === null || usual === undefined ? '' : `, usually after ${lengthText(usual.median)}`;
  const how = then === 'rerun' ? 'would begin from the start' : 'would go on';
  return `it ${how} on another ${acceleratorOf(job)}${wait}${lossText(then, saved, attempt.runningAt, now)}; ${used + 1} of ${limit} preemptions used then`;
}

function lossText(then: 'resume' | 'rerun', saved: SavedView | null, runningAt: Instant | null, now: Instant): string {
  const lost = (since: Instant): Duration => Math.max(0, now - since);
  if (then === 'rerun') return runningAt === null ? '' : `; ${lengthText(lost(runningAt))} of work would be lost`;
  return saved === null ? '' : `; ${lengthText(lost(saved.at))} of work would be lost`;
}

// ------------------------------------------------------------------------------------------ the newest checkpoint

/**
 * The checkpoint that JOBMAN_RESUME_FROM would name now: the newest whole entry of the job's checkpoint folder that counts. Null
 * when the folder is not on this machine, has none, or cannot be read: then nothing is known.
 */
export async function newestSaved(job: Job): Promise<SavedView | null> {
  const { command, capacity } = job.spec;
  const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null);
  const folder = attempt === undefined ? null : checkpointFolder(job, attempt);
  const isHere = capacity.kind === 'local' || command.place === 'here';
  if (attempt === undefined || folder === null || !isHere || !isAbsolute(folder)) return null;
  const names = await readdir(folder).catch(() => []);
  const counts = await entryFilter(job, attempt, folder, names);
  const entries = await Promise.all(
    names.filter(isWhole).map(async (name) => {
      const at = (await stat(join(folder, name)).catch(() => undefined))?.mtimeMs;
      return at === undefined || counts?.(name, at) !== true ? [] : [{ name, at }];
    }),
  );
  const [newest] = entries.flat().toSorted(newestFirst);
  return newest === undefined ? null : { name: newest.name, folder, at: Math.floor(newest.at) };
}

/**
 * A function that is true for entries that count by the folder's records; null if none counts. The folder and its records are on one
 * machine, so the time of an entry shows whether it has changed since.
 */
async function entryFilter(
  job: Job,
  attempt: Attempt,
  folder: string,
  names: readonly string[],
): Promise<((name: string, at: number) => boolean) | null> {
  if (job.spec.command.checkpoints !== 'named') return () => true;
  for (const name of names.filter((one) => one.startsWith(checkpointRecord))) {
    const file = join(folder, name);
    const about = await stat(file).catch(() => ({ mtimeMs: 0 }));
    const [owner, ...before] = recordText(file).split('\n');
    if (owner !== checkpointOwner(job, attempt)) continue;
    const old = new Set(before.map((line) => line.split('\t')[0]));
    return (entry, at) => !old.has(entry) || at > about.mtimeMs;
  }
  return null;
}

/** Empty if there is no such file, or if it is not a regular file, because other people may write into the folder. */
function recordText(file: string): string {
  try {
    return readRegularFile(file).toString('utf8');
  } catch {
    return '';
  }
}

/** The launcher's rule (`newest_complete` in remote/launch.ts): what is hidden or still being written is no checkpoint. */
function isWhole(name: string): boolean {
  if (name.startsWith('.') || /(tmp|partial)$/.test(name)) return false;
  return !/(^|[^a-zA-Z0-9])(tmp|partial)[^a-zA-Z0-9]/.test(name);
}

/** The launcher's rule again: of two of one age the longer name, and of those the later in order. */
function newestFirst(
  one: { readonly name: string; readonly at: Instant },
  other: { readonly name: string; readonly at: Instant },
): number {
  const byOrder = one.name < other.name ? 1 : -1;
  return other.at - one.at || other.name.length - one.name.length || byOrder;
}
