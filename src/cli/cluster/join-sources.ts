// Helpers for lists of the store and a cluster. Kept small, because commands load them without a cluster too.

import type { JobList, JobRow } from '../../app/client.ts';
import { type Duration, second } from '../../core/model/time.ts';

/** Newest first. Each list keeps its own order: ids grow even if the clock was set back. */
export function joinLists(own: JobList, others: JobList): JobList {
  const rows: JobRow[] = [];
  const waiting = others.rows.toReversed();
  for (const row of own.rows) {
    while ((waiting.at(-1)?.createdAt ?? 0) > row.createdAt) rows.push(...waiting.splice(-1));
    rows.push(row);
  }
  rows.push(...waiting.toReversed());
  return { rows, more: own.more + others.more, notes: [...own.notes, ...others.notes] };
}

/** Limit for the cluster's answer to a list: the user may not want its jobs at all. */
export const clusterTimeout: Duration = 2 * second;

/** The parts of a cluster job's `zone`. A context may contain slashes. */
export function splitContext(zone: string | null): { readonly context: string; readonly namespace: string } {
  const [context = '', namespace = ''] = (zone ?? '').split(/\/(?=[^/]*$)/);
  return { context, namespace };
}
