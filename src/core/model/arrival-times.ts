// Arrival times: when the bytes of a log copy arrived. A program's lines have no time that jobman could trust, so the
// mirror records (length of the copy, time) pairs, and the time of a line follows from its offset. The pairs are hints:
// without them the lines are the same, only their times are unknown.

import { second, type Duration, type Instant } from './time.ts';

/** The copy had this length at that time. */
export interface Arrival {
  readonly length: number;
  readonly at: Instant;
}

/** The error of a time, and the least time between two pairs while output arrives steadily. */
const precision: Duration = 5 * second;

/**
 * Chooses the pairs to store, so that a straight line between two neighbours is never wrong by more than `precision`.
 * `add` and `end` return the pairs to append now, in order.
 */
export function createArrivalRecorder() {
  let stored: Arrival | undefined;
  let newest: Arrival | undefined;

  function take(...arrivals: readonly (Arrival | undefined)[]): readonly Arrival[] {
    const fresh = arrivals.filter((one) => one !== undefined && one.length > (stored?.length ?? -1));
    const taken = fresh as readonly Arrival[];
    stored = taken.at(-1) ?? stored;
    return taken;
  }

  return {
    /**
     * A chunk has arrived. The first chunk of a connection may contain output of the whole time since the last one, so
     * its bytes are spread over that time; later chunks were printed when they arrived.
     */
    add(before: number, after: number, now: Instant): readonly Arrival[] {
      const previous = newest;
      newest = { length: after, at: now };
      if (previous === undefined) return take(newest);
      // After a silence, both ends of it: the bytes did not arrive in the silence.
      if (now - previous.at > precision) return takeBoth(previous, { length: before, at: now });
      return now - (stored?.at ?? 0) >= precision ? take(newest) : [];
    },
    end: (): readonly Arrival[] => take(newest),
  };

  function takeBoth(previous: Arrival, current: Arrival): readonly Arrival[] {
    const first = take(previous);
    // The length is the same as before the silence.
    stored = current;
    return [...first, current];
  }
}

/**
 * A line of the file. The sign shows where a pair begins, so that a line cut off by a crash does not damage the next.
 */
export function formatArrivals(arrivals: readonly Arrival[]): string {
  return arrivals.map(({ length, at }) => `+${length} ${at}\n`).join('');
}

/** Ignores lines that are damaged or out of order. */
export function parseArrivals(text: string): readonly Arrival[] {
  const arrivals: Arrival[] = [];
  for (const line of text.split('\n')) {
    const [, length, at] = /^\+(\d{1,15}) (\d{1,15})$/.exec(line) ?? [];
    if (length === undefined || at === undefined) continue;
    const arrival = { length: Number(length), at: Number(at) };
    if (arrival.length >= (arrivals.at(-1)?.length ?? 0)) arrivals.push(arrival);
  }
  return arrivals;
}

/** Gives the time of each offset; the offsets must grow. Null before the first and after the last pair. */
export function createTimeReader(arrivals: readonly Arrival[]): (offset: number) => Instant | null {
  let index = 0;
  return (offset) => {
    while (index < arrivals.length && (arrivals[index]?.length ?? 0) < offset) index += 1;
    const [from, to] = [arrivals[index - 1], arrivals[index]];
    if (to === undefined || (from === undefined && to.length !== offset)) return null;
    if (from === undefined || to.length === from.length) return to.at;
    return Math.round(from.at + ((to.at - from.at) * (offset - from.length)) / (to.length - from.length));
  };
}
