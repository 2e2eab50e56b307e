import type { MetricPointView, MetricsQuery, MetricsView } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { mainMetrics } from '../../reports/metrics.ts';
import { drawStatusLine } from '../block.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { resolveJobs } from '../jobs/resolve.ts';
import { pluralize } from '../../app/format.ts';
import { metricsResult, type FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { interruptedError, readMetrics } from '../read-progress.ts';
import { plotLines } from '../render/plot.ts';
import { minPlotColumns, type PlotFlags } from '../table/flags.ts';
import { watchUntilExit } from '../watch/live.ts';

const plainColumns = 80;
/** Rows of each chart, with one chart and with more. */
const chartRows = { one: 14, more: 8 } as const;
const watchInterval: Duration = 2 * second;

/** The first argument is the job, all others are metrics; with --job-name all are metrics. */
export async function plot(cli: Cli, flags: PlotFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const job = flags.jobName === undefined ? args[0] : undefined;
  const rest = job === undefined ? args : args.slice(1);
  if (flags.all === true && !cli.json) throw usageError('--all prints every point, which needs --json.');
  if (flags.watch === true && cli.json) throw usageError('--watch and --json exclude each other.');
  const { jobs, named } = await resolveJobs(cli, flags, job === undefined ? [] : [job], 'read');
  try {
    const [first] = named;
    if (first === undefined) throw usageError('Give a job: jobman plot 42 loss');
    const { found } = first;
    if (found instanceof JobmanError) throw found;
    if (found.copy !== null) cli.note(found.copy.message);
    const { attempt, worker, since } = flags;
    const query: MetricsQuery = omitUndefined({
      metrics: rest.length === 0 ? undefined : rest,
      attempt,
      worker,
      since: since === undefined ? undefined : cli.io.now() - since,
    });
    if (flags.all === true) return await printAllPoints(cli, jobs, found, query);
    if (flags.watch === true) return await watchPlot(cli, jobs, found, query, flags);
    const view = await readMetrics(cli, jobs.metrics(found, query));
    expectMetrics(view, rest);
    if (cli.json) cli.printJsonLines(pointsOf(view, rest));
    else cli.printAll(linesFor(cli, view, rest, flags));
    return exitCode.ok;
  } finally {
    await jobs.close();
  }
}

/** Points after which the output is awaited, so that a slow reader slows the reading. */
const writeSize = 1_000;

async function printAllPoints(cli: Cli, jobs: Jobs, job: FoundJob, query: MetricsQuery): Promise<number> {
  let waiting: MetricPointView[] = [];
  let count = 0;
  const write = async (): Promise<void> => {
    cli.printJsonLines(waiting);
    count += waiting.length;
    waiting = [];
    await cli.io.stdout.flush();
  };
  // On a terminal the points themselves are the progress.
  const line = drawStatusLine(cli, 250, () => (cli.io.stdout.isTerminal ? null : `Read ${pluralize(count, 'point')}`));
  try {
    return await untilInterrupted(cli, async (signal) => {
      for await (const point of jobs.metricPoints(job, query)) {
        if (signal.aborted) throw interruptedError();
        if (cli.io.stdout.closed) break;
        waiting.push(point);
        if (waiting.length === writeSize) await write();
      }
      await write();
      return exitCode.ok;
    });
  } finally {
    line.end();
  }
}

async function watchPlot(cli: Cli, jobs: Jobs, job: FoundJob, query: MetricsQuery, flags: PlotFlags): Promise<number> {
  const names = query.metrics ?? [];
  let view: MetricsView | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let took: Duration = 0;
  const read = async (isFirst = false): Promise<MetricsView> => {
    const began = cli.io.now();
    const steps = jobs.metrics(job, query);
    view = await (isFirst ? readMetrics(cli, steps) : metricsResult(steps));
    readAt = cli.io.now();
    took = Math.max(0, readAt - began);
    return view;
  };
  const linesOf = async (columns?: number) =>
    linesFor(cli, view ?? (await read()), names, { ...flags, ...omitUndefined({ width: columns }) });
  expectMetrics(await read(true), names);
  return watchUntilExit(cli, {
    screen: () => ({
      // A long log takes a while to read, which must not keep a processor busy.
      async poll() {
        if (cli.io.now() - readAt < Math.max(watchInterval, 10 * took)) return false;
        await read();
        return true;
      },
      render: async ({ columns, rows }) => ({
        title: `jobman plot ${job.id}`,
        lines: (await linesOf(flags.width ?? columns)).slice(0, Math.max(1, rows - 1)),
      }),
      press: (key) => (key === 'interrupt' ? 'interrupt' : key === 'q' || key === 'leave' ? 'leave' : null),
    }),
    async lines() {
      await read();
      return [...(await linesOf()), ''];
    },
    linesInterval: 10 * second,
  });
}

/** Throws JobmanError (3) without metrics, or with all names that the job lacks. */
function expectMetrics({ id, names }: MetricsView, wanted: readonly string[]): void {
  if (names.length === 0) {
    throw new JobmanError(`Job ${id} has printed no metrics yet.`, exitCode.notFound, [
      'jobman recognises lines such as `step 100 loss 0.3`, and a program can report: jobman mark step=100 loss=0.3',
      `Its output: jobman logs ${id}`,
    ]);
  }
  const missing = wanted.filter((name) => find(names, name) === undefined);
  if (missing.length === 0) return;
  const guesses = missing.flatMap((name) => didYouMean(name, names) ?? []);
  throw new JobmanError(
    `Job ${id} has no metric ${missing.map((name) => `"${name}"`).join(' and ')}.${guesses.length === 0 ? '' : ` Did you mean ${guesses.join(' and ')}?`}`,
    exitCode.notFound,
    [`Its metrics: ${names.slice(0, 40).join(', ')}`],
  );
}

function find(names: readonly string[], wanted: string): string | undefined {
  return names.find((name) => name === wanted) ?? names.find((name) => name.toLowerCase() === wanted.toLowerCase());
}

/** Without names: the loss and the throughput. */
function chosenNames({ names }: MetricsView, wanted: readonly string[]): readonly string[] {
  if (wanted.length > 0) return wanted.flatMap((name) => find(names, name) ?? []);
  return mainMetrics(names);
}

function linesFor(cli: Cli, view: MetricsView, wanted: readonly string[], flags: PlotFlags): readonly string[] {
  const { io, screen } = cli;
  const names = chosenNames(view, wanted);
  const columns = flags.width ?? (io.stdout.isTerminal ? io.stdout.size().columns : plainColumns);
  const rows = names.length === 1 ? chartRows.one : chartRows.more;
  return plotLines(view, names, { columns: Math.max(minPlotColumns, columns), rows, unicode: screen.unicode });
}

function pointsOf(view: MetricsView, wanted: readonly string[]) {
  const names = wanted.length === 0 ? view.names : chosenNames(view, wanted);
  const workers = new Map(view.attempts.map(({ attempt, worker }) => [attempt, worker]));
  return names.flatMap((name) =>
    view.series
      .filter((series) => series.name === name)
      .flatMap(({ points }) =>
        points.map((point) => ({ job: view.id, metric: name, worker: workers.get(point.attempt) ?? null, ...point })),
      ),
  );
}
