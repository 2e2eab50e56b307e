// Two lists as one.

import type { JobList, JobRow } from '../../app/client.ts';

/** One list, newest first. Each of the two keeps its own order: ids grow also where the clock was set back. */
export function joined(own: JobList, others: JobList): JobList {
  const rows: JobRow[] = [];
  const waiting = others.rows.toReversed();
  for (const row of own.rows) {
    while ((waiting.at(-1)?.createdAt ?? 0) > row.createdAt) rows.push(...waiting.splice(-1));
    rows.push(row);
  }
  rows.push(...waiting.toReversed());
  return { rows, more: own.more + others.more, notes: [...own.notes, ...others.notes] };
}
