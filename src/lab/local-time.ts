// Times in a user's time zone.

import type { Instant } from '../core/model/time.ts';

export interface LocalTime {
  readonly year: number;
  readonly month: string;
  readonly day: number;
  readonly time: string;
}

const timeZones: Readonly<Record<string, string | undefined>> = {
  local: undefined,
  us: 'Etc/GMT+4',
  cn: 'Asia/Shanghai',
};

/** `zone` is a user's setting: `local` (this machine's), `us`, `cn` or a name of the time zone database. */
export function localTimeConverter(zone: string): (at: Instant) => LocalTime {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: Object.hasOwn(timeZones, zone) ? timeZones[zone] : zone,
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  return (at) => {
    const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type, value]));
    const part = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? '';
    return {
      year: Number(part('year')),
      month: part('month'),
      day: Number(part('day')),
      time: `${part('hour')}:${part('minute')}:${part('second')}`,
    };
  };
}

/** `08:11:40` today, `20 Nov 08:11` on another day. */
export function timeFormatter(zone: string, now: Instant): (at: Instant) => string {
  const timeOf = localTimeConverter(zone);
  const today = timeOf(now);
  return (at) => {
    const { day, month, year, time } = timeOf(at);
    const isToday = day === today.day && month === today.month && year === today.year;
    const date = year === today.year ? `${day} ${month}` : `${day} ${month} ${year}`;
    return isToday ? time : `${date} ${time.slice(0, 5)}`;
  };
}

/** `us (UTC-4)`, `cn (UTC+8)`; the name of any other zone. */
export function formatTimeZone(zone: string): string {
  if (zone === 'local') return new Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone === 'us') return 'us (UTC-4)';
  return zone === 'cn' ? 'cn (UTC+8)' : zone;
}
