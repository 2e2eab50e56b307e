import type { Decision } from './decision.ts';
import type { Job } from './job.ts';
import type { Observation } from './observation.ts';
import type { Instant } from './time.ts';

/** The life of a job as a pure function: see ARCHITECTURE.md. */
export function reconcile(_job: Job, _observation: Observation, _now: Instant): Decision {
  throw new Error('reconcile is being written');
}
