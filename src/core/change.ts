// Change: how a rule hands on what it did to a job: the new record and the lines of history that tell of it.

import type { Event, EventBody } from './decision.ts';
import { withLife } from './job.ts';
import type { AllocationFields, Attempt, Job } from './job.ts';
import type { Instant } from './time.ts';

/** A record and what happened to bring it about, in order; no events when nothing did. */
export interface Change {
  readonly job: Job;
  readonly events: readonly Event[];
}

/** Nothing happened yet. */
export function unchanged(job: Job): Change {
  return { job, events: [] };
}

/** This and then that; history stays in order. */
export function chain(first: Change, ...rules: readonly ((job: Job) => Change)[]): Change {
  let { job, events } = first;
  for (const rule of rules) {
    const next = rule(job);
    job = next.job;
    if (next.events.length > 0) events = [...events, ...next.events];
  }
  return { job, events };
}

/** A new record with its line of history. */
export function told(job: Job, at: Instant, ...bodies: readonly EventBody[]): Change {
  return { job, events: bodies.map((body) => ({ at, ...body })) };
}

/** The value with these fields; the value itself when it has them: an unchanged record tells the loop not to write. */
function patched<T extends object>(value: T, patch: Partial<T>): T {
  const keys = Object.keys(patch) as (keyof T)[];
  return keys.every((key) => Object.is(value[key], patch[key])) ? value : { ...value, ...patch };
}

/** The job with that allocation changed, and with it perhaps the part of its life. */
export function withAllocation(job: Job, ordinal: number, patch: Partial<AllocationFields>): Job {
  return patched(job, {
    allocations: replaced(job.allocations, ordinal, (one) => {
      const next = patched<AllocationFields>(one, patch);
      return next === one ? one : withLife(next);
    }),
  });
}

/** The job with that attempt changed. */
export function withAttempt(job: Job, ordinal: number, patch: Partial<Attempt>): Job {
  return patched(job, { attempts: replaced(job.attempts, ordinal, (one) => patched(one, patch)) });
}

/** The same list when nothing in it changes. */
function replaced<T extends { readonly ordinal: number }>(
  list: readonly T[],
  ordinal: number,
  change: (item: T) => T,
): readonly T[] {
  const next = list.map((item) => (item.ordinal === ordinal ? change(item) : item));
  return next.every((item, index) => item === list[index]) ? list : next;
}
