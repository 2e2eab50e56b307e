// The life of a job as one line: what each stretch of time went into.

import type { AllocationView, AttemptView } from '../../app/client.ts';
import { clockText } from '../../app/figures.ts';
import { day, hour, minute, second, type Duration, type Instant } from '../../core/time.ts';
import { filled } from './cell.ts';

/** In the order in which they win where several fall into one column: the rare one must not be hidden by the long one. */
const marks = { ended: '!', run: '>', setup: '+', capacity: '.' } as const;
type Kind = keyof typeof marks;

/** What one column may stand for; the shortest that lets the whole life fit is taken. */
const scales: readonly Duration[] = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 30].map((count) => count * day),
];

const margin = 8;

/** Three lines: the hours, the bar, the numbers of the attempts; and what the marks mean. `[]` before the first. */
export function timelineLines(
  life: {
    readonly createdAt: Instant;
    readonly attempts: readonly AttemptView[];
    readonly allocations: readonly AllocationView[];
  },
  columns: number,
  now: Instant,
): readonly string[] {
  if (life.attempts.length === 0) return [];
  const end = Math.max(life.createdAt + 1, ...life.attempts.map((attempt) => attempt.ended ?? now));
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
  for (const attempt of life.attempts) {
    const stop = attempt.ended ?? now;
    const ready = life.allocations.find(({ allocation }) => allocation === attempt.allocation)?.ready ?? null;
    const usable = Math.min(stop, Math.max(attempt.created, ready ?? stop));
    const started = Math.min(stop, attempt.started ?? stop);
    if (usable > attempt.created) paint('capacity', attempt.created, usable);
    if (started > usable) paint('setup', usable, started);
    const ending = attempt.reason === 'succeeded' ? null : (attempt.ending ?? attempt.ended);
    if (attempt.started !== null) paint('run', attempt.started, Math.max(attempt.started, ending ?? stop));
    if (ending !== null) paint('ended', ending, stop);
    write(numbers, Math.floor((attempt.created - from) / scale), String(attempt.attempt));
  }

  const indent = ' '.repeat(margin);
  return [
    (indent + ruler(from, scale, count)).trimEnd(),
    (indent + bar.map((kind) => (kind === null ? ' ' : marks[kind])).join('')).trimEnd(),
    ('attempt'.padEnd(margin) + numbers.join('')).trimEnd(),
    ...filled(
      [`one column is ${scaleText(scale)}, UTC;`, '. capacity', '+ setup', '> running', '! ended or lost'],
      '  ',
      columns,
    ),
  ];
}

const order: readonly Kind[] = ['ended', 'run', 'setup', 'capacity'];

/** The time at about every tenth column. */
function ruler(from: Instant, scale: Duration, count: number): string {
  const line = ' '.repeat(count).split('');
  const digits = scale < minute ? 8 : 5;
  for (let at = 0; at + digits <= count || at === 0; at += 12)
    write(line, at, clockText(from + at * scale).slice(0, digits));
  return line.join('');
}

function write(line: string[], at: number, text: string): void {
  // The text is of digits and colons: one unit each.
  for (let offset = 0; offset < text.length; offset += 1) line[at + offset] = text.charAt(offset);
}

function scaleText(scale: Duration): string {
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
