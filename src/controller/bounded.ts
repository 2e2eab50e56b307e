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

/** One piece of work, one at a time: calls that come while it goes on are one further turn, however many they are. */
export function oneAtATime(work: () => Promise<void>): {
  readonly again: () => void;
  readonly isGoingOn: boolean;
} {
  let isGoingOn = false;
  let isWanted = false;
  async function turns(): Promise<void> {
    isGoingOn = true;
    while (isWanted) {
      isWanted = false;
      await work();
    }
    isGoingOn = false;
  }
  return {
    again: () => {
      isWanted = true;
      if (!isGoingOn) void turns();
    },
    get isGoingOn() {
      return isGoingOn;
    },
  };
}
