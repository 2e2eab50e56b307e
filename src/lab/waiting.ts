// Waiting: what a job of the lab waits for whose script has not begun.

import { isLongerThanUsual } from '../app/usual.ts';
import { jobRow } from '../app/views.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { LabRecord } from './record.ts';

/** What a list of jobs says of it, and when that takes unusually long: `queued: no capacity for 42m, longer than usual`. */
export async function waitOf(record: Pick<LabRecord, 'alike'>, job: Job, now: Instant): Promise<string> {
  const { phase, reason } = jobRow(job, now);
  // The row says already that the job recovers, or that its script has begun.
  const isSaid = phase === 'recovering' || phase === 'running';
  const waits = reason === '' ? phase : isSaid ? reason : `${phase}: ${reason}`;
  return (await isLongerThanUsual(record, job, now)) ? `${waits}, longer than usual` : waits;
}
