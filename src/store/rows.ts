// Rows: a job as texts and columns, and back.

import { lastingRow, rowVersion } from '../app/views.ts';
import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';

/** The columns of a job that change with a commit. */
export interface LifeColumns {
  readonly settled_at: number | null;
  readonly removed: number;
  readonly life: string;
  readonly shown_version: number;
  readonly shown: string | null;
}

/** All that has happened to a job, without its spec, which never changes. */
export function lifeColumns(job: Job): LifeColumns {
  const { spec: _, ...life } = job;
  const row = lastingRow(job);
  return {
    settled_at: job.settled?.at ?? null,
    removed: job.removed ? 1 : 0,
    life: JSON.stringify(life),
    shown_version: rowVersion,
    shown: row === null ? null : JSON.stringify(row),
  };
}

/** The job of two texts; `spec` is the whole spec or its outline. */
export function jobOf(life: string, spec: string): Job {
  const happened = JSON.parse(life) as Omit<Job, 'spec'>;
  return { ...happened, spec: JSON.parse(spec) as JobSpec };
}

/** `42` of `000042`; undefined for what is no id. */
export function numberOf(id: string): number | undefined {
  return /^\d{6,}$/.test(id) ? Number(id) : undefined;
}

/** `000042` of 42. */
export function idOf(number: number): string {
  return String(number).padStart(6, '0');
}
