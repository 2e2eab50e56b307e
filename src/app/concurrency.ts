import type { Duration, Instant } from '../core/model/time.ts';

/** Longest timer of Node, which would fire a longer one at once. */
const maxTimer: Duration = 2 ** 31 - 1;

/** Calls back at that time, however far away. The returned function cancels it. `isQuiet`: keeps no process alive. */
export function callAt(at: Instant, now: () => Instant, call: () => void, isQuiet = false): () => void {
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    const wait = Math.max(0, at - now());
    timer = wait > maxTimer ? setTimeout(arm, maxTimer) : setTimeout(call, wait);
    if (isQuiet) timer.unref();
  };
  arm();
  return () => clearTimeout(timer);
}

/** Results in the order of the items, at most `limit` at a time. After a failure no further work starts. */
export async function mapConcurrent<Item, Answer>(
  items: readonly Item[],
  limit: number,
  work: (item: Item, index: number) => Promise<Answer>,
): Promise<readonly Answer[]> {
  const withSlot = createLimiter(limit);
  let failure: Promise<never> | undefined;
  const works = items.map((item, index) =>
    withSlot(() => failure ?? work(item, index).catch((error: unknown) => (failure = Promise.reject(error)))),
  );
  await Promise.allSettled(works);
  return Promise.all(works);
}

export function createLimiter(limit: number): <Answer>(work: () => Promise<Answer>) => Promise<Answer> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

/** The result of `work`, or of `onTimeout` if that takes longer. The work continues. */
export function withTimeout<T, U>(length: Duration, work: Promise<T>, onTimeout: () => U): Promise<T | U> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, length))).then(onTimeout);
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Returns at once when the signal aborts. */
export function pause(length: Duration, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, length);
    signal?.addEventListener('abort', end);
  });
}

/** Ends a wait early. A ring without a wait ends the next one. */
export function createBell() {
  let hasRung = false;
  let wake = (): void => undefined;
  return {
    ring(): void {
      hasRung = true;
      wake();
    },
    async wait(length: Duration, signal: AbortSignal): Promise<void> {
      const over = new AbortController();
      wake = () => over.abort();
      if (!hasRung) await pause(length, AbortSignal.any([signal, over.signal]));
      hasRung = false;
    },
  };
}

/** A reader gets a report at most so often. */
const reportInterval: Duration = 100;

/** The report whenever the work has changed it, and once more at its end. An abort ends the reports, not the work. */
export async function* reportsOf<Report>(
  report: () => Report,
  signal: AbortSignal,
  work: (onChange: () => void) => Promise<unknown>,
): AsyncGenerator<Report, void> {
  const bell = createBell();
  let isOver = false;
  const working = work(() => bell.ring()).finally(() => {
    isOver = true;
    bell.ring();
  });
  const ended = working.catch(() => undefined);
  for (;;) {
    await bell.wait(maxTimer, signal);
    if (signal.aborted) return;
    if (isOver) break;
    yield report();
    await withTimeout(reportInterval, ended, () => undefined);
  }
  await working;
  yield report();
}

/** Aborts the signal when the reader leaves the iteration: `return` of a generator would wait for its next value. */
export function untilLeft<T>(read: (signal: AbortSignal) => AsyncGenerator<T, void>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const over = new AbortController();
      const values = read(over.signal);
      return {
        next: () => values.next(),
        return() {
          over.abort();
          return values.return();
        },
      };
    },
  };
}

/** Yields the values until the signal aborts. Then calls `atEnd`, which may throw. `timed` gets each wait for a value. */
export async function* untilAborted<T>(
  values: AsyncIterable<T>,
  signal: AbortSignal | undefined,
  atEnd: (signal: AbortSignal) => Promise<void>,
  timed: <U>(wait: Promise<U>) => Promise<U> = (wait) => wait,
): AsyncGenerator<T, void> {
  const reading = values[Symbol.asyncIterator]();
  const leave = (): void => void reading.return?.().catch(() => undefined);
  signal?.addEventListener('abort', leave, { once: true });
  try {
    while (signal?.aborted !== true) {
      const { done, value } = await timed(reading.next());
      if (done === true) break;
      yield value;
    }
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  } finally {
    signal?.removeEventListener('abort', leave);
    leave();
  }
  if (signal?.aborted === true) await atEnd(signal);
}

/** Rejects at the signal with its reason, or with that error. The work continues. */
export async function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  error: (signal: AbortSignal) => Error = ({ reason }) => reason as Error,
): Promise<T> {
  if (signal === undefined) return work;
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(error(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
