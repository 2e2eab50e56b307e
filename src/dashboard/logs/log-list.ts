// The logs of an attempt or a setup step, listed again when the job changes.

import type { LogQuery, LogRef } from '../../app/client.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { follow, type Followed } from '../follow.ts';
import { client } from '../session.ts';

export interface LogList extends Followed {
  /** Null before the first read. */
  readonly logs: readonly LogRef[] | null;
}

/** The stream of changes has only the logs of commands. */
const refreshTime: Duration = 2 * second;

/** Calls back with each list until the returned function is called. `mayGrowQuietly`: without a change that says so. */
export function followLogList(
  job: string,
  query: LogQuery,
  mayGrowQuietly: () => boolean,
  onList: (list: LogList) => void,
): () => void {
  return follow<LogList>(
    {
      initial: { logs: null, failure: null },
      read: async () => ({ logs: await client.logs(job, query), failure: null }),
      isAffected: ({ logs }, change) =>
        change.kind === 'event'
          ? change.job === job
          : change.kind === 'log' && change.log.job === job && logs?.some(({ id }) => id === change.log.id) !== true,
      retries: true,
      refreshTime,
      mayRefresh: mayGrowQuietly,
    },
    onList,
  );
}
