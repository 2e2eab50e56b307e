// Lab lives: what became of jobs, for whoever shows the windows of a user. Loaded by them alone: `upd-log` reads no job.

import type { Job } from '../core/job.ts';
import { listJobs } from './jobs.ts';
import type { Database } from './sql.ts';

/** See LabRecord. */
export async function readLives(db: Database, user: string, ids: readonly string[]): Promise<readonly Job[]> {
  const live = await listJobs(db, { owner: user, settledMost: 0 });
  const known = new Set(live.jobs.map(({ id }) => id));
  const others = ids.filter((id) => !known.has(id));
  if (others.length === 0) return live.jobs;
  return [...live.jobs, ...(await listJobs(db, { ids: others, settledMost: null, withRemoved: true })).jobs];
}
