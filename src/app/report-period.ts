// The period of a report on a page: a named one, or two days. Days begin and end at midnight in UTC.

import { day, utcDate, type Instant } from '../core/model/time.ts';
import { parsePeriodBorder } from './period-border.ts';

/** `30d`: the last 30 days, as commands without a period. `week` begins on Monday. */
export const periodNames = ['today', 'week', 'month', '30d'] as const;

export type PeriodName = (typeof periodNames)[number];

export interface ReportPeriod {
  /** Null for two days. */
  readonly name: PeriodName | null;
  readonly since: Instant;
  /** Absent: until now. */
  readonly until?: Instant;
  /** The same for a command: `--since 2026-11-01 --until 2026-11-20`; empty for the last 30 days. */
  readonly flags: string;
  /** The reason why the wanted period is not used; null if it is. */
  readonly problem: string | null;
}

interface WantedPeriod {
  readonly period: string | null;
  /** Days, such as `2026-11-20`. */
  readonly since: string | null;
  readonly until: string | null;
}

/** The last 30 days without a period, or if its days are not valid. */
export function reportPeriod({ period, since, until }: WantedPeriod, now: Instant): ReportPeriod {
  const last30 = { name: '30d', since: now - 30 * day, flags: '', problem: null } as const;
  if (since !== null || until !== null) {
    const [from, end] = [dayOf(since, now), dayOf(until, now)];
    if (from === undefined || end === undefined) return { ...last30, problem: 'A day is written as 2026-11-20.' };
    if (from !== null && from.from > now) return { ...last30, problem: 'The period begins after today.' };
    if (from !== null && end !== null && end.until <= from.from)
      return { ...last30, problem: 'The period ends before it begins.' };
    return {
      name: null,
      since: from?.from ?? 0,
      ...(end === null ? {} : { until: end.until }),
      flags: [
        ...(since === null ? ['--since 1970-01-01'] : [`--since ${since}`]),
        ...(until === null ? [] : [`--until ${until}`]),
      ].join(' '),
      problem: null,
    };
  }
  const midnight = now - (now % day);
  const named = (name: PeriodName, begin: Instant): ReportPeriod => ({
    name,
    since: begin,
    flags: `--since ${utcDate(begin)}`,
    problem: null,
  });
  switch (period) {
    case 'today':
      return named('today', midnight);
    case 'week':
      return named('week', midnight - ((new Date(now).getUTCDay() + 6) % 7) * day);
    case 'month':
      return named('month', Date.parse(`${utcDate(now).slice(0, 7)}-01`));
    default:
      return last30;
  }
}

function dayOf(text: string | null, now: Instant): ReturnType<ReturnType<typeof parsePeriodBorder>> | null | undefined {
  if (text === null) return null;
  try {
    return /^\d{4}-\d\d-\d\d$/.test(text) ? parsePeriodBorder(text)(now) : undefined;
  } catch {
    return undefined;
  }
}
