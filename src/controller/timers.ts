// Timers: bounded waits, the wait between retries, and work that callers share.

import type { Clock } from '../app/ports.ts';
import type { Duration } from '../core/model/time.ts';

export function pause(clock: Clock, length: Duration): Promise<void> {
  return new Promise((resolve) => clock.at(clock.now() + length, resolve));
}

/** Resolves when `work` has ended or the time is over. True when `work` ended in time. Never throws. */
export function waitAtMost(clock: Clock, work: Promise<unknown>, length: Duration): Promise<boolean> {
  return new Promise((resolve) => {
    const cancelTimer = clock.at(clock.now() + length, () => resolve(false));
    const done = (): void => {
      cancelTimer();
      resolve(true);
    };
    work.then(done, done);
  });
}

/** The wait before try number `failures` + 1: doubles from `first` up to `limit`. */
export function backoff(failures: number, first: Duration, limit: Duration): Duration {
  return Math.min(first * 2 ** Math.min(failures, 20), limit);
}

/** Runs `work` at most once at a time. All triggers during a run cause one further run. */
export function createCoalescedTask(work: () => Promise<void>) {
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
    trigger: (): void => {
      isWanted = true;
      if (!isRunning) void run();
    },
    get isRunning() {
      return isRunning;
    },
  };
}

/** Shares one answer among all calls with the same key within `ttl` milliseconds. A failure is not cached. */
export function cacheFor<Answer>(
  ask: (key: string) => Promise<Answer>,
  ttl: Duration,
): (key: string) => Promise<Answer> {
  const answers = new Map<string, { readonly at: number; readonly answer: Promise<Answer> }>();
  return (key) => {
    const before = answers.get(key);
    if (before !== undefined && performance.now() - before.at < ttl) return before.answer;
    const answer = ask(key);
    answers.set(key, { at: performance.now(), answer });
    answer.catch(() => answers.delete(key));
    return answer;
  };
}

export type Timers = ReturnType<typeof createTimers>;

export function createTimers(clock: Clock) {
  const timers = new Set<() => void>();
  /** The returned function cancels it. */
  function after(length: Duration, call: () => void): () => void {
    const cancel = clock.at(clock.now() + length, () => {
      timers.delete(cancel);
      call();
    });
    timers.add(cancel);
    return cancel;
  }
  return {
    after,
    async sleep(length: Duration, signal: AbortSignal): Promise<void> {
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          cancel();
          signal.removeEventListener('abort', done);
          resolve();
        };
        const cancel = after(length, done);
        signal.addEventListener('abort', done, { once: true });
      });
    },
    cancelAll(): void {
      for (const cancel of timers) cancel();
      timers.clear();
    },
  };
}
