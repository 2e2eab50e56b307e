// The plots of a job's page.

import type { MetricSeriesView, MetricsView } from '../../app/client.ts';
import { formatNumber, type Plot } from '../../reports/job-plot.ts';
import { mainMetrics } from '../../reports/metrics.ts';
import { hour } from '../../core/model/time.ts';
import { positionsOf, scaleOf } from '../render/plot.ts';

/** A program that prints a metric for each layer has hundreds. */
const maxPlots = 6;

/** The loss and the throughput first. */
export function plotsOf({ names, series }: MetricsView): readonly Plot[] {
  const first = mainMetrics(names);
  return [...first, ...names.filter((name) => !first.includes(name))].slice(0, maxPlots).flatMap((name) => {
    const found = series.find((one) => one.name === name);
    return found === undefined || found.points.length === 0 ? [] : [plotOf(found)];
  });
}

function plotOf(series: MetricSeriesView): Plot {
  const { name, unit, points } = series;
  const scale = scaleOf(points);
  const xs = positionsOf(points, scale).map((position) => (scale === 'time' ? position / hour : position));
  const placed = points.map((point, index) => ({ ...point, x: xs[index] ?? 0 }));
  return {
    title: unit === null ? name : `${name} (${unit})`,
    xLabel: { step: 'step', time: 'hours since the first point', index: 'points' }[scale],
    series: [...Map.groupBy(placed, ({ attempt }) => attempt)].map(([attempt, own]) => ({
      attempt,
      points: own.map(({ x, value }) => [x, Number(value)] as const),
    })),
    summary: summaryOf(series),
  };
}

function summaryOf({ last, min, max, nonFinite }: MetricSeriesView): string {
  const value = typeof last.value === 'number' ? formatNumber(last.value) : last.value;
  const range = min === null || max === null ? '' : `, least ${formatNumber(min)}, greatest ${formatNumber(max)}`;
  return `last ${value}${range}${nonFinite === 0 ? '' : `, ${nonFinite} not finite`}`;
}
