// One job, read again whenever it changes.

import type { JobView } from '../../app/client.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import type { JobActions } from '../../core/policy/permissions.ts';
import { follow, type Followed } from '../follow.ts';
import { serverNow } from '../live.ts';
import { client } from '../session.ts';

export interface JobState extends Followed {
  /** The newest state; null before the first read. */
  readonly view: JobView | null;
  readonly actions: JobActions | null;
  /** Time of that read, by the server's clock. */
  readonly readAt: Instant;
}

/** Texts such as "no capacity for 9m" change without an event. */
const refreshTime: Duration = 15 * second;

/** Calls back with each state until the returned function is called. */
export function followJob(id: string, onState: (state: JobState) => void): () => void {
  return follow<JobState>(
    {
      initial: { view: null, actions: null, readAt: serverNow(), failure: null },
      async read() {
        const [view, actions] = await Promise.all([client.show(id), client.actions(id)]);
        return { view, actions, readAt: serverNow(), failure: null };
      },
      isAffected: ({ view }, change) => change.kind === 'event' && change.job === (view?.id ?? id),
      refreshTime,
    },
    onState,
  );
}
