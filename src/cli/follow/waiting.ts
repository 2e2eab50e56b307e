// The display of `wait`: of one job as when it is followed, of several a line each.

import type { JobView } from '../../app/client.ts';
import { clockText, countText, lengthText } from '../../app/figures.ts';
import type { Event } from '../../core/decision.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { createBlock } from '../block.ts';
import type { Cli } from '../context.ts';
import { cutEnd, width } from '../render/cell.ts';
import { inertWord } from '../render/inert.ts';
import { glyph } from '../screen.ts';
import { isSettled } from '../settled.ts';
import type { Window } from '../window.ts';
import { createMarks, type Marks } from './marks.ts';
import { createProgress, leaving, titleText, type Progress } from './progress.ts';

export interface Waiting {
  /** A job as it is now, and what happened to it since the last call; at first all that ever happened. */
  changed(view: JobView, news: readonly Event[], isFirst: boolean): void;
  /** Called often, with the jobs that are still waited for. */
  tick(views: readonly JobView[], now: Instant): void;
  /** Something else is about to be printed: whatever is drawn must go. */
  readonly clear: () => void;
  close(): void;
}

/** The display for these jobs. `back` is the command that comes back to it. */
export function createWaiting(cli: Cli, ids: readonly string[], back: string, window: Window): Waiting {
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
  const open = views.filter((view) => !isSettled(view)).toSorted((one, other) => one.since - other.since);
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
