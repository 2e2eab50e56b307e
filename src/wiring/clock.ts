// The real clock.

import type { Clock } from '../app/ports.ts';

/** Longest single timer; Node's own limit is 2^31-1 ms. A later moment is waited for in several. */
const longest = 2 ** 31 - 1;

/** Wall-clock time in milliseconds. Timers keep no process alive by themselves. */
export function createClock(now: () => number): Clock {
  return {
    now,
    at(at, call) {
      let timer: NodeJS.Timeout | undefined;
      const arm = (): void => {
        const wait = Math.max(0, at - now());
        timer = wait > longest ? setTimeout(arm, longest) : setTimeout(call, wait);
        timer.unref();
      };
      arm();
      return () => clearTimeout(timer);
    },
  };
}
