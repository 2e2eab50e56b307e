// Admit: whose turn it is. A cloud has a queue of its own; this machine has not, so its slots are given out here.

import { openAttempt } from './job.ts';
import type { Job } from './job.ts';
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
  const waiting = jobs.filter(waitsForSlot).toSorted(comesBefore);
  const room = Math.max(0, limit - holders.length);
  return new Set([...holders, ...waiting.slice(0, room)].map(({ id }) => id));
}

/** Negative when the first has waited longer. */
function comesBefore(a: Job, b: Job): number {
  return since(a) - since(b) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function since(job: Job): Instant {
  return job.wish?.at ?? job.createdAt;
}

/** Where a job stands that waits for a slot: how many there are, how many are taken, and how many jobs come before it. */
export interface Turn {
  readonly slots: number;
  readonly taken: number;
  readonly ahead: number;
}

/** Undefined for a job that waits for no slot. */
export function turnOf(limit: number, jobs: readonly Job[], job: Job): Turn | undefined {
  if (!waitsForSlot(job)) return undefined;
  const ahead = jobs.filter((other) => waitsForSlot(other) && comesBefore(other, job) < 0);
  return { slots: limit, taken: jobs.filter(holdsSlot).length, ahead: ahead.length };
}

/** Whether it is the job's turn, by that answer. Jobs that take no turns always may. */
export function isAdmitted(admitted: ReadonlySet<string>, job: Job): boolean {
  return !takesTurns(job) || admitted.has(job.id);
}
