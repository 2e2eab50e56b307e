// Zones: the answers of locations to the jobs of this installation, and the capacity that jobs hold there now. It sends
// no request: the answers come from earlier requests.

import { generationOf } from '../catalogue/accelerators.ts';
import { capacityOf, type Job, type CapacityAnswer } from '../core/model/job.ts';
import { alternativesOf, isSimulated } from '../core/model/spec.ts';
import {
  isSameAlternative,
  alternativeKey,
  type AnswerRecord,
  type AlternativeKey,
} from '../core/decide/capacity-answers.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import { formatAge, formatDuration } from './format.ts';
import { errorPhrases } from './phrases.ts';
import type { Store } from './ports.ts';
import { keptAllocations, lacksCapacity } from './views.ts';

export interface ZoneQuery {
  readonly project?: string;
  readonly accelerator?: string;
}

/** A zone that has answered a job of this installation, or that a job names. */
export interface ZoneRow extends AlternativeKey {
  readonly lastAnswer: {
    readonly answer: CapacityAnswer | 'ready';
    readonly answeredAt: Instant;
    readonly job: string;
  } | null;
  readonly lastGrant: { readonly grantedAt: Instant; readonly waitedMs: Duration } | null;
  /** Ids of jobs. */
  readonly heldBy: readonly string[];
  readonly awaitedBy: readonly string[];
  readonly simulated: boolean;
}

const maxFinishedJobs = 200;

/** Alternatives that answered a job, that a job holds, or that an unfinished job names; by project, zone and type. */
export async function zonesOf(
  store: Pick<Store, 'capacityAnswers' | 'list'>,
  { project, accelerator }: ZoneQuery,
  now: Instant,
): Promise<readonly ZoneRow[]> {
  const [answers, { jobs }] = await Promise.all([
    store.capacityAnswers(project ?? null),
    store.list({ maxFinished: maxFinishedJobs }),
  ]);
  const locations: AlternativeKey[] = [];
  const add = (location: AlternativeKey): void => {
    if (!locations.some((one) => isSameAlternative(one, location))) locations.push(location);
  };
  for (const answer of answers) add(keyOf(answer));
  for (const location of jobs.flatMap(alternativesNamed)) add(location);
  return locations
    .filter((location) => project === undefined || location.project === project)
    .filter(({ accelerator: type }) => [undefined, type, generationOf(type)?.name].includes(accelerator))
    .map((location) => rowOf(location, answers, jobs, now))
    .toSorted((one, other) => compare(one, other));
}

function keyOf({ project, zone, accelerator, pricing }: AlternativeKey): AlternativeKey {
  return { project, zone, accelerator, pricing };
}

function alternativesNamed(job: Job): readonly AlternativeKey[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent') return [];
  if (job.finish === null) return alternativesOf(capacity).map((alternative) => keyOf({ ...capacity, ...alternative }));
  return keptAllocations(job).flatMap((allocation) => {
    const chosen = capacityOf(job, allocation);
    return chosen.kind === 'tpu' ? [alternativeKey(chosen)] : [];
  });
}

function rowOf(
  location: AlternativeKey,
  answers: readonly AnswerRecord[],
  jobs: readonly Job[],
  now: Instant,
): ZoneRow {
  const ownAnswers = answers
    .filter((one) => isSameAlternative(one, location))
    .toSorted((one, other) => other.at - one.at);
  const waiting = jobs.flatMap((job) => currentWaits(job, location, now));
  const [newest] = [...waiting, ...ownAnswers].toSorted((one, other) => other.at - one.at);
  const lastGrant = ownAnswers.find(({ answer }) => answer === 'ready');
  const jobsWith = (isReady: boolean): readonly string[] =>
    jobs
      .filter((job) =>
        keptAllocations(job).some((allocation) => {
          const chosen = capacityOf(job, allocation);
          return (
            chosen.kind === 'tpu' && isSameAlternative(chosen, location) && (allocation.readyAt !== null) === isReady
          );
        }),
      )
      .map(({ id }) => id)
      .toSorted((one, other) => one.localeCompare(other));
  return {
    ...location,
    lastAnswer: newest === undefined ? null : { answer: newest.answer, answeredAt: newest.at, job: newest.job },
    lastGrant: lastGrant === undefined ? null : { grantedAt: lastGrant.at, waitedMs: lastGrant.waited },
    heldBy: jobsWith(true),
    awaitedBy: jobsWith(false),
    simulated: isSimulated({ kind: 'tpu', project: location.project }),
  };
}

/** A queue that keeps a job waiting means that there is no capacity. `at` is the time of the observation. */
function currentWaits(
  job: Job,
  location: AlternativeKey,
  now: Instant,
): readonly Pick<AnswerRecord, 'answer' | 'at' | 'job'>[] {
  return keptAllocations(job).flatMap((allocation) => {
    const chosen = capacityOf(job, allocation);
    const isSame = chosen.kind === 'tpu' && isSameAlternative(chosen, location);
    if (!isSame || allocation.lastError !== null || !lacksCapacity(allocation, now)) return [];
    return [{ answer: 'stockout', at: allocation.lastObserved?.at ?? now, job: job.id }];
  });
}

function compare(one: ZoneRow, other: ZoneRow): number {
  return (
    one.project.localeCompare(other.project) ||
    one.zone.localeCompare(other.zone) ||
    one.accelerator.localeCompare(other.accelerator, undefined, { numeric: true }) ||
    one.pricing.localeCompare(other.pricing)
  );
}

/** `no capacity, 4m ago`. */
export function formatLastAnswer({ lastAnswer }: ZoneRow, now: Instant): string {
  if (lastAnswer === null) return 'none yet';
  const answer =
    lastAnswer.answer === 'ready'
      ? 'granted one'
      : lastAnswer.answer === 'waiting'
        ? 'queued'
        : errorPhrases[lastAnswer.answer];
  return `${answer}, ${formatAge(now - lastAnswer.answeredAt)} ago`;
}

/** `2h ago after 41m`: the newest success, and the wait for it. */
export function formatLastGrant({ lastGrant }: ZoneRow, now: Instant): string {
  return lastGrant === null
    ? 'never'
    : `${formatAge(now - lastGrant.grantedAt)} ago after ${formatDuration(lastGrant.waitedMs)}`;
}

export function formatZoneJobs({ heldBy, awaitedBy }: ZoneRow): string {
  const parts = [
    ...(heldBy.length === 0 ? [] : [`held by ${heldBy.join(', ')}`]),
    ...(awaitedBy.length === 0 ? [] : [`awaited by ${awaitedBy.join(', ')}`]),
  ];
  return parts.length === 0 ? '-' : parts.join('; ');
}
