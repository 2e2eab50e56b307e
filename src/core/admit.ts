// Admit: whose turn it is. A cloud has its own queue. This machine has none, so its slots are assigned here.

import { openAttempt } from './job.ts';
import type { Job } from './job.ts';
import { minute } from './time.ts';
import type { Duration, Instant } from './time.ts';

/** A pause up to this keeps its slot: nobody wants a program that begins again in ten seconds to wait for a day-long one. */
const shortPause: Duration = minute;

export function takesTurns(job: Job): boolean {
  return job.spec.capacity.kind === 'local';
}

/** A job holds a slot from its first attempt until it finishes, except in a long pause: slots belong to programs that run. */
export function holdsSlot(job: Job): boolean {
  return takesTurns(job) && job.settled === null && openAttempt(job) !== undefined && pauseEnd(job) === undefined;
}

/** A job that would run if it had a slot, now or after its pause. */
export function waitsForSlot(job: Job): boolean {
  if (!takesTurns(job) || job.settled !== null || job.desired !== 'run' || job.removed) return false;
  return openAttempt(job) === undefined || pauseEnd(job) !== undefined;
}

/** When the long pause ends, or ended, that an attempt began with which has not started yet; undefined where there is none. */
function pauseEnd(job: Job): Instant | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt !== null || attempt.ending !== null) return undefined;
  const since = attempt.movedAt ?? attempt.createdAt;
  return attempt.notBefore > since + shortPause ? attempt.notBefore : undefined;
}

/**
 * The jobs that may go on: those that hold a slot, and as many of the waiting ones as there is room for, in the order in which
 * they were asked for or created. Jobs that were admitted `before` come first, so that no slot is given to two jobs one after the
 * other. A job has no turn during its backoff.
 */
export function admit(
  limit: number,
  jobs: readonly Job[],
  now: Instant,
  before: ReadonlySet<string> = new Set(),
): ReadonlySet<string> {
  const holders = jobs.filter(holdsSlot);
  const waiting = jobs
    .filter((job) => waitsForSlot(job) && (pauseEnd(job) ?? now) <= now)
    .toSorted((a, b) => Number(before.has(b.id)) - Number(before.has(a.id)) || comesBefore(a, b));
  const room = Math.max(0, limit - holders.length);
  return new Set([...holders, ...waiting.slice(0, room)].map(({ id }) => id));
}

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
