// What is said around the logs while a job is followed, on standard error: on a terminal a block that is redrawn,
// elsewhere a line for each change of fact and a heartbeat.

import type { JobView } from '../../app/client.ts';
import { countText, lengthText, stampText } from '../../app/figures.ts';
import { hour, minute, second, type Duration, type Instant } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import type { LogStream } from '../logs/stream.ts';
import { createPainter } from '../painter.ts';
import { cutEnd, padEnd } from '../render/cell.ts';
import { inertWord } from '../render/inert.ts';
import { glyph } from '../screen.ts';
import { isSettled } from '../settled.ts';
import type { Follower } from './loop.ts';
import { createMarks } from './marks.ts';

export interface Progress extends Follower {
  /** Takes the block away and says how it ended. */
  end(line: string, now: Instant): void;
  /** Takes the block away, whatever happens next. */
  close(): void;
}

export interface ProgressOptions {
  readonly logs: Pick<LogStream, 'partial'> | null;
  /** Plain lines tell every phase and beat; off for a log alone, where only what interrupts it is told. */
  readonly tellsPhases: boolean;
}

/** The one that fits the screen: redrawn, plain or silent. */
export function createProgress(cli: Cli, options: ProgressOptions): Progress {
  switch (cli.screen.progress) {
    case 'redraw':
      return redrawn(cli, options);
    case 'plain':
      return plain(cli, options);
    case 'none':
      return { changed() {}, tick() {}, clear() {}, end: () => {}, close() {} };
  }
}

// ---------------------------------------------------------------------------------------------- lines

const beats: readonly Duration[] = [minute, 5 * minute, 15 * minute, 30 * minute];

function plain(cli: Cli, { tellsPhases }: ProgressOptions): Progress {
  const markOf = createMarks();
  let phase: string | undefined;
  let phaseSince: Instant | undefined;
  let beaten: Duration = 0;
  let refusal: string | undefined;
  const say = (at: Instant, id: string, text: string) => cli.note(`${stampText(at)} ${id} ${text}`);

  return {
    changed(view, news, isFirst) {
      for (const event of isFirst ? [] : news) {
        // The same refusal again is a heartbeat's matter.
        if (event.kind === 'allocation_refused' && event.error.kind === refusal) continue;
        refusal = event.kind === 'allocation_refused' ? event.error.kind : refusal;
        const mark = markOf(event, view);
        if (mark !== undefined) say(event.at, view.id, mark);
      }
      if (view.phase === phase) return;
      const lasted =
        phaseSince === undefined || view.since - phaseSince < second
          ? ''
          : ` after ${lengthText(view.since - phaseSince)}`;
      phase = view.phase;
      phaseSince = view.since;
      beaten = 0;
      // The verdict has a line of its own, at the end.
      if (tellsPhases && !isSettled(view))
        say(view.since, view.id, `${inertWord(view.status)}${lasted}${factOf(view)}`);
    },
    tick(view, now) {
      const age = now - view.since;
      const due = nextBeat(beaten);
      if (!tellsPhases || isSettled(view) || age < due) return;
      beaten = due;
      say(now, view.id, `${inertWord(view.status)} ${lengthText(age)}: ${inertWord(view.why.because ?? view.reason)}`);
    },
    clear() {},
    end: (line, now) => cli.note(`${stampText(now)} ${line}`),
    close() {},
  };
}

/** What the phase is about, without anything that would be old a minute later. */
function factOf(view: JobView): string {
  switch (view.phase) {
    case 'queued':
      return `: ${placeOf(view)}`;
    case 'running': {
      const workers = view.attempts.at(-1)?.workers.length ?? 0;
      return `: try ${view.attempt}, stage ${view.stage}${workers === 0 ? '' : `, ${countText(workers, 'worker')}`}`;
    }
    case 'setup':
      return view.spec.steps.length === 0 ? '' : `: ${inertWord(view.spec.steps.map((step) => step.name).join(', '))}`;
    default:
      return '';
  }
}

/** `v5litepod-16 spot us-west4-a`, or `this machine`. */
function placeOf(view: JobView): string {
  return inertWord([view.accelerator, view.pricing, view.zone].filter((part) => part !== null).join(' '));
}

/** The first heartbeat after this one; hourly after the listed. */
function nextBeat(beaten: Duration): Duration {
  return beats.find((beat) => beat > beaten) ?? (Math.floor(beaten / hour) + 1) * hour;
}

// ---------------------------------------------------------------------------------------------- redrawn

/** Short waits are watched; long ones are glanced at. */
const calmAfter: Duration = minute;
const calmEvery: Duration = 5 * second;
const mostPartials = 4;

function redrawn(cli: Cli, { logs }: ProgressOptions): Progress {
  const { io, screen } = cli;
  const painter = createPainter(io.stderr);
  const markOf = createMarks();
  let drawnAt: Instant = Number.NEGATIVE_INFINITY;
  let isStale = true;
  let settlesAt: Instant = 0;
  const stopListening = io.stderr.onResize(() => {
    // Terminals tell every step of a resize; drawing waits until it has come to rest.
    settlesAt = io.now() + 100;
    isStale = true;
  });

  return {
    changed(view, news, isFirst) {
      isStale = true;
      for (const event of isFirst ? [] : news) {
        // The block itself tells why there is no capacity yet.
        const mark = event.kind === 'allocation_refused' ? undefined : markOf(event, view);
        if (mark === undefined) continue;
        painter.erase();
        io.stderr.write(`${screen.err('bold', '--')} ${mark}\n`);
      }
    },
    tick(view, now) {
      if (now < settlesAt || isSettled(view)) return;
      const isCalm = view.phase !== 'running' && now - view.since > calmAfter;
      if (!isStale && now - drawnAt < (isCalm ? calmEvery : 240)) return;
      const { columns, rows } = io.stderr.size();
      const partials = (logs?.partial() ?? []).slice(0, mostPartials).map(({ worker, text }) => {
        return worker === null ? text : `[${worker}] ${text}`;
      });
      const lines = [...partials, ...statusLines(view, now, screen)].slice(0, Math.max(1, rows - 1));
      painter.draw(lines.map((line) => cutEnd(line, columns)));
      drawnAt = now;
      isStale = false;
    },
    clear() {
      painter.erase();
      isStale = true;
    },
    end(line) {
      painter.erase();
      cli.note(line);
    },
    close() {
      stopListening();
      painter.erase();
    },
  };
}

/** While it runs one line is enough: the log itself is the news. Before that: what is waited for, part by part. */
function statusLines(view: JobView, now: Instant, screen: Cli['screen']): readonly string[] {
  const leave = `Ctrl-C leaves, the job goes on; back: jobman logs ${Number(view.id)} -f`;
  const head = `${view.id} ${glyph(screen, view.phase)} ${inertWord(view.status)} ${lengthText(now - view.since)}`;
  if (view.phase === 'running') {
    const attempt = view.attempts.at(-1);
    const workers = attempt === undefined ? '' : `, ${countText(attempt.workers.length, 'worker')}`;
    return [` ${head}, try ${view.attempt}${workers}   ${leave}`];
  }
  return [` ${head}: ${inertWord(view.reason)}`, ...partLines(view, now), ` ${leave}`];
}

function partLines(view: JobView, now: Instant): readonly string[] {
  const attempt = view.attempts.at(-1);
  const next = part('next', null, view.why.next);
  if (attempt === undefined || attempt.reason !== null) return [...because(view), next];
  const allocation = view.allocations.find((candidate) => candidate.allocation === attempt.allocation);
  const ready = allocation?.ready ?? null;
  const readyAt = ready === null ? null : Math.max(ready, attempt.created);
  if (readyAt === null) return [part('capacity', now - attempt.created, view.why.because ?? placeOf(view)), next];

  const rows = [part('capacity', readyAt - attempt.created, `${placeOf(view)}: ready`)];
  if (view.spec.steps.length > 0) {
    const steps = view.spec.steps.map((step) => step.name).join(', ');
    rows.push(part('setup', (attempt.started ?? now) - readyAt, steps));
  }
  return [...rows, part('command', attempt.started === null ? null : now - attempt.started, workersPhrase(view))];
}

/** An attempt that is being ended has no parts any more; what is still waited for is in the evidence. */
function because(view: JobView): readonly string[] {
  return view.why.because === null ? [] : [part('because', null, view.why.because)];
}

function workersPhrase(view: JobView): string {
  const { place, workers } = view.spec.command;
  if (place === 'here') return 'on this machine';
  return workers === 'all' ? 'on all workers' : `on ${countText(workers.length, 'worker')}`;
}

function part(label: string, length: Duration | null, text: string): string {
  return `   ${padEnd(label, 10)}${padEnd(length === null ? '' : lengthText(length), 7)}${inertWord(text)}`;
}
