// Waiting, and not waiting for ever: the two things that the loop does with time besides deciding.

import type { Clock } from '../app/ports.ts';
import type { Duration } from '../core/time.ts';

/** Resolves after that long. */
export function pause(clock: Clock, length: Duration): Promise<void> {
  return new Promise((resolve) => clock.at(clock.now() + length, resolve));
}

/** Resolves when `work` has, or after that long, whichever is first. True when the work was done in time. Never throws. */
export function bounded(clock: Clock, work: Promise<unknown>, length: Duration): Promise<boolean> {
  return new Promise((resolve) => {
    const callOff = clock.at(clock.now() + length, () => resolve(false));
    const done = (): void => {
      callOff();
      resolve(true);
    };
    work.then(done, done);
  });
}

/** The wait before try number `failures` + 1: doubles from `first` up to `most`. */
export function backoff(failures: number, first: Duration, most: Duration): Duration {
  return Math.min(first * 2 ** Math.min(failures, 20), most);
}
