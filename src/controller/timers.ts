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

// Cluster timers: waits of one namespace, which end together.

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

// One question for all who ask at the same moment: 64 workers of a job are one job, in one cloud.

/** Asks, and answers whoever asks the same within that time with the same answer. A failure is not remembered. */
export function askOnce<Answer>(
  ask: (about: string) => Promise<Answer>,
  within: Duration,
): (about: string) => Promise<Answer> {
  const answers = new Map<string, { readonly at: number; readonly answer: Promise<Answer> }>();
  return (about) => {
    const before = answers.get(about);
    if (before !== undefined && performance.now() - before.at < within) return before.answer;
    const answer = ask(about);
    answers.set(about, { at: performance.now(), answer });
    answer.catch(() => answers.delete(about));
    return answer;
  };
}
