// Log lines: what the lines of a program's log say: how far it has come, where they say so beyond doubt, and how it ended.

import { lengthText } from './figures.ts';
import { hour, minute, second, type Duration } from '../core/time.ts';

/** `step 40,210 of 90,000`: what is counted, how far it is, and where it ends. */
export interface Count {
  readonly what: string;
  readonly done: number;
  readonly total: number;
}

/** A word for what is counted, then `n/m` or `n of m`. A bare `3/4` may be a date or a rank, so it is none. */
const counted =
  /\b(step|epoch|iteration|iter|batch|update)s?\b[\s:=#[(]*(\d[\d,_]*)\s*(?:\/|of|out of)\s*(\d[\d,_]*)/gi;
/** The bar of tqdm: `45%|####      | 450/1000 [00:10<00:12, 45.0it/s]`. */
const bar = /\|\s*(\d+)\/(\d+) \[\d+:\d+/g;

export function countsOf(line: string): readonly Count[] {
  const named = [...line.matchAll(counted)].map(([, what = '', done = '', total = '']) => count(what, done, total));
  const all =
    named.length > 0 ? named : [...line.matchAll(bar)].map(([, done = '', total = '']) => count('step', done, total));
  // More than all is another count than it seems.
  return all.filter(({ done, total }) => total > 0 && done <= total);
}

function count(what: string, done: string, total: string): Count {
  const number = (text: string) => Number(text.replaceAll(/[,_]/g, ''));
  const word = what.toLowerCase();
  return { what: word === 'iter' ? 'iteration' : word, done: number(done), total: number(total) };
}

export function newestCounts(text: string): readonly Count[] {
  // A progress bar writes over itself, so a return ends a line as well.
  const lines = text.split(/[\r\n]+/);
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    const counts = countsOf(lines[at] ?? '');
    if (counts.length > 0) return counts;
  }
  return [];
}

export function oldestCounts(text: string): readonly Count[] {
  for (const line of text.split(/[\r\n]+/)) {
    const counts = countsOf(line);
    if (counts.length > 0) return counts;
  }
  return [];
}

export interface Progress {
  readonly counts: readonly Count[];
  /** The progress of the one count in so much time; null where there are several, or too little to tell a pace by. */
  readonly pace: { readonly done: number; readonly within: Duration } | null;
}

/** A pace of less than this says more about the start than about the work. */
const leastDone = 5;
const leastTime: Duration = 30 * second;

/** The pace between the first and the newest line of an attempt; null when they do not speak of one and the same count. */
export function paceOf(first: readonly Count[], newest: readonly Count[], ran: Duration): Progress['pace'] {
  const [from] = first;
  const [to] = newest;
  if (first.length !== 1 || newest.length !== 1 || from === undefined || to === undefined) return null;
  if (from.what !== to.what || from.total !== to.total) return null;
  const done = to.done - from.done;
  return done < leastDone || ran < leastTime ? null : { done, within: ran };
}

/** `step 40,210 of 90,000 (44%), 1.16/s in this attempt, 11h55m more at that pace`. */
export function progressText({ counts, pace }: Progress): string {
  const [only] = counts;
  const parts = counts.map(({ what, done, total }) => `${what} ${figure(done)} of ${figure(total)}`);
  if (counts.length !== 1 || only === undefined) return parts.join(', ');
  const text = `${parts.join('')} (${Math.floor((only.done / only.total) * 100)}%)`;
  if (pace === null || only.done === only.total) return text;
  const left = ((only.total - only.done) * pace.within) / pace.done;
  return `${text}, ${paceText(pace.done / pace.within)} in this attempt, ${lengthText(left)} more at that pace`;
}

function paceText(perMillisecond: number): string {
  const units: readonly (readonly [string, Duration])[] = [
    ['s', second],
    ['min', minute],
  ];
  const [name, unit] = units.find(([, length]) => perMillisecond * length >= 0.5) ?? ['h', hour];
  const value = perMillisecond * unit;
  return `${value >= 100 ? figure(Math.round(value)) : value.toPrecision(3)}/${name}`;
}

function figure(value: number): string {
  return String(value).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

// ------------------------------------------------------------------------------------------ last words

export const lastWordsBytes = 32 * 1024;

const mostLines = 3;

/** Longer lines are cut: a printed tensor says nothing. */
const lineLongest = 300;

/** A traceback that so many lines follow was no end: the program went on after it. */
const afterTraceback = 10;

/** At most three lines that tell how a program ended: of Python the last frame and the exception, else the last lines. */
export function lastWordsOf(text: string): readonly string[] {
  const lines = text
    .split('\n')
    // A progress bar writes over itself: what counts is what stands there now.
    .map((line) => line.trimEnd().split('\r').at(-1)?.trimEnd() ?? '')
    .filter((line) => line.trim() !== '');
  return (tracebackEnd(lines) ?? lines.slice(-mostLines)).map(cut);
}

/** Python's "Traceback (most recent call last):", its frames, which are indented, and the exception, which is not. */
function tracebackEnd(lines: readonly string[]): readonly string[] | undefined {
  const head = lines.findLastIndex((line) => line.includes('Traceback (most recent call last):'));
  if (head < 0) return undefined;
  // A launcher may print a prefix before each line; what is indented is indented behind it.
  const prefix = lines[head]?.slice(0, lines[head].indexOf('Traceback')) ?? '';
  const isFrame = (line: string): boolean => line.startsWith(`${prefix} `);
  const exception = lines.findIndex((line, index) => index > head && !isFrame(line));
  if (exception < 0 || lines.length - 1 - exception > afterTraceback) return undefined;
  const frames = lines.slice(head + 1, exception).filter((line) => !/^[\s~^]*$/.test(line.slice(prefix.length)));
  return [...frames.slice(1 - mostLines), lines[exception] ?? ''];
}

function cut(line: string): string {
  return line.length <= lineLongest ? line : `${line.slice(0, lineLongest - 2)}..`;
}
