// Leaving: the first Ctrl-C of somebody who waits, and pauses that it cuts short.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Duration } from '../core/time.ts';
import type { Cli } from './context.ts';

/**
 * Aborted by the first Ctrl-C. From then on signals do what they do by default, so that a second Ctrl-C ends the
 * program at once even if leaving should take long.
 */
export function leaveOnSignal(cli: Pick<Cli, 'io'>): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const release = cli.io.onSignal(() => {
    release();
    controller.abort();
  });
  return { signal: controller.signal, release };
}

export async function untilLeft<T>(cli: Pick<Cli, 'io'>, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, release } = leaveOnSignal(cli);
  try {
    return await work(signal);
  } finally {
    release();
  }
}

/** Waits, or returns at once when the signal is aborted. */
export async function pause(length: Duration, signal: AbortSignal): Promise<void> {
  try {
    await sleep(length, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The longest that one timer of Node's takes; it would end a longer one at once. */
const longestTimer: Duration = 2 ** 31 - 1;

export function callAfter(length: Duration | undefined, call: () => void): () => void {
  if (length === undefined) return () => undefined;
  let timer: NodeJS.Timeout;
  const arm = (left: Duration): void => {
    timer = left > longestTimer ? setTimeout(() => arm(left - longestTimer), longestTimer) : setTimeout(call, left);
  };
  arm(length);
  return () => clearTimeout(timer);
}
