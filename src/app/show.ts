// Show: everything about one job, for one look.

import type { Turn } from '../core/admit.ts';
import type { Event } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { JobView } from './client.ts';
import { folderOf } from './job-folder.ts';
import { workerViews } from './logs.ts';
import { allocationViews, attemptViews, jobRow } from './views.ts';
import { whyOf } from './why.ts';

/** The view of a job from its record, its history and what our copies of its logs say last. */
export async function showJob(given: {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly home: string;
  readonly now: Instant;
  /** Where it stands among those that wait for a place of this machine. */
  readonly turn: Turn | undefined;
}): Promise<JobView> {
  const { job, events, home, now, turn } = given;
  return {
    ...jobRow(job, now),
    why: whyOf(job, events, now, turn),
    attempts: attemptViews(job),
    allocations: allocationViews(job, now),
    workers: await workerViews(home, job, now),
    spec: job.spec,
    folder: folderOf(home, job),
  };
}
