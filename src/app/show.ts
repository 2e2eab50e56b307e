// Show: everything about one job, for one look; and why, which is a part of it.

import { existsSync } from 'node:fs';
import { capacityTraits } from '../core/allocate.ts';
import { checkpointFolder } from '../core/checkpoints.ts';
import { turnOf, waitsForSlot, type Turn } from '../core/admit.ts';
import { lastAllocation, openAttempt, type Job } from '../core/job.ts';
import { phaseOf } from '../core/phase.ts';
import { allowance, answerFor } from '../core/recover.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { JobView, SavedView, Why } from './client.ts';
import { spentOn } from './cost.ts';
import { lengthText } from './figures.ts';
import { folderOf } from './job-folder.ts';
import { hangOf, lastWords, progressOf, workerViews } from './logs.ts';
import type { Store } from './ports.ts';
import { progressText } from './progress.ts';
import { newestSaved } from './saved.ts';
import { usualWait } from './usual.ts';
import { acceleratorOf, allocationViews, attemptViews, jobRow } from './views.ts';
import { failureOf, whyOf, type Around } from './why.ts';
import { workdirViews } from './workdir.ts';

/** The sources of a view of one job. Nothing outside is asked: the record, our copies of logs, and folders of this machine. */
export interface Sources {
  readonly store: Store;
  /** `$JOBMAN_HOME`, absolute. */
  readonly home: string;
  /** How many local jobs run at once on this machine. */
  readonly slots: () => Promise<number>;
  readonly now: () => Instant;
}

/** The view of a job from its record, its history and what our copies of its logs say last. */
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

/** Why a job is in its phase. */
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

/** How much work would be lost, where that is known. */
function lossText(then: 'resume' | 'rerun', saved: SavedView | null, runningAt: Instant | null, now: Instant): string {
  const lost = (since: Instant): Duration => Math.max(0, now - since);
  if (then === 'rerun') return runningAt === null ? '' : `; ${lengthText(lost(runningAt))} of work would be lost`;
  return saved === null ? '' : `; ${lengthText(lost(saved.at))} of work would be lost`;
}
