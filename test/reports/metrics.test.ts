// Series of metrics, throughput and comparisons.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metricsOfLine } from '../../src/core/model/metric-lines.ts';
import { minute, second, type Instant } from '../../src/core/model/time.ts';
import {
  createMetricCollector,
  seriesOf,
  slowWorkerOf,
  stepsPerSecond,
  throughputChange,
  type AttemptProgress,
  type MetricPoint,
  type WorkerPace,
} from '../../src/reports/metrics.ts';

const begin = 1_000_000_000_000;

function collectorOf(lines: readonly (readonly [attempt: number, text: string, at: Instant | null])[], most = 1_000) {
  const collector = createMetricCollector(most);
  for (const [attempt, text, at] of lines) {
    const line = metricsOfLine(text);
    assert.ok(line !== undefined, text);
    collector.add(attempt, 'log', line, at);
  }
  return collector.finish();
}

const point = (value: number, step: number | null = null, attempt = 1): MetricPoint => ({
  attempt,
  step,
  at: null,
  value,
});

test('a short series keeps every point in its order, with attempts', () => {
  const { series } = collectorOf([
    [1, 'step 1 loss 3', begin],
    [1, 'step 2 loss 2', begin + 1],
    [2, 'step 2 loss 2.5', begin + 2],
  ]);
  const [loss] = series;
  assert.deepEqual(
    loss?.points.map(({ attempt, step, value }) => [attempt, step, value]),
    [
      [1, 1, 3],
      [1, 2, 2],
      [2, 2, 2.5],
    ],
  );
  assert.deepEqual([loss?.count, loss?.min, loss?.max, loss?.last.value], [3, 2, 3, 2.5]);
});

test('of a million points the extremes, both ends and every attempt remain, in bounded memory', () => {
  const all = function* () {
    for (let step = 0; step < 1_000_000; step += 1) {
      const value = step === 777_777 ? 99 : step === 333_333 ? -99 : Math.sin(step / 1_000);
      yield point(value, step, step < 400_000 ? 1 : step < 400_003 ? 2 : 3);
    }
  };
  const series = seriesOf('x', [...all()], 1_000);
  assert.ok(series !== null);
  assert.ok(series.points.length <= 2_100, `${series.points.length} points`);
  assert.equal(series.count, 1_000_000);
  const has = (step: number) => series.points.some((one) => one.step === step);
  assert.deepEqual(
    [333_333, 777_777, 0, 999_999, 400_000, 400_002].map(has),
    Array.from({ length: 6 }, () => true),
  );
  assert.deepEqual([series.min, series.max], [-99, 99]);
  assert.deepEqual(
    series.points.map(({ step }) => step),
    series.points.map(({ step }) => step).toSorted((one, other) => (one ?? 0) - (other ?? 0)),
  );
});

test('many short attempts are never merged', () => {
  const points = Array.from({ length: 5_000 }, (_, index) => point(index, index, index));
  const series = seriesOf('x', points, 10);
  assert.equal(series?.points.length, 5_000);
});

test('NaN and infinities are counted and kept, and are not extremes', () => {
  const series = seriesOf('loss', [point(1, 1), point(NaN, 2), point(2, 3), point(-Infinity, 4)], 100);
  assert.deepEqual([series?.min, series?.max, series?.nonFinite, series?.firstNonFinite?.step], [1, 2, 2, 2]);
  assert.deepEqual(
    series?.points.map(({ value }) => value),
    [1, NaN, 2, -Infinity],
  );
  const none = seriesOf('loss', [point(NaN)], 100);
  assert.deepEqual([none?.min, none?.max, none?.points.length], [null, null, 1]);
  assert.equal(seriesOf('loss', [], 100), null);
});

test('what a program reports, its log does not report again, attempt by attempt', () => {
  const collector = createMetricCollector(100);
  const add = (attempt: number, source: 'log' | 'metrics', text: string) => {
    const line = metricsOfLine(text);
    assert.ok(line !== undefined);
    collector.add(attempt, source, line, null);
  };
  add(1, 'metrics', 'step=10 loss=1');
  add(1, 'log', 'step 11 loss 9 acc 0.5');
  add(2, 'log', 'step 20 loss 2');
  const { series, attempts } = collector.finish();
  assert.deepEqual(
    series.map(({ name, points }) => [name, ...points.map(({ value }) => value)]),
    [
      ['loss', 1, 2],
      ['acc', 0.5],
    ],
  );
  assert.deepEqual(
    attempts.map(({ lastStep }) => lastStep),
    [10, 20],
  );
});

test('more than 256 names are not kept', () => {
  const collector = createMetricCollector(10);
  for (let index = 0; index < 1_000; index += 1) {
    const line = metricsOfLine(`step ${index} loss${index}=1`);
    if (line !== undefined) collector.add(1, 'log', line, null);
  }
  assert.equal(collector.finish().series.length, 256);
});

/** A line every second from that step on, with so many steps a second. */
function run(attempt: number, from: number, rate: number, seconds: number, at: Instant) {
  return Array.from(
    { length: seconds },
    (_, index) => [attempt, `step ${from + Math.round(index * rate)} loss 1`, at + index * second] as const,
  );
}

test('the throughput is measured over stretches of each attempt, not across a preemption', () => {
  const { throughput, attempts } = collectorOf([
    ...run(1, 0, 10, 300, begin),
    ...run(2, 2_000, 5, 300, begin + 60 * minute),
  ]);
  const rates = (attempt: number) =>
    throughput?.points.filter((one) => one.attempt === attempt).map(({ value }) => value);
  assert.ok(rates(1)?.every((rate) => Math.abs(rate - 10) < 0.5));
  assert.ok(rates(2)?.every((rate) => Math.abs(rate - 5) < 0.5));
  assert.deepEqual(
    attempts.map((one) => Math.round((stepsPerSecond(one) ?? 0) * 10) / 10),
    [10, 5],
  );
});

test('a clock that goes backwards and a step that begins again do no harm', () => {
  const { throughput, attempts } = collectorOf([
    ...run(1, 0, 10, 100, begin),
    ...run(1, 0, 10, 100, begin - 60 * minute),
  ]);
  assert.ok(throughput?.points.every(({ value }) => value >= 0 && value < 20));
  const [progress] = attempts;
  assert.ok(progress !== undefined && Math.abs((stepsPerSecond(progress) ?? 0) - 10) < 0.2);
});

test('without times there is no throughput', () => {
  const { throughput } = collectorOf([
    [1, 'step 1 loss 1', null],
    [1, 'step 2 loss 1', null],
  ]);
  assert.equal(throughput, null);
});

const attemptOf = (attempt: number, steps: number, duration = 10 * minute): AttemptProgress => ({
  attempt,
  firstStep: 0,
  lastStep: steps,
  total: null,
  steps,
  duration,
});

test('two attempts are compared if both have a pace and it differs by more than a tenth', () => {
  const change = throughputChange([attemptOf(1, 600), attemptOf(2, 2, second), attemptOf(3, 480)]);
  assert.deepEqual(change, { attempt: 3, before: 1, rate: 0.8, rateBefore: 1 });
  assert.equal(throughputChange([attemptOf(1, 600), attemptOf(2, 650)]), null);
  assert.equal(throughputChange([attemptOf(1, 600)]), null);
  assert.equal(throughputChange([]), null);
});

const pace = (worker: number, given: Partial<WorkerPace>): WorkerPace => ({
  worker,
  step: null,
  stepsPerLine: null,
  secondsPerStep: null,
  logAgeMs: null,
  stepsPerSecond: null,
  ...given,
});

test('a slow worker is named by its step, else by its time per step, else by its silence', () => {
  const at = (...steps: readonly number[]) => steps.map((step, worker) => pace(worker, { step, stepsPerLine: 10 }));
  assert.deepEqual(slowWorkerOf(at(40_210, 40_210, 40_200, 40_170)), {
    worker: 3,
    kind: 'steps',
    value: 40_170,
    others: 40_210,
    othersCount: 3,
  });
  // Less than 5 seconds or 3 steps behind is usual, and without a pace less than 10 steps.
  const behind = (lag: number, stepsPerSecond: number | null) =>
    slowWorkerOf([100, 100 - lag].map((step, worker) => pace(worker, { step, stepsPerLine: 1, stepsPerSecond }))) !==
    null;
  assert.deepEqual([behind(6, 1.66), behind(9, 1.66), behind(3, 0.1)], [false, true, true]);
  assert.deepEqual([behind(9, null), behind(10, null), behind(2, 0.01)], [false, true, false]);
  // One line behind is usual.
  assert.equal(slowWorkerOf(at(40_210, 40_200, 40_200)), null);
  const times = [0.9, 0.9, 1.4].map((secondsPerStep, worker) => pace(worker, { secondsPerStep }));
  assert.deepEqual(slowWorkerOf(times), { worker: 2, kind: 'pace', value: 1.4, others: 0.9, othersCount: 2 });
  const ages = [4, 12, 100].map((age, worker) => pace(worker, { logAgeMs: age * second }));
  assert.deepEqual(slowWorkerOf(ages), { worker: 2, kind: 'silent', value: 100_000, others: 12_000, othersCount: 2 });
  // Only worker 0 prints.
  assert.equal(slowWorkerOf([4, 3_600, 3_600].map((age, worker) => pace(worker, { logAgeMs: age * second }))), null);
  assert.equal(slowWorkerOf([4, 3_600].map((age, worker) => pace(worker, { logAgeMs: age * second }))), null);
  assert.equal(slowWorkerOf([pace(0, { step: 1, stepsPerLine: 1 })]), null);
  assert.equal(slowWorkerOf([pace(0, {}), pace(1, {})]), null);
});
