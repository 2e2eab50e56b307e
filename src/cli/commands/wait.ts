import type { Client, JobView, Ref } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import { formatTimeOfDay, pluralize, formatDuration, escapeLine, formatStatus } from '../../app/format.ts';
import { viewJson } from '../../app/json.ts';
import { createBlock, openWindow, type TerminalWindow } from '../block.ts';
import { resolveJobs } from '../cluster/resolve-jobs.ts';
import type { WaitFlags } from '../cluster/wait.ts';
import { type Cli, forEach, type GlobalFlags, verdictCode, printError } from '../context.ts';
import { controllerCheckInterval, ensureController } from '../controller.ts';
import { isNotFoundError, verdictLine } from '../follow/follow.ts';
import { createProgress, formatExitHints, type Progress, formatTitle } from '../follow/progress.ts';
import { createEventFormatter, type EventFormatter } from '../follow/annotations.ts';
import { abortOnSignal, pause } from '../interrupt.ts';
import { cutEnd, width } from '../render/cell.ts';
import { glyph } from '../screen.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Event } from '../../core/model/event.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';

const pollInterval: Duration = 250;
/** Ages and reasons change without the store. For many jobs they are read less often. */
const refreshInterval: Duration = 1_000;
const refreshBatch = 8;

export async function wait(cli: Cli, flags: WaitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const resolution = await resolveJobs(cli, flags, args);
  try {
    const refs = resolution.jobs.flatMap((resolved) => (resolved.kind === 'stored' ? [resolved.ref] : []));
    if (refs.length === resolution.jobs.length) return await waitForStored(cli, resolution.client, refs, flags);
    const { waitForCluster } = await import('../cluster/wait.ts');
    const codes = await Promise.all([
      waitForCluster(cli, resolution, flags),
      ...(refs.length === 0 ? [] : [waitForStored(cli, resolution.client, refs, flags)]),
    ]);
    return Math.max(...codes);
  } finally {
    await resolution.close();
  }
}

async function waitForStored(cli: Cli, client: Client, refs: readonly Ref[], flags: WaitFlags): Promise<number> {
  const { io } = cli;
  const open = new Set<string>();
  let worst = await forEach(cli, refs, async (ref) => {
    open.add((await client.show(ref)).id);
    return exitCode.ok;
  });

  const views = new Map<string, JobView>();
  const seqs = new Map<string, number>();
  const back = `jobman wait ${[...open].map(Number).join(' ')}`;
  const window = await openWindow(cli, io.stderr, cli.screen.progress === 'redraw');
  const display = createWaitDisplay(cli, [...open], back, window);
  const verdict = (view: JobView) => {
    display.clear();
    cli.printResult(viewJson(view), verdictLine(view));
    worst = Math.max(worst, verdictCode(view));
  };
  const poll = async (id: string): Promise<void> => {
    try {
      // Read the events first, so that the view is at least as new as they are.
      const news = await client.events(id, seqs.get(id) ?? 0);
      const view = await client.show(id);
      display.changed(
        view,
        news.map(({ event }) => event),
        !views.has(id),
      );
      seqs.set(id, news.at(-1)?.seq ?? seqs.get(id) ?? 0);
      views.set(id, view);
      if (!isFinishedPhase(view.phase)) return;
      open.delete(id);
      verdict(view);
    } catch (error) {
      if (!isNotFoundError(error)) throw error;
      open.delete(id);
      display.clear();
      worst = Math.max(worst, printError(cli, `Job ${id} was deleted meanwhile.`, exitCode.failed, { job: id }));
    }
  };

  const began = io.now();
  const { signal, release } = abortOnSignal(cli);
  try {
    let changes = -1;
    let polledAt = began;
    // Check the controller at once: waiting needs a running controller.
    let controllerAt = began - controllerCheckInterval;
    for (let isFirst = true; ; isFirst = false) {
      const seen = await client.changeCount();
      if (seen !== changes || io.now() - polledAt >= refreshInterval * Math.ceil(open.size / refreshBatch)) {
        changes = seen;
        for (const id of open) await poll(id);
        polledAt = io.now();
      }
      if (open.size === 0) {
        if (!isFirst) window.ring();
        return worst;
      }
      if (signal.aborted) {
        display.clear();
        cli.printStderr(
          `Stopped waiting; ${[...open].join(', ')} ${open.size === 1 ? 'keeps' : 'keep'} running. Wait again: ${back}`,
        );
        return exitCode.interrupted;
      }
      if (flags.timeout !== undefined && io.now() - began >= flags.timeout) {
        display.clear();
        printError(
          cli,
          `Not finished after ${formatDuration(flags.timeout)}: ${[...open].join(', ')}. The jobs keep running.`,
        );
        window.ring();
        return Math.max(worst, exitCode.failed);
      }
      display.tick(
        [...open].flatMap((id) => views.get(id) ?? []),
        io.now(),
      );
      if (io.now() - controllerAt >= controllerCheckInterval) {
        controllerAt = io.now();
        await ensureController(cli, client, display.clear);
      }
      await pause(pollInterval, signal);
    }
  } finally {
    display.close();
    release();
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
  return [
    ...lines,
    ...more,
    cutEnd(variants.find((variant) => width(variant) <= columns) ?? variants.at(-1) ?? '', columns),
  ];
}
