// The history of one job, read once and continued by the stream of changes.

import type { Event } from '../../core/model/event.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { onChange } from '../live.ts';
import { client, errorLines } from '../session.ts';

interface NumberedEvent {
  readonly seq: number;
  readonly event: Event;
}

export interface EventLog {
  /** Oldest first; null before the first read. */
  readonly events: readonly NumberedEvent[] | null;
  /** The error of the newest read, with its hints; null if it succeeded. */
  readonly failure: readonly string[] | null;
}

/** After a failed read. */
const retryTime: Duration = 5 * second;

/** `id`: of the job, not its name. Calls back with each state until the returned function is called. */
export function followEvents(id: string, onLog: (log: EventLog) => void): () => void {
  let isOver = false;
  let isReading = false;
  let isDue = false;
  let log: EventLog = { events: null, failure: null };
  let retry: ReturnType<typeof setTimeout> | undefined;

  async function read(): Promise<void> {
    isDue = true;
    if (isReading) return;
    isReading = true;
    while (isDue && !isOver) {
      isDue = false;
      clearTimeout(retry);
      const known = log.events ?? [];
      try {
        const more = await client.events(id, known.at(-1)?.seq ?? 0);
        log = { events: more.length === 0 && log.events !== null ? log.events : [...known, ...more], failure: null };
      } catch (error) {
        log = { ...log, failure: errorLines(error) };
        // No other change may come.
        retry = setTimeout(() => void read(), retryTime);
      }
      if (!isOver) onLog(log);
    }
    isReading = false;
  }

  const leave = onChange(
    (change) => {
      if (change.kind === 'event' && change.job === id) void read();
    },
    () => void read(),
  );
  void read();
  return () => {
    isOver = true;
    clearTimeout(retry);
    leave();
  };
}
