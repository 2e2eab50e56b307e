import { attemptLanes, type SegmentKind } from '../../app/attempt-timeline.ts';
import type { AllocationView, AttemptView, JobView } from '../../app/client.ts';
import { usageError } from '../../app/errors.ts';
import type { JobDetails, JobHistory } from '../../app/job-source.ts';
import type { Layout } from '../screen.ts';
import { formatJobName } from './job-phrases.ts';
import { formatTimeOfDay, formatDate, formatDuration, formatTimestamp, escapeLine } from '../../app/format.ts';
import { fillLines, hangingIndent, padStart } from './cell.ts';
import { day, type Duration, hour, type Instant, minute, second } from '../../core/model/time.ts';

/** For `history`; with the attempts of `timeline`. */
export function historyText(
  { entries, ...subject }: JobHistory,
  timeline: JobView | null,
  { columns, styler, now }: Layout,
): readonly string[] {
  return [
    styler('bold', formatJobName(subject)),
    ...(timeline === null ? [] : timelineLines(timeline, columns ?? plainColumns, now)),
    ...historyLines(shownEntries(entries), columns, now),
  ];
}

const plainColumns = 80;

/** Throws a usage error for a job in a cluster. */
export function expectAttempts(details: JobDetails): JobView {
  if (details.backend !== 'kubernetes') return details;
  throw usageError('--timeline shows attempts, and a job in a cluster has none.');
}

export function shownEntries(
  entries: JobHistory['entries'],
): readonly { readonly at: Instant; readonly message: string }[] {
  return entries.flatMap(({ at, message }) => (message === null ? [] : [{ at, message }]));
}

/** On a terminal the times of day below a line for each day; elsewhere full times, so that lines can be sorted. */
function historyLines(
  events: readonly { readonly at: Instant; readonly message: string }[],
  columns: number | null,
  now: Instant,
): readonly string[] {
  if (columns === null) return events.map(({ at, message }) => `${formatTimestamp(at)}  ${escapeLine(message)}`);

  const lines: string[] = [];
  let before: Instant | undefined;
  for (const { at, message } of events) {
    if (before === undefined || formatDate(before, now) !== formatDate(at, now))
      lines.push(`${formatDate(at, now)}, UTC`);
    const later = before === undefined || at - before < 1_000 ? '' : `+${formatDuration(at - before)}`;
    const front = `${formatTimeOfDay(at)}  ${padStart(later, 7)}  `;
    lines.push(...hangingIndent(front, escapeLine(message), columns));
    before = at;
  }
  return lines;
}

/** In the order of precedence in one column: a rare kind must not be hidden by a long one. */
const symbols = { ended: '!', run: '>', setup: '+', waiting: '.' } as const;
type Kind = keyof typeof symbols;

const labels: Readonly<Record<Kind, string>> = {
  run: 'running',
  waiting: 'waiting',
  setup: 'setup',
  ended: 'ended or lost',
};

/** The shortest scale that fits the timeline is used. */
const scales: readonly Duration[] = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 30].map((count) => count * day),
];

const margin = 8;

function timelineLines(
  life: {
    readonly createdAt: Instant;
    readonly attempts: readonly AttemptView[];
    readonly allocations: readonly AllocationView[];
  },
  columns: number,
  now: Instant,
): readonly string[] {
  if (life.attempts.length === 0) return [];
  const end = Math.max(life.createdAt + 1, ...life.attempts.map((attempt) => attempt.endedAt ?? now));
  const room = Math.max(10, columns - margin - 1);
  const scale = scales.find((step) => Math.ceil((end - life.createdAt) / step) < room) ?? (end - life.createdAt) / room;
  const from = Math.floor(life.createdAt / scale) * scale;
  const count = Math.floor((end - from) / scale) + 1;

  const bar: (Kind | null)[] = Array.from({ length: count }, () => null);
  const paint = (kind: Kind, start: Instant, stop: Instant) => {
    const last = Math.floor((Math.max(start, stop - 1) - from) / scale);
    for (let at = Math.floor((start - from) / scale); at <= last; at += 1) {
      const before = bar[at] ?? null;
      if (before === null || order.indexOf(kind) < order.indexOf(before)) bar[at] = kind;
    }
  };

  const numbers = ' '.repeat(count).split('');
  const stretches = attemptLanes(life, now).flatMap(({ segments }) =>
    segments.map(({ kind, from: start, until: to }) => ({ kind: kindOf[kind], from: start, to })),
  );
  for (const { kind, from: start, to } of stretches) paint(kind, start, to);
  for (const attempt of life.attempts) {
    write(numbers, Math.floor((attempt.createdAt - from) / scale), String(attempt.attempt));
  }

  const indent = ' '.repeat(margin);
  return [
    `${formatDayAndTime(life.createdAt, now)} -> ${formatDayAndTime(end, now)} UTC`,
    (indent + ruler(from, scale, count)).trimEnd(),
    (indent + bar.map((kind) => (kind === null ? ' ' : symbols[kind])).join('')).trimEnd(),
    ('attempt'.padEnd(margin) + numbers.join('')).trimEnd(),
    ...fillLines(formatTotals(stretches, end - life.createdAt), ', ', columns),
    ...fillLines(
      [`one column is ${formatScale(scale)};`, ...order.toReversed().map((kind) => `${symbols[kind]} ${labels[kind]}`)],
      '  ',
      columns,
    ),
  ];
}

interface Stretch {
  readonly kind: Kind;
  readonly from: Instant;
  readonly to: Instant;
}

const kindOf: Readonly<Record<SegmentKind, Kind>> = {
  pause: 'waiting',
  waiting: 'waiting',
  provisioning: 'waiting',
  setup: 'setup',
  running: 'run',
  lost: 'run',
  ending: 'ended',
};

function formatTotals(stretches: readonly Stretch[], all: Duration): readonly string[] {
  const sum = (of: readonly Stretch[]) => of.reduce((total, { from, to }) => total + (to - from), 0);
  const kinds = Object.keys(labels) as readonly Kind[];
  const parts = kinds.map((kind) => [sum(stretches.filter((one) => one.kind === kind)), labels[kind]] as const);
  const rest = [all - sum(stretches), 'between attempts'] as const;
  const [first = '', ...others] = [...parts, rest]
    .filter(([length]) => length >= second)
    .map(([length, label]) => `${formatDuration(length)} ${label}`);
  return [`${formatDuration(all)} in all${first === '' ? '' : `: ${first}`}`, ...others];
}

function formatDayAndTime(at: Instant, now: Instant): string {
  return `${formatDate(at, now)} ${formatTimeOfDay(at)}`;
}

const order: readonly Kind[] = ['ended', 'run', 'setup', 'waiting'];

function ruler(from: Instant, scale: Duration, count: number): string {
  const line = ' '.repeat(count).split('');
  const digits = scale < minute ? 8 : 5;
  for (let at = 0; at + digits <= count || at === 0; at += 12)
    write(line, at, formatTimeOfDay(from + at * scale).slice(0, digits));
  return line.join('');
}

function write(line: string[], at: number, text: string): void {
  for (let offset = 0; offset < text.length; offset += 1) line[at + offset] = text.charAt(offset);
}

function formatScale(scale: Duration): string {
  const units: readonly (readonly [string, Duration])[] = [
    ['day', day],
    ['hour', hour],
    ['minute', minute],
    ['second', second],
  ];
  const [name, unit] = units.find(([, size]) => scale >= size) ?? ['second', second];
  const count = Math.round(scale / unit);
  return count === 1 ? `1 ${name}` : `${count} ${name}s`;
}
