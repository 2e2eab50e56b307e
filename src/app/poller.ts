import { pause } from './concurrency.ts';
import type { Io } from './services.ts';
import type { Duration } from '../core/model/time.ts';

/** Reads again and again until `close`, for a tenth of the time at most: a long answer loads its server. */
export function createPoller(
  { now }: Pick<Io, 'now'>,
  interval: Duration,
  read: (signal: AbortSignal) => Promise<void>,
) {
  const end = new AbortController();
  const first = Promise.withResolvers<void>();
  let failed: { readonly error: unknown } | null = null;

  async function poll(): Promise<void> {
    while (!end.signal.aborted) {
      const began = now();
      await read(end.signal);
      first.resolve();
      await pause(Math.max(interval, 10 * (now() - began)), end.signal);
    }
  }

  const work = poll().catch((error: unknown) => {
    failed = { error };
    first.resolve();
  });
  return {
    /** Resolves after the first reading, even if it failed. */
    first: first.promise,
    /** Throws the error that has ended the poller. */
    check(): void {
      if (failed !== null) throw failed.error;
    },
    async close(): Promise<void> {
      end.abort();
      await work;
    },
  };
}
