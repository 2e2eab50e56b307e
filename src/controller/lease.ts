// Lease: the right to commit and to act, which one controller holds at a time.

import { textOf } from '../app/errors.ts';
import type { Pause } from '../app/ports.ts';
import { second, type Duration, type Instant } from '../core/time.ts';
import type { ControllerOptions } from './controller.ts';
import { backoff, pause } from './timers.ts';

/** How long the lease holds without being renewed, and how often it is: two renewals may fail. */
const leaseTtl: Duration = 30 * second;
export const leasePace: Duration = 10 * second;

export type Lease = ReturnType<typeof createLease>;

export function createLease(
  options: Pick<ControllerOptions, 'store' | 'clock' | 'log' | 'holder' | 'version' | 'certain'>,
) {
  const { store, clock, log, holder } = options;
  let epoch: number | null = null;
  /** Until when it is ours without a renewal, by our own clock, counted from before the request. */
  let until: Instant = 0;
  let renewal: Promise<boolean> | null = null;
  let paused: Pause | undefined;

  async function renewOnce(): Promise<boolean> {
    const now = clock.now();
    const certain = options.certain && epoch === null;
    const { taken, lease } = await store.takeLease(holder, options.version, now, leaseTtl, certain);
    if (!taken) return false;
    // It was lost and is free again: another controller may have acted meanwhile on what we do not know.
    if (epoch !== null && lease.epoch !== epoch) return false;
    epoch = lease.epoch;
    until = now + leaseTtl;
    paused = lease.pause;
    return true;
  }

  /** Takes or renews it. False when another controller holds it, or has held it since. Throws StoreError. */
  function renew(): Promise<boolean> {
    renewal ??= renewOnce().finally(() => {
      renewal = null;
    });
    return renewal;
  }

  return {
    /** Goes with every commit; null until the lease is ours for the first time. */
    get epoch() {
      return epoch;
    },
    /** True while it is certainly ours. */
    get isOurs() {
      return clock.now() < until;
    },
    /** When no controller could try anything, by the record. */
    get pause() {
      return paused;
    },
    renew,
    /** Waits while another controller holds it, as long as it is wanted. Never rejects. */
    async acquire(isWanted: () => boolean): Promise<void> {
      for (let failures = 0; isWanted() && epoch === null;) {
        try {
          if (await renew()) break;
          failures = 0;
          const lease = await store.lease();
          log.info(`another controller (${lease?.holder ?? 'unknown'}) holds the lease; waiting for it`);
          await pause(clock, 2 * second);
        } catch (error) {
          log.warn(`the record of jobs cannot be used: ${textOf(error)}`);
          await pause(clock, backoff(failures, second, 30 * second));
          failures += 1;
        }
      }
    },
    /** Gives it back. Never rejects: it runs out by itself. */
    async drop(): Promise<void> {
      try {
        if (epoch !== null) await store.dropLease(holder);
      } catch (error) {
        log.warn(`the lease could not be given back and runs out by itself: ${textOf(error)}`);
      }
    },
  };
}
