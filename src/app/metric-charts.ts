// The points of metrics placed on one axis, for a terminal, a report and the page of a job.

import type { Instant } from '../core/model/time.ts';
import { formatNumber } from '../reports/chart-numbers.ts';
import { throughputName } from '../reports/metrics.ts';
import type { MetricSeriesView, MetricValue } from './client.ts';
import { formatCount, pluralize } from './format.ts';

export type Scale = 'step' | 'time' | 'index';

export interface ChartLine {
  readonly attempt: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** `last 0.31 at step 900, lowest 0.29, highest 6.9, 900 points`; a throughput has no points of the program. */
export function formatSummary({ name, unit, last, min, max, count, nonFinite, firstNonFinite }: MetricSeriesView) {
  const at = (value: MetricValue) => (value.step === null ? '' : ` at step ${formatCount(value.step)}`);
  const show = (value: MetricValue['value']): string =>
    typeof value !== 'number' ? String(value) : formatNumber(value);
  return [
    `last ${show(last.value)}${unit === null ? '' : ` ${unit}`}${at(last)}`,
    ...(min === null || max === null || min === max ? [] : [`lowest ${show(min)}`, `highest ${show(max)}`]),
    ...(name === throughputName ? [] : [pluralize(count, 'point')]),
    ...(firstNonFinite === null
      ? []
      : [
          `${nonFinite > 1 ? `NaN or infinite ${nonFinite} times, first` : String(firstNonFinite.value)}${at(firstNonFinite)}`,
        ]),
  ].join(', ');
}

/**
 * For all charts of a job: steps if most points of each have one, else times if all points have one, else the order of
 * the points. Most, because a program may end with a line such as `final loss 0.06`.
 */
export function scaleOf(charts: readonly MetricSeriesView[]): Scale {
  const areMost = ({ points }: MetricSeriesView) =>
    2 * points.filter(({ step }) => step !== null).length > points.length;
  if (charts.every(areMost)) return 'step';
  return charts.every(({ points }) => points.every(({ at }) => at !== null)) ? 'time' : 'index';
}

/** The first time of any point. */
export function beginOf(charts: readonly MetricSeriesView[]): Instant {
  return charts.reduce(
    (first, { points }) => points.reduce((least, { at }) => Math.min(least, at ?? least), first),
    Number.POSITIVE_INFINITY,
  );
}

/** In steps, or in milliseconds since `begin`. A point without a step has that of the point before it. */
export function positionsOf(points: readonly MetricValue[], scale: Scale, begin: Instant): readonly number[] {
  let step = points.find((point) => point.step !== null)?.step ?? 0;
  return points.map((point, index) => {
    step = point.step ?? step;
    return scale === 'step' ? step : scale === 'time' ? (point.at ?? begin) - begin : index;
  });
}

/** One line for each attempt; a value that is not finite interrupts it. */
export function linesOf(points: readonly MetricValue[], positions: readonly number[]): readonly ChartLine[] {
  const lines: { attempt: number; points: (readonly [number, number])[] }[] = [];
  let isBroken = true;
  for (const [index, { attempt, value }] of points.entries()) {
    const position = positions[index] ?? 0;
    const previous = points[index - 1];
    // A step that goes backwards begins a new line: the program has resumed, or the next epoch begins.
    const isNew = isBroken || previous?.attempt !== attempt || position < (positions[index - 1] ?? position);
    isBroken = typeof value !== 'number';
    if (typeof value !== 'number') continue;
    if (isNew) lines.push({ attempt, points: [] });
    lines.at(-1)?.points.push([position, value]);
  }
  return lines;
}
