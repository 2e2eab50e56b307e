// Program output: progress in a program's log, where it is unambiguous, and the lines that explain its end.

import { formatDuration } from './format.ts';
import { hour, minute, second, type Duration } from '../core/model/time.ts';

/** `step 40,210 of 90,000`. */
export interface ProgressCount {
  readonly unit: string;
  readonly done: number;
  readonly total: number;
}

/** A unit, then `n/m` or `n of m`. A bare `3/4` may be a date or a rank and does not count. */
const countPattern =
  /\b(step|epoch|iteration|iter|batch|update)s?\b[\s:=#[(]*(\d[\d,_]*)\s*(?:\/|of|out of)\s*(\d[\d,_]*)/gi;
/** The bar of tqdm: `45%|####      | 450/1000 [00:10<00:12, 45.0it/s]`. */
const progressBarPattern = /\|\s*(\d+)\/(\d+) \[\d+:\d+/g;

export function countsOf(line: string): readonly ProgressCount[] {
  const named = [...line.matchAll(countPattern)].map(([, unit = '', done = '', total = '']) =>
    progressCount(unit, done, total),
  );
  const all =
    named.length > 0
      ? named
      : [...line.matchAll(progressBarPattern)].map(([, done = '', total = '']) => progressCount('step', done, total));
  return all.filter(({ done, total }) => total > 0 && done <= total);
}

function progressCount(name: string, done: string, total: string): ProgressCount {
  const number = (text: string) => Number(text.replaceAll(/[,_]/g, ''));
  const unit = name.toLowerCase();
  return { unit: unit === 'iter' ? 'iteration' : unit, done: number(done), total: number(total) };
}

export function newestCounts(text: string): readonly ProgressCount[] {
  return allCounts(text).at(-1) ?? [];
}

export function oldestCounts(text: string): readonly ProgressCount[] {
  return allCounts(text)[0] ?? [];
}

/** A progress bar overwrites itself, so a carriage return also ends a line. */
function allCounts(text: string): readonly (readonly ProgressCount[])[] {
  const lines = text.split(/[\r\n]+/);
  return lines.map(countsOf).filter((counts) => counts.length > 0);
}

export interface Progress {
  readonly counts: readonly ProgressCount[];
  /** Progress over a time; null with several counts or with too little of either. */
  readonly pace: { readonly done: number; readonly duration: Duration } | null;
}

/** A pace over less than this describes the start, not the work. */
const minCount = 5;
const minDuration: Duration = 30 * second;

/** The pace between the first and the newest line of an attempt; null if they have different counts. */
export function paceOf(
  first: readonly ProgressCount[],
  newest: readonly ProgressCount[],
  ran: Duration,
): Progress['pace'] {
  const [from] = first;
  const [to] = newest;
  if (first.length !== 1 || newest.length !== 1 || from === undefined || to === undefined) return null;
  if (from.unit !== to.unit || from.total !== to.total) return null;
  const done = to.done - from.done;
  return done < minCount || ran < minDuration ? null : { done, duration: ran };
}

export function formatProgress({ counts, pace }: Progress): string {
  const [count] = counts;
  const parts = counts.map(({ unit, done, total }) => `${unit} ${formatCount(done)} of ${formatCount(total)}`);
  if (counts.length !== 1 || count === undefined) return parts.join(', ');
  const text = `${parts.join('')} (${Math.floor((count.done / count.total) * 100)}%)`;
  if (pace === null || count.done === count.total) return text;
  const remaining = ((count.total - count.done) * pace.duration) / pace.done;
  return `${text}, ${formatPace(pace.done / pace.duration)} in this attempt, ${formatDuration(remaining)} more at that pace`;
}

function formatPace(perMillisecond: number): string {
  const units: readonly (readonly [string, Duration])[] = [
    ['s', second],
    ['min', minute],
  ];
  const [name, unit] = units.find(([, length]) => perMillisecond * length >= 0.5) ?? ['h', hour];
  const value = perMillisecond * unit;
  return `${value >= 100 ? formatCount(Math.round(value)) : value.toPrecision(3)}/${name}`;
}

function formatCount(value: number): string {
  return String(value).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

export const lastOutputBytes = 32 * 1024;

const maxLines = 3;

/** A longer line, such as a printed tensor, says nothing. */
const maxLineLength = 300;

/** If more lines follow a traceback, the program continued after it. */
const maxLinesAfterTraceback = 10;

/** At most three lines: the last frame and the exception of a Python traceback, else the last lines. */
export function lastOutputLines(text: string): readonly string[] {
  const lines = text
    .split('\n')
    // A progress bar overwrites itself: only the text after the last carriage return is visible.
    .map((line) => line.trimEnd().split('\r').at(-1)?.trimEnd() ?? '')
    .filter((line) => line.trim() !== '');
  return (tracebackEnd(lines) ?? lines.slice(-maxLines)).map(truncateLine);
}

function tracebackEnd(lines: readonly string[]): readonly string[] | undefined {
  const head = lines.findLastIndex((line) => line.includes('Traceback (most recent call last):'));
  if (head < 0) return undefined;
  // A launcher may print a prefix before each line; the indentation follows it.
  const prefix = lines[head]?.slice(0, lines[head].indexOf('Traceback')) ?? '';
  const isFrame = (line: string): boolean => line.startsWith(`${prefix} `);
  const exception = lines.findIndex((line, index) => index > head && !isFrame(line));
  if (exception < 0 || lines.length - 1 - exception > maxLinesAfterTraceback) return undefined;
  const frames = lines.slice(head + 1, exception).filter((line) => !/^[\s~^]*$/.test(line.slice(prefix.length)));
  return [...frames.slice(1 - maxLines), lines[exception] ?? ''];
}

function truncateLine(line: string): string {
  return line.length <= maxLineLength ? line : `${line.slice(0, maxLineLength - 2)}..`;
}
