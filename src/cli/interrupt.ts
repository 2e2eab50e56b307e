import { callAt } from '../app/concurrency.ts';
import type { Duration } from '../core/model/time.ts';
import type { Cli } from './context.ts';

/** Aborted by the first Ctrl-C. A second Ctrl-C ends the program at once, even if leaving takes long. */
export function abortOnSignal(cli: Pick<Cli, 'io'>): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const release = cli.io.onSignal(() => {
    release();
    controller.abort();
  });
  return { signal: controller.signal, release };
}

export async function untilInterrupted<T>(cli: Pick<Cli, 'io'>, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, release } = abortOnSignal(cli);
  try {
    return await work(signal);
  } finally {
    release();
  }
}

/** After the signal it leaves the iteration at once, without waiting for its next value. */
export async function* untilSignal<T>(signal: AbortSignal, values: AsyncIterable<T>): AsyncGenerator<T, void> {
  const left = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)));
  const iterator = values[Symbol.asyncIterator]();
  for (;;) {
    const next = await Promise.race([iterator.next(), left]);
    if (next === null) await iterator.return?.();
    if (next === null || next.done === true) return;
    yield next.value;
  }
}

export function callAfter(length: Duration | undefined, call: () => void): () => void {
  return length === undefined ? () => undefined : callAt(Date.now() + length, Date.now, call);
}
