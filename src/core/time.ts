// Instants and lengths of time, as the core sees them. The core never reads a clock: `now` is handed in.

/** A moment: milliseconds since 1970-01-01T00:00:00Z. */
export type Instant = number;

/** A length of time in milliseconds. */
export type Duration = number;

export const second: Duration = 1_000;
export const minute: Duration = 60 * second;
export const hour: Duration = 60 * minute;
export const day: Duration = 24 * hour;

/** The earlier of the instants that are given; undefined when none is. */
export function earliest(...instants: readonly (Instant | undefined)[]): Instant | undefined {
  let first: Instant | undefined;
  for (const instant of instants) {
    if (instant !== undefined && (first === undefined || instant < first)) first = instant;
  }
  return first;
}
