// Patience: how long a command waits for a server, or for a database server, that does not answer.

import { setTimeout as sleep } from 'node:timers/promises';
import { minute, second, type Duration } from '../core/model/time.ts';
import type { JobmanError } from './errors.ts';

/** Calls back at each signal that asks the process to end, until the returned function is called. */
export type OnSignal = (call: () => void) => () => void;

/** The longest wait from the first failure on: for a server that restarts, and for one whose database does not answer. */
const maxRestart: Duration = 16 * second;
const maxOutage: Duration = 30 * second;
/** The same for a read after an earlier success: such a command follows jobs. */
const maxOutageOfFollower: Duration = 5 * minute;
const restart = { initialDelay: 300, maxDelay: 2 * second, notedAfter: second } as const;

/** The tries of one request since its last success. */
interface Tries {
  readonly failures: number;
  readonly since: Duration;
  readonly isRead: boolean;
}

export type Patience = ReturnType<typeof createPatience>;

/** The waits of all requests for one server or database. `onWait` is called once such a wait is longer than a second. */
export function createPatience(what: 'server' | 'database', onWait: (message: string) => void = () => undefined) {
  let hasServed = false;
  let isNoted = false;
  let isSilenceNoted = false;
  const note = (message: string): void => onWait(`Waiting for the ${what}: ${message}`);
  return {
    /** For a request without an answer. A reason that arrives later is noted too. */
    noteSilence(message: string): void {
      if (!isNoted && !isSilenceNoted) note(message);
      isSilenceNoted = true;
    },

    get hasServed() {
      return hasServed;
    },
    served(): void {
      hasServed = true;
      isNoted = false;
      isSilenceNoted = false;
    },
    /** Waits before the next try. False if the tries have lasted too long. Rejects at the signal. */
    async wait({ failures, since, isRead }: Tries, { message, retryAfter }: JobmanError, signal: AbortSignal) {
      const elapsed = performance.now() - since;
      const limit = retryAfter === null ? maxRestart : hasServed && isRead ? maxOutageOfFollower : maxOutage;
      if (elapsed >= limit) return false;
      if (elapsed >= restart.notedAfter && !isNoted) {
        isNoted = true;
        note(message);
      }
      await sleep(Math.min(restart.initialDelay * 2 ** failures, restart.maxDelay), undefined, { signal });
      return true;
    },
  };
}
