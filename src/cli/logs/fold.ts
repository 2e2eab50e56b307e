// Equal lines of several workers, drawn once for all of them.

import type { WorkerId } from '../../core/spec.ts';

/**
 * Two lines with equal keys may be drawn as one: they are equal after their own leading time is taken off, except for
 * numbers with a decimal point (a loss, a duration). Whole numbers count: a step that differs is another line.
 */
export function foldKey(text: string): string {
  return withoutTime(text).replace(decimals, '#');
}

/** One text for lines with equal keys: the first one's, with a range where numbers differ: `loss 2.114..2.121`. */
export function foldText(texts: readonly string[]): string {
  const [first = '', ...others] = texts;
  const rest = withoutTime(first);
  const time = first.slice(0, first.length - rest.length);
  const all = [rest, ...others.map(withoutTime)].map((text) => text.split(decimalsKept));
  const drawn = all[0]?.map((part, index) => {
    const parts = all.map((text) => text[index] ?? part);
    return parts.every((other) => other === part) ? part : range(parts);
  });
  return time + (drawn ?? []).join('');
}

/** `0-3`, `0,2-3`, `here`: which workers said it, in order. */
export function workersLabel(workers: readonly WorkerId[]): string {
  const labels: string[] = workers.includes('here') ? ['here'] : [];
  const numbers = workers.filter((worker) => worker !== 'here').toSorted((one, other) => one - other);
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

function range(parts: readonly string[]): string {
  const sorted = parts.toSorted((one, other) => Number(one) - Number(other));
  return `${sorted[0] ?? ''}..${sorted.at(-1) ?? ''}`;
}

/** The time that a line begins with, as it stands there; null where there is none. */
export function timeOf(text: string): string | null {
  return leadingTime.exec(text)?.[0].replaceAll(/[[\]]/g, '').trim() ?? null;
}

function withoutTime(text: string): string {
  return text.replace(leadingTime, '');
}

const decimals = /\d+\.\d+/g;
const decimalsKept = /(\d+\.\d+)/;
/** `2026-11-20T08:20:01Z `, `[08:20:01,123] `, and the absl form `I1120 08:20:01.123456 4711 `. */
const leadingTime =
  /^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ |\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s+)/;
