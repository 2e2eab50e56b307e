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

/** Waits, or returns at once when the signal is aborted. */
export async function pause(length: Duration, signal: AbortSignal): Promise<void> {
  try {
    await sleep(length, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
