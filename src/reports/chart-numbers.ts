// Numbers and times of a chart, in any medium.

import { day, hour, minute, second, type Duration, type Instant } from '../core/model/time.ts';

/** A constant gets room on both sides. */
export function withRoom([least, greatest]: readonly [number, number]): readonly [least: number, greatest: number] {
  if (least < greatest) return [least, greatest];
  const margin = Math.abs(least) / 2 || 1;
  return [least - margin, least + margin];
}

/** At most four significant digits. */
export function formatNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 10_000 && size < 1e15) return String(Math.round(value)).replaceAll(/\B(?=(\d{3})+$)/g, ',');
  return String(Number(value.toPrecision(4)));
}

const steps: readonly Duration[] = [
  ...[1, 5, 15, 30].map((count) => count * second),
  ...[1, 5, 15, 30].map((count) => count * minute),
  ...[1, 3, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 14, 30, 90, 365].map((count) => count * day),
];

/** At most eight times, at round numbers: with the day at midnight, and with seconds on a short axis. */
export function ticksOf(from: Instant, until: Instant): readonly { readonly at: Instant; readonly text: string }[] {
  const step = steps.find((one) => (until - from) / one <= 8) ?? until - from;
  const ticks: { at: Instant; text: string }[] = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) {
    const [date = '', time = ''] = new Date(at).toISOString().split('T');
    const clock = time.slice(0, step < minute ? 8 : 5);
    ticks.push({ at, text: step >= day || clock === '00:00' ? date.slice(5) : clock });
  }
  return ticks;
}
