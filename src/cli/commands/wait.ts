// wait: until jobs have settled. One line for each, and the worst verdict as exit code; meanwhile, what is waited for.

import type { Client, JobView, Ref } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import { clockText, countText, lengthText, inertWord } from '../../app/figures.ts';
import { viewJson } from '../../app/json.ts';
import { createBlock, openWindow, type Window } from '../block.ts';
import { meantBy } from '../cluster/either.ts';
import type { WaitFlags } from '../cluster/wait.ts';
import { type Cli, forEach, type GlobalFlags, verdictCode } from '../context.ts';
import { controllerEvery, keepController } from '../controller.ts';
import { isGone, verdictLine } from '../follow/follow.ts';
import { createProgress, leaving, type Progress, titleText } from '../follow/progress.ts';
import { createMarks, type Marks } from '../follow/rows.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { cutEnd, width } from '../render/cell.ts';
import { glyph } from '../screen.ts';
import { isSettledPhase } from '../../core/phase.ts';
import type { Event } from '../../core/decision.ts';
import { type Duration, type Instant, second } from '../../core/time.ts';

const lookEvery: Duration = 250;
/** Without any change of the record ages and phrases are asked for again after this time, and more seldom for many jobs. */
const refreshEvery: Duration = 1_000;
const refreshAtOnce = 8;

export async function wait(cli: Cli, flags: WaitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const meant = await meantBy(cli, flags, args);
  try {
    const refs = meant.meanings.flatMap((meaning) => (meaning.kind === 'record' ? [meaning.ref] : []));
    if (refs.length === meant.meanings.length) return await waitForRecord(cli, meant.client, refs, flags);
    const { waitForCluster } = await import('../cluster/wait.ts');
    // All at once: each is told when it is over.
    const codes = await Promise.all([
      waitForCluster(cli, meant, flags),
      ...(refs.length === 0 ? [] : [waitForRecord(cli, meant.client, refs, flags)]),
    ]);
    return Math.max(...codes);
  } finally {
    await meant.close();
  }
}

async function waitForRecord(cli: Cli, client: Client, refs: readonly Ref[], flags: WaitFlags): Promise<number> {
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
  const waiting = createWaiting(cli, [...open], back, window);
  const verdict = (view: JobView) => {
    waiting.clear();
    cli.answer(viewJson(view), verdictLine(view));
    worst = Math.max(worst, verdictCode(view));
  };
  const look = async (id: string): Promise<void> => {
    try {
      // Events first: the view is then at least as new as what is told of it.
      const news = await client.events(id, seqs.get(id) ?? 0);
      const view = await client.show(id);
      waiting.changed(
        view,
        news.map(({ event }) => event),
        !views.has(id),
      );
      seqs.set(id, news.at(-1)?.seq ?? seqs.get(id) ?? 0);
      views.set(id, view);
      if (!isSettledPhase(view.phase)) return;
      open.delete(id);
      verdict(view);
    } catch (error) {
      if (!isGone(error)) throw error;
      open.delete(id);
      waiting.clear();
      cli.complain(`${id} was deleted meanwhile.`);
      worst = Math.max(worst, exitCode.failed);
    }
  };

  const began = io.now();
  const { signal, release } = leaveOnSignal(cli);
  try {
    let changes = -1;
    let lookedAt = began;
    // At once, and then every few seconds: whoever waits expects that somebody works.
    let controllerAt = began - controllerEvery;
    for (let isFirst = true; ; isFirst = false) {
      const seen = await client.changes();
      if (seen !== changes || io.now() - lookedAt >= refreshEvery * Math.ceil(open.size / refreshAtOnce)) {
        changes = seen;
        for (const id of open) await look(id);
        lookedAt = io.now();
      }
      if (open.size === 0) {
        // No bell for an answer that comes at once.
        if (!isFirst) window.ring();
        return worst;
      }
      if (signal.aborted) {
        waiting.clear();
        cli.complain(`Left; ${[...open].join(', ')} ${open.size === 1 ? 'goes' : 'go'} on. Back: ${back}`);
        return exitCode.interrupted;
      }
      if (flags.timeout !== undefined && io.now() - began >= flags.timeout) {
        waiting.clear();
        cli.complain(
          `Not settled after ${lengthText(flags.timeout)}: ${[...open].join(', ')}. The wait is over; the jobs go on.`,
        );
        window.ring();
        return Math.max(worst, exitCode.failed);
      }
      waiting.tick(
        [...open].flatMap((id) => views.get(id) ?? []),
        io.now(),
      );
      if (io.now() - controllerAt >= controllerEvery) {
        controllerAt = io.now();
        await keepController(cli, client, waiting.clear);
      }
      await pause(lookEvery, signal);
    }
  } finally {
    waiting.close();
    release();
  }
}

interface Waiting {
  changed(view: JobView, news: readonly Event[], isFirst: boolean): void;
  tick(views: readonly JobView[], now: Instant): void;
  readonly clear: () => void;
  close(): void;
}

function createWaiting(cli: Cli, ids: readonly string[], back: string, window: Window): Waiting {
  return cli.screen.progress === 'redraw' && ids.length > 1 ? together(cli, back, window) : oneByOne(cli, back, window);
}

function oneByOne(cli: Cli, back: string, window: Window): Waiting {
  const shown = new Map<string, Progress>();
  const of = (id: string): Progress => {
    const known =
      shown.get(id) ??
      createProgress(cli, { logs: null, tellsPhases: true, folds: false, ways: leaving(back), window });
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

const drawEvery: Duration = second;

function together(cli: Cli, back: string, window: Window): Waiting {
  const { io, screen } = cli;
  const block = createBlock(io, io.stderr, window);
  const marks = new Map<string, Marks>();

  return {
    changed(view, news, isFirst) {
      const markOf = marks.get(view.id) ?? createMarks();
      marks.set(view.id, markOf);
      block.stale();
      for (const event of isFirst ? [] : news) {
        const mark = event.kind === 'allocation_refused' ? undefined : markOf(event, view);
        if (mark === undefined) continue;
        block.clear();
        cli.complain(`${screen.err('bold', '--')} ${clockText(event.at)}Z ${view.id} ${mark}`);
      }
    },
    tick(views, now) {
      if (!block.isDue(drawEvery)) return;
      const { columns, rows } = io.stderr.size();
      const [first] = views;
      const title = views.length === 1 && first !== undefined ? titleText(first, now) : countText(views.length, 'job');
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

/** A line for each job, as many as the screen holds, the one that has waited longest first; and how to leave. */
export function waitingLines(views: readonly JobView[], now: Instant, layout: Layout): readonly string[] {
  const { columns, rows, back } = layout;
  const open = views.filter((view) => !isSettledPhase(view.phase)).toSorted((one, other) => one.since - other.since);
  const room = Math.max(1, rows - 3);
  const shown = open.length <= room ? open : open.slice(0, room - 1);
  const lines = shown.map((view) => {
    const head = ` ${view.id} ${glyph(layout, view.phase)} ${inertWord(view.status)} ${lengthText(now - view.since)}`;
    // The reason of one that runs begins with its age, which stands there already.
    const fact =
      view.phase === 'running' ? (view.progress ?? view.reason.replace(/^[\ddhms]+(, |$)/, '')) : view.reason;
    return cutEnd(fact === '' ? head : `${head}: ${inertWord(fact)}`, columns);
  });
  const more = open.length > shown.length ? [` ${open.length - shown.length} more`] : [];
  const ways = [
    ` ${countText(open.length, 'job')} to wait for. Ctrl-C leaves, they go on; back: ${back}`,
    ` Ctrl-C leaves, they go on; back: ${back}`,
    ' Ctrl-C leaves, they go on',
  ];
  return [...lines, ...more, cutEnd(ways.find((way) => width(way) <= columns) ?? ways.at(-1) ?? '', columns)];
}
