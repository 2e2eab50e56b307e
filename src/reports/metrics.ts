// Metrics: the series of a job's metrics over its attempts, its throughput, and the comparisons made from them. Pure:
// values in, values out. Everything here needs memory for the reduced series only, however many points are added.

import type { MetricLine } from '../core/model/metric-lines.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';

/** One value of one metric. */
export interface MetricPoint {
  readonly attempt: number;
  /** Null if the program printed none. It may go backwards: a resumed attempt begins at its checkpoint. */
  readonly step: number | null;
  /** The time that the program reported, or at which the line arrived here; null if neither is known. */
  readonly at: Instant | null;
  /** May be NaN or infinite. */
  readonly value: number;
}

export interface MetricSeries {
  /** As the program prints it; `throughput` is computed here, in steps per second. */
  readonly name: string;
  /** In the order in which they were printed, attempt by attempt. Reduced: of each stretch the least and the greatest. */
  readonly points: readonly MetricPoint[];
  /** All points, including those that the reduction left out. */
  readonly count: number;
  readonly last: MetricPoint;
  /** Of all finite values; null without one. */
  readonly min: number | null;
  readonly max: number | null;
  /** Points that are NaN or infinite. */
  readonly nonFinite: number;
  /** The first of them. */
  readonly firstNonFinite: MetricPoint | null;
}

/** The steps of one attempt. */
export interface AttemptProgress {
  readonly attempt: number;
  readonly firstStep: number;
  readonly lastStep: number;
  /** The last step of all, if the program names it. */
  readonly total: number | null;
  /** Steps made and the time that they took, between the first and the last step with a known time. */
  readonly steps: number;
  readonly duration: Duration;
}

export interface CollectedMetrics {
  /** In the order in which the names first occurred, without the throughput. */
  readonly series: readonly MetricSeries[];
  /** Null unless an attempt has steps at two times. */
  readonly throughput: MetricSeries | null;
  readonly attempts: readonly AttemptProgress[];
  /** Points of names beyond the first 256, which are not kept. */
  readonly unkeptPoints: number;
}

export const throughputName = 'throughput';

/** The metrics to show first: the loss, or else the first metric, and the throughput. */
export function mainMetrics(names: readonly string[]): readonly string[] {
  const isLoss = [/^loss$/i, /^(?:train|training|lm)[_/]loss$/i, /loss/i];
  const loss = isLoss.map((pattern) => names.find((name) => pattern.test(name))).find((name) => name !== undefined);
  const pace = names.find((name) => name === throughputName);
  const first = loss ?? names.find((name) => name !== pace);
  return [first, pace].filter((name) => name !== undefined);
}

/** More names than this are not kept. A program that prints a name for each layer has hundreds. */
export const maxSeries = 256;

/**
 * Collects the lines of a job, attempt by attempt in ascending order, and keeps about `maxPoints` points of each
 * metric. Lines of a metrics file come before those of the log of the same attempt: what a program reports, its log
 * does not report again.
 */
export function createMetricCollector(maxPoints: number) {
  const series = new Map<string, ReturnType<typeof createReducer>>();
  const steps = createReducer(maxPoints);
  const attempts: ReturnType<typeof createProgress>[] = [];
  /** By name, the newest attempt and the source of its points. */
  const sources = new Map<string, string>();
  let unkeptPoints = 0;
  function isFrom(name: string, attempt: number, source: string): boolean {
    const known = sources.get(name);
    if (known?.startsWith(`${attempt}/`) === true) return known === `${attempt}/${source}`;
    sources.set(name, `${attempt}/${source}`);
    return true;
  }

  return {
    add(attempt: number, source: 'log' | 'metrics', line: MetricLine, at: Instant | null): void {
      const { step } = line;
      if (step !== null && isFrom('', attempt, source)) {
        steps.add({ attempt, step, at, value: step });
        if (attempts.at(-1)?.attempt !== attempt) attempts.push(createProgress(attempt));
        attempts.at(-1)?.add(step, line.total, at);
      }
      for (const [name, value] of line.values) {
        if (!isFrom(name, attempt, source)) continue;
        let reducer = series.get(name);
        if (reducer === undefined) {
          if (series.size === maxSeries) {
            unkeptPoints += 1;
            continue;
          }
          reducer = createReducer(maxPoints);
          series.set(name, reducer);
        }
        reducer.add({ attempt, step, at, value });
      }
    },

    finish(): CollectedMetrics {
      return {
        series: [...series].map(([name, reducer]) => reducer.finish(name)),
        throughput: throughputOf(steps.points()),
        attempts: attempts.map((progress) => progress.finish()),
        unkeptPoints,
      };
    },
  };
}

/** The series of points that are in memory, reduced to about `maxPoints`; null without a point. */
export function seriesOf(name: string, points: readonly MetricPoint[], maxPoints: number): MetricSeries | null {
  if (points.length === 0) return null;
  const reducer = createReducer(maxPoints);
  for (const point of points) reducer.add(point);
  return reducer.finish(name);
}

// ------------------------------------------------------------------------------------------ reduction

interface Bucket {
  readonly attempt: number;
  count: number;
  first: MetricPoint;
  last: MetricPoint;
  min: MetricPoint | null;
  max: MetricPoint | null;
  nonFinite: MetricPoint | null;
}

/** Buckets of a growing number of neighbouring points. A bucket contains points of one attempt. */
function createReducer(maxPoints: number) {
  const maxBuckets = Math.max(2, Math.ceil(maxPoints / 2));
  let buckets: Bucket[] = [];
  let bucketSize = 1;
  let mergeAt = 2 * maxBuckets;
  let count = 0;
  let nonFinite = 0;

  function mergeNeighbours(): void {
    bucketSize *= 2;
    const merged: Bucket[] = [];
    for (const bucket of buckets) {
      const before = merged.at(-1);
      if (before?.attempt === bucket.attempt && before.count + bucket.count <= bucketSize) merge(before, bucket);
      else merged.push(bucket);
    }
    buckets = merged;
    // Attempts are never merged, so many short ones need more buckets.
    mergeAt = Math.max(2 * maxBuckets, 2 * buckets.length);
  }

  function points(): readonly MetricPoint[] {
    return buckets.flatMap((bucket, index) => {
      const isFirst = buckets[index - 1]?.attempt !== bucket.attempt;
      const isLast = buckets[index + 1]?.attempt !== bucket.attempt;
      const { first, last, min, max } = bucket;
      const kept = new Set([isFirst ? first : null, ...inOrder(min, max), bucket.nonFinite, isLast ? last : null]);
      return [...kept].filter((point) => point !== null);
    });
  }

  return {
    add(point: MetricPoint): void {
      count += 1;
      const bucket = bucketOf(point);
      if (bucket.nonFinite !== null) nonFinite += 1;
      const last = buckets.at(-1);
      if (last !== undefined && last.attempt === point.attempt && last.count < bucketSize) merge(last, bucket);
      else buckets.push(bucket);
      if (buckets.length > mergeAt) mergeNeighbours();
    },
    points,
    finish(name: string): MetricSeries {
      const last = buckets.at(-1)?.last;
      if (last === undefined) throw new Error(`the series ${name} has no point`);
      const finite = buckets.flatMap(({ min, max }) => (min === null || max === null ? [] : [min.value, max.value]));
      return {
        name,
        points: points(),
        count,
        last,
        min: finite.length === 0 ? null : finite.reduce((one, other) => Math.min(one, other)),
        max: finite.length === 0 ? null : finite.reduce((one, other) => Math.max(one, other)),
        nonFinite,
        firstNonFinite: buckets.find((bucket) => bucket.nonFinite !== null)?.nonFinite ?? null,
      };
    },
  };
}

function bucketOf(point: MetricPoint): Bucket {
  const finite = Number.isFinite(point.value) ? point : null;
  return {
    attempt: point.attempt,
    count: 1,
    first: point,
    last: point,
    min: finite,
    max: finite,
    nonFinite: finite === null ? point : null,
  };
}

function merge(into: Bucket, next: Bucket): void {
  into.count += next.count;
  into.last = next.last;
  if (into.min === null || (next.min !== null && next.min.value < into.min.value)) into.min = next.min;
  if (into.max === null || (next.max !== null && next.max.value > into.max.value)) into.max = next.max;
  into.nonFinite ??= next.nonFinite;
}

/** Both in the order in which they were printed, as far as steps and times show it. */
function inOrder(min: MetricPoint | null, max: MetricPoint | null): readonly (MetricPoint | null)[] {
  const isAfter = (min?.step ?? min?.at ?? 0) > (max?.step ?? max?.at ?? 0);
  return isAfter ? [max, min] : [min, max];
}

// ------------------------------------------------------------------------------------------ throughput

/** A rate is measured over at least this part of its attempt, so that single pauses do not hide it. */
const windowsPerAttempt = 60;
const minWindow: Duration = 2 * second;

/** Steps per second over the stretches between these points, each at the end of its stretch. */
function throughputOf(points: readonly MetricPoint[]): MetricSeries | null {
  const rates: MetricPoint[] = [];
  for (const attempt of new Set(points.map((point) => point.attempt))) {
    const timed = points.filter((point) => point.attempt === attempt && point.at !== null);
    const [begin, end] = [timed[0]?.at ?? 0, timed.at(-1)?.at ?? 0];
    const window = Math.max(minWindow, (end - begin) / windowsPerAttempt);
    let from = timed[0];
    let done = 0;
    for (const [index, point] of timed.entries()) {
      if (from === undefined || index === 0) continue;
      // A step that goes backwards begins to count again, such as that of the next epoch.
      done += Math.max(0, point.value - (timed[index - 1]?.value ?? point.value));
      const took = (point.at ?? 0) - (from.at ?? 0);
      if (took < 0) [from, done] = [point, 0];
      if (took < window && index < timed.length - 1) continue;
      if (took > 0 && took >= minWindow / 2) rates.push({ ...point, value: (done / took) * second });
      [from, done] = [point, 0];
    }
  }
  return seriesOf(throughputName, rates, Math.max(2, rates.length));
}

function createProgress(attempt: number) {
  let first: number | undefined;
  let last = 0;
  let total: number | null = null;
  let steps = 0;
  let duration = 0;
  let timed: { readonly step: number; readonly at: Instant } | undefined;
  return {
    attempt,
    add(step: number, ofTotal: number | null, at: Instant | null): void {
      first ??= step;
      last = step;
      total = ofTotal ?? total;
      if (at === null) return;
      if (timed !== undefined) {
        // Neither a clock that was set back nor a step that begins again counts.
        steps += Math.max(0, step - timed.step);
        duration += Math.max(0, at - timed.at);
      }
      timed = { step, at };
    },
    finish: (): AttemptProgress => ({ attempt, firstStep: first ?? last, lastStep: last, total, steps, duration }),
  };
}

/** A pace over less than this describes the start, not the work. */
const minSteps = 5;
const minDuration: Duration = 30 * second;

/** Null with too few steps or too little time. */
export function stepsPerSecond({ steps, duration }: Pick<AttemptProgress, 'steps' | 'duration'>): number | null {
  return steps < minSteps || duration < minDuration ? null : (steps / duration) * second;
}

export interface ThroughputChange {
  readonly attempt: number;
  readonly before: number;
  /** Steps per second of both attempts. */
  readonly rate: number;
  readonly rateBefore: number;
}

/** Smaller differences are usual between two runs. */
const minChange = 0.1;

/** The newest attempt with a pace against the one before; null if they differ by less than a tenth. */
export function throughputChange(attempts: readonly AttemptProgress[]): ThroughputChange | null {
  const paced = attempts.flatMap((one) => {
    const rate = stepsPerSecond(one);
    return rate === null || rate === 0 ? [] : [{ attempt: one.attempt, rate }];
  });
  const [before, newest] = paced.slice(-2);
  if (before === undefined || newest === undefined) return null;
  if (Math.abs(newest.rate / before.rate - 1) <= minChange) return null;
  return { attempt: newest.attempt, before: before.attempt, rate: newest.rate, rateBefore: before.rate };
}

// ------------------------------------------------------------------------------------------ workers

/** The newest lines of one worker of a running attempt. */
export interface WorkerPace {
  readonly worker: WorkerId;
  readonly step: number | null;
  /** Steps between two lines with a step; null if unknown. */
  readonly stepsPerLine: number | null;
  /** As the program reports it, otherwise from the times of its newest lines; null if unknown. */
  readonly secondsPerStep: number | null;
  readonly logAgeMs: Duration | null;
  /** Its pace in this attempt; null if unknown. */
  readonly stepsPerSecond: number | null;
}

export interface SlowWorker {
  readonly worker: WorkerId;
  /** `steps`: its newest step; `pace`: its seconds per step; `silent`: the age of its output in milliseconds. */
  readonly kind: 'steps' | 'pace' | 'silent';
  readonly value: number;
  /** The same of the median of the other workers; of a silent one, of the next. */
  readonly others: number;
  /** Number of the other workers with such a value. */
  readonly othersCount: number;
}

const minSlowdown = 1.25;
const minSilence: Duration = 30 * second;
/** Less is the usual delay between the outputs of two workers. */
const minLagSteps = 3;
const minLagSeconds = 5;
/** Required instead while the pace is not known. */
const minLagStepsWithoutPace = 10;

/**
 * The one worker that differs most from the others, by the strongest evidence; null if none does. Workers of one
 * program wait for each other at every step, so a worker is behind only if it is more than two of its lines,
 * at least 3 steps and at least 5 seconds behind; without a known pace, at least 10 steps.
 */
export function slowWorkerOf(workers: readonly WorkerPace[]): SlowWorker | null {
  if (workers.length < 2) return null;
  return (
    extremeOf(
      workers,
      'steps',
      ({ step }) => step,
      (step, others, { stepsPerLine, stepsPerSecond: pace }) => {
        const minLag = pace === null ? minLagStepsWithoutPace : Math.max(minLagSteps, minLagSeconds * pace);
        return stepsPerLine !== null && others - step > 2 * stepsPerLine && others - step >= minLag;
      },
    ) ??
    extremeOf(
      workers,
      'pace',
      ({ secondsPerStep }) => secondsPerStep,
      (own, others) => own > minSlowdown * others,
    ) ??
    // Often only worker 0 prints: then most are silent, or the only other one names no step.
    extremeOf(
      workers,
      'silent',
      ({ logAgeMs }) => logAgeMs,
      (own, others, { step }) => {
        return own > minSilence + 4 * others && (step !== null || workers.length > 2);
      },
    )
  );
}

function extremeOf(
  workers: readonly WorkerPace[],
  kind: SlowWorker['kind'],
  valueOf: (worker: WorkerPace) => number | null,
  isSlow: (own: number, others: number, worker: WorkerPace) => boolean,
): SlowWorker | null {
  const known = workers.flatMap((worker) => {
    const value = valueOf(worker);
    return value === null ? [] : [{ worker, value }];
  });
  const sorted = known.toSorted((one, other) => (kind === 'steps' ? one.value - other.value : other.value - one.value));
  const [slowest, ...rest] = sorted;
  const others = rest[kind === 'silent' ? 0 : Math.floor(rest.length / 2)]?.value;
  if (slowest === undefined || others === undefined || !isSlow(slowest.value, others, slowest.worker)) return null;
  return { worker: slowest.worker.worker, kind, value: slowest.value, others, othersCount: rest.length };
}
