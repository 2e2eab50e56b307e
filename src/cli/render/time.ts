// Moments as the terminal shows them beside those of app/figures.ts. Intl is left alone: its first use costs 19 ms
// (stack.md), half of what a whole `list` may take.

import type { Instant } from '../../core/time.ts';

/** `2026-11-20T18:02:13Z`: the form of plain lines, which are sorted and searched. */
export function utcStamp(at: Instant): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** `20 Nov`, in UTC. */
export function utcDate(at: Instant): string {
  const [, dayOfMonth, month] = new Date(at).toUTCString().split(' ');
  return `${Number(dayOfMonth)} ${month ?? ''}`;
}

/** `08:20:14` in the zone of this machine, for a line that is looked at while it changes. */
export function localClock(at: Instant): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}
