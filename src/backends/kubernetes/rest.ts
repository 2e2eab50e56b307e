// Rest: a pause that ends early when nobody wants what comes after it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Duration } from '../../core/time.ts';

/** Whether nobody wants any more of it. */
export function hasLeft(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Resolves after that time, or as soon as the signal says so. Never rejects. */
export async function rest(length: Duration, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(length, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    if (!hasLeft(signal)) throw error;
  }
}
