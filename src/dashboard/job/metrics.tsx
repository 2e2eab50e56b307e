// The metrics of a job: plots of the chosen ones with the boundaries of attempts, and a table of all next to them.

import { useMemo } from 'preact/hooks';
import type { AttemptMetrics, MetricSeriesView, MetricsView } from '../../app/client.ts';
import { capitalize, escapeLine, formatCount, formatDuration, pluralize, reasonPhrases } from '../../app/format.ts';
import { dashboardRows } from '../../app/job-facts.ts';
import { beginOf, formatSummary, linesOf, positionsOf, scaleOf, type Scale } from '../../app/metric-charts.ts';
import { metricsResult } from '../../app/job-source.ts';
import { second } from '../../core/model/time.ts';
import { formatNumber } from '../../reports/chart-numbers.ts';
import { mainMetrics } from '../../reports/metrics.ts';
import { address, changeQuery } from '../location.ts';
import { Facts } from '../parts/facts.tsx';
import { Empty, Failure } from '../parts/messages.tsx';
import { Table, type Column, type Selection } from '../parts/table.tsx';
import { client } from '../session.ts';
import type { SectionProps } from './page.tsx';
import { PlotBox } from './plot-box.tsx';
import { useRead, useRefresh } from './read.ts';
import { shownAttempt } from './sections.ts';
import { tracksOf } from './tracks.ts';

const maxPlots = 6;
/** Between two reads, because each reads all logs of the job. */
const refreshTime = 30 * second;

export function MetricsSection({ view }: SectionProps) {
  const attempt = shownAttempt();
  const key = `${view.attempts.length} ${view.phase}`;
  const state = useRead(`${view.id} ${attempt}`, key, () =>
    metricsResult(client.metrics(view.id, attempt === null ? {} : { attempt })),
  );
  useRefresh(state, view.phase === 'running', refreshTime);
  const { value, failure, again } = state;
  if (value === undefined)
    return failure === null ? <p class="quiet">Reading the metrics…</p> : <Failure lines={failure} retry={again} />;
  return (
    <section aria-label="Metrics">
      {failure !== null && <Failure lines={failure} retry={again} />}
      {value.names.length === 0 ? (
        <Empty command={`jobman plot ${view.id}`}>
          {attempt === null
            ? 'The program has not printed or reported a metric yet.'
            : `Attempt ${attempt} has not printed or reported a metric.`}
        </Empty>
      ) : (
        <Charts metrics={value} />
      )}
    </section>
  );
}

function chosenNames({ names }: MetricsView): readonly string[] {
  const wanted = (address.value.query.get('metrics') ?? '').split(',').map((one) => decode(one));
  const known = wanted.filter((name) => names.includes(name));
  return (known.length > 0 ? known : mainMetrics(names)).slice(0, maxPlots);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function toggle(chosen: readonly string[], name: string): void {
  choose(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name].slice(-maxPlots));
}

/** Without names, the main metrics are shown. */
function choose(names: readonly string[]): void {
  changeQuery({ metrics: names.map(encodeURIComponent).join(',') || null });
}

const number = (value: number | string | null): string =>
  value === null ? '-' : typeof value === 'number' ? formatNumber(value) : value;

const columns: readonly Column<MetricSeriesView>[] = [
  { name: 'name', title: 'Metric', cell: ({ name, unit }) => escapeLine(unit === null ? name : `${name} (${unit})`) },
  { name: 'last', title: 'Last', width: '7rem', align: 'right', cell: ({ last }) => number(last.value) },
  {
    name: 'step',
    title: 'At step',
    width: '6rem',
    align: 'right',
    wide: true,
    cell: ({ last }) => (last.step === null ? '-' : formatCount(last.step)),
  },
  { name: 'min', title: 'Lowest', width: '6rem', align: 'right', cell: ({ min }) => number(min) },
  { name: 'max', title: 'Highest', width: '6rem', align: 'right', cell: ({ max }) => number(max) },
  {
    name: 'count',
    title: 'Points',
    width: '6rem',
    align: 'right',
    wide: true,
    cell: ({ count }) => formatCount(count),
  },
  {
    name: 'bad',
    title: 'NaN or infinite',
    width: '9.5rem',
    align: 'right',
    wide: true,
    cell: ({ nonFinite }) => (nonFinite === 0 ? '-' : formatCount(nonFinite)),
  },
];

const step = (value: number | null): string => (value === null ? '-' : formatCount(value));

const attemptColumns: readonly Column<AttemptMetrics>[] = [
  { name: 'attempt', title: 'Attempt', width: '6rem', align: 'right', cell: ({ attempt }) => attempt },
  { name: 'first', title: 'First step', width: '7rem', align: 'right', cell: ({ firstStep }) => step(firstStep) },
  { name: 'last', title: 'Last step', width: '7rem', align: 'right', cell: ({ lastStep }) => step(lastStep) },
  {
    name: 'pace',
    title: 'Steps/s',
    width: '6rem',
    align: 'right',
    cell: ({ stepsPerSecond }) => number(stepsPerSecond),
  },
  {
    name: 'ran',
    title: 'Ran',
    width: '6rem',
    align: 'right',
    wide: true,
    cell: ({ startedAt, endedAt }) =>
      startedAt === null || endedAt === null ? '-' : formatDuration(endedAt - startedAt),
  },
  { name: 'end', title: 'End', cell: ({ reason }) => (reason === null ? '-' : reasonPhrases[reason]) },
];

function Charts({ metrics }: { readonly metrics: MetricsView }) {
  const chosen = chosenNames(metrics);
  const shown = chosen.flatMap((name) => metrics.series.find((one) => one.name === name) ?? []);
  // All plots have the same x axis.
  const scale = scaleOf(shown);
  const begin = beginOf(shown);
  const notes = [metrics.throughput, metrics.slowWorker, metrics.leftOut].filter((note) => note !== null);
  const selection = useMemo((): Selection => {
    const all = metrics.names.slice(0, maxPlots);
    const isAll = all.every((name) => chosen.includes(name));
    return {
      has: (name) => chosen.includes(name),
      toggle: (name) => toggle(chosen, name),
      toggleAll: () => choose(isAll ? [] : all),
      state: isAll ? 'all' : 'some',
    };
  }, [metrics, chosen.join('\n')]);
  return (
    <>
      {notes.map((note) => (
        <p key={note}>{escapeLine(capitalize(note))}.</p>
      ))}
      <p class="quiet">
        The x axis is{' '}
        {{ step: 'the step', time: 'the time since the first point', index: 'the order of the points' }[scale]}. A
        dashed line shows the beginning of an attempt. Drag over a plot to zoom in; double-click to see everything.
      </p>
      <div class="plots">
        {shown.map((series) => (
          <Plot key={series.name} series={series} scale={scale} begin={begin} />
        ))}
      </div>
      <h2>{pluralize(metrics.series.length, 'metric')}</h2>
      <Table label="Metrics" rows={metrics.series} columns={columns} keyOf={({ name }) => name} selection={selection} />
      <h2>By attempt</h2>
      <Table
        label="Metrics by attempt"
        rows={metrics.attempts.toReversed()}
        columns={attemptColumns}
        keyOf={({ attempt }) => String(attempt)}
      />
      <Facts rows={dashboardRows(metrics.dashboards)} />
    </>
  );
}

interface PlotProps {
  readonly series: MetricSeriesView;
  readonly scale: Scale;
  readonly begin: number;
}

function Plot({ series, scale, begin }: PlotProps) {
  const tracks = useMemo(
    () => tracksOf(linesOf(series.points, positionsOf(series.points, scale, begin))),
    [series, scale, begin],
  );
  const format = useMemo(
    () => (x: number) => (scale === 'time' ? formatDuration(x) : formatCount(Math.round(x))),
    [scale],
  );
  const summary = escapeLine(formatSummary(series));
  return (
    <figure>
      <figcaption>
        <b>{escapeLine(series.name)}</b> <span class="quiet">{summary}</span>
        {tracks.leftOut > 0 && (
          <span class="quiet"> The oldest {pluralize(tracks.leftOut, 'attempt is', 'attempts are')} left out.</span>
        )}
      </figcaption>
      <PlotBox label={`Plot of ${series.name}: ${summary}`} tracks={tracks} format={format} />
    </figure>
  );
}
