// Instants, durations and backoffs. The core never reads a clock: it gets `now` as a parameter.

/** Milliseconds since 1970-01-01T00:00:00Z. */
export type Instant = number;

export type Duration = number;

export const second: Duration = 1_000;
export const minute: Duration = 60 * second;
export const hour: Duration = 60 * minute;
export const day: Duration = 24 * hour;

/** Null if the text is not a date. */
export function parseInstant(text: string | null | undefined): Instant | null {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) ? null : at;
}

/** The earliest of the given instants. Undefined if none is given. */
export function earliest(...instants: readonly (Instant | undefined)[]): Instant | undefined {
  let first: Instant | undefined;
  for (const instant of instants) {
    if (instant !== undefined && (first === undefined || instant < first)) first = instant;
  }
  return first;
}

// ------------------------------------------------------------------------------------------ waiting

/** `first`, doubled with every try up to `most`, plus or minus a quarter by the seed. Zero for zero tries. */
export function backoffDelay(
  first: Duration,
  most: Duration,
  tries: number,
  ...seed: readonly (string | number)[]
): Duration {
  if (tries <= 0) return 0;
  const wait = Math.min(most, first * 2 ** Math.min(tries - 1, 30));
  return Math.round(wait * (0.75 + hashFraction(...seed, tries) / 2));
}

export function clamp(least: Duration, value: Duration, most: Duration): Duration {
  return Math.round(Math.min(most, Math.max(least, value)));
}

/** That time, or one second from now if it has passed: a wake time is always in the future. */
export function inFuture(at: Instant, now: Instant): Instant {
  return Math.max(at, now + second);
}

/** A number in [0, 1) that depends only on its arguments (FNV-1a, then mixed). The core uses no randomness. */
export function hashFraction(...parts: readonly (string | number)[]): number {
  let hash = 0x811c9dc5;
  for (const character of parts.join('/')) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  // FNV leaves the high bits of short, similar strings alike. This spreads them.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000;
}

/** The day in UTC, such as `2026-08-01`. */
export function utcDate(at: Instant): string {
  return new Date(at).toISOString().slice(0, 10);
}
