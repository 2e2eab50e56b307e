// Usual: how long jobs like this one have waited for their capacity, from our own record and nothing else. No cloud tells a
// place in its queue, so what was so far is all that can be said.

import { mayRequest } from '../core/allocate.ts';
import { allocationOf, openAttempt, type Job } from '../core/job.ts';
import { day, type Duration, type Instant } from '../core/time.ts';
import { isPretended } from './phrases.ts';
import { countText, lengthText } from './figures.ts';
import type { Store } from './ports.ts';

/** Waits that are older say little about today. */
const withinDays = 30;
/** Of the newest jobs so many are enough for a median, and quick to read. */
const jobsMost = 200;
/** Fewer than this are no habit. */
const leastWaits = 5;

export interface UsualWait {
  readonly median: Duration;
  readonly ninetieth: Duration;
  readonly waits: number;
}

/** The usual wait for what that job asks for; null for what is not asked for, and where fewer than five waits are known. */
export async function usualWait(store: Pick<Store, 'alike'>, job: Job, now: Instant): Promise<UsualWait | null> {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return null;
  // A standing TPU that is there is not waited for. One that is deleted and created again is waited for as any other.
  if (capacity.ownership === 'standing' && !awaitsCapacity(job)) return null;
  const { accelerator, zone, pricing } = capacity;
  const alike = await store.alike({ accelerator, zone, pricing }, now - withinDays * day, jobsMost);
  // The built-in cloud has the names of Google's zones, and none of its waits.
  return usualOf(alike.filter(({ spec }) => isPretended(spec.capacity) === isPretended(capacity)).flatMap(waitsOf));
}

/** How long each attempt that asked for capacity waited until it was ready; what came to nothing in between is part of it. */
export function waitsOf(job: Job): readonly Duration[] {
  return job.attempts.flatMap(({ allocation: ordinal, createdAt, notBefore }) => {
    const allocation = job.allocations[ordinal - 1];
    if (allocation === undefined || !mayRequest(job, allocation) || allocation.readyAt === null) return [];
    const begun = Math.max(createdAt, notBefore);
    // Capacity that an earlier attempt held was not waited for.
    return allocation.readyAt < begun ? [] : [allocation.readyAt - begun];
  });
}

export function awaitsCapacity(job: Job): boolean {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending !== null || job.desired !== 'run') return false;
  const allocation = allocationOf(job, attempt.allocation);
  return mayRequest(job, allocation) && allocation.readyAt === null;
}

export function waitedFor(job: Job, now: Instant): Duration {
  const attempt = openAttempt(job);
  return attempt === undefined ? 0 : now - Math.max(attempt.createdAt, Math.min(attempt.notBefore, now));
}

export async function isLongerThanUsual(store: Pick<Store, 'alike'>, job: Job, now: Instant): Promise<boolean> {
  if (!awaitsCapacity(job)) return false;
  const usual = await usualWait(store, job, now);
  return usual !== null && waitedFor(job, now) > usual.ninetieth;
}

/** Median and ninetieth percentile by nearest rank: each is a wait that there was. Null under five. */
export function usualOf(waits: readonly Duration[]): UsualWait | null {
  if (waits.length < leastWaits) return null;
  const sorted = waits.toSorted((one, other) => one - other);
  const rank = (part: number) => sorted[Math.ceil(part * sorted.length) - 1] ?? 0;
  return { median: rank(0.5), ninetieth: rank(0.9), waits: sorted.length };
}

/** `41m here (median of 12 waits in 30 days; 9 of 10 within 2h10m)`, and that this wait has become longer than those nine. */
export function usualText({ median, ninetieth, waits }: UsualWait, waited: Duration): string {
  const most = lengthText(ninetieth);
  const longer = waited > ninetieth ? `; ${lengthText(waited)} is longer than usual` : '';
  return `${lengthText(median)} here (median of ${countText(waits, 'wait')} in ${withinDays} days; 9 of 10 within ${most})${longer}`;
}
