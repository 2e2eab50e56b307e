// The text of log lines: the time at its beginning, equality between workers, errors, and the labels of workers.

import { failurePatterns, matchPattern } from '../core/model/log-lines.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { escapeLine } from './format.ts';
import type { JobLog } from './job-source.ts';

/** Tells one log from the others: the number of a worker or pod, `controller`, or the end of a pod's name. */
export type LogLabel = NonNullable<JobLog['label']>;

/** `0-3`, `0,2-3`, `controller`. */
export function joinLabels(all: readonly LogLabel[]): string {
  const labels: string[] = all.filter((one) => typeof one === 'string').map(escapeLine);
  const numbers = all.filter((one) => typeof one === 'number').toSorted((one, other) => one - other);
  for (let at = 0; at < numbers.length;) {
    const from = numbers[at] ?? 0;
    let to = from;
    while (numbers[at + 1] === to + 1) {
      to += 1;
      at += 1;
    }
    labels.push(from === to ? String(from) : `${from}-${to}`);
    at += 1;
  }
  return labels.join(',');
}

// ------------------------------------------------------------------------------------------ times

/** `2026-11-20T08:20:01Z `, `[08:20:01,123] `, and the absl form `I1120 08:20:01.123456 4711 `. */
const leadingTime =
  /^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ |\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s+)/;

export function timestampOf(text: string): string | null {
  return leadingTime.exec(text)?.[0].replaceAll(/[[\]]/g, '').trim() ?? null;
}

export function withoutTime(text: string): string {
  return text.replace(leadingTime, '');
}

const timeParts =
  /^(?:\[?(?:(\d{4})-(\d\d)-(\d\d)[T ])?|[IWEF](\d\d)(\d\d) )(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?/;

/**
 * The leading time in milliseconds, for the order of lines of one format; null without one. A time without a date or a year
 * counts from an arbitrary beginning.
 */
export function timeOfLine(text: string): number | null {
  if (!leadingTime.test(text)) return null;
  const [, year, month, day, month2, day2, hour, minute, second, fraction = '', zone = ''] = timeParts.exec(text) ?? [];
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(zone) ?? [];
  const offset = (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0));
  const date = Date.UTC(
    Number(year ?? 2000),
    Number(month ?? month2 ?? 1) - 1,
    Number(day ?? day2 ?? 1),
    Number(hour),
    Number(minute) - offset,
    Number(second),
  );
  return date + Number(`0.${fraction || '0'}`) * 1000;
}

// ------------------------------------------------------------------------------------------ equality

/** Lines with the same key differ only in the leading time and in numbers with a decimal point, such as a loss. */
export function foldKey(text: string): string {
  return withoutTime(text).replace(numbers.decimal, '#');
}

/** Lines with the same key differ only in the leading time and in numbers. */
export function digitsKey(text: string): string {
  return withoutTime(text).replace(numbers.any, '#');
}

/**
 * Texts with the same key as one line, with the time of the first one and the range of each number that differs. `kind`: the
 * numbers that may differ.
 */
export function foldLines(texts: readonly string[], kind: keyof typeof numbers = 'decimal'): string {
  const [first = '', ...others] = texts;
  const rest = withoutTime(first);
  const time = first.slice(0, first.length - rest.length);
  const all = [rest, ...others.map(withoutTime)].map((text) => partsOf(text, numbers[kind]));
  const drawn = all[0]?.map((part, index) => {
    const parts = all.map((text) => text[index] ?? part);
    return parts.every((other) => other === part) ? part : range(parts);
  });
  return time + (drawn ?? []).join('');
}

const numbers = { decimal: /\d+\.\d+/g, any: /\d+(?:\.\d+)?/g } as const;

/** The texts between the numbers, and the numbers. */
function partsOf(text: string, number: RegExp): readonly string[] {
  let end = 0;
  const parts = [...text.matchAll(number)].flatMap(({ 0: found, index }) => {
    const before = text.slice(end, index);
    end = index + found.length;
    return [before, found];
  });
  return [...parts, text.slice(end)];
}

function range(parts: readonly string[]): string {
  const sorted = parts.toSorted((one, other) => Number(one) - Number(other));
  return `${sorted[0] ?? ''}..${sorted.at(-1) ?? ''}`;
}

// ------------------------------------------------------------------------------------------ errors

/** Patterns of the recovery rules, and of Python, C++ and the kernel. */
const errorPattern =
  /^\s*Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b(?::|$)|\b(?:FATAL|CRITICAL|ERROR)\b|^panic: |Segmentation fault|\(core dumped\)|^F\d{4} /;

export function isErrorLine(text: string): boolean {
  return errorPattern.test(text) || matchPattern(text) !== undefined;
}

/** Each error line contains one of these. They are found in a block much faster than each line is examined. */
const errorTexts = [
  'Traceback',
  'Error',
  'Exception',
  'FATAL',
  'CRITICAL',
  'ERROR',
  'panic: ',
  'Segmentation fault',
  '(core dumped)',
  ...failurePatterns.flatMap(({ anyOf }) => anyOf),
].map(escapePattern);

/** Matches in every error line of a block, and in few others. */
export const errorSigns = new RegExp([...errorTexts, String.raw`^F\d{4} `].join('|'), 'gm');

/** The text as a regular expression. */
export function escapePattern(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`);
}

interface ErrorPosition {
  readonly worker: WorkerId | null;
  /** The time in the line itself, or in the nearest line before it with a time. */
  readonly time: string | null;
}

/**
 * The first errors of several logs, the earliest first by the times in the lines. Without times, the worker of the attempt's
 * evidence comes first, then the order of the logs: their times prove nothing.
 */
export function inOrderOfTime<E extends ErrorPosition>(
  found: readonly E[],
  evidence: WorkerId | undefined,
): readonly E[] {
  const times = found.map(({ time }) => time);
  // Two time formats cannot be compared as text.
  if (times.every((time) => time !== null && time.length === times[0]?.length)) {
    return found.toSorted((one, other) => (one.time ?? '').localeCompare(other.time ?? ''));
  }
  return found.toSorted((one, other) => Number(other.worker === evidence) - Number(one.worker === evidence));
}
