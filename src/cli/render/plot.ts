import type { AttemptMetrics, MetricSeriesView, MetricsView, MetricValue } from '../../app/client.ts';
import { capitalize, escapeLine, formatDuration, formatList, pluralize } from '../../app/format.ts';
import { formatCount, formatRate } from '../../app/progress.ts';
import { formatWorker } from '../../core/model/spec.ts';
import { throughputName } from '../../reports/metrics.ts';
import { labelled } from './aligned.ts';
import { cutEnd, padStart, wrap } from './cell.ts';
import { drawChart, type ChartLine } from './chart.ts';
import { dashboardRows } from './show.ts';

export interface PlotLayout {
  /** Of the whole picture. */
  readonly columns: number;
  /** Rows of each chart, without its axis. */
  readonly rows: number;
  readonly unicode: boolean;
}

/** `names`: the metrics in this order; those that the view lacks are left out. */
export function plotLines(view: MetricsView, names: readonly string[], layout: PlotLayout): readonly string[] {
  const charts = names.flatMap((name) => view.series.filter((series) => series.name === name));
  const others = view.names.filter((name) => !names.includes(name));
  return [
    cutEnd(escapeLine(heading(view)), layout.columns),
    ...charts.flatMap((series) => ['', ...chartLines(series, view.attempts, layout)]),
    '',
    ...labelled(
      [
        ...(view.throughput === null ? [] : [['pace', capitalize(view.throughput)] as const]),
        ...(view.slowWorker === null ? [] : [['slow', capitalize(view.slowWorker)] as const]),
        ...dashboardRows(view.dashboards),
        ...(others.length === 0 ? [] : [['others', formatOthers(others)] as const]),
      ],
      layout.columns,
    ),
  ];
}

const maxOthers = 20;

function formatOthers(names: readonly string[]): string {
  const more = names.length - maxOthers;
  return `${names.slice(0, maxOthers).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function heading({ id, name, attempts }: MetricsView): string {
  const workers = new Set(attempts.flatMap(({ worker }) => (worker === null ? [] : [worker])));
  const where = workers.size === 0 ? '' : `, ${formatList([...workers].map(formatWorker))}`;
  return `${id === name ? id : `${id} ${name}`}: ${pluralize(attempts.length, 'attempt')}${where}`;
}

// ------------------------------------------------------------------------------------------ one chart

type Scale = 'step' | 'time' | 'index';

function chartLines(
  series: MetricSeriesView,
  attempts: readonly AttemptMetrics[],
  { columns, rows, unicode }: PlotLayout,
): readonly string[] {
  const title = wrap(escapeLine(formatTitle(series)), columns);
  const values = series.points.map(({ value }) => value).filter((value) => typeof value === 'number');
  if (values.length === 0) return title;
  const y = visibleRange(values);
  const [top, middle, bottom] = [y[1], (y[0] + y[1]) / 2, y[0]].map((value) => formatValue(value, y)) as [
    string,
    string,
    string,
  ];
  const margin = Math.max(top.length, middle.length, bottom.length, minMargin);
  const room = Math.max(10, columns - margin - 2);
  const scale = scaleOf(series.points);
  const positions = positionsOf(series.points, scale);
  const x = [Math.min(...positions), Math.max(...positions)] as const;
  const drawn = drawChart(linesOf(series.points, positions), { columns: room, rows, unicode, x, y });
  const symbols = unicode
    ? { side: '│', tick: '┤', corner: '└', line: '─' }
    : { side: '|', tick: '+', corner: '+', line: '-' };
  const labels = new Map([
    [0, top],
    [rows - 1, bottom],
    ...(rows >= 5 ? [[Math.floor((rows - 1) / 2), middle] as const] : []),
  ]);
  return [
    ...title,
    ...drawn.map((line, row) => {
      const label = labels.get(row);
      return `${padStart(label ?? '', margin)} ${label === undefined ? symbols.side : symbols.tick}${line}`;
    }),
    `${' '.repeat(margin)} ${symbols.corner}${symbols.line.repeat(room)}`,
    `${' '.repeat(margin + 2)}${ends(formatPosition(x[0], scale), formatPosition(x[1], scale), scale, room)}`,
    ...attemptLine(series.points, positions, attempts, x, room, margin),
  ];
}

const minMargin = 'attempt'.length;

function formatTitle(series: MetricSeriesView): string {
  const { name, last, min, max, count, nonFinite, firstNonFinite } = series;
  const at = (value: MetricValue) => (value.step === null ? '' : ` at step ${formatCount(value.step)}`);
  const show = (value: MetricValue['value'] | null): string =>
    typeof value !== 'number' ? String(value) : name === throughputName ? formatRate(value) : formatNumber(value);
  const unit = name === throughputName ? ' (steps)' : '';
  const range = min === null || max === null || min === max ? '' : `, ${show(min)} to ${show(max)}`;
  const points = name === throughputName ? '' : `, ${pluralize(count, 'point')}`;
  const missing =
    firstNonFinite === null
      ? ''
      : `, ${firstNonFinite.value}${nonFinite > 1 ? ` or infinite ${nonFinite} times, first` : ''}${at(firstNonFinite)}`;
  return `${name}${unit}  ${show(last.value)}${at(last)}${range}${points}${missing}`;
}

/** The range of all values, without single ones that are far from all others: they would flatten the curve. */
function visibleRange(values: readonly number[]): readonly [number, number] {
  const sorted = values.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  const [least, low, high, greatest] = [at(0), at(0.02), at(0.98), at(1)];
  const spread = high - low;
  if (spread === 0) return [least, greatest];
  return [
    least < low - 4 * spread ? low - spread / 10 : least,
    greatest > high + 4 * spread ? high + spread / 10 : greatest,
  ];
}

/** Steps if all points have one, else times, else the order of the points. */
export function scaleOf(points: readonly MetricValue[]): Scale {
  if (points.every(({ step }) => step !== null)) return 'step';
  return points.every(({ at }) => at !== null) ? 'time' : 'index';
}

/** In steps, or in milliseconds since the first point. */
export function positionsOf(points: readonly MetricValue[], scale: Scale): readonly number[] {
  const begin = Math.min(...points.map(({ at }) => at ?? 0));
  return points.map(({ step, at }, index) =>
    scale === 'step' ? (step ?? 0) : scale === 'time' ? (at ?? 0) - begin : index,
  );
}

/** One line for each attempt; a value that is not finite interrupts it. */
function linesOf(points: readonly MetricValue[], positions: readonly number[]): readonly ChartLine[] {
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

function formatPosition(value: number, scale: Scale): string {
  return scale === 'time' ? formatDuration(value) : formatCount(Math.round(value));
}

function ends(from: string, to: string, scale: Scale, room: number): string {
  const name = { step: 'step', time: 'since the first point', index: 'line' }[scale];
  const left = from === to ? '' : from;
  const right = `${name} ${to}`;
  const gap = room - left.length - right.length;
  return gap < 1 ? padStart(to, room) : `${left}${' '.repeat(gap)}${right}`;
}

/** The number of each attempt below its first point; none with a single attempt. */
function attemptLine(
  points: readonly MetricValue[],
  positions: readonly number[],
  attempts: readonly AttemptMetrics[],
  [from, to]: readonly [number, number],
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
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value === 0 ? '0' : value.toExponential(1);
  const decimals = spread === 0 ? 3 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(spread))));
  return formatCount(Number(value.toFixed(decimals)));
}

function formatNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-3)) return value.toExponential(2);
  return formatCount(Number(value.toPrecision(size >= 1_000 ? 7 : 4)));
}
