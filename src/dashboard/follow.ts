// State of the server, read again after each change that may concern it.

import type { Change } from '../app/client.ts';
import { pause } from '../app/concurrency.ts';
import { second, type Duration } from '../core/model/time.ts';
import { onChange } from './live.ts';
import { errorLines } from './session.ts';

export interface Followed {
  /** The error of the newest read, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
}

interface Source<State> {
  /** Before the first read. */
  readonly initial: State;
  readonly read: (last: State) => Promise<State>;
  readonly isAffected: (last: State, change: Change) => boolean;
  /** Reads again after a failed read too, because no other change may come. */
  readonly retries?: true;
  /** Reads at this interval too, while the page is visible. */
  readonly refreshTime?: Duration;
  readonly mayRefresh?: () => boolean;
  /** Minimum time between two reads, for a slow read and frequent changes. */
  readonly pauseTime?: Duration;
}

const retryTime: Duration = 5 * second;

/** Calls back after each read until the returned function is called. A failed read keeps the rest of the state. */
export function follow<State extends Followed>(source: Source<State>, onState: (state: State) => void): () => void {
  const { initial, isAffected, retries, refreshTime, mayRefresh = () => true, pauseTime } = source;
  let isOver = false;
  let isReading = false;
  let isDue = false;
  let last = initial;
  let retry: ReturnType<typeof setTimeout> | undefined;

  async function read(): Promise<void> {
    isDue = true;
    if (isReading) return;
    isReading = true;
    while (isDue && !isOver) {
      isDue = false;
      clearTimeout(retry);
      try {
        last = await source.read(last);
      } catch (error) {
        last = { ...last, failure: errorLines(error) };
        if (retries) retry = setTimeout(() => void read(), retryTime);
      }
      if (!isOver) onState(last);
      if (pauseTime !== undefined) await pause(pauseTime);
    }
    isReading = false;
  }

  const again = (): void => void read();
  const leave = onChange((change) => {
    if (isAffected(last, change)) again();
  }, again);
  const refresh =
    refreshTime === undefined
      ? undefined
      : setInterval(() => {
          if (mayRefresh() && document.visibilityState === 'visible') again();
        }, refreshTime);
  again();
  return () => {
    isOver = true;
    clearTimeout(retry);
    clearInterval(refresh);
    leave();
  };
}
