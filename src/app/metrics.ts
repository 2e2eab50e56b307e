// Metrics of a job: reads all copies of its output and of the metrics that it reports, and collects the points of each
// attempt. Nothing is stored besides the copies and their arrival times: the points follow from them, so no crash can
// lose or repeat one.

import type { Attempt, Job } from '../core/model/job.ts';
import { createTimeReader, parseArrivals, type Arrival } from '../core/model/arrival-times.ts';
import {
  createLineFinder,
  createStepCarrier,
  maxReportedLineLength,
  metricsOfLine,
  metricsOfReport,
  type MetricLine,
} from '../core/model/metric-lines.ts';
import { parseInstant, type Instant } from '../core/model/time.ts';
import type { WorkerId } from '../core/model/spec.ts';
import {
  createMetricCollector,
  maxSeries,
  stepsPerSecond,
  throughputChange,
  throughputName,
  type AttemptProgress,
  type MetricPoint,
  type MetricSeries,
} from '../reports/metrics.ts';
import type {
  AttemptMetrics,
  MetricPointView,
  MetricsQuery,
  MetricSeriesView,
  MetricsStep,
  MetricsView,
} from './client.ts';
import { createEndReader } from './file-ends.ts';
import { pluralize } from './format.ts';
import { requireAttempt, requireWorker } from './logs.ts';
import type { CopiedOutput, JobFiles, LocalFolders, OutputFile } from './ports.ts';
import { createLeftOut, formatThroughputChange, progressOf, type LeftOut } from './progress.ts';
import { workersOf } from './views.ts';

const defaultPoints = 1_000;

/** Throws JobmanError (3) for an attempt or a worker that the job lacks, and StoreError for a file that cannot be read. */
export async function* metricsOfJob(
  { files, folders }: { readonly files: JobFiles; readonly folders: LocalFolders },
  job: Job,
  now: Instant,
  query: MetricsQuery,
): AsyncIterable<MetricsStep> {
  const { slowWorker, dashboards } = progressOf(job, now, createEndReader(files, job), folders);
  const leftOut = createLeftOut();
  const lines = linesOfJob(files, job, query, leftOut.add);
  const collected = yield* collect(lines, attemptsOf(job, query).map(knownAttempt), query, leftOut);
  yield { kind: 'result', metrics: { id: job.id, name: job.spec.name, ...collected, slowWorker, dashboards } };
}

/** Every point of the query, without a reduction and without the throughput. Needs no memory for earlier points. */
export function metricPointsOfJob(files: JobFiles, job: Job, query: MetricsQuery): AsyncIterable<MetricPointView> {
  return pointsOf(job.id, linesOfJob(files, job, query), query);
}

/** The log of one pod of a cluster's job, whose lines begin with the cluster's time. */
export interface PodLog {
  /** From 1, the oldest pod first. */
  readonly attempt: number;
  /** The number of the pod in its job. */
  readonly worker: number;
  readonly pieces: AsyncIterable<Uint8Array>;
}

export async function* metricsOfPods(
  name: string,
  pods: AsyncIterable<PodLog>,
  query: MetricsQuery,
): AsyncIterable<MetricsStep> {
  const attempts: KnownAttempt[] = [];
  const collected = yield* collect(linesOfPods(pods, query, attempts), attempts, query, createLeftOut());
  const none = { slowWorker: null, dashboards: { wandb: null, tensorboard: null } };
  yield { kind: 'result', metrics: { id: name, name, ...collected, ...none } };
}

export function metricPointsOfPods(
  name: string,
  pods: AsyncIterable<PodLog>,
  query: MetricsQuery,
): AsyncIterable<MetricPointView> {
  return pointsOf(name, linesOfPods(pods, query), query);
}

// ------------------------------------------------------------------------------------------ points

async function* collect(
  blocks: AsyncIterable<LineBlock>,
  attempts: readonly KnownAttempt[],
  query: MetricsQuery,
  leftOut: LeftOut,
): AsyncGenerator<MetricsStep, Pick<MetricsView, 'attempts' | 'names' | 'series' | 'throughput' | 'leftOut'>> {
  const collector = createMetricCollector(query.maxPoints ?? defaultPoints);
  const workers = new Map<number, WorkerId>();
  for await (const { attempt, source, worker, lines, bytes, size } of blocks) {
    yield { kind: 'read', attempt, bytes, size };
    if (lines.length > 0) workers.set(attempt, worker);
    for (const { line, at } of lines) collector.add(attempt, source, line, at);
  }
  const { series, throughput, attempts: progress, unkeptPoints } = collector.finish();
  const all = throughput === null ? series : [...series, throughput];
  const change = throughputChange(progress);
  return {
    attempts: attempts.map((attempt) => attemptMetrics(attempt, workers, progress)),
    names: all.map(({ name }) => name),
    series: all.filter(({ name }) => isWanted(query, name)).map(seriesView),
    throughput: change === null ? null : formatThroughputChange(change),
    leftOut: [leftOut.summary(), formatUnkept(unkeptPoints)].filter((text) => text !== null).join('; ') || null,
  };
}

function formatUnkept(points: number): string | null {
  return points === 0 ? null : `${pluralize(points, 'point')} of metrics beyond the first ${maxSeries} names`;
}

async function* pointsOf(
  job: string,
  blocks: AsyncIterable<LineBlock>,
  query: MetricsQuery,
): AsyncIterable<MetricPointView> {
  const reported = new Set<string>();
  let current = 0;
  for await (const { attempt, source, worker, lines } of blocks) {
    if (attempt !== current) reported.clear();
    current = attempt;
    for (const { line, at } of lines) {
      for (const [name, value] of line.values) {
        if (source === 'metrics') reported.add(name);
        else if (reported.has(name)) continue;
        if (isWanted(query, name))
          yield { job, metric: name, worker, ...pointView({ attempt, step: line.step, at, value }) };
      }
    }
  }
}

function isWanted({ metrics }: MetricsQuery, name: string): boolean {
  return metrics === undefined || metrics.some((wanted) => wanted.toLowerCase() === name.toLowerCase());
}

// ------------------------------------------------------------------------------------------ lines

interface TimedLine {
  readonly line: MetricLine;
  readonly at: Instant | null;
}

/** The lines of a part of one file. */
interface LineBlock {
  readonly attempt: number;
  readonly worker: WorkerId;
  readonly source: OutputFile;
  readonly lines: readonly TimedLine[];
  /** Of the file, so far. */
  readonly bytes: number;
  /** Null if it is not known. */
  readonly size: number | null;
}

/** Attempt by attempt; of each one worker, the first with metrics unless the query names one. */
async function* linesOfJob(
  files: JobFiles,
  job: Job,
  query: MetricsQuery,
  onLeftOut?: (text: string) => void,
): AsyncIterable<LineBlock> {
  for (const attempt of attemptsOf(job, query)) {
    const workers = query.worker === undefined ? workersOf(job, attempt) : [requireWorker(job, query.worker, attempt)];
    let isFound = false;
    for (const worker of workers) {
      for (const source of ['metrics', 'log'] as const) {
        for await (const { lines, ...read } of linesOfRun({ files, job, attempt, worker, source, onLeftOut })) {
          isFound ||= lines.length > 0;
          yield { attempt: attempt.ordinal, worker, source, lines: linesSince(lines, query), ...read };
        }
      }
      if (isFound) break;
    }
  }
}

function linesSince(lines: readonly TimedLine[], { since }: MetricsQuery): readonly TimedLine[] {
  return since === undefined ? lines : lines.filter(({ at }) => at !== null && at >= since);
}

/** Adds each attempt to `attempts` when it is reached. */
async function* linesOfPods(
  pods: AsyncIterable<PodLog>,
  query: MetricsQuery,
  attempts: KnownAttempt[] = [],
): AsyncIterable<LineBlock> {
  for await (const { attempt, worker, pieces } of pods) {
    if (attempts.at(-1)?.attempt !== attempt)
      attempts.push({ attempt, stage: 0, startedAt: null, endedAt: null, reason: null });
    let before: Instant | null = null;
    const withStep = createStepCarrier();
    const finder = createLineFinder((text) => {
      const [, stamp, printed = text] = timestampedLine.exec(text) ?? [];
      // The parts of a line after a carriage return have no time of their own.
      before = parseInstant(stamp) ?? before;
      const found = metricsOfLine(printed);
      const line = found === undefined ? undefined : withStep(found);
      return line === undefined ? undefined : { line, at: before };
    });
    let bytes = 0;
    const blockOf = (found: ReturnType<typeof finder.push>): LineBlock => {
      const lines = linesSince(
        found.map(({ line }) => line),
        query,
      );
      return { attempt, worker, source: 'log', lines, bytes, size: null };
    };
    for await (const piece of pieces) {
      bytes += piece.length;
      yield blockOf(finder.push(piece));
    }
    yield blockOf(finder.end());
  }
}

const timestampedLine = /^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (.*)$/s;

function attemptsOf(job: Job, { attempt }: MetricsQuery): readonly Attempt[] {
  if (attempt !== undefined) return [requireAttempt(job, attempt)];
  return job.attempts.filter(({ startedAt }) => startedAt !== null);
}

interface RunOutput {
  readonly files: JobFiles;
  readonly job: Job;
  readonly attempt: Attempt;
  readonly worker: WorkerId;
  readonly source: OutputFile;
  readonly onLeftOut: ((text: string) => void) | undefined;
}

async function* linesOfRun(output: RunOutput): AsyncIterable<Pick<LineBlock, 'lines' | 'bytes' | 'size'>> {
  const { files, job, attempt, worker, source, onLeftOut } = output;
  const copy: CopiedOutput = { attempt: attempt.ordinal, worker, file: source };
  const begin = attempt.runningAt ?? attempt.startedAt;
  const timeAt = createTimeReader([
    ...(begin === null ? [] : [{ length: 0, at: begin }]),
    ...arrivalsOf(files, job, copy),
  ]);
  const finder =
    source === 'log'
      ? createLineFinder<MetricLine & { readonly at?: Instant | null }>(metricsOfLine)
      : createLineFinder((text) => metricsOfReport(text, onLeftOut), 0, maxReportedLineLength);
  const withStep = createStepCarrier();
  const timed = (found: ReturnType<typeof finder.push>) =>
    found.flatMap(({ line, end }) => {
      const at = line.at ?? timeAt(end);
      const carried = withStep(line);
      return carried === undefined ? [] : [{ line: carried, at }];
    });
  let read: { readonly bytes: number; readonly size: number | null } = { bytes: 0, size: null };
  const pieces = files.pieces(job, { kind: 'output', ...copy }, (bytes, size) => (read = { bytes, size }));
  for await (const piece of pieces) yield { lines: timed(finder.push(piece)), ...read };
  yield { lines: timed(finder.end()), ...read };
}

/** The arrival times of a month of output take half as much. */
const maxArrivalBytes = 32 * 1024 * 1024;

/** Empty if the file is missing or unusable: then the points have no times. */
function arrivalsOf(files: JobFiles, job: Job, copy: CopiedOutput): readonly Arrival[] {
  try {
    const part = files.read(job, { kind: 'arrivals', ...copy }, 0, maxArrivalBytes);
    return part === undefined || part.size > maxArrivalBytes ? [] : parseArrivals(part.bytes.toString('latin1'));
  } catch {
    return [];
  }
}

// ------------------------------------------------------------------------------------------ views

type KnownAttempt = Pick<AttemptMetrics, 'attempt' | 'stage' | 'startedAt' | 'endedAt' | 'reason'>;

function knownAttempt({ ordinal, startedAt, endedAt, ending, stage }: Attempt): KnownAttempt {
  return { attempt: ordinal, stage, startedAt, endedAt, reason: ending?.reason ?? null };
}

function attemptMetrics(
  known: KnownAttempt,
  workers: ReadonlyMap<number, WorkerId>,
  all: readonly AttemptProgress[],
): AttemptMetrics {
  const progress = all.find(({ attempt }) => attempt === known.attempt);
  return {
    ...known,
    worker: workers.get(known.attempt) ?? null,
    firstStep: progress?.firstStep ?? null,
    lastStep: progress?.lastStep ?? null,
    totalSteps: progress?.total ?? null,
    stepsPerSecond: progress === undefined ? null : stepsPerSecond(progress),
  };
}

function seriesView({
  name,
  points,
  count,
  last,
  min,
  max,
  nonFinite,
  firstNonFinite,
}: MetricSeries): MetricSeriesView {
  return {
    name,
    unit: name === throughputName ? 'steps/s' : null,
    points: points.map(pointView),
    count,
    last: pointView(last),
    min,
    max,
    nonFinite,
    firstNonFinite: firstNonFinite === null ? null : pointView(firstNonFinite),
  };
}

/** JSON has no NaN and no infinity. */
function pointView({ attempt, step, at, value }: MetricPoint): MetricSeriesView['last'] {
  const text = Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
  return { attempt, step, at, value: Number.isFinite(value) ? value : text };
}
