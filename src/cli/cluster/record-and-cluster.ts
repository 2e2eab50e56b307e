// Record and cluster: what commands need that ask both. Light, because they load it also where no cluster is in use.

import type { JobList, JobRow } from '../../app/client.ts';
import { type Duration, second } from '../../core/time.ts';

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

/** As long as somebody who looks at a list will wait for what they may not even be after. */
export const besideMost: Duration = 2 * second;

/** The result, or the other value if it takes too long. */
export async function within<T, U>(work: Promise<T>, otherwise: U): Promise<T | U> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<U>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), besideMost);
  });
  // It may fail when nobody listens any more.
  work.catch(() => undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
