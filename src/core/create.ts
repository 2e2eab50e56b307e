// Create: what a job is in its first moment, before anybody has looked at anything.

import type { Event } from './decision.ts';
import type { Job } from './job.ts';
import { withJobIds } from './spec.ts';
import type { JobSpec } from './spec.ts';
import type { Instant } from './time.ts';

/** A new job, wanted to run, with the first line of its history. */
export function newJob(given: {
  readonly id: string;
  readonly installation: string;
  readonly owner: string;
  /** Who made it, where that is somebody else. */
  readonly by?: string;
  readonly spec: JobSpec;
  readonly at: Instant;
}): { readonly job: Job; readonly event: Event } {
  const job: Job = {
    id: given.id,
    installation: given.installation,
    owner: given.owner,
    createdAt: given.at,
    spec: withJobIds(given.spec, given.id, given.installation),
    desired: 'run',
    wish: { how: 'fresh', at: given.at },
    cancelled: false,
    desiredAt: given.at,
    attempts: [],
    allocations: [],
    settled: null,
    removed: false,
  };
  const { overrides } = job.spec;
  return {
    job,
    event: {
      kind: 'created',
      at: given.at,
      by: given.by ?? given.owner,
      ...(overrides !== undefined && { overrides }),
    },
  };
}
