// Cluster timers: waits of one namespace, which end together.

import type { Clock } from '../app/ports.ts';
import type { Duration } from '../core/time.ts';

export interface Timers {
  /** Calls back after that time, unless it is called off before. */
  after(length: Duration, call: () => void): () => void;
  /** Resolves after that time, or as soon as the signal aborts. */
  rest(length: Duration, signal: AbortSignal): Promise<void>;
  callOffAll(): void;
}

export function createTimers(clock: Clock): Timers {
  const timers = new Set<() => void>();
  function after(length: Duration, call: () => void): () => void {
    const callOff = clock.at(clock.now() + length, () => {
      timers.delete(callOff);
      call();
    });
    timers.add(callOff);
    return callOff;
  }
  return {
    after,
    async rest(length, signal) {
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          callOff();
          signal.removeEventListener('abort', done);
          resolve();
        };
        const callOff = after(length, done);
        signal.addEventListener('abort', done, { once: true });
      });
    },
    callOffAll() {
      for (const callOff of timers) callOff();
      timers.clear();
    },
  };
}
