// Idle: when a controller has had nothing to do for so long that it leaves.

import type { Clock } from '../app/ports.ts';
import type { Duration, Instant } from '../core/time.ts';

export interface Idle {
  /** When it may leave, if nothing happens until then; Infinity while something is left to do, and where it never leaves. */
  readonly exitAt: Instant;
  /** Something is to be done: the wait begins again. */
  reset(): void;
  /** Counts from now where it is at rest; true when it may leave. Never rejects. */
  isOver(): Promise<boolean>;
}

/** `isAnythingLeft` asks the store: a job may have been created, or one may have a time that this controller does not know. */
export function createIdle(options: {
  readonly clock: Clock;
  readonly exitMs: Duration | null;
  readonly isAtRest: () => boolean;
  readonly isAnythingLeft: () => Promise<boolean>;
}): Idle {
  const { clock, exitMs, isAtRest } = options;
  let since: Instant | null = null;
  return {
    get exitAt() {
      return since === null || exitMs === null ? Infinity : since + exitMs;
    },
    reset() {
      since = null;
    },
    async isOver() {
      if (!isAtRest()) {
        since = null;
        return false;
      }
      since ??= clock.now();
      if (exitMs === null || clock.now() < since + exitMs) return false;
      try {
        if (!(await options.isAnythingLeft())) return isAtRest();
      } catch {
        // Without the store nobody can say that nothing is left.
      }
      since = clock.now();
      return false;
    },
  };
}
