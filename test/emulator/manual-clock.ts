import type { EmulatorClock } from '../../src/emulator/contract.ts';

/** A clock that a test advances. */
export interface ManualClock extends EmulatorClock {
  /** Advances the time by that many milliseconds. Due calls run in order. */
  advance(length: number): void;
}

export function createManualClock(start = Date.UTC(2026, 4, 1, 12)): ManualClock {
  let now = start;
  let timerCount = 0;
  const timers = new Map<number, { readonly at: number; readonly call: () => void }>();
  return {
    now: () => now,
    after(length, call) {
      timerCount += 1;
      const id = timerCount;
      timers.set(id, { at: now + length, call });
      return () => void timers.delete(id);
    },
    advance(length) {
      const end = now + length;
      for (;;) {
        const [next] = [...timers].filter(([, timer]) => timer.at <= end).toSorted((a, b) => a[1].at - b[1].at);
        if (next === undefined) break;
        const [id, timer] = next;
        timers.delete(id);
        now = Math.max(now, timer.at);
        timer.call();
      }
      now = end;
    },
  };
}
