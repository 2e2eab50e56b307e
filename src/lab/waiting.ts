// Waiting: what a job of the lab waits for whose script has not begun.

import { jobRow } from '../app/views.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';

/** What a list of jobs says of it: `queued: no capacity`. */
export function waitOf(job: Job, now: Instant): string {
  const { phase, reason } = jobRow(job, now);
  return reason === '' ? phase : `${phase}: ${reason}`;
}
