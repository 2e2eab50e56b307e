import type { AttemptMetrics, MetricSeriesView, MetricsView, MetricValue } from '../../app/client.ts';
import { capitalize, escapeLine, formatCount, formatDuration, formatList, pluralize } from '../../app/format.ts';
import { dashboardRows } from '../../app/job-facts.ts';
import { beginOf, formatSummary, linesOf, positionsOf, scaleOf, type Scale } from '../../app/metric-charts.ts';
import { formatWorker } from '../../core/model/spec.ts';
import type { Instant } from '../../core/model/time.ts';
import { formatNumber, withRoom } from '../../reports/chart-numbers.ts';
import { labelled } from './aligned.ts';
import { cutEnd, padStart, wrap } from './cell.ts';
import { drawChart } from './chart.ts';

export interface PlotLayout {
  /** Of the whole picture. */
  readonly columns: number;
  /** Rows of each chart, without its axis. */
  readonly rows: number;
  readonly unicode: boolean;
}

/** `names`: the metrics in this order; those that the view lacks are left out. All charts have the same x axis. */
export function plotLines(view: MetricsView, names: readonly string[], layout: PlotLayout): readonly string[] {
  const charts = names.flatMap((name) => view.series.filter((series) => series.name === name));
  const others = view.names.filter((name) => !names.includes(name));
  return [
    ...wrap(escapeLine(heading(view)), layout.columns),
    ...chartsLines(charts, view.attempts, layout),
    '',
    ...labelled(
      [
        ...(view.throughput === null ? [] : [['pace', capitalize(view.throughput)] as const]),
        ...(view.slowWorker === null ? [] : [['slow', capitalize(view.slowWorker)] as const]),
        ...(view.leftOut === null ? [] : [['left out', capitalize(view.leftOut)] as const]),
        ...dashboardRows(view.dashboards),
        ...(others.length === 0 ? [] : [['others', formatOthers(others)] as const]),
      ],
      layout.columns,
    ),
  ];
}

/** A program that prints a metric for each layer has hundreds; `plot --help` names the command that lists them. */
const maxOthers = 5;

function formatOthers(names: readonly string[]): string {
  const more = names.length - maxOthers;
  return `${names.slice(0, maxOthers).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function heading({ id, name, attempts }: MetricsView): string {
  const workers = new Set(attempts.flatMap(({ worker }) => (worker === null ? [] : [worker])));
  const from = workers.size === 0 ? '' : `, metrics of ${formatList([...workers].map(formatWorker))}`;
  return `Job ${id === name ? id : `${id} (${name})`}: ${pluralize(attempts.length, 'attempt')}${from}`;
}

// ------------------------------------------------------------------------------------------ charts

/** The x axis, which all charts of one job share. */
interface Axis {
  readonly scale: Scale;
  /** The first time of all charts. */
  readonly begin: Instant;
  readonly x: readonly [from: number, to: number];
  readonly attempts: readonly AttemptMetrics[];
}

function chartsLines(
  charts: readonly MetricSeriesView[],
  attempts: readonly AttemptMetrics[],
  layout: PlotLayout,
): readonly string[] {
  const scale = scaleOf(charts);
  const begin = beginOf(charts);
  const positions = charts.flatMap(({ points }) => positionsOf(points, scale, begin));
  const axis: Axis = {
    scale,
    begin,
    x: positions.reduce<[number, number]>(
      ([from, to], at) => [Math.min(from, at), Math.max(to, at)],
      [Infinity, -Infinity],
    ),
    attempts,
  };
  const ranges = charts.map(({ points }) => visibleRange(finiteValues(points)));
  const labels = ranges.map((range) =>
    range === null ? [] : [range[1], (range[0] + range[1]) / 2, range[0]].map((value) => formatValue(value, range)),
  );
  // One margin: the same column is then the same position in every chart.
  const margin = Math.max(minMargin, ...labels.flat().map((label) => label.length));
  return charts.flatMap((series, index) => {
    const title = ['', ...wrap(escapeLine(`${series.name}: ${formatSummary(series)}`), layout.columns)];
    const range = ranges[index] ?? null;
    return range === null
      ? title
      : [...title, ...chartLines(series, { axis, range, labels: labels[index] ?? [], margin }, layout)];
  });
}

function chartLines(
  series: MetricSeriesView,
  {
    axis,
    range,
    labels: [top = '', middle = '', bottom = ''],
    margin,
  }: {
    readonly axis: Axis;
    readonly range: readonly [number, number];
    readonly labels: readonly string[];
    readonly margin: number;
  },
  { columns, rows, unicode }: PlotLayout,
): readonly string[] {
  const room = Math.max(10, columns - margin - 2);
  const positions = positionsOf(series.points, axis.scale, axis.begin);
  const drawn = drawChart(linesOf(series.points, positions), { columns: room, rows, unicode, x: axis.x, y: range });
  const symbols = unicode
    ? { side: '│', tick: '┤', corner: '└', line: '─', above: '▲', below: '▼' }
    : { side: '|', tick: '+', corner: '+', line: '-', above: '^', below: 'v' };
  const labels = new Map([
    [0, top],
    [rows - 1, bottom],
    ...(rows >= 5 ? [[Math.floor((rows - 1) / 2), middle] as const] : []),
  ]);
  const indent = ' '.repeat(margin + 1);
  const cutOff = cutOffValues(series, range);
  const signs = (symbol: string, text: string | null): readonly string[] =>
    text === null ? [] : [cutEnd(`${indent}${symbol} ${text}`, columns)];
  return [
    ...signs(symbols.above, cutOff.above),
    ...drawn.map((line, row) => {
      const label = labels.get(row);
      return `${padStart(label ?? '', margin)} ${label === undefined ? symbols.side : symbols.tick}${line}`;
    }),
    ...signs(symbols.below, cutOff.below),
    `${indent}${symbols.corner}${symbols.line.repeat(room)}`,
    `${indent} ${axisLabels(axis, room)}`,
    ...attemptLine(series.points, positions, axis, room, margin),
  ];
}

const minMargin = 'attempt'.length;

function finiteValues(points: readonly MetricValue[]): readonly number[] {
  return points.map(({ value }) => value).filter((value) => typeof value === 'number');
}

/**
 * The range of all values, without single ones that are far from all others: they would flatten the curve. Null without
 * a value.
 */
function visibleRange(values: readonly number[]): readonly [number, number] | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  const [least, low, high, greatest] = [at(0), at(0.02), at(0.98), at(1)];
  const spread = high - low;
  if (spread === 0) return withRoom([least, greatest]);
  return [
    least < low - 4 * spread ? low - spread / 10 : least,
    greatest > high + 4 * spread ? high + spread / 10 : greatest,
  ];
}

/** The points outside of the drawn range: `2 points above, up to 14.2`. */
function cutOffValues(
  { points, count, min, max }: MetricSeriesView,
  [from, to]: readonly [number, number],
): { readonly above: string | null; readonly below: string | null } {
  const values = finiteValues(points);
  // Of a reduced series some points are missing.
  const some = (outside: number) => (count === points.length ? pluralize(outside, 'point') : 'points');
  const above = values.filter((value) => value > to).length;
  const below = values.filter((value) => value < from).length;
  return {
    above: above === 0 ? null : `${some(above)} above, up to ${formatNumber(max ?? to)}`,
    below: below === 0 ? null : `${some(below)} below, down to ${formatNumber(min ?? from)}`,
  };
}

function formatPosition(value: number, scale: Scale): string {
  return scale === 'time' ? formatDuration(value) : formatCount(Math.round(value));
}

/** Both ends of the axis and, if there is room, its name between them. */
function axisLabels({ scale, x: [from, to] }: Axis, room: number): string {
  const name = { step: 'step', time: 'time since the first point', index: 'line' }[scale];
  const left = formatPosition(from, scale);
  const right = formatPosition(to, scale);
  // The chart has its only column of points in the middle.
  if (from === to) return padStart(`${name} ${right}`, Math.floor((room + name.length + right.length) / 2));
  const gap = room - left.length - right.length;
  if (gap < 1) return padStart(right, room);
  const before = Math.floor((room - name.length) / 2) - left.length;
  const after = gap - before - name.length;
  const middle = before < 1 || after < 1 ? ' '.repeat(gap) : `${' '.repeat(before)}${name}${' '.repeat(after)}`;
  return `${left}${middle}${right}`;
}

/** The number of each attempt below its first point; none with a single attempt. */
function attemptLine(
  points: readonly MetricValue[],
  positions: readonly number[],
  { attempts, x: [from, to] }: Axis,
  room: number,
  margin: number,
): readonly string[] {
  if (attempts.length < 2) return [];
  const line = Array.from({ length: room }, () => ' ');
  for (const { attempt } of attempts) {
    const first = points.findIndex((point) => point.attempt === attempt);
    if (first < 0) continue;
    const text = String(attempt);
    const share = to === from ? 0 : ((positions[first] ?? from) - from) / (to - from);
    const column = Math.min(room - text.length, Math.round(share * (room - 1)));
    // A later attempt that begins at the same column would make both unreadable.
    if (line.slice(Math.max(0, column - 1), column + text.length + 1).some((one) => one !== ' ')) continue;
    for (let index = 0; index < text.length; index += 1) line[column + index] = text.charAt(index);
  }
  return [`${padStart('attempt', margin)}  ${line.join('')}`.trimEnd()];
}

/** Enough digits for the ends of the range to differ. */
function formatValue(value: number, [from, to]: readonly [number, number]): string {
  const spread = to - from;
  const size = Math.max(Math.abs(from), Math.abs(to));
  if (size >= 1e6 || (size > 0 && size < 1e-3)) {
    const digits = spread === 0 ? 1 : Math.min(6, Math.max(1, Math.ceil(Math.log10(size / spread))));
    return value === 0 ? '0' : value.toExponential(digits);
  }
  const decimals = spread === 0 ? 3 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(spread))));
  return formatCount(Number(value.toFixed(decimals)));
}
