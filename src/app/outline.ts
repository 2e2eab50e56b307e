// Outline: a spec without what makes it long.

import type { JobSpec } from '../core/spec.ts';

/**
 * A spec without scripts, frozen files and environments. It has every field, so all that decides about a job's phase and
 * words reads it as it would the whole. Lists of thousands are read in this form, and the copies for people written in it.
 */
export function outline(spec: JobSpec): JobSpec {
  return {
    ...spec,
    capacity: spec.capacity.kind === 'tpu' ? { ...spec.capacity, startupScript: null, metadata: {} } : spec.capacity,
    steps: spec.steps.map((step) => ({ ...step, check: null, apply: '', files: [] })),
    command: { ...spec.command, script: '', env: {} },
  };
}
