// Logs: the logs of a job by id and byte offset, and the newest lines of its workers.

import { formatWorker, type WorkerId } from '../core/model/spec.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { allocationOf, lastAttempt, openAttempt, type Attempt, type Job } from '../core/model/job.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { failedCallPatterns, failurePatterns, patternAfterProgress } from '../core/model/log-lines.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { LogPart, LogPartRequest, LogQuery, LogRef, WorkerView } from './client.ts';
import { exitCode, JobmanError, usageError } from './errors.ts';
import { outputLog, type EndReader } from './file-ends.ts';
import { asFileName, pluralize } from './format.ts';
import { pageOf, type Key, type Page, type Rows } from './pages.ts';
import type { FilePart, FileState, JobFile, JobFiles, OutputFile } from './ports.ts';
import { lastLineOf, lastOutputBytes, lastOutputLines } from './program-output.ts';
import { addressOf, workersOf } from './views.ts';

const lastLineBytes = 4 * 1024;

/** The output of an attempt, of a setup step, or the notes about the job. */
type JobLog = Exclude<JobFile, { readonly kind: 'arrivals' }>;

/** Existing logs, in the order of workers. Throws JobmanError for an attempt, worker or step that the job lacks. */
export function logsOf(files: JobFiles, job: Job, query: LogQuery, now: Instant): readonly LogRef[] {
  return wantedLogs(files, job, query).flatMap((log) => {
    const state = files.stateOf(job, log);
    return state === undefined ? [] : [logRef(job, log, state, now)];
  });
}

/** The page that the query asks for. Throws JobmanError (2). */
export function logPage(job: Job, logs: readonly LogRef[], page: Page): Rows<LogRef> {
  return pageOf('logs', logs, page, ({ id }) => keyOfLog(job, parseLogId(job, id)));
}

/** In the order of `logsOf`. */
function keyOfLog({ spec }: Job, log: JobLog | undefined): Key {
  if (log === undefined || log.kind === 'note') return [0, 0, log?.log === 'tpu' ? 1 : 0];
  const worker = log.worker === 'controller' ? 0 : log.worker + 1;
  return log.kind === 'step'
    ? [0, 1 + spec.steps.findIndex(({ name }) => name === log.step), worker]
    : [log.attempt, outputFiles.indexOf(log.file), worker];
}

function wantedLogs(files: JobFiles, job: Job, query: LogQuery): readonly JobLog[] {
  const { step, worker, attempt: ordinal } = query;
  const logsOfStep = (name: string, workers = files.workersWith(job, { step: name })): readonly JobLog[] =>
    workers.map((each) => ({ kind: 'step', step: name, worker: each }));
  const outputs = (
    file: OutputFile,
    attempt: number,
    workers = files.workersWith(job, { attempt, file }),
  ): readonly JobLog[] => workers.map((each) => ({ kind: 'output', attempt, worker: each, file }));
  if (query.all === true) {
    const steps = job.spec.steps.flatMap(({ name }) => logsOfStep(name));
    const ofAttempts = job.attempts.flatMap((one) => outputFiles.flatMap((file) => outputs(file, one.ordinal)));
    return [{ kind: 'note', log: 'job' }, { kind: 'note', log: 'tpu' }, ...steps, ...ofAttempts];
  }
  if (step === 'job' || step === 'tpu') return [{ kind: 'note', log: step }];
  if (step !== undefined && step !== 'command') {
    requireStep(job, step);
    return worker === undefined ? logsOfStep(step) : logsOfStep(step, [worker]);
  }
  const attempt = attemptOf(job, ordinal);
  if (attempt === undefined) return [];
  return worker === undefined
    ? outputs('log', attempt.ordinal)
    : outputs('log', attempt.ordinal, [requireWorker(job, worker, attempt)]);
}

const outputFiles: readonly OutputFile[] = ['log', 'metrics'];

function logRef(job: Job, log: JobLog, { size, changedAt }: FileState, now: Instant): LogRef {
  return {
    job: job.id,
    id: formatLogId(log),
    worker: log.kind === 'note' ? null : log.worker,
    attempt: log.kind === 'output' ? log.attempt : null,
    step: log.kind === 'note' ? log.log : log.kind === 'step' ? log.step : null,
    size,
    changedAt,
    isComplete: isComplete(job, log, changedAt, now),
  };
}

/** Of one answer of `readLog`. */
const maxPartBytes = 1024 * 1024;
/** Of one request: each part is read from its file. */
export const maxParts = 1000;

/** Throws JobmanError (3) without such a log. */
export function readLog(files: JobFiles, job: Job, request: LogPartRequest, now: Instant): LogPart {
  const { id, from, maxBytes } = request;
  if (![from, maxBytes].every((value) => Number.isSafeInteger(value) && value >= 0))
    throw usageError('A part of a log begins at a byte from 0 on and has a number of bytes.');
  const log = parseLogId(job, id);
  const part = log && files.read(job, log, from, Math.min(maxBytes, maxPartBytes));
  if (log === undefined || part === undefined)
    throw new JobmanError(`Job ${job.id} has no log ${id}.`, exitCode.notFound);
  const { bytes, size, changedAt } = part;
  const end = Math.max(size, from + bytes.length);
  return {
    bytes,
    from,
    end,
    isComplete: from + bytes.length >= end && isComplete(job, log, changedAt, now),
  };
}

/** Throws JobmanError (2) for too many parts, and as `readLog` does. */
export function* readLogs(
  files: JobFiles,
  job: Job,
  wanted: readonly LogPartRequest[],
  now: () => Instant,
): Generator<LogPart, void> {
  if (wanted.length > maxParts) throw usageError(`At most ${maxParts} parts of logs at once.`);
  for (const part of wanted) yield readLog(files, job, part, now());
}

/** As the names of the files below `logs/`, which people know, without `.log`. */
function formatLogId(log: JobLog): string {
  if (log.kind === 'note') return log.log;
  if (log.kind === 'step') return `${asFileName(log.step)}_worker_${log.worker}`;
  return `attempt_${log.attempt}/${log.file === 'log' ? 'command' : log.file}_worker_${log.worker}`;
}

/** Undefined for an id that no log of the job can have. */
function parseLogId({ spec }: Job, id: string): JobLog | undefined {
  if (id === 'job' || id === 'tpu') return { kind: 'note', log: id };
  const [, folder, name = '', text = ''] = /^(attempt_\d{1,6}\/)?(.+)_worker_(\d{1,6}|controller)$/.exec(id) ?? [];
  const worker = text === 'controller' ? text : Number(text);
  if (folder === undefined) {
    const step = spec.steps.find((one) => asFileName(one.name) === name)?.name;
    return step === undefined ? undefined : { kind: 'step', step, worker };
  }
  const file = name === 'command' ? 'log' : name;
  const attempt = Number(folder.replaceAll(/\D/g, ''));
  return file === 'log' || file === 'metrics' ? { kind: 'output', attempt, worker, file } : undefined;
}

/** The last output arrives within this time after the end of its program. */
const lastOutputWithin: Duration = 600;

function isComplete(job: Job, log: JobLog, changedAt: Instant, now: Instant): boolean {
  const endedAt = log.kind === 'output' ? job.attempts[log.attempt - 1]?.endedAt : job.finish?.at;
  return typeof endedAt === 'number' && now - Math.max(endedAt, changedAt) > lastOutputWithin;
}

export function workerViews(job: Job, now: Instant, read: EndReader): readonly WorkerView[] {
  const attempt = lastAttempt(job);
  if (attempt === undefined) return [];
  const allocation = allocationOf(job, attempt.allocation);
  const state = formatWorkerState(job, attempt);
  return workersOf(job, attempt).map((worker) => {
    const end = read(outputLog(attempt.ordinal, worker), lastLineBytes);
    return {
      worker,
      address: addressOf(allocation, worker),
      message: formatExit(attempt, worker) ?? state,
      lastLine: lastLineOf(textOf(end)),
      logAgeMs: end === undefined ? null : Math.max(0, now - end.changedAt),
    };
  });
}

/** The last lines of the log on the worker that caused the end, or of the step that failed there. */
export function lastOutput(job: Job, attempt: Attempt, read: EndReader): readonly string[] {
  const worker = attempt.ending?.evidence.worker ?? workersOf(job, attempt)[0];
  if (worker === undefined) return [];
  const step = attempt.ending?.reason === 'setup_failed' ? failedStep(attempt, worker) : null;
  if (step === undefined) return [];
  const file: JobFile = step === null ? outputLog(attempt.ordinal, worker) : { kind: 'step', step, worker };
  return lastOutputLines(textOf(read(file, lastOutputBytes)));
}

export interface HangEvidence {
  readonly line: string;
  readonly description: string;
  readonly timeoutAt: Instant;
}

export function hangEvidenceOf(job: Job, read: EndReader): HangEvidence | null {
  const { failedCallTimeoutMs } = job.spec.limits;
  const attempt = openAttempt(job);
  if (failedCallTimeoutMs === undefined || attempt === undefined || attempt.ending !== null) return null;
  const end = read(outputLog(attempt.ordinal, 'controller'), lastOutputBytes);
  const found = patternAfterProgress(textOf(end));
  if (end === undefined || found === undefined || !failedCallPatterns.includes(found.pattern)) return null;
  const description = failurePatterns.find(({ name }) => name === found.pattern)?.meaning ?? found.pattern;
  return { line: found.line, description, timeoutAt: end.changedAt + failedCallTimeoutMs };
}

export function textOf(part: FilePart | undefined): string {
  return part?.bytes.toString('utf8') ?? '';
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

/** Throws JobmanError (3). */
function requireStep(job: Job, step: string): void {
  const names = job.spec.steps.map(({ name }) => name);
  if (names.includes(step)) return;
  const known = ['command', ...names, 'job', 'tpu'];
  const suggestion = didYouMean(step, known);
  throw new JobmanError(
    `Job ${job.id} has no step "${step}".${suggestion === undefined ? '' : ` Did you mean ${suggestion}?`}`,
    exitCode.notFound,
    [`Steps: ${known.join(', ')}`],
  );
}
