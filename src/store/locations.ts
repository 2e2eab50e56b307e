// Locations: the locations where jobs have requested capacity, the answers to the requests, and the orphans found
// there.

import type { Notice } from '../app/notifications/notice.ts';
import { locationPrefix, type AllocationRef, type Orphan } from '../app/ports.ts';
import { capacityOf, type Allocation, type Job } from '../core/model/job.ts';
import type { AnswerRecord } from '../core/decide/capacity-answers.ts';
import { alternativeCount } from '../core/model/spec.ts';
import { hour } from '../core/model/time.ts';
import { noticeWrites } from './notifications.ts';
import { sql, wroteRow, type Database, type Sql } from './sql.ts';
import { jobOf } from './stored-job.ts';

/** Orphans of an allocation are collected for this long after its end was observed: a request may take effect late. */
const collectedFor = 7 * 24 * hour;

const forever = Number.MAX_SAFE_INTEGER;

/** Null when the job never requested ephemeral capacity. */
export interface LocationColumns {
  readonly location: string | null;
  readonly collect_until: number | null;
}

/** For a job with alternatives: the location of its spec's own capacity. */
export function locationColumns(job: Job): LocationColumns {
  const location = locationPrefix(job.spec.capacity);
  const until = location === null ? undefined : collectedLocations(job).get(location);
  return until === undefined ? { location: null, collect_until: null } : { location, collect_until: until };
}

/** The end of orphan collection for every location where the job has requested ephemeral capacity. */
function collectedLocations(job: Job): ReadonlyMap<string, number> {
  const locations = new Map<string, number>();
  for (const allocation of job.allocations) {
    const location = requestedLocation(job, allocation);
    if (location === null) continue;
    const until = allocation.goneAt === null ? forever : allocation.goneAt + collectedFor;
    locations.set(location, Math.max(until, locations.get(location) ?? 0));
  }
  for (const { at, location } of refusedLocations(job))
    locations.set(location, Math.max(at + collectedFor, locations.get(location) ?? 0));
  return locations;
}

/** The locations that refused a request of an attempt: a request whose sender died may take effect there late. */
function refusedLocations(
  job: Job,
): readonly { readonly at: number; readonly location: string; readonly allocation: Allocation }[] {
  return job.attempts.flatMap(({ allocation: ordinal, alternativesTried = [] }) =>
    alternativesTried.flatMap(({ at, alternative }) => {
      const requested = job.allocations[ordinal - 1];
      if (requested === undefined) return [];
      const allocation = { ...requested, alternative };
      const location = locationPrefix(capacityOf(job, allocation));
      return location === null ? [] : [{ at, location, allocation }];
    }),
  );
}

/** Null when the allocation cannot leave a resource behind: it is persistent, or was never requested. */
function requestedLocation(job: Job, allocation: Allocation): string | null {
  if (allocation.ownership !== 'ephemeral' || allocation.requestedAt === null) return null;
  return locationPrefix(capacityOf(job, allocation));
}

/** See `Store.locationsToCollect`. */
export async function readLocationsToCollect(
  db: Database,
  now: number,
): Promise<{ readonly refs: readonly AllocationRef[]; readonly goneAt: number | null }> {
  const { rows } = await sql<{ location: string; status: string; outline: string }>`
    select newest.location, job.status, job.outline
    from (
      select location, max(number) as number from (
        select location, number from job where collect_until >= ${now}
        union all
        select location, job as number from job_location where collect_until >= ${now}
      ) as requested group by location
    ) as newest join job on job.number = newest.number
    order by newest.number, newest.location`.execute(db);
  const { rows: last } = await sql<{ until: number | null }>`
    select max(collect_until) as until from (
      select collect_until from job where collect_until <= ${now + collectedFor}
      union all
      select collect_until from job_location where collect_until <= ${now + collectedFor}
    ) as requested`.execute(db);
  const until = last[0]?.until ?? null;
  const refs = rows.flatMap((row): readonly AllocationRef[] => {
    const job = jobOf(row.status, row.outline);
    const allocation =
      job.allocations.findLast((one) => requestedLocation(job, one) === row.location) ??
      refusedLocations(job).find(({ location }) => location === row.location)?.allocation;
    return allocation === undefined ? [] : [{ job, allocation }];
  });
  return { refs, goneAt: until === null ? null : until - collectedFor };
}

export function locationWrites(number: number, job: Job): readonly Sql[] {
  if (alternativeCount(job.spec.capacity) === 1) return [];
  const { location: own } = locationColumns(job);
  const others = [...collectedLocations(job)].filter(([location]) => location !== own);
  return [
    sql`delete from job_location where job = ${number}`,
    ...others.map(
      ([location, until]) =>
        sql`insert into job_location (job, location, collect_until) values (${number}, ${location}, ${until})`,
    ),
  ];
}

/** Replaces an older answer of the same kind, but not a newer one. */
export function capacityAnswerWrites(answers: readonly AnswerRecord[]): readonly Sql[] {
  return answers.map(
    ({ project, zone, accelerator, pricing, answer, at, waited, job }) => sql`
      insert into capacity_answer (project, zone, accelerator, pricing, answer, at, waited, job)
      values (${project}, ${zone}, ${accelerator}, ${pricing}, ${answer}, ${at}, ${waited}, ${job})
      on conflict (project, zone, accelerator, pricing, answer)
      do update set at = excluded.at, waited = excluded.waited, job = excluded.job
      where excluded.at >= capacity_answer.at`,
  );
}

/** Records an orphan. The notices are written with its first observation only. */
export async function writeOrphan(
  db: Database,
  { backend, resource, installation, job, allocation, state }: Orphan,
  notices: readonly Notice[],
): Promise<void> {
  const isNew = await wroteRow(
    db,
    sql`
      insert into orphan (backend, resource, installation, job, allocation, state)
      values (${backend}, ${resource}, ${installation}, ${job}, ${allocation}, ${state})
      on conflict (backend, resource) do nothing returning resource`,
  );
  if (isNew) return db.runAll(noticeWrites(resource, { notices, endsWaiting: false }));
  await sql`
    update orphan
    set installation = ${installation}, job = ${job}, allocation = ${allocation}, state = ${state}
    where backend = ${backend} and resource = ${resource}`.execute(db);
}
