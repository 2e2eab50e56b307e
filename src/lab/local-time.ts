// Times in a user's time zone. `us` and `cn` have a fixed offset and are computed here: the first use of Intl takes
// longer than the rest of a short command.

import { hour, minute, type Instant } from '../core/model/time.ts';

export interface LocalTime {
  readonly year: number;
  readonly month: string;
  readonly day: number;
  readonly time: string;
}

/** `zone` is a user's setting: `local` (this machine's), `us`, `cn` or a name of the time zone database. */
export function localTimeConverter(zone: string): (at: Instant) => LocalTime {
  if (zone === 'local') return (at) => inUtc(at - new Date(at).getTimezoneOffset() * minute);
  if (zone === 'us') return (at) => inUtc(at - 4 * hour);
  return zone === 'cn' ? (at) => inUtc(at + 8 * hour) : namedZoneConverter(zone);
}

function inUtc(at: Instant): LocalTime {
  const date = new Date(at);
  return {
    year: date.getUTCFullYear(),
    month: months[date.getUTCMonth()] ?? '',
    day: date.getUTCDate(),
    time: date.toISOString().slice(11, 19),
  };
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function namedZoneConverter(zone: string): (at: Instant) => LocalTime {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    day: 'numeric',
    month: 'numeric',
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
      month: months[Number(part('month')) - 1] ?? '',
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
