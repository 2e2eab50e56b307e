// The display around the logs of a job that is followed, on standard error: on a terminal a block that is redrawn,
// elsewhere a line for each change of fact and a heartbeat.

import type { AttemptView, JobRow, JobView } from '../../app/client.ts';
import { clockText, countText, inertWord, lengthText, reasonWords, stampText } from '../../app/figures.ts';
import type { Event } from '../../core/decision.ts';
import type { WorkerId } from '../../core/spec.ts';
import { type Duration, hour, type Instant, minute, second } from '../../core/time.ts';
import { createBlock, type Window } from '../block.ts';
import type { Cli } from '../context.ts';
import type { LogStream } from '../logs/stream.ts';
import { cutEnd, hanging, padEnd, width } from '../render/cell.ts';
import { glyph, type Screen } from '../screen.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { attemptText, beforeTexts, beginsText, createMarks, createSilences, type Silences } from './rows.ts';

/** Shows changes around the logs of a job. */
export interface Progress {
  /** The job as it is now, and what happened since the last call; at first all that ever happened. */
  changed(view: JobView, news: readonly Event[], isFirst: boolean): void;
  /** The log of another attempt begins, of these workers; `isFirst` says that nothing was printed before it. */
  begins(view: JobView, attempt: AttemptView, workers: readonly WorkerId[], isFirst: boolean): void;
  tick(view: JobView, now: Instant): void;
  readonly clear: () => void;
  end(line: string, now: Instant): void;
  close(): void;
}

interface ProgressOptions {
  readonly logs: Pick<LogStream, 'partial'> | null;
  /** Plain lines tell every phase and beat; off for a log alone, where only what interrupts it is told. */
  readonly tellsPhases: boolean;
  /** Equal lines of several workers are drawn once; whoever sees them is told. */
  readonly folds: boolean;
  /** The hint how to leave, from the longest to the shortest; by default that of a log that is followed. */
  readonly ways?: Ways;
  readonly window: Window;
}

export function createProgress(cli: Cli, options: ProgressOptions): Progress {
  switch (cli.screen.progress) {
    case 'redraw':
      return redrawn(cli, options);
    case 'plain':
      return plain(cli, options);
    case 'none':
      return { changed() {}, begins() {}, tick() {}, clear() {}, end: () => {}, close: () => options.window.close() };
  }
}

const beats: readonly Duration[] = [minute, 5 * minute, 15 * minute, 30 * minute];

function plain(cli: Cli, { logs, tellsPhases, folds, window }: ProgressOptions): Progress {
  const markOf = createMarks();
  const silences = createSilences();
  let sawItOpen = false;
  let phase: string | undefined;
  let phaseSince: Instant | undefined;
  let beaten: Duration = 0;
  let refusal: string | undefined;
  let lastSaid: Instant = 0;
  /** The phase of a job is read after its events, so its time may be earlier than the last line's; stamps never go back. */
  const say = (at: Instant, id: string, text: string): void => {
    const shown = lastSaid - at < minute ? Math.max(at, lastSaid) : at;
    lastSaid = shown;
    cli.note(`${stampText(shown)} ${id} ${text}`);
  };

  return {
    changed(view, news, isFirst) {
      const lines: { readonly at: Instant; readonly text: string }[] = [];
      const sayAll = (): void => {
        for (const { at, text } of lines.toSorted((one, other) => one.at - other.at)) say(at, view.id, text);
      };
      for (const event of isFirst ? [] : news) {
        // The same refusal again is a heartbeat's matter.
        if (event.kind === 'allocation_refused' && event.error.kind === refusal) continue;
        refusal = event.kind === 'allocation_refused' ? event.error.kind : refusal;
        const mark = markOf(event, view);
        if (mark !== undefined) lines.push({ at: event.at, text: mark });
      }
      if (view.phase === phase) return sayAll();
      const lasted =
        phaseSince === undefined || view.since - phaseSince < second
          ? ''
          : ` after ${lengthText(view.since - phaseSince)}`;
      phase = view.phase;
      phaseSince = view.since;
      beaten = lastBeat(cli.io.now() - view.since);
      // The verdict has a line of its own, at the end.
      if (tellsPhases && !isSettledPhase(view.phase))
        lines.push({ at: view.since, text: `${inertWord(view.status)}${lasted}${factOf(view)}` });
      sayAll();
    },
    begins(view, attempt, workers, isFirst) {
      // The line of the phase has said it.
      if (tellsPhases) return;
      const at = attempt.started ?? cli.io.now();
      if (isFirst) for (const before of beforeTexts(view, attempt.attempt, cli.io.now())) say(at, view.id, before);
      const text = isFirst ? `${attemptText(attempt, workers)}, following` : beginsText(view, attempt, workers);
      say(at, view.id, `${text}${isFirst && folds ? foldedText : ''}`);
    },
    tick(view, now) {
      if (isSettledPhase(view.phase)) return;
      sawItOpen = true;
      if (logs !== null) for (const text of silencesOf(view, silences)) say(now, view.id, text);
      // Lines of the log show that it goes on.
      const isAloud = cli.screen.aloud && (logs === null || view.phase !== 'running');
      const age = now - view.since;
      const due = isAloud ? beaten + aloudEvery : nextBeat(beaten);
      if (!tellsPhases || age < due) return;
      beaten = isAloud ? age : due;
      say(now, view.id, `still ${inertWord(view.status)}, ${lengthText(age)}: ${waitText(view)}`);
    },
    clear() {},
    end(line, now) {
      cli.note(`${stampText(now)} ${line}`);
      if (sawItOpen) window.ring();
    },
    close: () => window.close(),
  };
}

const foldedText = '; equal lines are shown once';

function waitText(view: JobView): string {
  const { because, usually } = view.why;
  return inertWord(`${because ?? view.reason}${usually === null ? '' : `; usually ${usually}`}`);
}

/** Only while it runs is somebody expected to print. */
function silencesOf(view: JobView, silences: Silences): readonly string[] {
  return view.phase === 'running' ? silences(view.workers) : [];
}

function factOf(view: JobView): string {
  switch (view.phase) {
    case 'queued':
      return `: ${placeOf(view)}`;
    case 'running': {
      const workers = view.attempts.at(-1)?.workers.length ?? 0;
      return `: attempt ${view.attempt}, stage ${view.stage}${workers === 0 ? '' : `, ${countText(workers, 'worker')}`}`;
    }
    case 'recovering':
      return headFact(view);
    case 'setup': {
      const steps = stepsOf(view);
      return steps === '' ? '' : `: ${steps}`;
    }
    default:
      return '';
  }
}

function stepsOf({ spec, attempts }: JobView): string {
  if (attempts.at(-1)?.commandOnly === true) return '';
  return inertWord(spec.steps.map((step) => step.name).join(', '));
}

function placeOf(view: JobView): string {
  return inertWord([view.accelerator, view.pricing, view.zone].filter((part) => part !== null).join(' '));
}

/** Somebody to whom the screen is read out hears nothing of a picture that stands still. */
const aloudEvery: Duration = 30 * second;

/** The newest heartbeat that was due after so long: whoever comes later has not missed it. */
function lastBeat(age: Duration): Duration {
  return age >= hour ? Math.floor(age / hour) * hour : (beats.findLast((beat) => beat <= age) ?? 0);
}

function nextBeat(beaten: Duration): Duration {
  return beats.find((beat) => beat > beaten) ?? (Math.floor(beaten / hour) + 1) * hour;
}

/** Short waits are watched; long ones are glanced at. */
const calmAfter: Duration = minute;
const calmEvery: Duration = 5 * second;
const restlessEvery: Duration = 240;
const mostPartials = 4;

function redrawn(cli: Cli, { logs, tellsPhases, folds, ways, window }: ProgressOptions): Progress {
  const { io, screen } = cli;
  const block = createBlock(io, io.stderr, window);
  const markOf = createMarks();
  const silences = createSilences();
  let sawItOpen = false;

  function row(text: string): void {
    block.clear();
    cli.complain(`${screen.err('bold', '--')} ${text}`);
  }

  return {
    changed(view, news, isFirst) {
      block.stale();
      for (const event of isFirst ? [] : news) {
        // The block itself tells why there is no capacity yet.
        const mark = event.kind === 'allocation_refused' ? undefined : markOf(event, view);
        if (mark !== undefined) row(`${clockText(event.at)}Z ${mark}`);
      }
    },
    begins(view, attempt, workers, isFirst) {
      if (!isFirst) {
        row(`${clockText(attempt.started ?? io.now())}Z ${beginsText(view, attempt, workers)}`);
        return;
      }
      // A new job begins with its first attempt, so that needs no line.
      if (tellsPhases && attempt.attempt === 1) return;
      for (const text of beforeTexts(view, attempt.attempt, io.now())) row(text);
      row(`${view.id} ${attemptText(attempt, workers)}, following${folds && workers.length > 1 ? foldedText : ''}`);
    },
    tick(view, now) {
      if (isSettledPhase(view.phase)) return;
      sawItOpen = true;
      if (logs !== null) for (const text of silencesOf(view, silences)) row(`${clockText(now)}Z ${text}`);
      const isCalm = view.phase !== 'running' && now - view.since > calmAfter;
      if (!block.isDue(isCalm ? calmEvery : restlessEvery)) return;
      const { columns, rows } = io.stderr.size();
      const partials = (logs?.partial() ?? []).slice(0, mostPartials).map(({ worker, text }) => {
        return worker === null ? text : `[${worker}] ${text}`;
      });
      const lines = [
        ...partials.map((line) => cutEnd(line, columns)),
        ...statusLines(view, now, screen, columns, ways),
      ];
      const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => cutEnd(line, columns));
      block.draw(titleText(view, now), shown);
    },
    clear: block.clear,
    end(line) {
      block.clear();
      // Below a log it is one of the rows that are not the program's.
      cli.note(tellsPhases ? line : `-- ${line}`);
      if (sawItOpen) window.ring();
    },
    close() {
      block.clear();
      block.close();
    },
  };
}

export function titleText(view: JobRow, now: Instant): string {
  return `${Number(view.id)} ${inertWord(view.status)} ${lengthText(now - view.since)}`;
}

/**
 * While it runs one line is enough: the log itself is the news. Before that: what is waited for, part by part. Lines that
 * are too long go on below their beginning. `ways` say how to leave.
 */
export function statusLines(
  view: JobView,
  now: Instant,
  screen: Pick<Screen, 'unicode'>,
  columns: number,
  ways = leaving(`jobman logs ${Number(view.id)} -f`),
): readonly string[] {
  const head = ` ${view.id} ${glyph(screen, view.phase)} ${inertWord(view.status)} ${lengthText(now - view.since)}`;
  if (view.phase === 'running') {
    const count = view.attempts.at(-1)?.workers.length ?? 0;
    const attempt = `${head}, attempt ${view.attempt}`;
    const workers = count === 0 ? '' : `, ${countText(count, 'worker')}`;
    const progress = view.progress === null ? '' : `, ${inertWord(view.progress)}`;
    const full = [workers + progress, workers, ''].map((facts) => `${attempt}${facts}${runFact(view)}`);
    const line = full.find((text) => width(text) <= columns) ?? full.at(-1) ?? head;
    const whole = ways.map((leave) => `${line}   ${leave}`).find((text) => width(text) <= columns);
    return whole === undefined ? [line, ` ${leaveLine(ways, columns - 1)}`] : [whole];
  }
  const parts = partsOf(view, now).flatMap((part) => partLines(part, columns));
  return [`${head}${headFact(view)}`, ...parts, ` ${leaveLine(ways, columns - 1)}`];
}

export type Ways = readonly [string, ...string[]];

/** The hint how to leave and to come back by that command, from the longest to the shortest. */
export function leaving(back: string): Ways {
  return [`Ctrl-C leaves, the job goes on; back: ${back}`, `Ctrl-C leaves; back: ${back}`, `back: ${back}`];
}

function leaveLine(ways: Ways, columns: number): string {
  return ways.find((way) => width(way) <= columns) ?? ways.at(-1) ?? '';
}

/** While it runs, whatever its row says that is not its age: nobody answers, it was preempted before. */
function runFact(view: JobView): string {
  return /^\S+(,|$)/.test(view.reason) ? '' : `: ${inertWord(view.reason)}`;
}

/** Why it recovers or ends. Of a job that comes up the parts below say all. */
function headFact(view: JobView): string {
  const ending = view.attempts.findLast(({ reason }) => reason !== null)?.reason ?? null;
  if (view.phase === 'recovering' && ending !== null) return `: ${reasonWords[ending]}`;
  return view.phase === 'stopping' ? `: ${inertWord(view.reason)}` : '';
}

interface Part {
  readonly label: string;
  readonly length: Duration | null;
  readonly text: string;
}

function partsOf(view: JobView, now: Instant): readonly Part[] {
  const attempt = view.attempts.at(-1);
  const when = view.why.nextAt !== null && view.why.nextAt > now ? `, in ${lengthText(view.why.nextAt - now)}` : '';
  const next: Part = { label: 'next', length: null, text: `${view.why.next}${when}` };
  // A release is shown before the new request.
  const leaves = view.allocations.flatMap(({ name, released, gone, says }): readonly Part[] =>
    released === null || gone !== null
      ? []
      : [{ label: 'release', length: now - released, text: `${name}: ${says ?? ''}` }],
  );
  if (attempt === undefined) return [...because(view), next];
  if (attempt.reason !== null) return leaves.length > 0 ? [...leaves, next] : [...because(view), next];

  const allocation = view.allocations.find((candidate) => candidate.allocation === attempt.allocation);
  const ready = allocation?.ready ?? null;
  const readyAt = ready === null ? null : Math.max(ready, attempt.created);
  const place = placeOf(view);
  if (readyAt === null) {
    const says = allocation?.says ?? null;
    const text = says === null ? place : `${place}: ${says}`;
    const usual = view.why.usually;
    const usually: readonly Part[] = usual === null ? [] : [{ label: 'usually', length: null, text: usual }];
    return [...leaves, { label: 'capacity', length: now - attempt.created, text }, ...usually, next];
  }
  const parts: Part[] = [
    { label: 'capacity', length: readyAt - attempt.created, text: `${place}: ${allocation?.says ?? 'ready'}` },
  ];
  const steps = stepsOf(view);
  if (steps !== '') {
    const failing = attempt.started === null && /failed/.test(view.reason) ? `; ${view.reason}` : '';
    parts.push({ label: 'setup', length: (attempt.started ?? now) - readyAt, text: `${steps}${failing}` });
  }
  const command = `${workersPhrase(view)}${attempt.how === 'resume' ? ', from the last checkpoint' : ''}`;
  parts.push({ label: 'command', length: attempt.started === null ? null : now - attempt.started, text: command });
  return [...leaves, ...parts];
}

/** An attempt that is being ended has no parts any more; what is still waited for is in the evidence. */
function because(view: JobView): readonly Part[] {
  return view.why.because === null ? [] : [{ label: 'because', length: null, text: view.why.because }];
}

function workersPhrase(view: JobView): string {
  const { place, workers } = view.spec.command;
  if (place === 'here') return 'on this machine';
  return workers === 'all' ? 'on all workers' : `on ${countText(workers.length, 'worker')}`;
}

function partLines({ label, length, text }: Part, columns: number): readonly string[] {
  const front = `   ${padEnd(label, 10)}${padEnd(length === null ? '' : lengthText(length), 7)}`;
  return hanging(front, inertWord(text), columns);
}
