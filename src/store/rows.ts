// Rows: a job as texts and columns, and back.

import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';

/** The columns of a job that change with a commit. */
export interface LifeColumns {
  readonly settled_at: number | null;
  readonly removed: number;
  readonly life: string;
}

/** All that has happened to a job, without its spec, which never changes. */
export function lifeColumns(job: Job): LifeColumns {
  const { spec: _, ...life } = job;
  return {
    settled_at: job.settled?.at ?? null,
    removed: job.removed ? 1 : 0,
    life: JSON.stringify(life),
  };
}

/** The job of two texts; `spec` is the whole spec or its outline. */
export function jobOf(life: string, spec: string): Job {
  const happened = JSON.parse(life) as Omit<Job, 'spec'>;
  return { ...happened, spec: JSON.parse(spec) as JobSpec };
}

/**
 * A spec without what makes it long: scripts, frozen files, environments. It has every field, so that all that decides
 * about a job's phase and words reads it as it would the whole. A list of ten thousand jobs is read in this form.
 */
export function outline(spec: JobSpec): JobSpec {
  return {
    ...spec,
    capacity: spec.capacity.kind === 'tpu' ? { ...spec.capacity, startupScript: null, metadata: {} } : spec.capacity,
    steps: spec.steps.map((step) => ({ ...step, check: null, apply: '', files: [] })),
    command: { ...spec.command, script: '', env: {} },
  };
}

/** `42` of `000042`; undefined for what is no id. */
export function numberOf(id: string): number | undefined {
  return /^\d{6,}$/.test(id) ? Number(id) : undefined;
}

/** `000042` of 42. */
export function idOf(number: number): string {
  return String(number).padStart(6, '0');
}
