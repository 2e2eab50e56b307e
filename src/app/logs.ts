// Logs: the log files for a query, and the newest lines of a job's workers.

import { formatWorker } from '../core/model/spec.ts';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { allocationOf, lastAttempt, openAttempt, type Attempt, type Job } from '../core/model/job.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { failedCallPatterns, failurePatterns, patternAfterProgress } from '../core/model/log-lines.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { LogFile, LogQuery, WorkerView } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { createPartReader, type PartReader } from './files.ts';
import { pluralize } from './format.ts';
import { asFileName, attemptFile, folderOf, logFolder, noteFile, stepFile } from './job-folder.ts';
import { lastLineOf, lastOutputBytes, lastOutputLines } from './program-output.ts';
import { addressOf, workersOf } from './views.ts';

const lastLineBytes = 4 * 1024;

/** Existing regular files, in the order of workers. Throws JobmanError for an attempt, worker or step that the job lacks. */
export async function logFilesOf(home: string, job: Job, query: LogQuery): Promise<readonly LogFile[]> {
  const folder = folderOf(home, job);
  if (query.step === 'job' || query.step === 'tpu') {
    return existingFiles(job, [{ path: noteFile(folder, query.step), worker: null, attempt: null }]);
  }
  if (query.step !== undefined && query.step !== 'command') return stepFiles(folder, job, query.step, query.worker);
  const attempt = attemptOf(job, query.attempt);
  if (attempt === undefined) return [];
  const workers = await workersIn(join(logFolder(folder), `attempt_${attempt.ordinal}`), 'command_worker_');
  const wanted = query.worker === undefined ? workers : [requireWorker(job, query.worker, attempt)];
  return existingFiles(
    job,
    wanted.map((worker) => ({
      path: attemptFile(folder, attempt.ordinal, worker),
      worker,
      attempt: attempt.ordinal,
    })),
  );
}

export function workerViews(home: string, job: Job, now: Instant, read: PartReader): readonly WorkerView[] {
  const attempt = lastAttempt(job);
  if (attempt === undefined) return [];
  const allocation = allocationOf(job, attempt.allocation);
  const state = formatWorkerState(job, attempt);
  return workersOf(job, attempt).map((worker) => {
    const end = read(attemptFile(folderOf(home, job), attempt.ordinal, worker), lastLineBytes);
    return {
      worker,
      address: addressOf(allocation, worker),
      message: formatExit(attempt, worker) ?? state,
      lastLine: lastLineOf(end?.bytes.toString('utf8') ?? ''),
      logAgeMs: end === undefined ? null : Math.max(0, now - end.changedAt),
    };
  });
}

/** The last lines of the log on the worker that caused the end, or of the step that failed there. */
export function lastOutput(home: string, job: Job, attempt: Attempt): readonly string[] {
  const worker = attempt.ending?.evidence.worker ?? workersOf(job, attempt)[0];
  if (worker === undefined) return [];
  const folder = folderOf(home, job);
  const step = attempt.ending?.reason === 'setup_failed' ? failedStep(attempt, worker) : null;
  if (step === undefined) return [];
  const file = step === null ? attemptFile(folder, attempt.ordinal, worker) : stepFile(folder, step, worker);
  const { text } = readEnd(file, lastOutputBytes);
  return lastOutputLines(text);
}

export interface HangEvidence {
  readonly line: string;
  readonly description: string;
  readonly timeoutAt: Instant;
}

export function hangEvidenceOf(home: string, job: Job): HangEvidence | null {
  const { failedCallTimeoutMs } = job.spec.limits;
  const attempt = openAttempt(job);
  if (failedCallTimeoutMs === undefined || attempt === undefined || attempt.ending !== null) return null;
  const { text, changedAt } = readEnd(attemptFile(folderOf(home, job), attempt.ordinal, 'controller'), lastOutputBytes);
  const found = patternAfterProgress(text);
  if (changedAt === null || found === undefined || !failedCallPatterns.includes(found.pattern)) return null;
  const description = failurePatterns.find(({ name }) => name === found.pattern)?.meaning ?? found.pattern;
  return { line: found.line, description, timeoutAt: changedAt + failedCallTimeoutMs };
}

function failedStep({ failures }: Attempt, worker: WorkerId): string | undefined {
  const steps = failures.flatMap(({ task, lastAt }) =>
    task.kind === 'step' && task.worker === worker ? [{ step: task.step, lastAt }] : [],
  );
  return steps.toSorted((one, other) => other.lastAt - one.lastAt)[0]?.step;
}

function formatExit({ exits = [] }: Attempt, worker: WorkerId): string | undefined {
  const exit = exits.find(({ workers }) => workers.includes(worker));
  if (exit === undefined) return undefined;
  return exit.signal === undefined ? `exit ${exit.exitCode}` : `SIG${exit.signal}`;
}

function formatWorkerState(job: Job, attempt: Attempt): string {
  if (attempt.endedAt !== null) return 'ended';
  return openAttempt(job)?.ending === null && attempt.runningAt !== null ? 'running' : phaseOf(job);
}

function attemptOf(job: Job, ordinal: number | undefined): Attempt | undefined {
  // Without a number, the newest started attempt: one that waits for its TPU has no output.
  return ordinal === undefined
    ? job.attempts.findLast((attempt) => attempt.startedAt !== null)
    : requireAttempt(job, ordinal);
}

/** Throws JobmanError (3). */
export function requireAttempt(job: Job, ordinal: number): Attempt {
  const attempt = job.attempts[ordinal - 1];
  if (attempt !== undefined) return attempt;
  const had = job.attempts.length === 0 ? 'none yet' : pluralize(job.attempts.length, 'attempt');
  throw new JobmanError(`Job ${job.id} has no attempt ${ordinal}; it has ${had}.`, exitCode.notFound);
}

/** Throws JobmanError (3). */
export function requireWorker(job: Job, worker: WorkerId, attempt: Attempt): WorkerId {
  const workers = workersOf(job, attempt);
  if (workers.length === 0 || workers.includes(worker)) return worker;
  const known = workers.map(formatWorker).join(', ');
  throw new JobmanError(
    `Attempt ${attempt.ordinal} of job ${job.id} does not run on ${formatWorker(worker)}, only on ${known}.`,
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
    const suggestion = didYouMean(step, known);
    throw new JobmanError(
      `Job ${job.id} has no step "${step}".${suggestion === undefined ? '' : ` Did you mean ${suggestion}?`}`,
      exitCode.notFound,
      [`Steps: ${known.join(', ')}`],
    );
  }
  const workers = worker === undefined ? await workersIn(logFolder(folder), `${asFileName(step)}_worker_`) : [worker];
  return existingFiles(
    job,
    workers.map((each) => ({ path: stepFile(folder, step, each), worker: each, attempt: null })),
  );
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
    .map((name): WorkerId | undefined => (name === 'controller' ? name : /^\d+$/.test(name) ? Number(name) : undefined))
    .filter((worker) => worker !== undefined);
  return workers.toSorted(
    (one, other) => Number(one === 'controller') - Number(other === 'controller') || Number(one) - Number(other),
  );
}

async function existingFiles(
  { id }: Job,
  files: readonly Omit<LogFile, 'job' | 'bytes'>[],
): Promise<readonly LogFile[]> {
  const sizes = await Promise.all(
    files.map(async ({ path }) => {
      const found = await stat(path).catch(() => undefined);
      return found?.isFile() === true ? found.size : undefined;
    }),
  );
  return files.flatMap((file, index) => {
    const bytes = sizes[index];
    return bytes === undefined ? [] : [{ job: id, ...file, bytes }];
  });
}

/** Empty without a readable file. `changedAt` is the time of the last write. */
export function readEnd(path: string, maxBytes: number): { readonly text: string; readonly changedAt: Instant | null } {
  const end = createPartReader()(path, maxBytes);
  return { text: end?.bytes.toString('utf8') ?? '', changedAt: end?.changedAt ?? null };
}
