// Turn: where a job stands among those that wait for a place of this machine. Worked out from the record when somebody
// asks and kept nowhere: with each job that begins it changes for all behind it, which would be a write for each of them.

import { turnOf, waitsForSlot, type Turn } from '../core/admit.ts';
import type { Job } from '../core/job.ts';
import type { Store } from './ports.ts';

/** Undefined for a job that waits for no place. `slots` is asked only for one that does. */
export async function turnIn(store: Store, slots: () => Promise<number>, job: Job): Promise<Turn | undefined> {
  if (!waitsForSlot(job)) return undefined;
  // Also what has left the list may hold its place until its program has ended.
  const [limit, { jobs }] = await Promise.all([slots(), store.list({ settledMost: 0, withRemoved: true })]);
  return turnOf(limit, jobs, job);
}
