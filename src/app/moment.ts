// Moment: how a moment is written for programs, in RFC 3339 and UTC.

import type { Instant } from '../core/time.ts';

/** `2026-11-20T18:02:13.000Z`, or null where there is no moment. */
export function moment(at: Instant | null): string | null {
  if (at === null) return null;
  const day = Math.floor(at / dayMs);
  if (day !== newest.day) newest = { day, text: new Date(day * dayMs).toISOString().slice(0, 11) };
  const ms = at - day * dayMs;
  const [hour, minute, second] = [
    Math.floor(ms / 3_600_000),
    Math.floor(ms / 60_000) % 60,
    Math.floor(ms / 1_000) % 60,
  ];
  return `${newest.text}${digits(hour, 2)}:${digits(minute, 2)}:${digits(second, 2)}.${digits(Math.floor(ms % 1_000), 3)}Z`;
}

const dayMs = 86_400_000;
/** The day that was written last, with the T behind it: of many moments most are of one day, and a Date is slow to write. */
let newest = { day: Number.NaN, text: '' };

function digits(value: number, count: number): string {
  return String(value).padStart(count, '0');
}
