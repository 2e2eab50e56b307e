import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { isIdRef } from '../../app/refs.ts';
import { formatTimeOfDay, pluralize, formatDuration, escapeLine, formatStatus } from '../../app/format.ts';
import { viewJson } from '../../app/json.ts';
import { createBlock, openWindow, type TerminalWindow } from '../block.ts';
import { type Cli, type GlobalFlags, verdictCode, printError, reportError } from '../context.ts';
import { verdictLine } from '../follow/verdict.ts';
import { createProgress, formatExitHints, type Progress, formatTitle } from '../follow/progress.ts';
import { createEventFormatter, type EventFormatter } from '../follow/annotations.ts';
import { jobUpdates } from '../../app/job-updates.ts';
import { keepController } from '../controller.ts';
import { abortOnSignal, callAfter } from '../interrupt.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { resolveJobs, type JobFlags } from '../jobs/resolve.ts';
import { cutEnd, fitting } from '../render/cell.ts';
import { whyLines } from '../render/show.ts';
import { glyph, layoutOf } from '../screen.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Event } from '../../core/model/event.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';

interface WaitFlags extends JobFlags {
  readonly timeout?: Duration | undefined;
}

export async function wait(cli: Cli, flags: WaitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { jobs, named } = await resolveJobs(cli, flags, args, 'read');
  const client = await cli.services.client();
  const { signal: left, release } = abortOnSignal(cli);
  const late = new AbortController();
  const cancelTimeout = callAfter(flags.timeout, () => late.abort());
  const signal = AbortSignal.any([left, late.signal]);
  const open = new Set<string>();
  const waitFor = async (name: string, job: FoundJob | JobmanError): Promise<number> => {
    try {
      if (job instanceof JobmanError) throw job;
      if (job.cluster === null) {
        open.add((await client.show(job.id)).id);
        return exitCode.ok;
      }
      open.add(name);
      const code = await waitInCluster(cli, jobs, job, signal);
      if (code !== null) open.delete(name);
      return code ?? exitCode.ok;
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      open.delete(name);
      return reportError(error, cli, { job: name });
    }
  };
  try {
    const others = named.filter(({ found }) => found instanceof JobmanError || found.cluster !== null);
    const stored = named.filter((job) => !others.includes(job));
    let worst: number = exitCode.ok;
    for (const { name, found } of stored) worst = Math.max(worst, await waitFor(name, found));
    const ids = [...open];
    const codes = await Promise.all([
      ...others.map(({ name, found }) => waitFor(name, found)),
      ...(ids.length === 0 ? [] : [waitForStored(cli, client, ids, open, signal)]),
    ]);
    worst = Math.max(worst, ...codes);
    if (open.size === 0) return worst;
    const names = [...open].join(', ');
    if (left.aborted) {
      const back = `jobman wait ${[...open].map(shortRef).join(' ')}`;
      cli.printStderr(`Stopped waiting; ${names} ${open.size === 1 ? 'keeps' : 'keep'} running. Wait again: ${back}`);
      return exitCode.interrupted;
    }
    printError(cli, `Not finished after ${formatDuration(flags.timeout ?? 0)}: ${names}. The jobs keep running.`);
    return Math.max(worst, exitCode.failed);
  } finally {
    cancelTimeout();
    release();
    await jobs.close();
  }
}

/** Prints the result of the job and resolves with its exit code, or with null if the signal came first. */
async function waitInCluster(cli: Cli, jobs: Jobs, job: FoundJob, signal: AbortSignal): Promise<number | null> {
  for await (const change of jobs.watch(job, { signal, onNote: cli.note })) {
    if (change.kind === 'deleted')
      return printError(cli, `Job ${job.id} was deleted meanwhile.`, exitCode.failed, { job: job.id });
    const { why } = change;
    if (isFinishedPhase(why.phase)) {
      if (cli.json) cli.printJson(why);
      else cli.printAll(whyLines(why, layoutOf(cli)));
      return verdictCode(why);
    }
    if (!cli.json) cli.note(why.message);
  }
  return null;
}

const shortRef = (ref: string): string => (isIdRef(ref) ? String(Number(ref)) : ref);

/** Takes finished jobs out of `open` and resolves with the worst exit code when none of `ids` is left, or at the signal. */
async function waitForStored(
  cli: Cli,
  client: Client,
  ids: readonly string[],
  open: Set<string>,
  signal: AbortSignal,
): Promise<number> {
  const { io } = cli;
  const left = new Set(ids);
  let worst: number = exitCode.ok;
  const views = new Map<string, JobView>();
  const back = `jobman wait ${ids.map(Number).join(' ')}`;
  const window = await openWindow(cli, io.stderr, cli.screen.progress === 'redraw');
  const display = createWaitDisplay(cli, ids, back, window);
  const checkController = keepController(cli, client);
  let isFirstRound = true;
  const finish = (id: string, view: JobView | null): void => {
    left.delete(id);
    open.delete(id);
    views.delete(id);
    display.clear();
    if (view !== null) cli.printResult(viewJson(view), verdictLine(view));
    worst = Math.max(
      worst,
      view === null
        ? printError(cli, `Job ${id} was deleted meanwhile.`, exitCode.failed, { job: id })
        : verdictCode(view),
    );
  };
  try {
    for await (const updates of jobUpdates(client, left, io, signal)) {
      for (const { id, view, news, isFirst } of updates) {
        if (view !== null) display.changed(view, news, isFirst);
        if (view === null || isFinishedPhase(view.phase)) finish(id, view);
        else views.set(id, view);
      }
      if (left.size === 0 || signal.aborted) {
        if (!isFirstRound) window.ring();
        break;
      }
      isFirstRound = false;
      display.tick([...views.values()], io.now());
      await checkController(display.clear);
    }
    return worst;
  } finally {
    display.close();
  }
}

interface WaitDisplay {
  changed(view: JobView, news: readonly Event[], isFirst: boolean): void;
  tick(views: readonly JobView[], now: Instant): void;
  readonly clear: () => void;
  close(): void;
}

function createWaitDisplay(cli: Cli, ids: readonly string[], back: string, window: TerminalWindow): WaitDisplay {
  return cli.screen.progress === 'redraw' && ids.length > 1
    ? createJointDisplay(cli, back, window)
    : createSeparateDisplay(cli, back, window);
}

function createSeparateDisplay(cli: Cli, back: string, window: TerminalWindow): WaitDisplay {
  const shown = new Map<string, Progress>();
  const of = (id: string): Progress => {
    const known =
      shown.get(id) ??
      createProgress(cli, {
        logs: null,
        reportsPhases: true,
        foldsLines: false,
        exitHints: formatExitHints(back),
        window,
      });
    shown.set(id, known);
    return known;
  };
  return {
    changed: (view, news, isFirst) => of(view.id).changed(view, news, isFirst),
    tick(views, now) {
      for (const view of views) of(view.id).tick(view, now);
    },
    clear() {
      for (const progress of shown.values()) progress.clear();
    },
    close() {
      for (const progress of shown.values()) progress.close();
      window.close();
    },
  };
}

const drawInterval: Duration = second;

function createJointDisplay(cli: Cli, back: string, window: TerminalWindow): WaitDisplay {
  const { io, screen } = cli;
  const block = createBlock(io, io.stderr, window);
  const formatters = new Map<string, EventFormatter>();

  return {
    changed(view, news, isFirst) {
      const formatEvent = formatters.get(view.id) ?? createEventFormatter();
      formatters.set(view.id, formatEvent);
      block.stale();
      for (const event of isFirst ? [] : news) {
        const text = event.kind === 'allocation_refused' ? undefined : formatEvent(event, view);
        if (text === undefined) continue;
        block.clear();
        cli.printStderr(`${screen.styleErr('bold', '--')} ${formatTimeOfDay(event.at)}Z ${view.id} ${text}`);
      }
    },
    tick(views, now) {
      if (!block.isDue(drawInterval)) return;
      const { columns, rows } = io.stderr.size();
      const [first] = views;
      const title =
        views.length === 1 && first !== undefined ? formatTitle(first, now) : pluralize(views.length, 'job');
      block.draw(title, waitingLines(views, now, { unicode: screen.unicode, columns, rows, back }));
    },
    clear: block.clear,
    close() {
      block.clear();
      block.close();
    },
  };
}

interface Layout {
  readonly unicode: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly back: string;
}

/** As many jobs as fit, the longest wait first; and the hint for leaving. */
export function waitingLines(views: readonly JobView[], now: Instant, layout: Layout): readonly string[] {
  const { columns, rows, back } = layout;
  const open = views
    .filter((view) => !isFinishedPhase(view.phase))
    .toSorted((one, other) => one.phaseStartedAt - other.phaseStartedAt);
  const room = Math.max(1, rows - 3);
  const shown = open.length <= room ? open : open.slice(0, room - 1);
  const lines = shown.map((view) => {
    const head = ` ${view.id} ${glyph(layout, view.phase)} ${escapeLine(formatStatus(view))} ${formatDuration(now - view.phaseStartedAt)}`;
    // The reason of a running job begins with its age, which the line has already.
    const fact =
      view.phase === 'running'
        ? (view.progress ?? view.message.replace(/^running for [\ddhms]+(, |$)/, ''))
        : view.message;
    return cutEnd(fact === '' ? head : `${head}: ${escapeLine(fact)}`, columns);
  });
  const more = open.length > shown.length ? [` ${open.length - shown.length} more`] : [];
  const variants = [
    ` Waiting for ${pluralize(open.length, 'job')}. Ctrl-C detaches · again: ${back}`,
    ` Ctrl-C detaches · again: ${back}`,
    ' Ctrl-C detaches',
  ];
  return [...lines, ...more, fitting(variants, columns)];
}
