// Rows: a job as texts and columns, and back.

import { placeOf } from '../app/places.ts';
import { lastingRow, rowVersion } from '../app/views.ts';
import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';
import { hour } from '../core/time.ts';

/** The columns of a job that change with a commit. */
export interface LifeColumns {
  readonly settled_at: number | null;
  readonly removed: number;
  readonly life: string;
  readonly shown_version: number;
  readonly shown: string | null;
  /** Where its own capacity is, and until when that place is swept for its sake; null when it never asked for any. */
  readonly place: string | null;
  readonly sweep_until: number | null;
}

/** How long after its end was seen the place of an allocation is swept for what may have taken effect late. */
export const sweptFor = 7 * 24 * hour;

/** Later than every moment: something may be there still. */
const always = Number.MAX_SAFE_INTEGER;

/** See LifeColumns. */
export function sweepColumns({ spec, allocations }: Job): Pick<LifeColumns, 'place' | 'sweep_until'> {
  const asked = allocations.filter((one) => one.ownership === 'owned' && one.requestedAt !== null);
  const place = asked.length === 0 ? null : placeOf(spec.capacity);
  if (place === null) return { place, sweep_until: null };
  return { place, sweep_until: Math.max(...asked.map(({ goneAt }) => (goneAt === null ? always : goneAt + sweptFor))) };
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
    ...sweepColumns(job),
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
