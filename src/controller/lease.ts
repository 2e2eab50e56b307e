// Lease: the right to commit and to act, which one controller holds at a time.

import { messageOf } from '../app/errors.ts';
import type { Pause } from '../app/ports.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import type { ControllerOptions } from './controller.ts';
import { backoff, pause } from './timers.ts';

/** The lease expires `ttl` after its last renewal, so two renewals may fail. */
export interface LeaseTimes {
  readonly ttl: Duration;
  readonly renewal: Duration;
  /** Between two tries to take it from another controller. */
  readonly retry: Duration;
}

/** The lock of the home shows that a controller has died, so only a controller that hangs keeps this lease. */
export const fileLease: LeaseTimes = { ttl: 30 * second, renewal: 10 * second, retry: 2 * second };

/** A controller on another machine takes over within 10 s, whatever has happened to the first one. */
export const sharedLease: LeaseTimes = { ttl: 7 * second, renewal: 2 * second, retry: second };

/** The line after a failure. */
export const databaseAnswers = 'the database answers again';

export type Lease = ReturnType<typeof createLease>;

export function createLease(
  options: Pick<
    ControllerOptions,
    'store' | 'clock' | 'log' | 'holder' | 'version' | 'holdsLock' | 'leaseTimes' | 'adjustClock' | 'monotonicNow'
  >,
) {
  const { store, clock, log, holder, leaseTimes: times, monotonicNow = () => 0 } = options;
  let epoch: number | null = null;
  /** Counted from before the request, so never later than the expiry in the store. */
  let heldUntil: Instant = 0;
  /** The same by the clock that never goes back, but may stop while the machine sleeps. */
  let expiry: Duration = 0;
  let renewal: Promise<boolean> | null = null;
  let lastPause: Pause | undefined;

  async function renewOnce(): Promise<boolean> {
    const [now, begun] = [clock.now(), monotonicNow()];
    const holdsLock = options.holdsLock && epoch === null;
    const { taken, lease } = await store.takeLease(holder, options.version, now, times.ttl, holdsLock);
    if (!taken) return false;
    // The lease was lost in between, and another controller may have acted.
    if (epoch !== null && lease.epoch !== epoch) return false;
    epoch = lease.epoch;
    [heldUntil, expiry] = [now + times.ttl, begun + times.ttl];
    lastPause = lease.pause;
    return true;
  }

  /** Takes or renews the lease. False when another controller holds it, or has held it since. Throws StoreError. */
  function renew(): Promise<boolean> {
    renewal ??= renewOnce().finally(() => {
      renewal = null;
    });
    return renewal;
  }

  return {
    /** Part of every commit. Null until the lease is first held. */
    get epoch() {
      return epoch;
    },
    get isHeld() {
      return clock.now() < heldUntil && monotonicNow() < expiry;
    },
    get lastPause() {
      return lastPause;
    },
    renew,
    /** Waits while another controller holds it and `isWanted` is true. Never rejects. */
    async acquire(isWanted: () => boolean): Promise<void> {
      let waitsFor: string | undefined;
      for (let failures = 0; isWanted() && epoch === null;) {
        try {
          await options.adjustClock?.();
          const isTaken = await renew();
          if (failures > 0) log.info(databaseAnswers);
          failures = 0;
          if (isTaken) break;
          const { holder: other = 'unknown' } = (await store.lease(clock.now())) ?? {};
          // A controller of another machine may hold it for months.
          if (other !== waitsFor) log.info(`another controller (${other}) holds the lease; waiting`);
          waitsFor = other;
          await pause(clock, times.retry);
        } catch (error) {
          log.warn(`cannot use the database: ${messageOf(error)}`);
          await pause(clock, backoff(failures, second, times.ttl));
          failures += 1;
        }
      }
    },
    /** Never rejects: an unreleased lease expires by itself. */
    async release(): Promise<void> {
      try {
        if (epoch !== null) await store.releaseLease(holder);
      } catch (error) {
        log.warn(`cannot release the lease, so it expires by itself: ${messageOf(error)}`);
      }
    },
  };
}
