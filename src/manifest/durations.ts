import { day, hour, minute, second, type Duration } from '../core/model/time.ts';

const units: Readonly<Record<string, Duration>> = { ms: 1, s: second, m: minute, h: hour, d: day };

/** Limit of ten years. Longer durations overflow timers and dates. */
export const maxDuration: Duration = 3_650 * day;

/** In milliseconds; undefined when the text is not a duration, is negative or is longer than `maxDuration`. */
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

/** Understands `2 hours and 3 min`, and `1-12:00:00` as in Slurm; `null` means no limit. */
export function suggestDuration(text: string): string | undefined {
  const plain = text.trim().toLowerCase();
  if (/^(-1|none|never|no|off|false|inf|infinite|infinity|unlimited|forever)$/.test(plain)) return 'null';
  const clock = /^(?:(\d+)-)?(\d+):(\d\d):(\d\d)$/.exec(plain);
  if (clock !== null)
    return `${clock[1] ?? 0}d${clock[2]}h${clock[3]}m${clock[4]}s`.replaceAll(/(?<!\d)0+[dhms]/g, '') || '0s';
  const suggestion = plain
    .replaceAll(/(\d)\s*(ms|[smhd])(?:ec|in|our|r|ay|econd|inute)?s?\b/g, '$1$2')
    .replaceAll(/[\s,]|and/g, '');
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
