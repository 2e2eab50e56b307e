// One job on one screen: its sentence, where it is, its attempts, its workers.

import type { AllocationView, AttemptView, JobView, WorkerView } from '../../app/client.ts';
import { costText } from '../../app/cost.ts';
import { ageText, countText, lengthText, momentText } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import { glyph, inPhaseStyle, type Ink } from '../screen.ts';
import { cutEnd, padEnd, padStart, width, wrap } from './cell.ts';
import { inertWord } from './inert.ts';

export interface ShowLayout {
  /** Columns of the terminal; null where there is none: then nothing is cut or wrapped. */
  readonly columns: number | null;
  readonly ink: Ink;
  readonly unicode: boolean;
  readonly now: Instant;
}

/** Workers and attempts beyond this many are counted, not listed; `--json` has all. */
const mostRows = 20;

export function showLines(view: JobView, layout: ShowLayout): readonly string[] {
  return [
    heading(view, layout),
    ...facts(view, layout),
    ...attempts(view, layout),
    ...workers(view, layout),
    commands(view),
  ];
}

function heading(view: JobView, layout: ShowLayout): string {
  const status = `${glyph(layout, view.phase)} ${inertWord(view.status)} for ${lengthText(layout.now - view.since)}`;
  const attempt = view.attempt === 0 ? '' : `attempt ${view.attempt}, stage ${view.stage}`;
  const name = `${view.id} ${inertWord(view.name)} (${inertWord(view.user)})`;
  return [layout.ink('bold', name), inPhaseStyle(layout.ink, view.phase, status), attempt].filter(Boolean).join('  ');
}

function facts(view: JobView, layout: ShowLayout): readonly string[] {
  const rows: (readonly [string, string])[] = [['why', view.why.sentence]];
  if (view.why.because !== null) rows.push(['because', view.why.because]);
  rows.push(['next', view.why.next], ['where', where(view, layout)]);
  if (view.pricePerHour !== null) rows.push(['cost', `${costText(view, view.pricePerHour)}, for what it holds now`]);
  if (view.tags.length > 0) rows.push(['tags', view.tags.join(', ')]);
  rows.push(['files', view.folder]);
  return labelled(rows, layout.columns);
}

/** `label     text` lines; a text that is too long goes on below its beginning. */
export function labelled(rows: readonly (readonly [string, string])[], columns: number | null): readonly string[] {
  const indent = ' '.repeat(labelWidth);
  return rows.flatMap(([label, text]) => {
    const clean = inertWord(text.replaceAll('\n', ' '));
    const shown = columns === null ? clean : wrap(clean, columns - labelWidth, '');
    return shown.split('\n').map((line, index) => (index === 0 ? padEnd(label, labelWidth) : indent) + line);
  });
}

const labelWidth = 10;

function where(view: JobView, layout: ShowLayout): string {
  const allocation = view.allocations.at(-1);
  const place = [view.accelerator, view.pricing].filter((part) => part !== null).join(' ');
  const parts = [place, view.zone, allocation === undefined ? null : allocationPhrase(allocation, layout)];
  return parts.filter((part) => part !== null && part !== '').join(', ');
}

function allocationPhrase(allocation: AllocationView, layout: ShowLayout): string | null {
  if (allocation.ownership === 'standing' && allocation.ready === null) return null;
  const since = (at: Instant) => lengthText(layout.now - at);
  const name = `allocation ${allocation.allocation} (${allocation.name})`;
  if (allocation.gone !== null) return `${name} gone for ${since(allocation.gone)}`;
  if (allocation.released !== null) return `${name} released ${since(allocation.released)} ago, not yet seen gone`;
  if (allocation.ready !== null) return `${name} ready for ${since(allocation.ready)}`;
  if (allocation.requested !== null) return `${name} asked for ${since(allocation.requested)} ago: ${allocation.state}`;
  return null;
}

function attempts(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.attempts.length === 0) return [];
  const shown = view.attempts.slice(-mostRows);
  const rows = shown.map((attempt) => {
    const ready = view.allocations.find(({ allocation }) => allocation === attempt.allocation)?.ready ?? null;
    const { waited, setup, ran } = spans(attempt, ready, layout.now);
    const cells = [String(attempt.attempt), String(attempt.stage), String(attempt.allocation)];
    return [...cells, ...[waited, setup, ran].map((span) => (span === null ? '-' : lengthText(span))), ended(attempt)];
  });
  const title = ['ATTEMPT', 'STAGE', 'ALLOCATION', 'WAITED', 'SETUP', 'RAN', 'ENDED'];
  const lines = aligned(
    [title, ...rows],
    ['right', 'right', 'right', 'right', 'right', 'right', 'left'],
    layout.columns,
  );
  const earlier = view.attempts.length - shown.length;
  return earlier === 0
    ? lines
    : [...lines, `${countText(earlier, 'earlier attempt')}: jobman history ${Number(view.id)}`];
}

/** How long an attempt waited for its capacity, was set up, and ran; null for what has not begun. */
function spans(
  attempt: AttemptView,
  ready: Instant | null,
  now: Instant,
): { readonly waited: number | null; readonly setup: number | null; readonly ran: number | null } {
  const end = attempt.ended ?? now;
  const begun = ready === null ? null : Math.max(ready, attempt.created);
  return {
    waited: (begun ?? attempt.started ?? end) - attempt.created,
    setup: begun === null ? null : Math.max(0, (attempt.started ?? end) - begun),
    ran: attempt.started === null ? null : (attempt.ending ?? end) - attempt.started,
  };
}

function ended(attempt: AttemptView): string {
  if (attempt.reason === null) return '-';
  const when = attempt.ended === null ? 'ending' : momentText(attempt.ended);
  const detail = attempt.evidence === null || attempt.evidence.detail === '' ? '' : `: ${attempt.evidence.detail}`;
  return inertWord(`${attempt.reason} ${when}${detail}`.replaceAll('\n', ' '));
}

function workers(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.workers.length === 0) return [];
  const shown = view.workers.slice(0, mostRows);
  const rows = shown.map((worker) => [
    String(worker.worker),
    inertWord(worker.host ?? '-'),
    inertWord(worker.state),
    worker.logAgeMs === null ? '-' : ageText(worker.logAgeMs),
    lastLine(worker),
  ]);
  const title = ['WORKER', 'HOST', 'STATE', 'LOG AGE', 'LAST LINE'];
  const lines = aligned([title, ...rows], ['right', 'left', 'left', 'right', 'left'], layout.columns);
  const more = view.workers.length - shown.length;
  return more === 0 ? lines : [...lines, `${more} more workers: jobman show ${Number(view.id)} --json`];
}

function lastLine(worker: WorkerView): string {
  // A progress bar writes over itself: what counts is what stands there now.
  return inertWord((worker.lastLine ?? '').trimEnd().split('\r').at(-1) ?? '');
}

/** Rows under their headings, two blanks apart. The last column is cut where the terminal ends. */
export function aligned(
  rows: readonly (readonly string[])[],
  sides: readonly ('left' | 'right')[],
  columns: number | null,
): readonly string[] {
  const sizes = sides.map((_, index) => Math.max(...rows.map((row) => width(row[index] ?? ''))));
  return rows.map((row) => {
    const line = sides
      .map((side, index) => (side === 'right' ? padStart : padEnd)(row[index] ?? '', sizes[index] ?? 0))
      .join('  ')
      .trimEnd();
    return columns === null ? line : cutEnd(line, columns);
  });
}

function commands(view: JobView): string {
  const id = Number(view.id);
  return ['logs', 'history', 'why'].map((verb) => `jobman ${verb} ${id}`).join(' | ');
}
