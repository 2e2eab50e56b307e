// Zones: what the places of a cloud have answered to the jobs of this record, and what these hold there now. Nobody is asked
// for it: it is what the jobs were told when they asked.

import { accelerator as knownType, generationOf } from '../catalogue/accelerators.ts';
import { capacityOf, type Job, type PlaceAnswer } from '../core/job.ts';
import { placesOf } from '../core/spec.ts';
import { isSamePlace, placeName, type PlaceAnswered, type PlaceName } from '../core/alternatives.ts';
import type { Duration, Instant } from '../core/time.ts';
import { isPretended } from './phrases.ts';
import type { Store } from './ports.ts';
import { keptAllocations, lacksCapacity } from './views.ts';

export interface ZoneQuery {
  readonly project?: string;
  /** A type (`v5litepod-16`) or a generation (`v5e`). */
  readonly accelerator?: string;
}

export interface ZoneRow extends PlaceName {
  /** Its newest answer to any job; null where none has been told yet. */
  readonly last: { readonly answer: PlaceAnswer | 'ready'; readonly at: Instant; readonly job: string } | null;
  /** When it last gave one, and how long that job had waited; null when it never has. */
  readonly gave: { readonly at: Instant; readonly waited: Duration } | null;
  readonly holds: readonly string[];
  readonly awaits: readonly string[];
  readonly pretended: boolean;
}

/** Of the jobs that have settled so many are looked at for what they may have kept. */
const settledMost = 200;

/** The places that have answered a job, are held by one, or are named by one that is not over; by project, zone and type. */
export async function zonesOf(
  store: Pick<Store, 'placeAnswers' | 'list'>,
  { project, accelerator }: ZoneQuery,
  now: Instant,
): Promise<readonly ZoneRow[]> {
  const [answers, { jobs }] = await Promise.all([store.placeAnswers(project ?? null), store.list({ settledMost })]);
  const places: PlaceName[] = [];
  const note = (place: PlaceName): void => {
    if (!places.some((one) => isSamePlace(one, place))) places.push(place);
  };
  for (const answer of answers) note(nameOf(answer));
  for (const place of jobs.flatMap(placesNamed)) note(place);
  return places
    .filter((place) => project === undefined || place.project === project)
    .filter((place) => accelerator === undefined || isOf(place.accelerator, accelerator))
    .map((place) => rowOf(place, answers, jobs, now))
    .toSorted((one, other) => compare(one, other));
}

function nameOf({ project, zone, accelerator, pricing }: PlaceName): PlaceName {
  return { project, zone, accelerator, pricing };
}

function placesNamed(job: Job): readonly PlaceName[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'standing') return [];
  if (job.settled === null) return placesOf(capacity).map((place) => nameOf({ ...capacity, ...place }));
  return keptAllocations(job).flatMap((allocation) => {
    const at = capacityOf(job, allocation);
    return at.kind === 'tpu' ? [placeName(at)] : [];
  });
}

function rowOf(place: PlaceName, answers: readonly PlaceAnswered[], jobs: readonly Job[], now: Instant): ZoneRow {
  const here = answers.filter((one) => isSamePlace(one, place)).toSorted((one, other) => other.at - one.at);
  const waiting = jobs.flatMap((job) => waitIn(job, place, now));
  const [newest] = [...waiting, ...here].toSorted((one, other) => other.at - one.at);
  const gave = here.find(({ answer }) => answer === 'ready');
  const inPlace = (isReady: boolean): readonly string[] =>
    jobs
      .filter((job) =>
        keptAllocations(job).some((allocation) => {
          const at = capacityOf(job, allocation);
          return at.kind === 'tpu' && isSamePlace(at, place) && (allocation.readyAt !== null) === isReady;
        }),
      )
      .map(({ id }) => id)
      .toSorted((one, other) => one.localeCompare(other));
  return {
    ...place,
    last: newest === undefined ? null : { answer: newest.answer, at: newest.at, job: newest.job },
    gave: gave === undefined ? null : { at: gave.at, waited: gave.waited },
    holds: inPlace(true),
    awaits: inPlace(false),
    pretended: isPretended({ kind: 'tpu', project: place.project }),
  };
}

/** A queue that keeps a job waiting has answered it, too: there is no capacity. `at` is the time of this observation. */
function waitIn(job: Job, place: PlaceName, now: Instant): readonly Pick<PlaceAnswered, 'answer' | 'at' | 'job'>[] {
  return keptAllocations(job).flatMap((allocation) => {
    const at = capacityOf(job, allocation);
    const isHere = at.kind === 'tpu' && isSamePlace(at, place);
    if (!isHere || allocation.lastFailure !== null || !lacksCapacity(allocation, now)) return [];
    return [{ answer: 'stockout', at: allocation.seen?.at ?? now, job: job.id }];
  });
}

/** A type by its name, or every size of a generation. */
function isOf(type: string, wanted: string): boolean {
  return type === wanted || (generationOf(type)?.name ?? knownType(type)?.generation.name) === wanted;
}

function compare(one: ZoneRow, other: ZoneRow): number {
  return (
    one.project.localeCompare(other.project) ||
    one.zone.localeCompare(other.zone) ||
    one.accelerator.localeCompare(other.accelerator, undefined, { numeric: true }) ||
    one.pricing.localeCompare(other.pricing)
  );
}
