// Places: where jobs have asked for capacity, what each place has answered, and the orphans that were found there.

import { placeOf, type AllocationRef, type Stray } from '../app/ports.ts';
import { capacityOf, type Allocation, type Job } from '../core/job.ts';
import type { PlaceAnswered } from '../core/alternatives.ts';
import { placeCount } from '../core/spec.ts';
import { hour } from '../core/time.ts';
import { sql, type Database } from './sql.ts';
import { jobOf } from './stored-job.ts';

/** How long after its end was seen the place of an allocation is swept for what may have taken effect late. */
const sweptFor = 7 * 24 * hour;

/** Something may still be there. */
const always = Number.MAX_SAFE_INTEGER;

/** The place of a job's own capacity, and until when it is swept for its sake; null when it never asked for any. */
export interface SweepColumns {
  readonly place: string | null;
  readonly sweep_until: number | null;
}

/** See SweepColumns. Of a job that has asked in several places, its spec's own. */
export function sweepColumns(job: Job): SweepColumns {
  const place = placeOf(job.spec.capacity);
  const until = place === null ? undefined : sweptPlaces(job).get(place);
  return until === undefined ? { place: null, sweep_until: null } : { place, sweep_until: until };
}

/** Every place where the job has asked for capacity of its own, and until when that is swept for its sake. */
function sweptPlaces(job: Job): ReadonlyMap<string, number> {
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

/** The places that its attempts were refused in: a request whose sender died may take effect there late. */
function placesLeft(
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
function placeAskedBy(job: Job, allocation: Allocation): string | null {
  if (allocation.ownership !== 'owned' || allocation.requestedAt === null) return null;
  return placeOf(capacityOf(job, allocation));
}

/** See `Store.sweepable`. */
export async function readSweepable(
  db: Database,
  now: number,
): Promise<{ readonly refs: readonly AllocationRef[]; readonly goneAt: number | null }> {
  const { rows } = await sql<{ place: string; life: string; outline: string }>`
    select swept.place, job.life, job.outline
    from (
      select place, max(number) as number from (
        select place, number from job where sweep_until >= ${now}
        union all
        select place, job as number from job_place where sweep_until >= ${now}
      ) as asked group by place
    ) as swept join job on job.number = swept.number
    order by swept.number, swept.place`.execute(db);
  const { rows: last } = await sql<{ until: number | null }>`
    select max(sweep_until) as until from (
      select sweep_until from job where sweep_until <= ${now + sweptFor}
      union all
      select sweep_until from job_place where sweep_until <= ${now + sweptFor}
    ) as asked`.execute(db);
  const until = last[0]?.until ?? null;
  const refs = rows.flatMap((row): readonly AllocationRef[] => {
    const job = jobOf(row.life, row.outline);
    const allocation =
      job.allocations.findLast((one) => placeAskedBy(job, one) === row.place) ??
      placesLeft(job).find(({ place }) => place === row.place)?.allocation;
    return allocation === undefined ? [] : [{ job, allocation }];
  });
  return { refs, goneAt: until === null ? null : until - sweptFor };
}

/** The places where the job has asked besides its spec's own. */
export async function writePlaces(db: Database, number: number, job: Job): Promise<void> {
  if (placeCount(job.spec.capacity) === 1) return;
  const { place: own } = sweepColumns(job);
  await sql`delete from job_place where job = ${number}`.execute(db);
  for (const [place, until] of sweptPlaces(job)) {
    if (place === own) continue;
    await sql`insert into job_place (job, place, sweep_until) values (${number}, ${place}, ${until})`.execute(db);
  }
}

/** An answer of the same sort replaces an older one, and none that is newer. */
export async function writeAnswers(db: Database, answers: readonly PlaceAnswered[]): Promise<void> {
  for (const { project, zone, accelerator, pricing, answer, at, waited, job } of answers) {
    await sql`
      insert into place_answer (project, zone, accelerator, pricing, answer, at, waited, job)
      values (${project}, ${zone}, ${accelerator}, ${pricing}, ${answer}, ${at}, ${waited}, ${job})
      on conflict (project, zone, accelerator, pricing, answer)
      do update set at = excluded.at, waited = excluded.waited, job = excluded.job
      where excluded.at >= place_answer.at`.execute(db);
  }
}

/** All of one project, or of all; by place, the newest first. */
export async function readAnswers(db: Database, project: string | null): Promise<readonly PlaceAnswered[]> {
  const { rows } = await sql<PlaceAnswered>`
    select project, zone, accelerator, pricing, answer, at, waited, job from place_answer
    where ${project === null ? sql`1 = 1` : sql`project = ${project}`}
    order by project, zone, accelerator, pricing, at desc`.execute(db);
  return rows.map((row) => ({ ...row }));
}

/** Replaces an older one of the same resource. */
export async function writeStray(db: Database, stray: Stray): Promise<void> {
  await sql`
    insert into stray (backend, resource, installation, job, allocation, state)
    values (${stray.backend}, ${stray.resource}, ${stray.installation}, ${stray.job}, ${stray.allocation}, ${stray.state})
    on conflict (backend, resource)
    do update set installation = excluded.installation, job = excluded.job, allocation = excluded.allocation, state = excluded.state`.execute(
    db,
  );
}

/** All of them, by backend and name. */
export async function readStrays(db: Database): Promise<readonly Stray[]> {
  const { rows } = await sql<Stray>`
    select backend, resource, installation, job, allocation, state from stray order by backend, resource`.execute(db);
  return rows.map((row) => ({ ...row }));
}

export async function deleteStray(db: Database, stray: Stray): Promise<void> {
  await sql`delete from stray where backend = ${stray.backend} and resource = ${stray.resource}`.execute(db);
}
