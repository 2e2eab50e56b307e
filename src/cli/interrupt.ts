import { setTimeout as sleep } from 'node:timers/promises';
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

export async function pause(length: Duration, signal: AbortSignal): Promise<void> {
  try {
    await sleep(length, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The maximum delay of a Node timer; Node would fire a longer one at once. */
const maxTimer: Duration = 2 ** 31 - 1;

export function callAfter(length: Duration | undefined, call: () => void): () => void {
  if (length === undefined) return () => undefined;
  let timer: NodeJS.Timeout;
  const arm = (left: Duration): void => {
    timer = left > maxTimer ? setTimeout(() => arm(left - maxTimer), maxTimer) : setTimeout(call, left);
  };
  arm(length);
  return () => clearTimeout(timer);
}
