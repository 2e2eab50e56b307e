// Check: the rows of `tpu check` and `tpu monitor`, one for each attempt on the list of a user. Reading them changes nothing.

import { statSync } from 'node:fs';
import { attemptFile, folderOf } from '../app/job-folder.ts';
import { reasonWords } from '../app/figures.ts';
import type { Attempt, Ending, Job } from '../core/job.ts';
import { betweenWorkers, type LogSoFar, phaseText } from '../core/log-lines.ts';
import type { Instant } from '../core/time.ts';
import { type AttemptName, type Families, familiesOf, lineOf, nameOf, stageOf } from './lineage.ts';
import { openLogCache, readLog } from './log-reading.ts';
import type { LabUser } from './people.ts';
import type { LabAttempt, LabJob, LabRecord, LabWindow } from './record.ts';
import { shortName } from './tpus.ts';

/** A known trouble at the end of the log of a program that has not ended. */
export interface Trouble {
  readonly trouble: string | null;
  /** The time at which it counts as hung and is ended, if it prints nothing until then; null where no such limit applies. */
  readonly hangsAt: Instant | null;
}

/**
 * `resumed` and `rerunned`: another attempt goes on in its place, in window `child`; until that begins, the status is how this
 * one ended.
 */
export type CheckStatus =
  | { readonly kind: 'finished' | 'killed' | 'stopped' }
  /** Its script has not told where its log is; `waits` says what for, where it has not even begun. */
  | ({ readonly kind: 'starting'; readonly waits: string | null } & Trouble)
  /** `phase`: how far it is by its log; `ended, exit 1` where its program has ended and what of is not judged yet. */
  | ({
      readonly kind: 'running';
      readonly phase: string;
      /** The words of `list` about a worker that does not answer; null while all answer. */
      readonly waits: string | null;
    } & Trouble)
  /** It failed. `next`: how it goes on before long, by a rule or because somebody wants it. */
  | {
      readonly kind: 'error';
      readonly error: string;
      readonly detail: string;
      readonly next: 'resume' | 'rerun' | null;
      /** The reason why the next attempt waits, in the words of `list`; null while it has not been created. */
      readonly waits: string | null;
    }
  | { readonly kind: 'resumed' | 'rerunned'; readonly error: string | null; readonly child: number };

/** Whether the controller has to look after it: it runs, begins, or goes on before long. */
export function isUnderWay({ status }: Pick<CheckRow, 'status'>): boolean {
  return status.kind === 'running' || status.kind === 'starting' || (status.kind === 'error' && status.next !== null);
}

export interface CheckRow {
  readonly window: number | null;
  readonly job: string;
  readonly attempt: number;
  readonly tag: string | null;
  readonly stage: number;
  /** Numbers of the windows that stand behind it, its own first; `12 < 11 < 9`. */
  readonly lineage: readonly number[];
  readonly directory: string;
  readonly folder: string;
  readonly tpu: string;
  readonly tpuShort: string;
  readonly status: CheckStatus;
  readonly since: Instant;
  /** The newest that it printed; empty where nothing is known of its log. */
  readonly message: string;
  /** True if its tmux window was closed manually; nothing answers its end then. */
  readonly closed: boolean;
}

interface CheckParts {
  readonly windows: readonly LabAttempt[];
  readonly coming: readonly LabJob[];
  /** By job: the capacity or worker that it waits for, if its newest attempt has not begun or one of its workers does not answer. */
  readonly waits: ReadonlyMap<string, string>;
  /** By job, how those are about to go on whose newest attempt has ended. */
  readonly follows: ReadonlyMap<string, 'resume' | 'rerun'>;
  readonly families: Families;
  readonly jobs: ReadonlyMap<string, Job>;
  readonly logs: ReadonlyMap<string, LogSoFar>;
  /** By `nameOf`: when an attempt counts as hung that prints nothing after a failed call. */
  readonly hangs: ReadonlyMap<string, Instant>;
  readonly namePrefix: string;
  readonly now: Instant;
}

function checkRows(parts: CheckParts): readonly CheckRow[] {
  // The jobs that say they go on from an attempt on another TPU.
  const jobs = [...parts.families.jobs.values()];
  const children = new Map(jobs.flatMap((job) => (job.father === null ? [] : [[nameOf(job.father), job] as const])));
  const rows = parts.windows.map(({ window, job }) => rowOf(parts, children, job, window.attempt, window));
  const coming = parts.coming.map((job) => {
    const attempt = parts.jobs.get(job.job)?.attempts.length ?? 0;
    return rowOf(parts, children, job, Math.max(1, attempt), null);
  });
  const order = (one: CheckRow): number => one.window ?? Number.POSITIVE_INFINITY;
  return [...rows, ...coming].toSorted((one, other) => order(one) - order(other) || one.job.localeCompare(other.job));
}

function rowOf(
  parts: CheckParts,
  children: ReadonlyMap<string, LabJob>,
  labJob: LabJob,
  ordinal: number,
  window: LabWindow | null,
): CheckRow {
  const { families, logs, namePrefix } = parts;
  const name = { job: labJob.job, attempt: ordinal };
  const job = parts.jobs.get(labJob.job);
  const attempt = job?.attempts[ordinal - 1];
  const line = lineOf(families, name);
  return {
    window: window?.window ?? null,
    ...name,
    tag: labJob.tag,
    stage: job === undefined ? 0 : stageOf(labJob, job, ordinal),
    lineage: line.flatMap((one) => families.windows.get(nameOf(one))?.window ?? []),
    directory: labJob.directory,
    folder: labJob.directory.split('/').findLast((part) => part !== '') ?? '/',
    tpu: labJob.tpu,
    tpuShort: shortName(labJob.tpu, namePrefix),
    status: statusOf(parts, children, name, job, attempt, window),
    since:
      (job === undefined || attempt === undefined ? null : endedWhileItWaited(job, attempt)) ??
      attempt?.endedAt ??
      attempt?.ending?.since ??
      window?.openedAt ??
      attempt?.createdAt ??
      parts.now,
    message: logs.get(nameOf(name))?.tail ?? '',
    closed: (window?.closedAt ?? null) !== null,
  };
}

function statusOf(
  parts: CheckParts,
  children: ReadonlyMap<string, LabJob>,
  name: AttemptName,
  job: Job | undefined,
  attempt: Attempt | undefined,
  window: LabWindow | null,
): CheckStatus {
  if (job === undefined || attempt === undefined)
    return window === null ? { kind: 'starting', waits: null, ...noTrouble } : { kind: 'killed' };
  const { ending } = attempt;
  const error = ending === null ? null : errorOf(ending);
  const child = childOf(parts, children, name, job);
  if (child !== null) return { ...child, error };
  if (ending === null) {
    const log = parts.logs.get(nameOf(name));
    const { exitSeen } = attempt;
    const trouble: Trouble = {
      trouble: log?.trouble === null || log === undefined ? null : troubleWord(log.trouble),
      hangsAt: exitSeen === undefined ? (parts.hangs.get(nameOf(name)) ?? null) : null,
    };
    // Its program is over, and whether the cloud took its TPU shows within half a minute.
    if (exitSeen !== undefined) {
      return { kind: 'running', phase: `${endedPhase}${exitSeen.exitCode}`, waits: null, ...trouble };
    }
    const waits = parts.waits.get(job.id) ?? null;
    if ((window?.report ?? null) === null) return { kind: 'starting', waits, ...trouble };
    return { kind: 'running', phase: log === undefined ? 'Unknown' : phaseText(log.phase), waits, ...trouble };
  }
  if (error === null && ending.reason === 'succeeded') return { kind: 'finished' };
  if (error === null || endedWhileItWaited(job, attempt) !== null) {
    // `tpu kill` cancels; a stop keeps the job startable, and so does an import of what was still running elsewhere.
    return { kind: job.settled?.verdict === 'stopped' ? 'stopped' : 'killed' };
  }
  const next = nextOf(job, attempt, parts.follows);
  const isWaiting = next !== null && job.attempts.length > attempt.ordinal;
  const waits = isWaiting ? (parts.waits.get(job.id) ?? null) : null;
  return { kind: 'error', error, detail: ending.evidence.detail, next, waits };
}

/** The time at which its owner ended the job while it waited for the attempt after that one, or null. */
function endedWhileItWaited({ settled, attempts }: Job, { ordinal }: Attempt): Instant | null {
  const isByOwner = settled?.verdict === 'stopped' || settled?.verdict === 'cancelled';
  return isByOwner && attempts.length > ordinal ? settled.at : null;
}

const endedPhase = 'ended, exit ';

export function troubleOf(status: CheckStatus): Trouble | null {
  if (status.kind !== 'running' && status.kind !== 'starting') return null;
  const hasEnded = status.kind === 'running' && status.phase.startsWith(endedPhase);
  return hasEnded || status.trouble === null ? null : status;
}

const noTrouble: Trouble = { trouble: null, hangsAt: null };

function childOf(
  { families }: CheckParts,
  children: ReadonlyMap<string, LabJob>,
  { job: id, attempt: ordinal }: AttemptName,
  job: Job,
): { readonly kind: 'resumed' | 'rerunned'; readonly child: number } | null {
  const begun = (one: AttemptName, how: string | undefined): ReturnType<typeof childOf> => {
    const child = families.windows.get(nameOf(one))?.window;
    return child === undefined ? null : { kind: how === 'resume' ? 'resumed' : 'rerunned', child };
  };
  // An attempt that never began is skipped: the one after it replaces it.
  for (const next of job.attempts.slice(ordinal)) {
    const found = begun({ job: id, attempt: next.ordinal }, next.how);
    if (found !== null) return found;
  }
  const elsewhere = children.get(nameOf({ job: id, attempt: ordinal }));
  return elsewhere === undefined ? null : begun({ job: elsewhere.job, attempt: 1 }, elsewhere.father?.how);
}

function nextOf(job: Job, attempt: Attempt, follows: CheckParts['follows']): 'resume' | 'rerun' | null {
  if (job.settled !== null || job.desired !== 'run') return null;
  const next = job.attempts.at(-1);
  if (next === undefined || next.ordinal === attempt.ordinal) return follows.get(job.id) ?? null;
  return next.how === 'rerun' ? 'rerun' : 'resume';
}

const patternWords: Readonly<Record<string, string>> = {
  out_of_memory: 'OOM',
  busy: 'locked',
  no_python: 'no python',
  file_missing: 'file error',
  grpc: 'grpc',
  deadline: 'deadline exceeded',
  invalid_pointer: 'invalid pointer',
  line_cut: 'line cut',
};

function troubleWord(pattern: string): string {
  return patternWords[pattern] ?? pattern;
}

/** The word for an end that was an error; null for one that was none. */
export function errorOf({ reason, evidence }: Pick<Ending, 'reason' | 'evidence'>): string | null {
  if (reason === 'succeeded' || reason === 'stopped') return null;
  if (reason === 'hung' && evidence.pattern !== undefined) return `${troubleWord(evidence.pattern)}, hung`;
  if (evidence.pattern !== undefined && reason !== 'preempted') return troubleWord(evidence.pattern);
  if (reason !== 'command_failed') return reasonWords[reason];
  if (evidence.unconfirmed === true) return 'no success reported';
  return evidence.exitCode === undefined ? 'unknown' : `exit ${evidence.exitCode}`;
}

export interface Looker {
  /** The rows now. Changes nothing of the record. */
  look(now: Instant): Promise<readonly CheckRow[]>;
  /** Keeps what was read of logs, so that the next one reads on from there; where that fails, the next one reads anew. */
  keep(): void;
}

export function createLooker(given: {
  readonly record: LabRecord;
  /** `$JOBMAN_HOME`, absolute. */
  readonly home: string;
  readonly user: LabUser;
  readonly namePrefix: string;
}): Looker {
  const { record, home, user, namePrefix } = given;
  const cache = openLogCache(home, user.name);
  const bounds = { first: user.settings.monitor_length, tail: user.settings.show_length };
  return {
    async look(now) {
      const read = await record.windows({ user: user.name, cleared: 'beside shown' });
      const windows = read.filter(({ window }) => window.clearedAt === null);
      const listed = [...new Set(windows.map(({ window }) => window.job))];
      const [lives, labJobs] = await Promise.all([record.lives(user.name, listed), record.jobs(user.name)]);
      const jobs = new Map(lives.map((job) => [job.id, job]));
      const coming = labJobs.filter(({ job }) => jobs.get(job)?.settled === null && !listed.includes(job));
      const shown = new Set([...listed, ...coming.map(({ job }) => job)]);
      // A job on another TPU says who its father is; the father does not know of it.
      const wanted = labJobs.filter(({ job, father }) => shown.has(job) || (father !== null && shown.has(father.job)));
      const families = await familiesOf(record, [...wanted, ...windows.map(({ job }) => job)], read);
      const logs = new Map<string, LogSoFar>();
      const hangs = new Map<string, Instant>();
      for (const { window } of windows) {
        const job = jobs.get(window.job);
        if (job === undefined) continue;
        const path = attemptFile(folderOf(home, job), window.attempt, 'here');
        const name = nameOf(window);
        const log = readLog(path, cache.of(name), bounds);
        logs.set(name, log);
        const hangsAt = hangsAtOf(job, window.attempt, log, path);
        if (hangsAt !== null) hangs.set(name, hangsAt);
      }
      cache.take(logs);
      const waiting = labJobs.filter(({ job }) => coming.some((one) => one.job === job) || isHeldUp(jobs.get(job)));
      const [waits, follows] = await Promise.all([waitsOf(record, waiting, jobs, now), followsOf(lives, now)]);
      return checkRows({ windows, coming, waits, follows, families, jobs, logs, hangs, namePrefix, now });
    },
    keep: () => cache.write(),
  };
}

function isHeldUp(job: Job | undefined): boolean {
  const attempt = job?.attempts.at(-1);
  if (job === undefined || attempt === undefined || job.settled !== null || attempt.ending !== null) return false;
  const allocation = job.allocations[attempt.allocation - 1];
  if (allocation === undefined) return false;
  const { silentSince, readyAt, lastFailure, seen } = allocation;
  const isWaitedFor = readyAt === null && (lastFailure !== null || seen?.state === 'waiting');
  return silentSince !== null || isWaitedFor;
}

/** The rule itself is in core/situation.ts. */
function hangsAtOf(job: Job, ordinal: number, { trouble }: LogSoFar, path: string): Instant | null {
  const { troubleTimeout } = job.spec.limits;
  const attempt = job.attempts[ordinal - 1];
  if (troubleTimeout === undefined || trouble === null || !betweenWorkers.includes(trouble)) return null;
  if (attempt === undefined || attempt.ending !== null) return null;
  const printedAt = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return printedAt === undefined ? null : Math.floor(printedAt) + troubleTimeout;
}

/** The waits of those jobs, in the words of `list`. That takes half of the rules, which are loaded only if a job waits. */
async function waitsOf(
  record: LabRecord,
  waiting: readonly LabJob[],
  jobs: ReadonlyMap<string, Job>,
  now: Instant,
): Promise<ReadonlyMap<string, string>> {
  if (waiting.length === 0) return new Map();
  const [{ jobRow }, { isLongerThanUsual }] = await Promise.all([import('../app/views.ts'), import('../app/usual.ts')]);
  const waitOf = async (job: Job): Promise<string> => {
    const { phase, reason } = jobRow(job, now);
    // The row says already that the job recovers, or that its script has begun.
    const isSaid = phase === 'recovering' || phase === 'running';
    const waits = reason === '' ? phase : isSaid ? reason : `${phase}: ${reason}`;
    return (await isLongerThanUsual(record, job, now)) ? `${waits}, longer than usual` : waits;
  };
  const known = waiting.flatMap((labJob) => jobs.get(labJob.job) ?? []);
  return new Map(await Promise.all(known.map(async (job) => [job.id, await waitOf(job)] as const)));
}

/** The next step of rules for jobs whose newest attempt has ended. Loaded only then: it is the other half of the rules. */
async function followsOf(jobs: readonly Job[], now: Instant): Promise<ReadonlyMap<string, 'resume' | 'rerun'>> {
  const ended = jobs.flatMap((job) => {
    const attempt = job.attempts.at(-1);
    const isAsked = job.settled === null && job.desired === 'run' && attempt !== undefined && attempt.ending !== null;
    return isAsked ? [{ job, attempt }] : [];
  });
  if (ended.length === 0) return new Map();
  const { whatFollows } = await import('../core/recover.ts');
  return new Map(
    ended.flatMap(({ job, attempt }) => {
      const following = whatFollows(job, attempt, now);
      return following.next === 'attempt' ? [[job.id, following.how === 'rerun' ? 'rerun' : 'resume'] as const] : [];
    }),
  );
}
