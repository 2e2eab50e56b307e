// Rows: a job as texts and columns; back from its texts: job-of-texts.ts.

import { placeOf } from '../app/places.ts';
import { lastingRow, rowVersion } from '../app/views.ts';
import type { Allocation, Job } from '../core/job.ts';
import { capacityOf } from '../core/place.ts';
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

/** See LifeColumns. Of a job that has asked in several places, its spec's own. */
export function sweepColumns(job: Job): Pick<LifeColumns, 'place' | 'sweep_until'> {
  const place = placeOf(job.spec.capacity);
  const until = place === null ? undefined : sweptPlaces(job).get(place);
  return until === undefined ? { place: null, sweep_until: null } : { place, sweep_until: until };
}

/** Every place where the job has asked for capacity of its own, and until when that is swept for its sake. */
export function sweptPlaces(job: Job): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  for (const allocation of job.allocations) {
    const place = placeAskedBy(job, allocation);
    if (place === null) continue;
    const until = allocation.goneAt === null ? always : allocation.goneAt + sweptFor;
    places.set(place, Math.max(until, places.get(place) ?? 0));
  }
  for (const { at, place } of placesLeft(job)) places.set(place, Math.max(at + sweptFor, places.get(place) ?? 0));
  return places;
}

/**
 * The places that its attempts were refused in, each with when and with what the allocation is there: it may have gone on to
 * another place since, and a request whose sender died may take effect late.
 */
export function placesLeft(
  job: Job,
): readonly { readonly at: number; readonly place: string; readonly allocation: Allocation }[] {
  return job.attempts.flatMap(({ allocation: ordinal, placesPassed = [] }) =>
    placesPassed.flatMap(({ at, place: number }) => {
      const asked = job.allocations[ordinal - 1];
      if (asked === undefined) return [];
      const allocation = { ...asked, place: number };
      const place = placeOf(capacityOf(job, allocation));
      return place === null ? [] : [{ at, place, allocation }];
    }),
  );
}

/** The place in which that allocation was asked for; null where nothing of its own can have been left behind. */
export function placeAskedBy(job: Job, allocation: Allocation): string | null {
  if (allocation.ownership !== 'owned' || allocation.requestedAt === null) return null;
  return placeOf(capacityOf(job, allocation));
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
