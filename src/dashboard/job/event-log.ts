// The history of one job, read once and continued by the stream of changes.

import type { Event } from '../../core/model/event.ts';
import { follow, type Followed } from '../follow.ts';
import { client } from '../session.ts';

interface NumberedEvent {
  readonly seq: number;
  readonly event: Event;
}

export interface EventLog extends Followed {
  /** Oldest first; null before the first read. */
  readonly events: readonly NumberedEvent[] | null;
}

/** `id`: of the job, not its name. Calls back with each state until the returned function is called. */
export function followEvents(id: string, onLog: (log: EventLog) => void): () => void {
  return follow<EventLog>(
    {
      initial: { events: null, failure: null },
      async read({ events }) {
        const more = await client.events(id, events?.at(-1)?.seq ?? 0);
        return { events: more.length === 0 && events !== null ? events : [...(events ?? []), ...more], failure: null };
      },
      isAffected: (_, change) => change.kind === 'event' && change.job === id,
      retries: true,
    },
    onLog,
  );
}
