// Logs: which files answer a question about a job's logs, and what the newest lines of its workers say.

import { open, readdir, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { allocationOf, lastAttempt, openAttempt, type Attempt, type Job } from '../core/job.ts';
import { phaseOf } from '../core/phase.ts';
import { betweenWorkers, patterns, troubleIn } from '../core/log-lines.ts';
import type { WorkerId } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { LogFile, LogQuery, WorkerView } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { countText, workerText } from './figures.ts';
import { asFileName, attemptFile, folderOf, logFolder, noteFile, stepFile } from './job-folder.ts';
import { lastWordsBytes, lastWordsOf, newestCounts, oldestCounts, paceOf, type Progress } from './log-lines.ts';
import { hostOf, workersOf } from './views.ts';

const lastLineBytes = 4 * 1024;

/** The files that exist, worker by worker. Throws JobmanError for an attempt, a worker or a step that the job does not have. */
export async function logFilesOf(home: string, job: Job, query: LogQuery): Promise<readonly LogFile[]> {
  const folder = folderOf(home, job);
  if (query.step === 'job' || query.step === 'tpu') {
    return present([{ path: noteFile(folder, query.step), worker: null, attempt: null }]);
  }
  if (query.step !== undefined && query.step !== 'command') return stepFiles(folder, job, query.step, query.worker);
  const attempt = attemptOf(job, query.attempt);
  if (attempt === undefined) return [];
  const workers = await workersWithLogs(folder, attempt.ordinal);
  const wanted = query.worker === undefined ? workers : [checkedWorker(job, query.worker, attempt)];
  return present(
    wanted.map((worker) => ({
      path: attemptFile(folder, attempt.ordinal, worker),
      worker,
      attempt: attempt.ordinal,
    })),
  );
}

/** A worker and the last line of what we hold of its output, with the moment when that last grew; null when there is none. */
export type WorkerNow = Omit<WorkerView, 'logAgeMs'> & { readonly changedAt: Instant | null };

export async function workerViews(home: string, job: Job): Promise<readonly WorkerNow[]> {
  const attempt = lastAttempt(job);
  if (attempt === undefined) return [];
  const allocation = allocationOf(job, attempt.allocation);
  const state = workerState(job, attempt);
  return Promise.all(
    workersOf(job, attempt).map(async (worker) => {
      const { text, changedAt } = await endOf(attemptFile(folderOf(home, job), attempt.ordinal, worker), lastLineBytes);
      return {
        worker,
        host: hostOf(allocation, worker),
        state: exitText(attempt, worker) ?? state,
        lastLine: lastLineOf(text),
        changedAt,
      };
    }),
  );
}

/** The last lines of that attempt's log on the worker that it ended of, or of the step that failed there. */
export async function lastWords(home: string, job: Job, attempt: Attempt): Promise<readonly string[]> {
  const worker = attempt.ending?.evidence.worker ?? workersOf(job, attempt)[0];
  if (worker === undefined) return [];
  const folder = folderOf(home, job);
  const step = attempt.ending?.reason === 'setup_failed' ? failedStep(attempt, worker) : null;
  if (step === undefined) return [];
  const file = step === null ? attemptFile(folder, attempt.ordinal, worker) : stepFile(folder, step, worker);
  const { text } = await endOf(file, lastWordsBytes);
  return lastWordsOf(text);
}

export interface Hang {
  readonly line: string;
  readonly means: string;
  /** When it counts as hung and is ended, if it prints nothing until then. */
  readonly endsAt: Instant;
}

export async function hangOf(home: string, job: Job): Promise<Hang | null> {
  const { troubleTimeout } = job.spec.limits;
  const attempt = openAttempt(job);
  if (troubleTimeout === undefined || attempt === undefined || attempt.ending !== null) return null;
  const { text, changedAt } = await endOf(attemptFile(folderOf(home, job), attempt.ordinal, 'here'), lastWordsBytes);
  const found = troubleIn(text);
  if (changedAt === null || found === undefined || !betweenWorkers.includes(found.pattern)) return null;
  const means = patterns.find(({ name }) => name === found.pattern)?.means ?? found.pattern;
  return { line: found.line, means, endsAt: changedAt + troubleTimeout };
}

function failedStep({ failures }: Attempt, worker: WorkerId): string | undefined {
  const steps = failures.flatMap(({ task, lastAt }) =>
    task.kind === 'step' && task.worker === worker ? [{ step: task.step, lastAt }] : [],
  );
  return steps.toSorted((one, other) => other.lastAt - one.lastAt)[0]?.step;
}

/** How far the worker that is furthest behind has come, of at most 16 workers; null when their lines do not say. */
export async function progressOf(home: string, job: Job): Promise<Progress | null> {
  const attempt = lastAttempt(job);
  if (attempt === undefined || attempt.startedAt === null) return null;
  const files = workersOf(job, attempt)
    .slice(0, progressWorkers)
    .map((worker) => attemptFile(folderOf(home, job), attempt.ordinal, worker));
  const all = await Promise.all(
    files.map(async (path) => {
      const { text, changedAt } = await endOf(path, lastLineBytes);
      return { path, counts: newestCounts(text), changedAt };
    }),
  );
  const [least] = all
    .filter(({ counts }) => counts.length > 0)
    .toSorted((one, other) => (one.counts[0]?.done ?? 0) - (other.counts[0]?.done ?? 0));
  if (least === undefined) return null;
  const { path, counts, changedAt } = least;
  // Once it has ended, how much longer it would have taken is no question.
  const isRunning = attempt.endedAt === null && attempt.ending === null;
  if (!isRunning || attempt.runningAt === null || changedAt === null) return { counts, pace: null };
  return { counts, pace: paceOf(oldestCounts(await beginningOf(path)), counts, changedAt - attempt.runningAt) };
}

const progressWorkers = 16;

/** `exit 0`, `SIGKILL`; undefined where the worker has not told how its program ended. */
function exitText({ exits = [] }: Attempt, worker: WorkerId): string | undefined {
  const exit = exits.find(({ workers }) => workers.includes(worker));
  if (exit === undefined) return undefined;
  return exit.signal === undefined ? `exit ${exit.exitCode}` : `SIG${exit.signal}`;
}

function workerState(job: Job, attempt: Attempt): string {
  if (attempt.endedAt !== null) return 'ended';
  return openAttempt(job)?.ending === null && attempt.runningAt !== null ? 'running' : phaseOf(job);
}

// ------------------------------------------------------------------------------------------ which files

function attemptOf(job: Job, ordinal: number | undefined): Attempt | undefined {
  // Without a number the newest attempt that has started: while the next one waits for its TPU, it has nothing to show.
  if (ordinal === undefined) return job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const attempt = job.attempts[ordinal - 1];
  if (attempt !== undefined) return attempt;
  const had = job.attempts.length === 0 ? 'none yet' : countText(job.attempts.length, 'attempt');
  throw new JobmanError(`Job ${job.id} has no attempt ${ordinal}: it has ${had}.`, exitCode.notFound);
}

function checkedWorker(job: Job, worker: WorkerId, attempt: Attempt): WorkerId {
  const workers = workersOf(job, attempt);
  if (workers.length === 0 || workers.includes(worker)) return worker;
  const known = workers.map(workerText).join(', ');
  throw new JobmanError(
    `Attempt ${attempt.ordinal} of job ${job.id} does not run on ${workerText(worker)}, only on ${known}.`,
    exitCode.notFound,
  );
}

async function stepFiles(
  folder: string,
  job: Job,
  step: string,
  worker: WorkerId | undefined,
): Promise<readonly LogFile[]> {
  const names = job.spec.steps.map(({ name }) => name);
  if (!names.includes(step)) {
    const known = ['command', ...names, 'job', 'tpu'];
    const meant = didYouMean(step, known);
    throw new JobmanError(
      `Job ${job.id} has no step "${step}"${meant === undefined ? '' : `; did you mean ${meant}?`}`,
      exitCode.notFound,
      [`It has: ${known.join(', ')}`],
    );
  }
  const workers = worker === undefined ? await workersIn(logFolder(folder), `${asFileName(step)}_worker_`) : [worker];
  return present(workers.map((each) => ({ path: stepFile(folder, step, each), worker: each, attempt: null })));
}

async function workersWithLogs(folder: string, attempt: number): Promise<readonly WorkerId[]> {
  return workersIn(join(logFolder(folder), `attempt_${attempt}`), 'command_worker_');
}

async function workersIn(folder: string, prefix: string): Promise<readonly WorkerId[]> {
  let names: readonly string[];
  try {
    names = await readdir(folder);
  } catch {
    return [];
  }
  const workers = names
    .filter((name) => name.startsWith(prefix) && name.endsWith('.log'))
    .map((name) => name.slice(prefix.length, -'.log'.length))
    .map((name): WorkerId | undefined => (name === 'here' ? name : /^\d+$/.test(name) ? Number(name) : undefined))
    .filter((worker) => worker !== undefined);
  return workers.toSorted(
    (one, other) => Number(one === 'here') - Number(other === 'here') || Number(one) - Number(other),
  );
}

async function present(files: readonly Omit<LogFile, 'bytes'>[]): Promise<readonly LogFile[]> {
  const sizes = await Promise.all(files.map(async ({ path }) => (await stat(path).catch(() => undefined))?.size));
  return files.flatMap((file, index) => {
    const bytes = sizes[index];
    return bytes === undefined ? [] : [{ ...file, bytes }];
  });
}

// ------------------------------------------------------------------------------------------ the ends of a file

async function endOf(
  path: string,
  most: number,
): Promise<{ readonly text: string; readonly changedAt: Instant | null }> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return { text: '', changedAt: null };
  try {
    const { size, mtimeMs } = await file.stat();
    const length = Math.min(size, most);
    return { text: await readText(file, size - length, length), changedAt: Math.floor(mtimeMs) };
  } finally {
    await file.close();
  }
}

const beginningBytes = 16 * 1024;

async function beginningOf(path: string): Promise<string> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return '';
  try {
    return await readText(file, 0, beginningBytes);
  } finally {
    await file.close();
  }
}

async function readText(file: FileHandle, from: number, length: number): Promise<string> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await file.read(bytes, 0, length, from);
  return bytes.toString('utf8', 0, bytesRead);
}

function lastLineOf(text: string): string | null {
  // A progress bar writes over itself: what a terminal would show last is what comes after the last return.
  return (
    text
      .split(/[\r\n]+/)
      .findLast((line) => line.trim() !== '')
      ?.trim() ?? null
  );
}
