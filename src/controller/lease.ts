// Lease: the right to commit and to act, which one controller holds at a time.

import { textOf } from '../app/errors.ts';
import type { Pause } from '../app/ports.ts';
import { second, type Duration, type Instant } from '../core/time.ts';
import type { ControllerOptions } from './controller.ts';
import { backoff, pause } from './timers.ts';

/** How long the lease holds without being renewed, and how often it is: two renewals may fail. */
const leaseTtl: Duration = 30 * second;
export const leasePace: Duration = 10 * second;

export interface Lease {
  /** Goes with every commit; null until the lease is ours for the first time. */
  readonly epoch: number | null;
  /** True while it is ours beyond doubt. */
  readonly isOurs: boolean;
  /** When no controller could try anything, by the record. */
  readonly pause: Pause | undefined;
  /** Waits for it while another one holds it, as long as it is wanted. Never rejects. */
  acquire(isWanted: () => boolean): Promise<void>;
  /** Takes or renews it. False when another one holds it, or held it since. Throws StoreError. */
  renew(): Promise<boolean>;
  /** Gives it back. Never rejects: it runs out by itself. */
  drop(): Promise<void>;
}

export function createLease(
  options: Pick<ControllerOptions, 'store' | 'clock' | 'log' | 'holder' | 'version' | 'certain'>,
): Lease {
  const { store, clock, log, holder } = options;
  let epoch: number | null = null;
  /** Until when it is ours if nobody renews it, by our own clock, counted from before it was asked for. */
  let until: Instant = 0;
  let renewal: Promise<boolean> | null = null;
  let paused: Pause | undefined;

  async function renewOnce(): Promise<boolean> {
    const now = clock.now();
    const certain = options.certain && epoch === null;
    const { taken, lease } = await store.takeLease(holder, options.version, now, leaseTtl, certain);
    if (!taken) return false;
    // It was lost and is free again: what we know may be older than what another one did meanwhile.
    if (epoch !== null && lease.epoch !== epoch) return false;
    epoch = lease.epoch;
    until = now + leaseTtl;
    paused = lease.pause;
    return true;
  }

  function renew(): Promise<boolean> {
    renewal ??= renewOnce().finally(() => {
      renewal = null;
    });
    return renewal;
  }

  return {
    get epoch() {
      return epoch;
    },
    get isOurs() {
      return clock.now() < until;
    },
    get pause() {
      return paused;
    },
    renew,
    async acquire(isWanted) {
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
    async drop() {
      try {
        if (epoch !== null) await store.dropLease(holder);
      } catch (error) {
        log.warn(`the lease could not be given back and runs out by itself: ${textOf(error)}`);
      }
    },
  };
}
