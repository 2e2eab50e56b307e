// Typical wait: the time that similar jobs of this installation waited for capacity. No cloud reports a position in its
// queue, so past waits are the only information.

import { mayCreate } from '../core/decide/allocate.ts';
import { allocationOf, openAttempt, type Job } from '../core/model/job.ts';
import { day, minute, type Duration, type Instant } from '../core/model/time.ts';
import { isSimulated, type CapacitySpec, type JobSpec } from '../core/model/spec.ts';
import { StoreError } from './errors.ts';
import { pluralize, formatDuration } from './format.ts';
import type { JobRow } from './client.ts';
import type { Store } from './ports.ts';

const sampleDays = 30;
const maxJobs = 200;
const minSamples = 5;

export interface TypicalWait {
  readonly median: Duration;
  readonly percentile90: Duration;
  readonly samples: number;
}

/** Null if the job requests no capacity, and with fewer than five known waits. */
export async function typicalWaitFor(
  store: Pick<Store, 'similarJobs'>,
  job: Job,
  now: Instant,
): Promise<TypicalWait | null> {
  const { capacity } = job.spec;
  // An existing persistent TPU has no wait. One that is deleted and created again is waited for.
  if (capacity.ownership === 'persistent' && !awaitsCapacity(job)) return null;
  return typicalWaitForCapacity(store, capacity, now);
}

/** The same for a request, whether the capacity exists or not. */
async function typicalWaitForCapacity(
  store: Pick<Store, 'similarJobs'>,
  capacity: CapacitySpec,
  now: Instant,
): Promise<TypicalWait | null> {
  if (capacity.kind !== 'tpu') return null;
  const { accelerator, zone, pricing } = capacity;
  const similar = await store.similarJobs({ accelerator, zone, pricing }, now - sampleDays * day, maxJobs);
  // The TPU emulator has Google's zone names and other waits.
  return typicalWaitOf(
    similar.filter(({ spec }) => isSimulated(spec.capacity) === isSimulated(capacity)).flatMap(waitsOf),
  );
}

/** The typical wait of a new job as a phrase; null without one, or if the database does not answer. */
export async function plannedWait(
  store: Pick<Store, 'similarJobs'>,
  { capacity }: JobSpec,
  now: Instant,
): Promise<string | null> {
  if (capacity.ownership === 'persistent') return null;
  const typical = await typicalWaitForCapacity(store, capacity, now).catch((error: unknown) => {
    if (!(error instanceof StoreError)) throw error;
    return null;
  });
  return typical === null ? null : formatTypicalWait(typical, 0);
}

/** The wait of each attempt from its request until its capacity was ready, including failed requests in between. */
export function waitsOf(job: Job): readonly Duration[] {
  return job.attempts.flatMap(({ allocation: ordinal, createdAt, notBeforeAt }) => {
    const allocation = job.allocations[ordinal - 1];
    if (allocation === undefined || !mayCreate(job, allocation) || allocation.readyAt === null) return [];
    const startedAt = Math.max(createdAt, notBeforeAt);
    return allocation.readyAt < startedAt ? [] : [allocation.readyAt - startedAt];
  });
}

export function awaitsCapacity(job: Job): boolean {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending !== null || job.desired !== 'running') return false;
  const allocation = allocationOf(job, attempt.allocation);
  return mayCreate(job, allocation) && allocation.readyAt === null;
}

/** The time at which the job began to wait for a slot, a TPU or capacity. A pause before a request is no wait. */
export function waitsSince(job: Job, now: Instant): Instant {
  const attempt = openAttempt(job);
  if (attempt === undefined) return job.startRequest?.at ?? job.createdAt;
  return Math.max(attempt.createdAt, Math.min(attempt.notBeforeAt, now));
}

export function waitedFor(job: Job, now: Instant): Duration {
  return openAttempt(job) === undefined ? 0 : now - waitsSince(job, now);
}

export async function isLongerThanTypical(store: Pick<Store, 'similarJobs'>, job: Job, now: Instant): Promise<boolean> {
  if (!awaitsCapacity(job)) return false;
  const typical = await typicalWaitFor(store, job, now);
  return typical !== null && waitedFor(job, now) > typical.percentile90;
}

/** A shorter wait needs no attention, so that a list rarely reads past waits. */
const minLongWait: Duration = 10 * minute;
const keepTime: Duration = minute;

type KnownWaits = Map<string, { readonly at: Instant; readonly value: Promise<TypicalWait | null> }>;

const knownWaits = new WeakMap<object, KnownWaits>();

/** As `typicalWaitFor`. Kept for a minute, because past waits change slowly and lists are read often. */
export function knownTypicalWait(
  store: Pick<Store, 'similarJobs'>,
  job: Job,
  now: Instant,
): Promise<TypicalWait | null> {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || !awaitsCapacity(job)) return Promise.resolve(null);
  const known: KnownWaits = knownWaits.get(store) ?? new Map();
  knownWaits.set(store, known);
  const { accelerator, zone, pricing } = capacity;
  const key = JSON.stringify([accelerator, zone, pricing, isSimulated(capacity)]);
  const last = known.get(key);
  if (last !== undefined && Math.abs(now - last.at) < keepTime) return last.value;
  const value = typicalWaitFor(store, job, now);
  known.set(key, { at: now, value });
  value.catch(() => known.delete(key));
  return value;
}

/** The rows, with `long_wait` for those of `waiting` that have waited for longer than 9 of 10 similar jobs. */
export async function withLongWaits(
  store: Pick<Store, 'similarJobs'>,
  rows: readonly JobRow[],
  waiting: readonly Job[],
  now: Instant,
): Promise<readonly JobRow[]> {
  const late = new Set<string>();
  for (const job of waiting) {
    const typical = await knownTypicalWait(store, job, now);
    if (typical !== null && waitedFor(job, now) > typical.percentile90) late.add(job.id);
  }
  return late.size === 0
    ? rows
    : rows.map((row) => (late.has(row.id) && row.attention === null ? { ...row, attention: 'long_wait' } : row));
}

/** True if the job has waited so long that its wait may be unusual. */
export function mayWaitLong(job: Job, now: Instant): boolean {
  return awaitsCapacity(job) && waitedFor(job, now) >= minLongWait;
}

/** By nearest rank, so that each value is a real wait. Null with fewer than five. */
export function typicalWaitOf(waits: readonly Duration[]): TypicalWait | null {
  if (waits.length < minSamples) return null;
  const sorted = waits.toSorted((one, other) => one - other);
  const rank = (part: number) => sorted[Math.ceil(part * sorted.length) - 1] ?? 0;
  return { median: rank(0.5), percentile90: rank(0.9), samples: sorted.length };
}

/** `41m (median of 12 waits in 30 days; 9 of 10 within 2h10m)`, and a note if this wait is longer. */
export function formatTypicalWait({ median, percentile90, samples }: TypicalWait, waited: Duration): string {
  const percentile = formatDuration(percentile90);
  const longer = waited > percentile90 ? `; this wait of ${formatDuration(waited)} is longer than usual` : '';
  return `${formatDuration(median)} (median of ${pluralize(samples, 'wait')} in ${sampleDays} days; 9 of 10 within ${percentile})${longer}`;
}
