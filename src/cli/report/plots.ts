// The plots of a job's page.

import type { MetricsView } from '../../app/client.ts';
import type { Plot } from '../../reports/job-plot.ts';
import { mainMetrics } from '../../reports/metrics.ts';
import { hour } from '../../core/model/time.ts';
import { beginOf, formatSummary, positionsOf, scaleOf } from '../../app/metric-charts.ts';

/** A program that prints a metric for each layer has hundreds. */
const maxPlots = 6;

/** The loss and the throughput first. All have the same x axis. */
export function plotsOf({ names, series }: MetricsView): readonly Plot[] {
  const first = mainMetrics(names);
  const charts = [...first, ...names.filter((name) => !first.includes(name))]
    .slice(0, maxPlots)
    .flatMap((name) => series.find((one) => one.name === name && one.points.length > 0) ?? []);
  const scale = scaleOf(charts);
  const begin = beginOf(charts);
  return charts.map((one) => {
    const xs = positionsOf(one.points, scale, begin).map((at) => (scale === 'time' ? at / hour : at));
    const placed = one.points.map((point, index) => ({ ...point, x: xs[index] ?? 0 }));
    return {
      title: one.name,
      xLabel: { step: 'step', time: 'hours since the first point', index: 'points' }[scale],
      series: [...Map.groupBy(placed, ({ attempt }) => attempt)].map(([attempt, own]) => ({
        attempt,
        points: own.map(({ x, value }) => [x, Number(value)] as const),
      })),
      summary: formatSummary(one),
    };
  });
}
