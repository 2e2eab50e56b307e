// The jobs in the clusters of the server, read repeatedly while the page is visible.

import { signal } from '@preact/signals';
import type { JobList, JobRow } from '../../app/client.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import { follow, type Followed } from '../follow.ts';
import { serverNow } from '../live.ts';
import { client } from '../session.ts';
import { keyOfJob } from './job-key.ts';

export interface ClusterRows extends Followed {
  /** By the key of the row. */
  readonly rows: ReadonlyMap<string, JobRow>;
  /** A sentence for each cluster that does not answer. */
  readonly notes: readonly string[];
  /** Time of the last answer; null before the first. */
  readonly answeredAt: Instant | null;
  /** The owners of the user's own jobs there. */
  readonly owners: readonly string[];
}

const none: ClusterRows = { rows: new Map(), notes: [], answeredAt: null, owners: [], failure: null };

export const clusterRows = signal<ClusterRows>(none);

const refreshTime: Duration = 5 * second;
/** Reading takes a tenth of the time at most, because a list of ten thousand Jobs loads the server and the cluster. */
const pauses = 10;

/** Keeps the rows up to date until the returned function is called. Reads a server without clusters only once. */
export function followClusterRows(): () => void {
  let lists: { readonly isConfigured: boolean; readonly next: () => Promise<JobList> } | undefined;
  let isUsed = false;
  let nextAt = 0;
  async function read(last: ClusterRows): Promise<ClusterRows> {
    const began = performance.now();
    const { isConfigured, hasSubmitted } = await client.cluster.site();
    isUsed = isConfigured || hasSubmitted;
    if (!isUsed) return none;
    const { openLists, ownLabels } = await import('../clusters/list.ts');
    if (lists?.isConfigured !== isConfigured) lists = { isConfigured, next: openLists(isConfigured) };
    const { rows, notes, failure } = await lists.next();
    nextAt = performance.now() + pauses * (performance.now() - began);
    return {
      rows: new Map(rows.map((row) => [keyOfJob(row), row])),
      notes,
      answeredAt: failure === undefined ? serverNow() : last.answeredAt,
      owners: ownLabels(),
      failure: null,
    };
  }
  return follow<ClusterRows>(
    {
      initial: none,
      read,
      isAffected: () => false,
      retries: true,
      refreshTime,
      mayRefresh: () => isUsed && performance.now() >= nextAt,
    },
    (rows) => (clusterRows.value = rows),
  );
}
