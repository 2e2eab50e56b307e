// Admit: whose turn it is. A cloud has a queue of its own; this machine has not, so its slots are given out here.

import { openAttempt } from './job.ts';
import type { Job } from './job.ts';
import type { Observation } from './observation.ts';
import type { Instant } from './time.ts';

/** Whether jobs of that kind of capacity take turns on this machine. */
export function takesTurns(job: Job): boolean {
  return job.spec.capacity.kind === 'local';
}

/** A job holds a slot from its first attempt until it settles: also between two attempts, where its place is not given away. */
export function holdsSlot(job: Job): boolean {
  return takesTurns(job) && job.settled === null && openAttempt(job) !== undefined;
}

/** A job that would run if it had a slot. */
export function waitsForSlot(job: Job): boolean {
  return (
    takesTurns(job) && job.settled === null && job.desired === 'run' && !job.removed && openAttempt(job) === undefined
  );
}

/**
 * Who may go on: whoever holds a slot, and of those that wait as many as there is room for, the longest waiting first.
 * The answer depends on the records alone, so two passes at one moment never give one slot twice.
 */
export function admit(limit: number, jobs: readonly Job[]): ReadonlySet<string> {
  const holders = jobs.filter(holdsSlot);
  const waiting = jobs.filter(waitsForSlot).toSorted((a, b) => since(a) - since(b) || (a.id < b.id ? -1 : 1));
  const room = Math.max(0, limit - holders.length);
  return new Set([...holders, ...waiting.slice(0, room)].map(({ id }) => id));
}

function since(job: Job): Instant {
  return job.wish?.at ?? job.createdAt;
}

/** The same as the controller hands it to `reconcile`. Jobs that take no turns always may. */
export function admission(limit: number, admitted: ReadonlySet<string>, job: Job): Observation['admitted'] {
  if (!takesTurns(job) || admitted.has(job.id)) return { ok: true };
  return { ok: false, detail: `all ${limit} slots of this machine are taken` };
}
