// The history of a job: its events, a line each, and its life as one line.

import type { AllocationView, AttemptView } from '../../app/client.ts';
import { clockText, dateText, lengthText, stampText, inertWord } from '../../app/figures.ts';
import { filled, hanging, padStart } from './cell.ts';
import { day, type Duration, hour, type Instant, minute, second } from '../../core/time.ts';

/**
 * On a terminal of so many columns: the time of day, how long after the event before, and the sentence, under a line for each new day.
 * Elsewhere every line has its whole time, so that lines can be sorted and searched.
 */
export function historyLines(
  events: readonly { readonly at: Instant; readonly sentence: string }[],
  columns: number | null,
  now: Instant,
): readonly string[] {
  if (columns === null) return events.map(({ at, sentence }) => `${stampText(at)}  ${inertWord(sentence)}`);

  const lines: string[] = [];
  let before: Instant | undefined;
  for (const { at, sentence } of events) {
    if (before === undefined || dateText(before, now) !== dateText(at, now)) lines.push(`${dateText(at, now)}, UTC`);
    const later = before === undefined || at - before < 1_000 ? '' : `+${lengthText(at - before)}`;
    const front = `${clockText(at)}  ${padStart(later, 7)}  `;
    lines.push(...hanging(front, inertWord(sentence), columns));
    before = at;
  }
  return lines;
}

/** In the order in which they win where several fall into one column: the rare one must not be hidden by the long one. */
const marks = { ended: '!', run: '>', setup: '+', waiting: '.' } as const;
type Kind = keyof typeof marks;

const words: Readonly<Record<Kind, string>> = {
  run: 'running',
  waiting: 'waiting',
  setup: 'setup',
  ended: 'ended or lost',
};

/** The time of one column: the shortest with which the whole life fits. */
const scales: readonly Duration[] = [
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 30].map((count) => count * day),
];

const margin = 8;

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
  const stretches = life.attempts.flatMap((attempt) => stretchesOf(attempt, life.allocations, now));
  for (const { kind, from: start, to } of stretches) paint(kind, start, to);
  for (const attempt of life.attempts) {
    write(numbers, Math.floor((attempt.created - from) / scale), String(attempt.attempt));
  }

  const indent = ' '.repeat(margin);
  return [
    `${dayAndTime(life.createdAt, now)} -> ${dayAndTime(end, now)} UTC`,
    (indent + ruler(from, scale, count)).trimEnd(),
    (indent + bar.map((kind) => (kind === null ? ' ' : marks[kind])).join('')).trimEnd(),
    ('attempt'.padEnd(margin) + numbers.join('')).trimEnd(),
    ...filled(sums(stretches, end - life.createdAt), ', ', columns),
    ...filled(
      [`one column is ${scaleText(scale)};`, ...order.toReversed().map((kind) => `${marks[kind]} ${words[kind]}`)],
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

function stretchesOf(attempt: AttemptView, allocations: readonly AllocationView[], now: Instant): readonly Stretch[] {
  const stop = attempt.ended ?? now;
  const ready = allocations.find(({ allocation }) => allocation === attempt.allocation)?.ready ?? null;
  const started = Math.min(stop, attempt.started ?? stop);
  const usable = Math.min(started, Math.max(attempt.created, attempt.notBefore, ready ?? stop));
  const ending = attempt.reason === 'succeeded' ? null : (attempt.ending ?? attempt.ended);
  const ran = attempt.started === null ? started : Math.max(started, ending ?? stop);
  return [
    ...(usable > attempt.created ? [{ kind: 'waiting', from: attempt.created, to: usable } as const] : []),
    ...(started > usable ? [{ kind: 'setup', from: usable, to: started } as const] : []),
    // A command that ended within a millisecond ran, and is worth its mark.
    ...(attempt.started === null ? [] : [{ kind: 'run', from: started, to: ran } as const]),
    ...(ending === null ? [] : [{ kind: 'ended', from: ending, to: stop } as const]),
  ];
}

function sums(stretches: readonly Stretch[], all: Duration): readonly string[] {
  const sum = (of: readonly Stretch[]) => of.reduce((total, { from, to }) => total + (to - from), 0);
  const kinds = Object.keys(words) as readonly Kind[];
  const parts = kinds.map((kind) => [sum(stretches.filter((one) => one.kind === kind)), words[kind]] as const);
  const rest = [all - sum(stretches), 'between attempts'] as const;
  const [first = '', ...others] = [...parts, rest]
    .filter(([length]) => length >= second)
    .map(([length, word]) => `${lengthText(length)} ${word}`);
  return [`${lengthText(all)} in all${first === '' ? '' : `: ${first}`}`, ...others];
}

function dayAndTime(at: Instant, now: Instant): string {
  return `${dateText(at, now)} ${clockText(at)}`;
}

const order: readonly Kind[] = ['ended', 'run', 'setup', 'waiting'];

function ruler(from: Instant, scale: Duration, count: number): string {
  const line = ' '.repeat(count).split('');
  const digits = scale < minute ? 8 : 5;
  for (let at = 0; at + digits <= count || at === 0; at += 12)
    write(line, at, clockText(from + at * scale).slice(0, digits));
  return line.join('');
}

function write(line: string[], at: number, text: string): void {
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
