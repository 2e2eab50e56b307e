// Moments as a user of the lab reads them: in their time zone, and the day only where it is another than today's.

import type { Instant } from '../../../core/time.ts';
import { ianaZone } from '../../../lab/user-settings.ts';

/** How moments are written at that time for somebody in that zone (a setting): `08:11:40`, `20 Nov 08:11`. */
export function clockFor(zone: string, now: Instant): (at: Instant) => string {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: ianaZone(zone),
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  const partsOf = (at: Instant): Readonly<Partial<Record<Intl.DateTimeFormatPartTypes, string>>> =>
    Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
  const today = partsOf(now);
  return (at) => {
    const { day, month, year, hour, minute, second } = partsOf(at);
    const isToday = day === today.day && month === today.month && year === today.year;
    return isToday ? `${hour}:${minute}:${second}` : `${day} ${month} ${hour}:${minute}`;
  };
}

/** `us (UTC-4)`, `cn (UTC+8)`; any other zone by its name. */
export function zoneText(zone: string): string {
  if (zone === 'us') return 'us (UTC-4)';
  return zone === 'cn' ? 'cn (UTC+8)' : zone;
}
