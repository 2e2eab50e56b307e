// The rows of `tpu check` and `tpu monitor`: one for each attempt on a user's list. Reading them changes nothing.

import { basename } from 'node:path';
import { createEndReader, outputLog } from '../app/file-ends.ts';
import { textOf } from '../app/logs.ts';
import type { JobFiles } from '../app/ports.ts';
import { reasonPhrases } from '../app/format.ts';
import { isDesiredRunning, type Attempt, type Ending, type Job } from '../core/model/job.ts';
import {
  failedCallPatterns,
  formatLogPhase,
  lastCharacters,
  newestPhase,
  patternAfterProgress,
  type LogPhase,
} from '../core/model/log-lines.ts';
import type { Instant } from '../core/model/time.ts';
import { type AttemptRef, type Lineages, readLineages, lineageOf, attemptKey, stageOf } from './lineage.ts';
import type { LabUser } from './users.ts';
import type { LabJob, LabStore, LabWindow } from './lab-store.ts';
import { shortName } from './tpus.ts';

/** A known problem at the end of the log of a running program. */
export interface Trouble {
  readonly trouble: string | null;
  /** The time when the silent program counts as hung and is ended; null if no limit applies. */
  readonly hangsAt: Instant | null;
}

/** `resumed`, `rerunned`: another attempt continues the work in window `child`, once it has a window. */
export type CheckStatus =
  | { readonly kind: 'succeeded' | 'killed' | 'stopped' }
  /** The script has not reported its log yet. `waitReason` is set if the attempt has not begun. */
  | ({ readonly kind: 'starting'; readonly waitReason: string | null } & Trouble)
  /** `phase` comes from the log; `ended, exit 1` if the program has ended and its end is not judged yet. */
  | ({
      readonly kind: 'running';
      readonly phase: string;
      /** A worker that does not answer, as in `list`; null while all answer. */
      readonly waitReason: string | null;
    } & Trouble)
  /** `next`: the next attempt, by a rule or by request. */
  | {
      readonly kind: 'error';
      readonly error: string;
      readonly detail: string;
      readonly next: 'resume' | 'rerun' | null;
      /** The reason why the next attempt waits, as in `list`; null until that attempt exists. */
      readonly waitReason: string | null;
    }
  | { readonly kind: 'resumed' | 'rerunned'; readonly error: string | null; readonly child: number };

/** True if the controller still has work: the attempt runs, begins, or is followed by another one. */
export function isUnderWay({ status }: Pick<CheckRow, 'status'>): boolean {
  return status.kind === 'running' || status.kind === 'starting' || (status.kind === 'error' && status.next !== null);
}

export interface CheckRow {
  readonly window: number | null;
  readonly job: string;
  readonly attempt: number;
  readonly tag: string | null;
  readonly stage: number;
  /** Window numbers of the lineage, its own first: `12 < 11 < 9`. */
  readonly lineage: readonly number[];
  readonly directory: string;
  readonly folder: string;
  readonly tpu: string;
  readonly tpuShort: string;
  readonly status: CheckStatus;
  readonly since: Instant;
  /** The newest output; empty without a log. */
  readonly message: string;
  /** True if the user closed its tmux window. Then no rule follows its end. */
  readonly windowClosed: boolean;
}

/** The end of an attempt's log. */
interface LogScan {
  readonly phase: LogPhase;
  /** The known failure since the last line of progress. */
  readonly pattern: string | null;
  /** The newest characters, for people. */
  readonly tail: string;
  readonly changedAt: Instant | null;
}

/** The part that all rows of one reading share. */
interface Reading {
  readonly user: LabUser;
  readonly files: JobFiles;
  readonly namePrefix: string;
  readonly now: Instant;
  readonly jobs: ReadonlyMap<string, Job>;
  readonly lineages: Lineages;
  /** By the `attemptKey` of the parent. */
  readonly children: ReadonlyMap<string, LabJob>;
  /** By job: the missing capacity or the worker that does not answer. */
  readonly waitReasons: ReadonlyMap<string, string>;
  /** By job whose newest attempt has ended. */
  readonly nextSteps: ReadonlyMap<string, 'resume' | 'rerun'>;
}

function rowOf(reading: Reading, labJob: LabJob, ordinal: number, window: LabWindow | null): CheckRow {
  const { lineages, namePrefix } = reading;
  const name = { job: labJob.job, attempt: ordinal };
  const job = reading.jobs.get(labJob.job);
  const attempt = job?.attempts[ordinal - 1];
  const lineage = lineageOf(lineages, name);
  const log = window === null || job === undefined ? null : readLog(reading, job, ordinal);
  return {
    window: window?.window ?? null,
    ...name,
    tag: labJob.tag,
    stage: job === undefined ? 0 : stageOf(labJob, job, ordinal),
    lineage: lineage.flatMap((one) => lineages.windows.get(attemptKey(one))?.window ?? []),
    directory: labJob.directory,
    folder: basename(labJob.directory) || '/',
    tpu: labJob.tpu,
    tpuShort: shortName(labJob.tpu, namePrefix),
    status: statusOf(reading, name, job, attempt, window, log),
    since:
      (job === undefined || attempt === undefined ? null : endedWhileWaiting(job, attempt)) ??
      attempt?.endedAt ??
      attempt?.ending?.startedAt ??
      window?.openedAt ??
      attempt?.createdAt ??
      reading.now,
    message: log?.tail ?? '',
    windowClosed: (window?.closedAt ?? null) !== null,
  };
}

function statusOf(
  reading: Reading,
  name: AttemptRef,
  job: Job | undefined,
  attempt: Attempt | undefined,
  window: LabWindow | null,
  log: LogScan | null,
): CheckStatus {
  const waitReason = reading.waitReasons.get(name.job) ?? null;
  if (job === undefined || attempt === undefined) {
    const isStarting = window === null || job?.finish === null;
    return isStarting ? { kind: 'starting', waitReason, ...noTrouble } : { kind: 'killed' };
  }
  const { ending } = attempt;
  const error = ending === null ? null : errorOf(ending);
  const child = childOf(reading, name, job);
  if (child !== null) return { ...child, error };
  if (ending === null) {
    const { exitSeen } = attempt;
    const trouble: Trouble = {
      trouble: log === null || log.pattern === null ? null : formatTrouble(log.pattern),
      hangsAt: exitSeen === undefined && log !== null ? hangTime(job, log) : null,
    };
    // The program has ended. Within half a minute it is known whether the cloud took its TPU.
    if (exitSeen !== undefined)
      return { kind: 'running', phase: `${endedPhase}${exitSeen.exitCode}`, waitReason: null, ...trouble };
    if ((window?.report ?? null) === null) return { kind: 'starting', waitReason, ...trouble };
    return { kind: 'running', phase: log === null ? 'Unknown' : formatLogPhase(log.phase), waitReason, ...trouble };
  }
  if (error === null && ending.reason === 'succeeded') return { kind: 'succeeded' };
  if (error === null || endedWhileWaiting(job, attempt) !== null) {
    // `tpu kill` cancels. A stopped job can start again, and so can an imported job that was running elsewhere.
    return { kind: job.finish?.verdict === 'stopped' ? 'stopped' : 'killed' };
  }
  const next = nextOf(job, attempt, reading.nextSteps);
  const isWaiting = next !== null && job.attempts.length > attempt.ordinal;
  return { kind: 'error', error, detail: ending.evidence.message, next, waitReason: isWaiting ? waitReason : null };
}

/** The time when the owner ended the job while it waited for the next attempt, or null. */
function endedWhileWaiting({ finish, attempts }: Job, { ordinal }: Attempt): Instant | null {
  const isByOwner = finish?.verdict === 'stopped' || finish?.verdict === 'cancelled';
  return isByOwner && attempts.length > ordinal ? finish.at : null;
}

const endedPhase = 'ended, exit ';

export function troubleOf(status: CheckStatus): Trouble | null {
  if (status.kind !== 'running' && status.kind !== 'starting') return null;
  const hasEnded = status.kind === 'running' && status.phase.startsWith(endedPhase);
  return hasEnded || status.trouble === null ? null : status;
}

const noTrouble: Trouble = { trouble: null, hangsAt: null };

function childOf(
  { lineages, children }: Reading,
  { job: id, attempt: ordinal }: AttemptRef,
  job: Job,
): { readonly kind: 'resumed' | 'rerunned'; readonly child: number } | null {
  const begun = (one: AttemptRef, startMode: string | undefined): ReturnType<typeof childOf> => {
    const child = lineages.windows.get(attemptKey(one))?.window;
    return child === undefined ? null : { kind: startMode === 'resume' ? 'resumed' : 'rerunned', child };
  };
  // An attempt that never began is skipped, because the next one replaces it.
  for (const next of job.attempts.slice(ordinal)) {
    const found = begun({ job: id, attempt: next.ordinal }, next.startMode);
    if (found !== null) return found;
  }
  const elsewhere = children.get(attemptKey({ job: id, attempt: ordinal }));
  return elsewhere === undefined ? null : begun({ job: elsewhere.job, attempt: 1 }, elsewhere.parent?.startMode);
}

function nextOf(job: Job, attempt: Attempt, nextSteps: Reading['nextSteps']): 'resume' | 'rerun' | null {
  if (!isDesiredRunning(job)) return null;
  const next = job.attempts.at(-1);
  if (next === undefined || next.ordinal === attempt.ordinal) return nextSteps.get(job.id) ?? null;
  return next.startMode === 'rerun' ? 'rerun' : 'resume';
}

const troubleLabels: Readonly<Record<string, string>> = {
  out_of_memory: 'OOM',
  busy: 'locked',
  no_python: 'no python',
  file_missing: 'file error',
  grpc: 'grpc',
  deadline: 'deadline exceeded',
  invalid_pointer: 'invalid pointer',
  line_cut: 'line cut',
};

function formatTrouble(pattern: string): string {
  return troubleLabels[pattern] ?? pattern;
}

/** A short phrase for an end that was an error; null for any other end. */
export function errorOf({ reason, evidence }: Pick<Ending, 'reason' | 'evidence'>): string | null {
  if (reason === 'succeeded' || reason === 'stopped') return null;
  if (reason === 'hung' && evidence.pattern !== undefined) return `${formatTrouble(evidence.pattern)}, hung`;
  if (evidence.pattern !== undefined && reason !== 'preempted') return formatTrouble(evidence.pattern);
  if (reason !== 'command_failed') return reasonPhrases[reason];
  if (evidence.unconfirmed === true) return 'no success reported';
  return evidence.exitCode === undefined ? 'unknown' : `exit ${evidence.exitCode}`;
}

export async function readCheckRows(
  lab: { readonly store: LabStore; readonly files: JobFiles; readonly namePrefix: string },
  user: LabUser,
  now: Instant,
): Promise<readonly CheckRow[]> {
  const { store, files, namePrefix } = lab;
  const read = await store.windows({ user: user.name, cleared: 'of listed jobs' });
  const windows = read.filter(({ window }) => window.clearedAt === null);
  const listed = [...new Set(windows.map(({ window }) => window.job))];
  const [jobStates, labJobs] = await Promise.all([store.jobStates(user.name, listed), store.jobs(user.name)]);
  const jobs = new Map(jobStates.map((job) => [job.id, job]));
  const pending = labJobs.filter(({ job }) => jobs.get(job)?.finish === null && !listed.includes(job));
  const shown = new Set([...listed, ...pending.map(({ job }) => job)]);
  // A job on another TPU names its parent. The parent does not name its child.
  const wanted = labJobs.filter(({ job, parent }) => shown.has(job) || (parent !== null && shown.has(parent.job)));
  const lineages = await readLineages(store, [...wanted, ...windows.map(({ job }) => job)], read);
  const waiting = labJobs.filter(({ job }) => pending.some((one) => one.job === job) || isBlocked(jobs.get(job)));
  const [waitReasons, nextSteps] = await Promise.all([
    readWaitReasons(store, waiting, jobs, now),
    readNextSteps(jobStates, now),
  ]);
  const parents = [...lineages.jobs.values()].flatMap((job) =>
    job.parent === null ? [] : [[attemptKey(job.parent), job] as const],
  );
  const reading = { user, files, namePrefix, now, jobs, lineages, children: new Map(parents), waitReasons, nextSteps };
  const rows = [
    ...windows.map(({ window, job }) => rowOf(reading, job, window.attempt, window)),
    ...pending.map((job) => rowOf(reading, job, Math.max(1, jobs.get(job.job)?.attempts.length ?? 0), null)),
  ];
  const order = (one: CheckRow): number => one.window ?? Number.POSITIVE_INFINITY;
  return rows.toSorted((one, other) => order(one) - order(other) || one.job.localeCompare(other.job));
}

const maxCharacterBytes = 4;

function readLog({ files, user: { settings } }: Reading, job: Job, attempt: number): LogScan {
  const read = createEndReader(files, job);
  const part = read(outputLog(attempt, 'controller'), settings.monitor_length * maxCharacterBytes);
  const end = lastCharacters(textOf(part), settings.monitor_length);
  return {
    phase: newestPhase(end),
    pattern: patternAfterProgress(end)?.pattern ?? null,
    tail: lastCharacters(end, settings.show_length),
    changedAt: part?.changedAt ?? null,
  };
}

function isBlocked(job: Job | undefined): boolean {
  const attempt = job?.attempts.at(-1);
  if (job === undefined || attempt === undefined || job.finish !== null || attempt.ending !== null) return false;
  const allocation = job.allocations[attempt.allocation - 1];
  if (allocation === undefined) return false;
  const { unreachableAt, readyAt, lastError, lastObserved } = allocation;
  const isWaitedFor = readyAt === null && (lastError !== null || lastObserved?.state === 'waiting');
  return unreachableAt !== null || isWaitedFor;
}

/** The time when the program counts as hung, if it stays silent after a failed call. */
function hangTime({ spec }: Job, { pattern, changedAt }: LogScan): Instant | null {
  const { failedCallTimeoutMs } = spec.limits;
  if (failedCallTimeoutMs === undefined || pattern === null || !failedCallPatterns.includes(pattern)) return null;
  return changedAt === null ? null : changedAt + failedCallTimeoutMs;
}

/** By job: the phrase of `list` for its wait. Loads half of the rules, so only if a job waits. */
async function readWaitReasons(
  store: LabStore,
  waiting: readonly LabJob[],
  jobs: ReadonlyMap<string, Job>,
  now: Instant,
): Promise<ReadonlyMap<string, string>> {
  if (waiting.length === 0) return new Map();
  const [{ jobRow }, { isLongerThanTypical }] = await Promise.all([
    import('../app/views.ts'),
    import('../app/typical-wait.ts'),
  ]);
  const waitOf = async (job: Job): Promise<string> => {
    const { phase, message } = jobRow(job, now);
    // The row already shows that the job recovers or that its script has begun.
    const isShown = phase === 'recovering' || phase === 'running';
    const waits = message === '' ? phase : isShown ? message : `${phase}: ${message}`;
    return (await isLongerThanTypical(store, job, now)) ? `${waits}, longer than usual` : waits;
  };
  const known = waiting.flatMap((labJob) => jobs.get(labJob.job) ?? []);
  return new Map(await Promise.all(known.map(async (job) => [job.id, await waitOf(job)] as const)));
}

/** By job: the next step after an ended attempt. Loads the other half of the rules, so only if there is one. */
async function readNextSteps(jobs: readonly Job[], now: Instant): Promise<ReadonlyMap<string, 'resume' | 'rerun'>> {
  const ended = jobs.flatMap((job) => {
    const attempt = job.attempts.at(-1);
    const isWanted = isDesiredRunning(job) && attempt !== undefined && attempt.ending !== null;
    return isWanted ? [{ job, attempt }] : [];
  });
  if (ended.length === 0) return new Map();
  const { continuationOf } = await import('../core/decide/recover.ts');
  return new Map(
    ended.flatMap(({ job, attempt }) => {
      const following = continuationOf(job, attempt, now);
      return following.next === 'attempt'
        ? [[job.id, following.startMode === 'rerun' ? 'rerun' : 'resume'] as const]
        : [];
    }),
  );
}
