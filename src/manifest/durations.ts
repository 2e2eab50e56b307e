import { day, hour, minute, second, type Duration } from '../core/model/time.ts';

const units: Readonly<Record<string, Duration>> = { ms: 1, s: second, m: minute, h: hour, d: day };

/** Limit of ten years. Longer durations overflow timers and dates. */
export const maxDuration: Duration = 3_650 * day;

/** In milliseconds; undefined when the text is no duration, is negative or is longer than `maxDuration`. */
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

const unitPatterns: readonly (readonly [RegExp, string])[] = [
  [/^(ms|msecs?|millis|milliseconds?)$/, 'ms'],
  [/^(s|secs?|seconds?)$/, 's'],
  [/^(m|mins?|minutes?)$/, 'm'],
  [/^(h|hrs?|hours?)$/, 'h'],
  [/^(d|days?)$/, 'd'],
];

/** Understands notations of other programs (`1-00:00:00`, `PT5M`, `2 weeks`); `null` means no limit. */
export function suggestDuration(text: string): string | undefined {
  const plain = text.trim().toLowerCase();
  if (/^(-1|none|never|no|off|false|inf|infinite|infinity|unlimited|forever)$/.test(plain)) return 'null';
  const clock = /^(?:(\d+)-)?(\d+):(\d\d):(\d\d)$/.exec(plain);
  if (clock !== null) {
    const [days = 0, hours = 0, minutes = 0, seconds = 0] = clock.slice(1).map((part) => Number(part ?? 0));
    return formatExactDuration(days * day + hours * hour + minutes * minute + seconds * second);
  }
  const pairs = plain
    .replace(/^p(?=[\dt])/, '')
    .replaceAll(/(?<=^|[a-z])t(?=\d)/g, ' ')
    .replaceAll(/,|\band\b/g, ' ');
  if (!/^(\s*\d+(\.\d+)?\s*[a-z]+)+\s*$/.test(pairs)) return undefined;
  let suggestion = '';
  for (const [, amount = '', unitText = ''] of pairs.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    const unit = unitPatterns.find(([pattern]) => pattern.test(unitText))?.[1];
    if (/^(w|weeks?)$/.test(unitText)) suggestion += `${Number(amount) * 7}d`;
    else if (unit === undefined) return undefined;
    else suggestion += `${amount}${unit}`;
  }
  return parseDuration(suggestion) === undefined ? undefined : suggestion;
}

/** Shortest exact form of a duration: `90000` is `1m30s`. */
export function formatExactDuration(duration: Duration): string {
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
  return rounded <= maxDuration ? rounded : undefined;
}
