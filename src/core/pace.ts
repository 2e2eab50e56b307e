// Pace: how long to wait, and when to look again. Lengths that grow, spread and stay within bounds.

import { fraction } from './hash.ts';
import { second } from './time.ts';
import type { Duration, Instant } from './time.ts';

/** `first` doubled with every try up to `most`, a quarter more or less. Zero tries wait nothing. */
export function doubling(
  first: Duration,
  most: Duration,
  tries: number,
  ...seed: readonly (string | number)[]
): Duration {
  if (tries <= 0) return 0;
  const wait = Math.min(most, first * 2 ** Math.min(tries - 1, 30));
  return Math.round(wait * (0.75 + fraction(...seed, tries) / 2));
}

/** The value kept within these bounds. */
export function between(least: Duration, value: Duration, most: Duration): Duration {
  return Math.round(Math.min(most, Math.max(least, value)));
}

/** That moment, or just after now when it has passed: a time to wake that lies ahead. */
export function later(at: Instant, now: Instant): Instant {
  return Math.max(at, now + second);
}
