// The display around the logs of a followed job, on standard error: a redrawn block on a terminal, lines elsewhere.

import type { AttemptView, JobRow, JobView } from '../../app/client.ts';
import {
  formatTimeOfDay,
  pluralize,
  escapeLine,
  formatDuration,
  formatMachine,
  reasonPhrases,
  formatTimestamp,
  formatStatus,
} from '../../app/format.ts';
import type { Event } from '../../core/model/event.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import { type Duration, hour, type Instant, minute, second } from '../../core/model/time.ts';
import { createBlock, type TerminalWindow } from '../block.ts';
import { joinLabels } from '../../app/log-text.ts';
import type { Cli } from '../context.ts';
import type { LogStream } from '../logs/stream.ts';
import { cutEnd, hangingIndent, padEnd, width } from '../render/cell.ts';
import { formatNext } from '../../app/job-facts.ts';
import { glyph, type Screen } from '../screen.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import {
  formatAttempt,
  formatEarlierAttempts,
  formatAttemptStart,
  createEventFormatter,
  createSilenceDetector,
  type SilenceDetector,
} from './annotations.ts';

export interface Progress {
  /** On the first call `news` has all events so far. */
  changed(view: JobView, news: readonly Event[], isFirst: boolean): void;
  /** `isFirst`: nothing was printed before this log. */
  attemptBegins(view: JobView, attempt: AttemptView, workers: readonly WorkerId[], isFirst: boolean): void;
  tick(view: JobView, now: Instant): void;
  readonly clear: () => void;
  end(line: string, now: Instant): void;
  close(): void;
}

interface ProgressOptions {
  readonly logs: Pick<LogStream, 'partial'> | null;
  /** Off for a log alone, which only reports interruptions. */
  readonly reportsPhases: boolean;
  readonly foldsLines: boolean;
  /** From the longest to the shortest; by default the hint of a followed log. */
  readonly exitHints?: ExitHints;
  readonly window: TerminalWindow;
}

export function createProgress(cli: Cli, options: ProgressOptions): Progress {
  const { progress } = cli.screen;
  if (progress !== 'none')
    return progress === 'redraw' ? createRedrawnProgress(cli, options) : createPlainProgress(cli, options);
  const nothing = (): void => undefined;
  const close = (): void => options.window.close();
  return { changed: nothing, attemptBegins: nothing, tick: nothing, clear: nothing, end: nothing, close };
}

const heartbeats: readonly Duration[] = [minute, 5 * minute, 15 * minute, 30 * minute];

function createPlainProgress(cli: Cli, { logs, reportsPhases, foldsLines, window }: ProgressOptions): Progress {
  const formatEvent = createEventFormatter();
  const detectSilence = createSilenceDetector();
  let wasUnfinished = false;
  let phase: string | undefined;
  let phaseSince: Instant | undefined;
  let lastBeatAge: Duration = 0;
  let refusal: string | undefined;
  let lastPrintedAt: Instant = 0;
  /** The phase is read after the events, so its time may be earlier. Printed times never decrease. */
  const print = (at: Instant, id: string, text: string): void => {
    const shown = lastPrintedAt - at < minute ? Math.max(at, lastPrintedAt) : at;
    lastPrintedAt = shown;
    cli.note(`${formatTimestamp(shown)} ${id} ${text}`);
  };

  return {
    changed(view, news, isFirst) {
      const lines: { readonly at: Instant; readonly text: string }[] = [];
      const printAll = (): void => {
        for (const { at, text } of lines.toSorted((one, other) => one.at - other.at)) print(at, view.id, text);
      };
      for (const event of isFirst ? [] : news) {
        // Only heartbeats repeat the same refusal.
        if (event.kind === 'allocation_refused' && event.error.kind === refusal) continue;
        refusal = event.kind === 'allocation_refused' ? event.error.kind : refusal;
        const text = formatEvent(event, view);
        if (text !== undefined) lines.push({ at: event.at, text });
      }
      if (view.phase === phase) return printAll();
      const lasted =
        phaseSince === undefined || view.phaseStartedAt - phaseSince < second
          ? ''
          : ` after ${formatDuration(view.phaseStartedAt - phaseSince)}`;
      phase = view.phase;
      phaseSince = view.phaseStartedAt;
      lastBeatAge = lastHeartbeat(cli.io.now() - view.phaseStartedAt);
      if (reportsPhases && !isFinishedPhase(view.phase))
        lines.push({
          at: view.phaseStartedAt,
          text: `${escapeLine(formatStatus(view))}${lasted}${formatPhaseFact(view)}`,
        });
      printAll();
    },
    attemptBegins(view, attempt, workers, isFirst) {
      if (reportsPhases) return;
      const at = attempt.startedAt ?? cli.io.now();
      if (isFirst)
        for (const before of formatEarlierAttempts(view, attempt.attempt, cli.io.now())) print(at, view.id, before);
      const text = isFirst
        ? `${formatAttempt(attempt, workers)}, following`
        : formatAttemptStart(view, attempt, workers);
      print(at, view.id, `${text}${isFirst && foldsLines ? foldedNote : ''}`);
    },
    tick(view, now) {
      if (isFinishedPhase(view.phase)) return;
      wasUnfinished = true;
      if (logs !== null) for (const text of newSilences(view, detectSilence)) print(now, view.id, text);
      // During a run, the lines of the log show that the job is alive.
      const isReadAloud = cli.screen.hasScreenReader && (logs === null || view.phase !== 'running');
      const age = now - view.phaseStartedAt;
      const due = isReadAloud ? lastBeatAge + screenReaderInterval : nextHeartbeat(lastBeatAge);
      if (!reportsPhases || age < due) return;
      lastBeatAge = isReadAloud ? age : due;
      print(now, view.id, `still ${escapeLine(formatStatus(view))}, ${formatDuration(age)}: ${formatWait(view)}`);
    },
    clear() {},
    end(line, now) {
      cli.note(`${formatTimestamp(now)} ${line}`);
      if (wasUnfinished) window.ring();
    },
    close: () => window.close(),
  };
}

const foldedNote = '; identical lines are shown once';

function formatWait(view: JobView): string {
  const { evidence, typicalWait } = view.why;
  return escapeLine(`${evidence ?? view.message}${typicalWait === null ? '' : `; usually ${typicalWait}`}`);
}

function newSilences(view: JobView, detectSilence: SilenceDetector): readonly string[] {
  return view.phase === 'running' ? detectSilence(view.workers) : [];
}

function formatPhaseFact(view: JobView): string {
  const { phase, attempt, stage } = view;
  if (phase === 'recovering') return formatHeadFact(view);
  if (phase === 'queued') return `: ${formatCapacity(view)}`;
  if (phase === 'running') return `: attempt ${attempt}, stage ${stage}${formatWorkerCount(view)}`;
  const steps = phase === 'setup' ? formatSteps(view) : '';
  return steps === '' ? '' : `: ${steps}`;
}

function formatWorkerCount({ attempts }: JobView): string {
  const count = attempts.at(-1)?.workers.length ?? 0;
  return count === 0 ? '' : `, ${pluralize(count, 'worker')}`;
}

function formatSteps({ spec, attempts }: JobView): string {
  if (attempts.at(-1)?.commandOnly === true) return '';
  return escapeLine(spec.steps.map((step) => step.name).join(', '));
}

function formatCapacity(view: JobView): string {
  return escapeLine([formatMachine(view), view.pricing, view.zone].filter((part) => part !== null).join(' '));
}

/** A screen reader reads nothing from an unchanged picture. */
const screenReaderInterval: Duration = 30 * second;

/** A display that starts later has not missed earlier heartbeats. */
function lastHeartbeat(age: Duration): Duration {
  return age >= hour ? Math.floor(age / hour) * hour : (heartbeats.findLast((beat) => beat <= age) ?? 0);
}

function nextHeartbeat(lastBeatAge: Duration): Duration {
  return heartbeats.find((beat) => beat > lastBeatAge) ?? (Math.floor(lastBeatAge / hour) + 1) * hour;
}

const calmAfter: Duration = minute;
const calmInterval: Duration = 5 * second;
const activeInterval: Duration = 240;
const maxPartialLines = 4;

function createRedrawnProgress(
  cli: Cli,
  { logs, reportsPhases, foldsLines, exitHints, window }: ProgressOptions,
): Progress {
  const { io, screen } = cli;
  const block = createBlock(io, io.stderr, window);
  const formatEvent = createEventFormatter();
  const detectSilence = createSilenceDetector();
  let wasUnfinished = false;

  function row(text: string): void {
    block.clear();
    cli.printStderr(`${screen.styleErr('bold', '--')} ${text}`);
  }

  return {
    changed(view, news, isFirst) {
      block.stale();
      for (const event of isFirst ? [] : news) {
        const text = event.kind === 'allocation_refused' ? undefined : formatEvent(event, view);
        if (text !== undefined) row(`${formatTimeOfDay(event.at)}Z ${text}`);
      }
    },
    attemptBegins(view, attempt, workers, isFirst) {
      if (!isFirst) {
        row(`${formatTimeOfDay(attempt.startedAt ?? io.now())}Z ${formatAttemptStart(view, attempt, workers)}`);
        return;
      }
      // A new job begins with its first attempt, which needs no line.
      if (reportsPhases && attempt.attempt === 1) return;
      for (const text of formatEarlierAttempts(view, attempt.attempt, io.now())) row(text);
      row(
        `${view.id} ${formatAttempt(attempt, workers)}, following${foldsLines && workers.length > 1 ? foldedNote : ''}`,
      );
    },
    tick(view, now) {
      if (isFinishedPhase(view.phase)) return;
      wasUnfinished = true;
      if (logs !== null) for (const text of newSilences(view, detectSilence)) row(`${formatTimeOfDay(now)}Z ${text}`);
      const isCalm = view.phase !== 'running' && now - view.phaseStartedAt > calmAfter;
      if (!block.isDue(isCalm ? calmInterval : activeInterval)) return;
      const { columns, rows } = io.stderr.size();
      const partials = (logs?.partial() ?? []).slice(0, maxPartialLines).map(({ label, text }) => {
        return label === null ? text : `[${joinLabels([label])}] ${text}`;
      });
      const lines = [
        ...partials.map((line) => cutEnd(line, columns)),
        ...statusLines(view, now, screen, columns, exitHints),
      ];
      const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => cutEnd(line, columns));
      block.draw(formatTitle(view, now), shown);
    },
    clear: block.clear,
    end(line) {
      block.clear();
      // Below a log, rows that are not the program's begin with `--`.
      cli.note(reportsPhases ? line : `-- ${line}`);
      if (wasUnfinished) window.ring();
    },
    close() {
      block.clear();
      block.close();
    },
  };
}

export function formatTitle(view: JobRow, now: Instant): string {
  return `${Number(view.id)} ${escapeLine(formatStatus(view))} ${formatDuration(now - view.phaseStartedAt)}`;
}

/** One line while the job runs, because the log has the news. Before that, one line for each part of the wait. */
export function statusLines(
  view: JobView,
  now: Instant,
  screen: Pick<Screen, 'unicode'>,
  columns: number,
  exitHints = formatExitHints(`jobman logs ${Number(view.id)} -f`),
): readonly string[] {
  const head = ` ${view.id} ${glyph(screen, view.phase)} ${escapeLine(formatStatus(view))} ${formatDuration(now - view.phaseStartedAt)}`;
  if (view.phase === 'running') {
    const attempt = `${head}, attempt ${view.attempt}`;
    const workers = formatWorkerCount(view);
    const progress = view.progress === null ? '' : `, ${escapeLine(view.progress)}`;
    const full = [workers + progress, workers, ''].map((facts) => `${attempt}${facts}${formatRunFact(view)}`);
    const line = full.find((text) => width(text) <= columns) ?? full.at(-1) ?? head;
    const whole = exitHints.map((leave) => `${line}   ${leave}`).find((text) => width(text) <= columns);
    return whole === undefined ? [line, ` ${fittingHint(exitHints, columns - 1)}`] : [whole];
  }
  const parts = partsOf(view, now).flatMap((part) => partLines(part, columns));
  return [`${head}${formatHeadFact(view)}`, ...parts, ` ${fittingHint(exitHints, columns - 1)}`];
}

export type ExitHints = readonly [string, ...string[]];

/** From the longest to the shortest. */
export function formatExitHints(back: string): ExitHints {
  return [`Ctrl-C detaches · attach again: ${back}`, `attach again: ${back}`, back];
}

function fittingHint(exitHints: ExitHints, columns: number): string {
  return exitHints.find((way) => width(way) <= columns) ?? exitHints.at(-1) ?? '';
}

/** The reason of a running job, unless it is only its age: a worker does not answer, the job was preempted before. */
function formatRunFact(view: JobView): string {
  return view.message.startsWith('running for ') ? '' : `: ${escapeLine(view.message)}`;
}

function formatHeadFact(view: JobView): string {
  const ending = view.attempts.findLast(({ reason }) => reason !== null)?.reason ?? null;
  if (view.phase === 'recovering' && ending !== null) return `: ${reasonPhrases[ending]}`;
  return view.phase === 'stopping' ? `: ${escapeLine(view.message)}` : '';
}

interface Part {
  readonly label: string;
  readonly length: Duration | null;
  readonly text: string;
}

function partsOf(view: JobView, now: Instant): readonly Part[] {
  const attempt = view.attempts.at(-1);
  const next: Part = { label: 'next', length: null, text: formatNext({ ...view.why, nextCheckAt: null }, { now }) };
  // A release is shown before the new request.
  const leaves = view.allocations.flatMap(({ name, releasedAt, goneAt, message }): readonly Part[] =>
    releasedAt === null || goneAt !== null
      ? []
      : [{ label: 'release', length: now - releasedAt, text: `${name}: ${message ?? ''}` }],
  );
  if (attempt === undefined) return [...evidenceParts(view), next];
  if (attempt.reason !== null) return leaves.length > 0 ? [...leaves, next] : [...evidenceParts(view), next];

  const allocation = view.allocations.find((candidate) => candidate.allocation === attempt.allocation);
  const ready = allocation?.readyAt ?? null;
  const readyAt = ready === null ? null : Math.max(ready, attempt.createdAt);
  const capacity = formatCapacity(view);
  if (readyAt === null) {
    const message = allocation?.message ?? null;
    const text = message === null ? capacity : `${capacity}: ${message}`;
    const usual = view.why.typicalWait;
    const usually: readonly Part[] = usual === null ? [] : [{ label: 'usually', length: null, text: usual }];
    return [...leaves, { label: 'capacity', length: now - attempt.createdAt, text }, ...usually, next];
  }
  const parts: Part[] = [
    { label: 'capacity', length: readyAt - attempt.createdAt, text: `${capacity}: ${allocation?.message ?? 'ready'}` },
  ];
  const steps = formatSteps(view);
  if (steps !== '') {
    const failing = attempt.startedAt === null && /failed/.test(view.message) ? `; ${view.message}` : '';
    parts.push({ label: 'setup', length: (attempt.startedAt ?? now) - readyAt, text: `${steps}${failing}` });
  }
  const command = `${formatCommandWorkers(view)}${attempt.startMode === 'resume' ? ', from the last checkpoint' : ''}`;
  parts.push({ label: 'command', length: attempt.startedAt === null ? null : now - attempt.startedAt, text: command });
  return [...leaves, ...parts];
}

/** An attempt that is ending has no parts; the evidence says what the job still waits for. */
function evidenceParts(view: JobView): readonly Part[] {
  return view.why.evidence === null ? [] : [{ label: 'because', length: null, text: view.why.evidence }];
}

function formatCommandWorkers(view: JobView): string {
  const { runsOn, workers } = view.spec.command;
  if (runsOn === 'controller') return 'on this machine';
  return workers === 'all' ? 'on all workers' : `on ${pluralize(workers.length, 'worker')}`;
}

function partLines({ label, length, text }: Part, columns: number): readonly string[] {
  const front = `   ${padEnd(label, 10)}${padEnd(length === null ? '' : formatDuration(length), 7)}`;
  return hangingIndent(front, escapeLine(text), columns);
}
