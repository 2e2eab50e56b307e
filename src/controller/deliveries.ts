// Deliveries: work that the store keeps for another service, such as changes of a lab's spreadsheet. It is due at times
// of its own, and shares nothing with the passes.

import { messageOf } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Instant } from '../core/model/time.ts';
import { backoff, createCoalescedTask, waitAtMost } from './timers.ts';
import type { BackgroundTask } from './controller.ts';

export function createDeliveries(options: {
  /** Delivers what is due. Returns the time of the next try; null if there is nothing to try. Safe to repeat. */
  readonly deliver: () => Promise<Instant | null>;
  readonly clock: Clock;
  readonly report: (line: string) => void;
}): BackgroundTask {
  const { clock, report } = options;
  let isStopped = false;
  let nextAt: Instant | null = null;
  let failures = 0;
  let cancelTimer = (): void => undefined;
  let round = Promise.resolve();

  async function deliver(): Promise<void> {
    try {
      nextAt = await options.deliver();
      failures = 0;
    } catch (error) {
      if (failures === 0) report(messageOf(error));
      nextAt = clock.now() + backoff(failures, second, minute);
      failures += 1;
    }
    cancelTimer();
    if (nextAt !== null && !isStopped) cancelTimer = clock.at(nextAt, rounds.trigger);
  }

  const rounds = createCoalescedTask(async () => {
    if (!isStopped) await (round = deliver());
  });

  return {
    poll: rounds.trigger,
    onCommit: rounds.trigger,
    get isBusy(): boolean {
      return nextAt !== null || rounds.isRunning;
    },
    async stop(): Promise<void> {
      isStopped = true;
      cancelTimer();
      await waitAtMost(clock, round, 5 * second);
    },
  };
}
