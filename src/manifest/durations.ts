// Durations as people write them: `30s`, `5m`, `2h`, `1d`, `1h30m`, and a bare number of seconds.

import { day, hour, minute, second, type Duration } from '../core/time.ts';

const units: Readonly<Record<string, Duration>> = { ms: 1, s: second, m: minute, h: hour, d: day };

/** Longest time that is taken seriously; beyond it timers and dates lose their meaning. */
export const durationMost: Duration = 3_650 * day;

/** In milliseconds; undefined when the text is no duration, is negative or longer than ten years. */
export function parseDuration(text: string): Duration | undefined {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return bounded(Number(trimmed) * second);
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(trimmed)) return undefined;
  let total = 0;
  for (const [, amount, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(amount) * (units[unit ?? ''] ?? Number.NaN);
  }
  return bounded(total);
}

const unitWords: readonly (readonly [RegExp, string])[] = [
  [/^(ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(s|secs?|seconds?)$/, 's'],
  [/^(m|mins?|minutes?)$/, 'm'],
  [/^(h|hrs?|hours?)$/, 'h'],
  [/^(d|days?)$/, 'd'],
];

/** The duration that was most likely meant, of the forms of other programs; `null` for no limit. Undefined for anything else. */
export function durationMeant(text: string): string | undefined {
  const plain = text.trim().toLowerCase();
  if (/^(-1|none|never|no|off|false|inf|infinite|infinity|unlimited|forever)$/.test(plain)) return 'null';
  const clock = /^(?:(\d+)-)?(\d+):(\d\d):(\d\d)$/.exec(plain);
  if (clock !== null) {
    const [days = 0, hours = 0, minutes = 0, seconds = 0] = clock.slice(1).map((part) => Number(part ?? 0));
    return durationText(days * day + hours * hour + minutes * minute + seconds * second);
  }
  const pairs = plain
    .replace(/^p(?=[\dt])/, '')
    .replaceAll(/(?<=^|[a-z])t(?=\d)/g, ' ')
    .replaceAll(/,|\band\b/g, ' ');
  if (!/^(\s*\d+(\.\d+)?\s*[a-z]+)+\s*$/.test(pairs)) return undefined;
  let meant = '';
  for (const [, amount = '', word = ''] of pairs.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    const unit = unitWords.find(([pattern]) => pattern.test(word))?.[1];
    if (/^(w|weeks?)$/.test(word)) meant += `${Number(amount) * 7}d`;
    else if (unit === undefined) return undefined;
    else meant += `${amount}${unit}`;
  }
  return parseDuration(meant) === undefined ? undefined : meant;
}

/** The shortest exact writing of a duration: `90000` is `1m30s`. */
export function durationText(duration: Duration): string {
  let rest = duration;
  let text = '';
  for (const unit of ['d', 'h', 'm', 's', 'ms']) {
    const length = units[unit] ?? 1;
    const amount = Math.floor(rest / length);
    if (amount > 0) text += `${amount}${unit}`;
    rest -= amount * length;
  }
  return text === '' ? '0s' : text;
}

function bounded(duration: number): Duration | undefined {
  const rounded = Math.round(duration);
  return rounded <= durationMost ? rounded : undefined;
}
