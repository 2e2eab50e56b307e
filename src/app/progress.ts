// Progress: how far a job's program is, how fast, and which worker is slow. Reads only both ends of the copies of its
// output, so that `show` stays quick; src/app/metrics.ts reads all of it.

import { isAbsolute, join } from 'node:path';
import { checkpointFolder } from '../core/decide/launch.ts';
import { createTimeReader, parseArrivals } from '../core/model/arrival-times.ts';
import { dashboardLinksOf, type DashboardLinks } from '../core/model/dashboard-links.ts';
import { lastAttempt, type Attempt, type Job } from '../core/model/job.ts';
import {
  countsOf,
  createLineFinder,
  maxMetricLineLength,
  maxReportedLineLength,
  metricsOfLine,
  metricsOfReport,
  type FoundLine,
  type MetricLine,
  type ProgressCount,
} from '../core/model/metric-lines.ts';
import { formatWorker, type WorkerId, runsCommandHere } from '../core/model/spec.ts';
import { hour, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import {
  slowWorkerOf,
  stepsPerSecond,
  throughputChange,
  type AttemptProgress,
  type SlowWorker,
  type ThroughputChange,
  type WorkerPace,
} from '../reports/metrics.ts';
import { outputLog, type EndReader } from './file-ends.ts';
import { formatCount, formatDuration, pluralize } from './format.ts';
import { textOf } from './logs.ts';
import type { CopiedOutput, FilePart, LocalFolders, OutputFile } from './ports.ts';
import { workersOf } from './views.ts';

/** All texts are for people; null for what is not known. */
export interface ProgramProgress {
  /** `step 40,210 of 90,000 (44%), 1.16/s, 11h54m more at this pace`. */
  readonly progress: string | null;
  /** The comparison of the newest attempt with the one before. */
  readonly throughput: string | null;
  readonly slowWorker: string | null;
  /** Of the newest reported metrics. */
  readonly leftOut: string | null;
  readonly dashboards: DashboardLinks;
}

/** Texts of a metrics file that are not metrics. */
export interface LeftOut {
  readonly add: (text: string) => void;
  /** `3 reported texts that are not metrics, such as "lr=abc"`; null without any. */
  readonly summary: () => string | null;
}

const maxExampleLength = 60;

export function createLeftOut(): LeftOut {
  let count = 0;
  let example = '';
  return {
    add(text) {
      if (count === 0) example = text.slice(0, maxExampleLength);
      count += 1;
    },
    summary: () =>
      count === 0
        ? null
        : `${pluralize(count, 'reported text that is not a metric', 'reported texts that are not metrics')}, such as "${example}"`,
  };
}

/** More workers are not read. */
const maxWorkers = 16;
/** Attempts whose throughput is compared. */
const maxAttempts = 4;
const beginBytes = 16 * 1024;
const endBytes = 64 * 1024;
const shortEndBytes = 4 * 1024;
const arrivalBytes = 4 * 1024;

/** The progress of the slowest of at most 16 workers of the newest attempt. */
export function progressOf(job: Job, now: Instant, read: EndReader, folders: LocalFolders): ProgramProgress {
  const attempt = lastAttempt(job);
  const dashboards = dashboardsOf(read, folders, job);
  if (attempt === undefined || attempt.startedAt === null)
    return { progress: null, throughput: null, slowWorker: null, leftOut: null, dashboards };
  const leftOut = createLeftOut();
  const outputs = outputsOf(read, job, attempt, endBytes, leftOut.add);
  const isRunning = attempt.endedAt === null && attempt.ending === null;
  const slow = isRunning ? slowWorkerOf(outputs.map((one) => paceOfWorker(one, attempt, now))) : null;
  const slowest = slowestOf(outputs);
  const change = throughputChange(recentAttempts(read, job));
  return {
    progress: slowest === undefined ? null : formatProgress(endsOf(slowest, attempt), isRunning),
    throughput: change === null ? null : formatThroughputChange(change),
    slowWorker: slow === null ? null : formatSlowWorker(slow),
    leftOut: leftOut.summary(),
    dashboards,
  };
}

/** Its step and pace alone, for a screen of many jobs: reads less of each output. */
export function currentPaceOf(
  job: Job,
  read: EndReader,
): { readonly step: number | null; readonly stepsPerSecond: number | null } {
  const attempt = lastAttempt(job);
  const slowest = attempt === undefined ? undefined : slowestOf(outputsOf(read, job, attempt, shortEndBytes));
  if (attempt === undefined || slowest === undefined) return { step: null, stepsPerSecond: null };
  const { first, last } = endsOf(slowest, attempt);
  return { step: last?.position.done ?? null, stepsPerSecond: last === null ? null : rateBetween(first, last) };
}

function outputsOf(
  read: EndReader,
  job: Job,
  attempt: Attempt,
  maxBytes: number,
  onLeftOut?: (text: string) => void,
): readonly Output[] {
  const workers = workersOf(job, attempt).slice(0, maxWorkers);
  return workers.map((worker) => readOutput(read, attempt, worker, maxBytes, onLeftOut));
}

function slowestOf(outputs: readonly Output[]): Output | undefined {
  const doneOf = ({ newest }: Output) => newest.at(-1)?.line.position.done ?? 0;
  return outputs.filter(({ newest }) => newest.length > 0).toSorted((one, other) => doneOf(one) - doneOf(other))[0];
}

/** The pace of an attempt is that of its slowest worker, as in `progressOf`. */
function recentAttempts(read: EndReader, job: Job): readonly AttemptProgress[] {
  const started = job.attempts.filter(({ startedAt }) => startedAt !== null).slice(-maxAttempts);
  if (started.length < 2) return [];
  return started.flatMap((attempt) => {
    const slowest = slowestOf(outputsOf(read, job, attempt, endBytes));
    return slowest === undefined ? [] : (attemptProgress(attempt, endsOf(slowest, attempt)) ?? []);
  });
}

function attemptProgress({ ordinal }: Attempt, { first, last }: Ends): AttemptProgress | null {
  if (first === null || last === null || !isSameCount(first.position, last.position)) return null;
  return {
    attempt: ordinal,
    firstStep: first.position.done,
    lastStep: last.position.done,
    total: last.position.total,
    steps: last.position.done - first.position.done,
    duration: first.at === null || last.at === null ? 0 : last.at - first.at,
  };
}

// ------------------------------------------------------------------------------------------ both ends of an output

/** A position in the work. */
interface Position {
  readonly unit: string;
  readonly done: number;
  readonly total: number | null;
}

interface PositionLine {
  readonly position: Position;
  /** All counts of the line, such as an epoch and a step. */
  readonly counts: readonly ProgressCount[];
  readonly at: Instant | null;
  readonly line: MetricLine | null;
}

/** The end of what one worker printed or reported. */
interface Output {
  readonly worker: WorkerId;
  readonly read: EndReader;
  readonly file: CopiedOutput;
  /** The lines that name a position, oldest first. */
  readonly newest: readonly FoundLine<PositionLine>[];
  /** Time of the last output; null without any. */
  readonly changedAt: Instant | null;
}

/** The first and the newest position, with their times. */
interface Ends {
  readonly first: PositionLine | null;
  readonly last: PositionLine | null;
}

/** Reported metrics are preferred to the log. */
function readOutput(
  read: EndReader,
  { ordinal }: Attempt,
  worker: WorkerId,
  maxBytes: number,
  onLeftOut?: (text: string) => void,
): Output {
  const reported = readNewest(read, { attempt: ordinal, worker, file: 'metrics' }, maxBytes, onLeftOut);
  const printed = readNewest(read, { attempt: ordinal, worker, file: 'log' }, maxBytes);
  const chosen = reported.newest.length === 0 ? printed : reported;
  return { ...chosen, worker, read, changedAt: printed.changedAt ?? reported.changedAt };
}

function positionOfReport(text: string, onLeftOut?: (text: string) => void): PositionLine | undefined {
  const line = metricsOfReport(text, onLeftOut);
  if (line === undefined || line.step === null) return undefined;
  return { position: { unit: 'step', done: line.step, total: line.total }, counts: [], at: line.at, line };
}

function positionOfLine(text: string): PositionLine | undefined {
  const counts = countsOf(text);
  const line = metricsOfLine(text) ?? null;
  const [count] = counts;
  if (counts.length === 1 && count !== undefined) return { position: count, counts, at: null, line };
  if (line === null || line.step === null) return undefined;
  return { position: { unit: 'step', done: line.step, total: line.total }, counts, at: null, line };
}

const recognisers: Readonly<Record<OutputFile, typeof positionOfReport>> = {
  log: positionOfLine,
  metrics: positionOfReport,
};

function readNewest(
  read: EndReader,
  file: CopiedOutput,
  maxBytes: number,
  onLeftOut?: (text: string) => void,
): Omit<Output, 'worker' | 'read'> {
  const end = read({ kind: 'output', ...file }, maxBytes);
  const newest = end === undefined ? [] : linesOf(end, (text) => recognisers[file.file](text, onLeftOut), file.file);
  return { file, newest, changedAt: end?.changedAt ?? null };
}

/** Without a stored time, the first line is as old as the attempt, and the last one as the file. */
function endsOf(output: Output, attempt: Attempt): Ends {
  const { file, read, newest, changedAt } = output;
  const begin = read({ kind: 'output', ...file }, beginBytes, 'first');
  const oldest = begin === undefined ? [] : linesOf(begin, recognisers[file.file], file.file);
  const first = withTime(output, attempt, 'first', oldest[0], attempt.runningAt);
  const last = withTime(output, attempt, 'last', newest.at(-1), changedAt);
  if (file.file === 'log') return { first, last };
  const total = reportedTotal(begin, newest);
  return { first: withTotal(first, total), last: withTotal(last, total) };
}

/** A program may report the total once, before its first step or with any step. The newest applies to all steps. */
function reportedTotal(begin: FilePart | undefined, newest: Output['newest']): number | null {
  const late = newest.findLast(({ line }) => line.position.total !== null)?.line.position.total;
  if (late !== undefined || begin === undefined) return late ?? null;
  return linesOf(begin, (text) => metricsOfReport(text)?.total ?? undefined, 'metrics').at(-1)?.line ?? null;
}

function withTotal(line: PositionLine | null, total: number | null): PositionLine | null {
  return line && { ...line, position: { ...line.position, total } };
}

function linesOf<Line>(
  { bytes, from }: FilePart,
  recognise: (text: string) => Line | undefined,
  file: OutputFile,
): readonly FoundLine<Line>[] {
  const isLog = file === 'log';
  // The first line of a part may lack its beginning.
  const start = from === 0 ? 0 : bytes.indexOf('\n') + 1;
  const finder = createLineFinder(recognise, from + start, isLog ? maxMetricLineLength : maxReportedLineLength);
  const lines = finder.push(bytes.subarray(start));
  // A progress bar ends its line only when it prints the next one, so the last line counts without an end.
  return isLog ? [...lines, ...finder.end()] : lines;
}

function withTime(
  { file, read }: Output,
  { startedAt, runningAt }: Attempt,
  end: 'first' | 'last',
  found: FoundLine<PositionLine> | undefined,
  otherwise: Instant | null,
): PositionLine | null {
  if (found === undefined || found.line.at !== null) return found?.line ?? null;
  const begin = runningAt ?? startedAt;
  const part = read({ kind: 'arrivals', ...file }, arrivalBytes, end);
  const isFromBegin = end === 'first' || part?.from === 0;
  const timeAt = createTimeReader([
    ...(isFromBegin && begin !== null ? [{ length: 0, at: begin }] : []),
    ...parseArrivals(part?.bytes.toString('latin1') ?? ''),
  ]);
  return { ...found.line, at: timeAt(found.end) ?? otherwise };
}

function isSameCount(one: Position, other: Position): boolean {
  return one.unit === other.unit && one.total === other.total;
}

// ------------------------------------------------------------------------------------------ workers

const reportedSeconds =
  /^(?:step_time|sec_per_step|seconds_per_step|time_per_step|iter_time|seconds|s\/(?:it|iter|step))$/i;
const reportedMilliseconds = /^(?:step_time_ms|ms\/(?:it|iter|step)|time)$/i;

function paceOfWorker(output: Output, attempt: Attempt, now: Instant): WorkerPace {
  const { worker, newest, changedAt } = output;
  const { first, last } = endsOf(output, attempt);
  const steps = newest.map(({ line }) => line.position.done);
  const gaps = steps.slice(1).map((step, index) => step - (steps[index] ?? step));
  return {
    worker,
    step: steps.at(-1) ?? null,
    stepsPerLine: median(gaps.filter((gap) => gap > 0)),
    secondsPerStep: reportedPace(newest.map(({ line }) => line)),
    logAgeMs: changedAt === null ? null : Math.max(0, now - changedAt),
    stepsPerSecond: last === null ? null : rateBetween(first, last),
  };
}

/** The median that the newest lines report. The times of their arrival are not precise enough. */
function reportedPace(newest: readonly PositionLine[]): number | null {
  const all = newest.slice(-20).flatMap(({ line }) => line?.values ?? []);
  const inSeconds = all.flatMap(([name, value]) =>
    reportedSeconds.test(name) ? [value] : reportedMilliseconds.test(name) ? [value / second] : [],
  );
  return median(inSeconds.filter((value) => Number.isFinite(value) && value > 0));
}

function median(values: readonly number[]): number | null {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? null;
}

function formatSlowWorker({ worker, kind, value, others, othersCount }: SlowWorker): string {
  const name = formatWorker(worker);
  const rest = othersCount === 1 ? 'the other' : 'the others';
  switch (kind) {
    case 'steps':
      return `${name} is behind by ${formatCount(others - value)} steps: step ${formatCount(value)}, ${rest} ${formatCount(others)}`;
    case 'pace':
      return `${name} is slow: ${formatSeconds(value)} per step, ${rest} ${formatSeconds(others)}`;
    case 'silent':
      return `${name} has printed nothing for ${formatDuration(value)}, ${rest} for at most ${formatDuration(others)}`;
  }
}

function formatSeconds(value: number): string {
  return `${value >= 100 ? Math.round(value) : value.toPrecision(3)} s`;
}

// ------------------------------------------------------------------------------------------ dashboards

/** From both ends of the newest output, and from the checkpoint folder if it is on this machine. */
function dashboardsOf(read: EndReader, folders: LocalFolders, job: Job): DashboardLinks {
  const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null);
  const none: DashboardLinks = { wandb: null, tensorboard: null };
  if (attempt === undefined) return none;
  const found = workersOf(job, attempt)
    .slice(0, 2)
    .flatMap((worker) => {
      const log = outputLog(attempt.ordinal, worker);
      const end = read(log, endBytes);
      const begin = end === undefined || end.from === 0 ? undefined : read(log, 4 * endBytes, 'first');
      return [end, begin].flatMap((part) => (part === undefined ? [] : [dashboardLinksOf(textOf(part))]));
    });
  return {
    wandb: found.find(({ wandb }) => wandb !== null)?.wandb ?? null,
    tensorboard:
      eventFolder(folders, job, attempt) ?? found.find(({ tensorboard }) => tensorboard !== null)?.tensorboard ?? null,
  };
}

const maxFolders = 50;

/** The folder with event files in the checkpoint folder or one below it; null if it is not on this machine. */
function eventFolder(folders: LocalFolders, job: Job, attempt: Attempt): string | null {
  const folder = checkpointFolder(job, attempt);
  if (folder === null || !runsCommandHere(job.spec) || !isAbsolute(folder)) return null;
  const entries = folders.list(folder);
  const isEventFile = ({ name }: { readonly name: string }) => name.startsWith('events.out.tfevents.');
  if (entries.some(isEventFile)) return folder;
  const below = entries.filter(({ isFolder }) => isFolder).slice(0, maxFolders);
  const found = below.find(({ name }) => folders.list(join(folder, name)).some(isEventFile));
  return found === undefined ? null : join(folder, found.name);
}

// ------------------------------------------------------------------------------------------ texts

/** `step 40,210 of 90,000 (44%), 1.16/s, 11h54m more at this pace`; without a pace once the attempt has ended. */
function formatProgress({ first, last }: Ends, isRunning: boolean): string | null {
  if (last === null) return null;
  const { position, counts } = last;
  if (counts.length > 1) {
    return counts.map(({ unit, done, total }) => `${unit} ${formatCount(done)} of ${formatCount(total)}`).join(', ');
  }
  const { unit, done, total } = position;
  const share = total === null ? '' : ` of ${formatCount(total)} (${Math.floor((done / total) * 100)}%)`;
  const text = `${unit} ${formatCount(done)}${share}`;
  const rate = isRunning ? rateBetween(first, last) : null;
  if (rate === null || done === total) return text;
  const remaining = total === null ? '' : `, ${formatDuration(((total - done) / rate) * second)} more at this pace`;
  return `${text}, ${formatRate(rate)}${remaining}`;
}

function rateBetween(first: PositionLine | null, last: PositionLine): number | null {
  if (first === null || first.at === null || last.at === null || !isSameCount(first.position, last.position))
    return null;
  return stepsPerSecond({ steps: last.position.done - first.position.done, duration: last.at - first.at });
}

export function formatThroughputChange({ attempt, before, rate, rateBefore }: ThroughputChange): string {
  const difference = Math.round(Math.abs(rate / rateBefore - 1) * 100);
  const comparison = rate < rateBefore ? 'slower' : 'faster';
  return `attempt ${attempt} runs at ${formatRate(rate)}, ${difference}% ${comparison} than attempt ${before} (${formatRate(rateBefore)})`;
}

/** Per second, minute or hour: `1.16/s`, `2.00/h`. */
function formatRate(perSecond: number): string {
  const units: readonly (readonly [string, Duration])[] = [
    ['s', second],
    ['min', minute],
  ];
  const inUnit = (unit: Duration) => (perSecond * unit) / second;
  const [name, unit] = units.find(([, length]) => inUnit(length) >= 0.5) ?? ['h', hour];
  const value = inUnit(unit);
  return `${value >= 100 ? formatCount(Math.round(value)) : value.toPrecision(3)}/${name}`;
}
