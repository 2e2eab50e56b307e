// Period border: a time that a user types, such as `7d` or `yesterday`.

import { day, type Duration, type Instant } from '../core/model/time.ts';
import { parseDuration as exactDuration, suggestDuration } from '../manifest/durations.ts';

/** As in a manifest, and `5min` or `2 hours`. */
export function durationOf(text: string): Duration | undefined {
  return exactDuration(text) ?? exactDuration(suggestDuration(text) ?? '');
}

/** A point in time, or the first and the last instant of a named day or month. */
export type PeriodBorder = (now: Instant) => { readonly from: Instant; readonly until: Instant };

/**
 * `7d` (ago), `yesterday`, `2026-11`, `2026-11-28`, `2026-11-28T14:30` or `2026-11-28 14:30`, with or without seconds and
 * offset. Without one it is UTC.
 */
export function parsePeriodBorder(text: string): PeriodBorder {
  const daysBack = ['today', 'yesterday'].indexOf(text.toLowerCase());
  if (daysBack >= 0)
    return (now) => {
      const midnight = now - (now % day) - daysBack * day;
      return { from: midnight, until: midnight + day };
    };
  const ago = /^\d+$/.test(text) ? undefined : durationOf(text.replace(/\s+ago$/i, ''));
  if (ago !== undefined) return (now) => ({ from: now - ago, until: now - ago });
  const [, month, dayOfMonth, time, offset = 'Z'] =
    /^(\d{4}-\d\d)(-\d\d)?(?:[T ](\d\d:\d\d(?::\d\d)?)(Z|[+-]\d\d:\d\d)?)?$/i.exec(text) ?? [];
  const date = `${month}${dayOfMonth ?? '-01'}`;
  const midnight = Date.parse(date);
  const from = time === undefined ? midnight : Date.parse(`${date}T${time}${offset}`);
  // Date.parse silently turns 30 February into 2 March.
  const isDate = !Number.isNaN(from) && new Date(midnight).toISOString().startsWith(date);
  if (!isDate || (time !== undefined && dayOfMonth === undefined))
    throw new Error('expected a time: 7d (ago), yesterday, 2026-11-28, 2026-11 or 2026-11-28T14:30, in UTC');
  if (time !== undefined) return () => ({ from, until: from });
  const until = dayOfMonth === undefined ? Date.UTC(Number(date.slice(0, 4)), Number(date.slice(5, 7))) : from + day;
  return () => ({ from, until });
}
