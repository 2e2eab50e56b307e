// Job of texts: a job as the record keeps it, back from there. Whoever only reads lives loads this, and nothing of what rows are made
// with.

import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';

/** The job of two texts; `spec` is the whole spec or its outline. */
export function jobOf(life: string, spec: string): Job {
  const happened = JSON.parse(life) as Omit<Job, 'spec'>;
  return { ...happened, spec: JSON.parse(spec) as JobSpec };
}
