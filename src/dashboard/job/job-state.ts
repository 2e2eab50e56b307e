// One job, read again whenever it changes.

import type { JobView } from '../../app/client.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import type { JobActions } from '../../core/policy/permissions.ts';
import { onChange, serverNow } from '../live.ts';
import { client, errorLines } from '../session.ts';

export interface JobState {
  /** The newest state; null before the first read. */
  readonly view: JobView | null;
  readonly actions: JobActions | null;
  /** Time of that read, by the server's clock. */
  readonly readAt: Instant;
  /** The error of the newest read, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
}

/** Texts such as "no capacity for 9m" change without an event. */
const refreshTime: Duration = 15 * second;

/** Calls back with each state until the returned function is called. */
export function followJob(id: string, onState: (state: JobState) => void): () => void {
  let isOver = false;
  let isReading = false;
  let isDue = false;
  let last: JobState = { view: null, actions: null, readAt: serverNow(), failure: null };

  async function read(): Promise<void> {
    isDue = true;
    if (isReading) return;
    isReading = true;
    while (isDue && !isOver) {
      isDue = false;
      try {
        const [view, actions] = await Promise.all([client.show(id), client.actions(id)]);
        last = { view, actions, readAt: serverNow(), failure: null };
      } catch (error) {
        last = { ...last, failure: errorLines(error) };
      }
      if (!isOver) onState(last);
    }
    isReading = false;
  }

  const leave = onChange(
    (change) => {
      if (change.kind === 'event' && change.job === (last.view?.id ?? id)) void read();
    },
    () => void read(),
  );
  const refresh = setInterval(() => {
    if (document.visibilityState === 'visible') void read();
  }, refreshTime);
  void read();
  return () => {
    isOver = true;
    leave();
    clearInterval(refresh);
  };
}
