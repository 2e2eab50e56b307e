// Timers: bounded waits, the wait between retries, and work that callers share.

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

/** One piece of work, one at a time. All calls during one run are answered by one further run. */
export function oneAtATime(work: () => Promise<void>) {
  let isRunning = false;
  let isWanted = false;
  async function run(): Promise<void> {
    isRunning = true;
    while (isWanted) {
      isWanted = false;
      await work();
    }
    isRunning = false;
  }
  return {
    again: (): void => {
      isWanted = true;
      if (!isRunning) void run();
    },
    get isRunning() {
      return isRunning;
    },
  };
}

/** Gives everyone who asks about the same within that time one answer. A failure is not remembered. */
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

export type Timers = ReturnType<typeof createTimers>;

/** Waits that are called off together. */
export function createTimers(clock: Clock) {
  const timers = new Set<() => void>();
  /** Calls back after that time, unless the returned function is called before. */
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
    /** Resolves after that time, or as soon as the signal aborts. */
    async rest(length: Duration, signal: AbortSignal): Promise<void> {
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
    callOffAll(): void {
      for (const callOff of timers) callOff();
      timers.clear();
    },
  };
}
