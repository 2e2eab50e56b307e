// Timeline: the order of events in a simulated world. Time passes only from one event to the next; between two events
// all promises settle. One thread and no real timers, so a seed always gives the same world.

export interface Timeline {
  readonly now: number;
  /** Calls back at that time; the returned function cancels it. */
  at(time: number, call: () => void): () => void;
  after(length: number, call: () => void): () => void;
  pause(length: number): Promise<void>;
  /** Runs events until `until` returns true, the time is `end`, or no event is left. */
  run(end: number, until: () => boolean): Promise<void>;
  readonly eventCount: number;
}

interface Entry {
  readonly time: number;
  readonly order: number;
  call: (() => void) | null;
}

export function createTimeline(): Timeline {
  const heap: Entry[] = [];
  let now = 0;
  let order = 0;
  let eventCount = 0;

  const isBefore = (a: Entry, b: Entry): boolean => a.time < b.time || (a.time === b.time && a.order < b.order);

  function push(entry: Entry): void {
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above];
      if (parent === undefined || !isBefore(entry, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = entry;
  }

  function pop(): Entry | undefined {
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      let child = heap[below];
      if (child === undefined) break;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, child)) {
        below += 1;
        child = right;
      }
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return first;
  }

  function at(time: number, call: () => void): () => void {
    const entry: Entry = { time: Math.max(time, now), order, call };
    order += 1;
    push(entry);
    return () => {
      entry.call = null;
    };
  }

  return {
    get now() {
      return now;
    },
    get eventCount() {
      return eventCount;
    },
    at,
    after: (length, call) => at(now + length, call),
    pause: (length) => new Promise((resolve) => at(now + length, resolve)),
    async run(end, until) {
      for (;;) {
        await drainPromises();
        if (until()) return;
        let entry = pop();
        while (entry !== undefined && entry.call === null) entry = pop();
        // Without events, time does not pass.
        if (entry === undefined) return;
        if (entry.time > end) {
          push(entry);
          now = end;
          return;
        }
        now = entry.time;
        eventCount += 1;
        entry.call?.();
      }
    },
  };
}

/** `setImmediate` runs only after all pending promise callbacks. */
function drainPromises(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
