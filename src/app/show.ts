// Show: all data about one job, including its `why` answer.

import { runsCommandHere } from '../core/model/spec.ts';
import { capacityTraits } from '../core/decide/allocate.ts';
import { lastAllocation, openAttempt, type Job, type Attempt } from '../core/model/job.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { ruleUseOf } from '../core/decide/recover.ts';
import { budgetEnd, budgetsOf, isLimited, spendingOf, type Budget } from '../core/decide/spending.ts';
import { known } from '../core/model/observation.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import { checkpointFolders } from '../reports/checkpoints.ts';
import { jobCost } from '../reports/cost.ts';
import { usageOf } from '../reports/usage.ts';
import type { BudgetView, Client, JobView, CheckpointView, ResumedFromView, Why } from './client.ts';
import { formatDuration } from './format.ts';
import { currentCapacity, type Grant } from '../core/policy/grants.ts';
import { withDailyBudget } from '../core/policy/limits.ts';
import { readOwnerSpending } from './grants.ts';
import { readQueuePosition, type QueueSources } from './host-queues.ts';
import { hangEvidenceOf, lastOutput, workerViews } from './logs.ts';
import type { AccessStore, JobFiles, LocalFolders, Store, StoredJob } from './ports.ts';
import { progressOf } from './progress.ts';
import { typicalWaitFor } from './typical-wait.ts';
import { acceleratorOf, allocationViews, attemptViews, jobRow } from './views.ts';
import { failedAttempt, type WhyContext } from './why-parts.ts';
import { refusingQuota } from './why-quota.ts';
import { whyOf } from './why.ts';
import { workdirViews } from './workdir.ts';
import { checkpointFolder, checkpointOwner, checkpointRecord } from '../core/decide/launch.ts';
import { createEndReader, type EndReader } from './file-ends.ts';
import { isAbsolute, join } from 'node:path';

/** The database, our copies of logs and folders of this machine. Nothing remote is observed. */
export interface ViewSources extends QueueSources {
  readonly store: Store;
  readonly access: Pick<AccessStore, 'dailyBudgets'>;
  readonly files: JobFiles;
  readonly folders: LocalFolders;
  readonly grants: () => Promise<readonly Grant[]>;
  readonly isControllerRunning: () => Promise<boolean>;
  readonly controllerLogin: () => Promise<string | null>;
  readonly now: () => Instant;
}

export async function showJob(
  sources: ViewSources,
  { job, revision }: StoredJob,
  options: Parameters<Client['show']>[1] = { isKept: false },
): Promise<JobView> {
  const { files, folders } = sources;
  const read = createEndReader(files, job);
  const context = await whyContextOf(sources, job, read);
  const checkpoint = newestCheckpoint(folders, job);
  const newest = job.attempts.at(-1);
  // Read the clock last, so that no age can be negative.
  const now = sources.now();
  return {
    ...jobRow(job, now),
    revision,
    why: whyOf(job, now, { ...context, ...options }),
    ...progressOf(job, now, read, folders),
    checkpoint,
    checkpointDir: newest === undefined ? job.spec.command.checkpointDir : checkpointFolder(job, newest),
    checkpointUrl: checkpointUrl(job),
    resumedFrom: resumedFrom(job),
    ifPreempted: formatIfPreempted(job, context, checkpoint, now),
    cost: jobCost(usageOf(job), now),
    budgets: budgetViews(job, context.budgets ?? [], now),
    attempts: attemptViews(job),
    workdirCopies: workdirViews(files, job),
    allocations: allocationViews(job, now),
    workers: workerViews(job, now, read),
    spec: job.spec,
    ...files.folderOf(job),
  };
}

export async function whyJob(sources: ViewSources, job: Job): Promise<Why> {
  const context = await whyContextOf(sources, job, createEndReader(sources.files, job));
  return whyOf(job, sources.now(), context);
}

async function whyContextOf(sources: ViewSources, job: Job, read: EndReader): Promise<WhyContext> {
  const { store, now } = sources;
  const failure = failedAttempt(job);
  const isUnfinished = job.finish === null;
  const [
    events,
    queuePosition,
    nextCheckAt,
    typicalWait,
    budgets,
    { jobs: quotaJobs },
    isControllerRunning,
    controllerLogin,
  ] = await Promise.all([
    store.events(job.id, 0),
    readQueuePosition(sources, job),
    store.wakeAt(job.id),
    isUnfinished ? typicalWaitFor(store, job, now()) : null,
    limitingBudgets(sources, job),
    // A finished job may keep its TPU.
    refusingQuota(job) === null ? { jobs: [] } : store.list({ maxFinished: null, includeRemoved: true }),
    // A damaged lock does not hide the job; commands that need the controller report it.
    sources.isControllerRunning().catch(() => true),
    sources.controllerLogin().catch(() => null),
  ]);
  return {
    events: events.map(({ event }) => event),
    queuePosition,
    nextCheckAt,
    typicalWait,
    budgets,
    quotaJobs,
    isControllerRunning,
    controllerLogin,
    logTail: failure === undefined ? [] : lastOutput(job, failure, read),
    hangEvidence: hangEvidenceOf(job, read),
  };
}

async function limitingBudgets({ store, access, grants, now }: ViewSources, job: Job): Promise<readonly Budget[]> {
  if (!isLimited(job)) return [];
  const budgets = withDailyBudget(await grants(), await access.dailyBudgets(), job.owner);
  const at = now();
  return budgetsOf(job, known(await readOwnerSpending(store, budgets, job.owner, currentCapacity(job), at), at), at);
}

/** A job that nothing limits any more shows what it used of its own budget. */
function budgetViews(job: Job, limiting: readonly Budget[], now: Instant): readonly BudgetView[] {
  const own = spendingOf(job, now);
  const shown = limiting.length > 0 || own === undefined ? limiting : [{ ...own, rateUsd: 0 }];
  return shown.map((one) => ({
    spentUsd: one.spentUsd,
    budgetUsd: one.budgetUsd,
    ownerBudget: one.ownerBudget ?? null,
    usedUpAt: budgetEnd(one, now) ?? null,
  }));
}

/** Null if no preemption is possible: nothing runs, the capacity is not preemptible, or the job is unreachable. */
function formatIfPreempted(
  job: Job,
  { typicalWait }: WhyContext,
  checkpoint: CheckpointView | null,
  now: Instant,
): string | null {
  const attempt = openAttempt(job);
  const isUnreachable = (lastAllocation(job)?.unreachableAt ?? null) !== null;
  if (phaseOf(job) !== 'running' || attempt === undefined || isUnreachable) return null;
  if (!capacityTraits(job.spec.capacity).revocable) return null;
  const { answer, used: ends, limit } = ruleUseOf(job, attempt, 'preempted', { message: '' });
  const { then } = answer;
  if (then === 'fail' || then === 'done') return 'the job would fail: no recovery rule covers a preemption';
  const used = ends.length;
  if (used >= limit) return `the job would fail: all ${limit} preemptions are used`;
  const wait =
    typicalWait === null || typicalWait === undefined ? '' : `, usually after ${formatDuration(typicalWait.median)}`;
  const continuation = then === 'rerun' ? 'would start over' : 'would continue';
  return `it ${continuation} on another ${acceleratorOf(job)}${wait}${formatLoss(then, checkpoint, attempt.runningAt, now)}; ${used + 1} of ${limit} preemptions would be used`;
}

function formatLoss(
  then: 'resume' | 'rerun',
  checkpoint: CheckpointView | null,
  runningAt: Instant | null,
  now: Instant,
): string {
  const lost = (since: Instant): Duration => Math.max(0, now - since);
  if (then === 'rerun') return runningAt === null ? '' : `; ${formatDuration(lost(runningAt))} of work would be lost`;
  return checkpoint === null ? '' : `; ${formatDuration(lost(checkpoint.savedAt))} of work would be lost`;
}

/** The folder of the newest attempt that has started. */
function checkpointUrl(job: Job): string | null {
  const newest = job.attempts.findLast(({ startedAt }) => startedAt !== null);
  const { folders } = checkpointFolders(newest === undefined ? [] : [{ ...job, attempts: [newest] }]);
  return folders.find(({ source }) => source.kind === 'bucket')?.address ?? null;
}

/** A checkpoint from before the latest start from the beginning does not count. */
function resumedFrom({ attempts }: Job): ResumedFromView | null {
  const start = attempts.findLastIndex(({ startMode }) => startMode !== 'resume');
  const found = attempts.slice(start + 1).findLast((attempt) => (attempt.resumedFrom?.entry ?? null) !== null);
  const { entry = null, savedAt = null } = found?.resumedFrom ?? {};
  return found === undefined || entry === null ? null : { attempt: found.ordinal, name: entry, savedAt };
}

/** The newest complete checkpoint; null if the folder is not on this machine, has none, or cannot be read. */
export function newestCheckpoint(folders: LocalFolders, job: Job): CheckpointView | null {
  const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null);
  const folder = attempt === undefined ? null : checkpointFolder(job, attempt);
  if (attempt === undefined || folder === null || !runsCommandHere(job.spec) || !isAbsolute(folder)) return null;
  const names = folders.list(folder).map(({ name }) => name);
  const belongsToJob = entryFilter(folders, job, attempt, folder, names);
  const entries = names.filter(isComplete).flatMap((name) => {
    const at = folders.changedAt(join(folder, name));
    return at === null || belongsToJob?.(name, at) !== true ? [] : [{ name, at }];
  });
  const [newest] = entries.toSorted(newestFirst);
  return newest === undefined
    ? null
    : { name: newest.name, folder: { host: folders.host, path: folder }, savedAt: Math.floor(newest.at) };
}

/** The folder's records share its clock, so the time of an entry shows whether it has changed since. */
function entryFilter(
  folders: LocalFolders,
  job: Job,
  attempt: Attempt,
  folder: string,
  names: readonly string[],
): ((name: string, at: number) => boolean) | null {
  if (job.spec.command.checkpoints !== 'named') return () => true;
  for (const name of names.filter((one) => one.startsWith(checkpointRecord))) {
    const file = join(folder, name);
    const recordedAt = folders.changedAt(file) ?? 0;
    const [owner, ...before] = folders.text(file).split('\n');
    if (owner !== checkpointOwner(job, attempt)) continue;
    const old = new Set(before.map((line) => line.split('\t')[0]));
    return (entry, at) => !old.has(entry) || at > recordedAt;
  }
  return null;
}

/** As `newest_complete` in remote/launch.ts: a hidden or unfinished entry is not a checkpoint. */
function isComplete(name: string): boolean {
  if (name.startsWith('.') || /(tmp|partial)$/.test(name)) return false;
  return !/(^|[^a-zA-Z0-9])(tmp|partial)[^a-zA-Z0-9]/.test(name);
}

/** As the launcher: at the same time the longer name wins, then the later name. */
function newestFirst(
  one: { readonly name: string; readonly at: Instant },
  other: { readonly name: string; readonly at: Instant },
): number {
  const byOrder = one.name < other.name ? 1 : -1;
  return other.at - one.at || other.name.length - one.name.length || byOrder;
}
