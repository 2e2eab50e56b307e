// Times as a user of the lab reads them: in their time zone, with the day only if it is not today and the year only if it is another one.

import type { Instant } from '../../../core/time.ts';
import { localTimes } from '../../../lab/local-time.ts';

/** Formats times for a user in that zone (a setting): `08:11:40`, `20 Nov 08:11`. */
export function clockFor(zone: string, now: Instant): (at: Instant) => string {
  const timeOf = localTimes(zone);
  const today = timeOf(now);
  return (at) => {
    const { day, month, year, time } = timeOf(at);
    const isToday = day === today.day && month === today.month && year === today.year;
    const date = year === today.year ? `${day} ${month}` : `${day} ${month} ${year}`;
    return isToday ? time : `${date} ${time.slice(0, 5)}`;
  };
}

/** `us (UTC-4)`, `cn (UTC+8)`; any other zone by its name. */
export function zoneText(zone: string): string {
  if (zone === 'local') return new Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone === 'us') return 'us (UTC-4)';
  return zone === 'cn' ? 'cn (UTC+8)' : zone;
}
