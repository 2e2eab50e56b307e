// Admission: the order in which jobs get the slots of this machine. A cloud has its own queue.

import { compareText } from '../model/compare-text.ts';
import { openAttempt } from '../model/job.ts';
import type { Job } from '../model/job.ts';
import { minute } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';

/** A job keeps its slot in a backoff up to this length, so that a quick restart need not wait for a long job. */
const shortBackoff: Duration = minute;

export function needsSlot(job: Job): boolean {
  return job.spec.capacity.kind === 'local';
}

/** True from the first attempt until the job finishes, except in a long backoff: slots are for programs that run. */
export function holdsSlot(job: Job): boolean {
  return needsSlot(job) && job.finish === null && openAttempt(job) !== undefined && longBackoffEnd(job) === undefined;
}

/** True for a job that would run if it had a slot, now or after its backoff. */
export function waitsForSlot(job: Job): boolean {
  if (!needsSlot(job) || job.finish !== null || job.desired !== 'running' || job.removed) return false;
  return openAttempt(job) === undefined || longBackoffEnd(job) !== undefined;
}

/** The end of the long backoff with which the open attempt began. Undefined once the attempt has started. */
function longBackoffEnd(job: Job): Instant | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt !== null || attempt.ending !== null) return undefined;
  const since = attempt.movedAt ?? attempt.createdAt;
  return attempt.notBeforeAt > since + shortBackoff ? attempt.notBeforeAt : undefined;
}

/**
 * Ids of the jobs that may continue: each holder of a slot, and one waiting job per free slot. The earliest start request
 * (or creation, without a request) comes first. Jobs in `before`, which were admitted already, come before the others, so
 * that no slot is given twice. A job gets no slot during a long backoff.
 */
export function admit(
  limit: number,
  jobs: readonly Job[],
  now: Instant,
  before: ReadonlySet<string> = new Set(),
): ReadonlySet<string> {
  const holders = jobs.filter(holdsSlot);
  const waiting = jobs
    .filter((job) => waitsForSlot(job) && (longBackoffEnd(job) ?? now) <= now)
    .toSorted((a, b) => Number(before.has(b.id)) - Number(before.has(a.id)) || compareQueueTime(a, b));
  const room = Math.max(0, limit - holders.length);
  return new Set([...holders, ...waiting.slice(0, room)].map(({ id }) => id));
}

function compareQueueTime(a: Job, b: Job): number {
  return queuedAt(a) - queuedAt(b) || compareText(a.id, b.id);
}

function queuedAt(job: Job): Instant {
  return job.startRequest?.at ?? job.createdAt;
}

/** Number of slots, of used slots, and of waiting jobs before this one. */
export interface QueuePosition {
  readonly slots: number;
  readonly slotsUsed: number;
  readonly ahead: number;
}

/** Undefined for a job that waits for no slot. */
export function queuePositionOf(limit: number, jobs: readonly Job[], job: Job): QueuePosition | undefined {
  if (!waitsForSlot(job)) return undefined;
  const ahead = jobs.filter((other) => waitsForSlot(other) && compareQueueTime(other, job) < 0);
  return { slots: limit, slotsUsed: jobs.filter(holdsSlot).length, ahead: ahead.length };
}

/** True if the job is in the result of `admit`, or needs no slot. */
export function isAdmitted(admitted: ReadonlySet<string>, job: Job): boolean {
  return !needsSlot(job) || admitted.has(job.id);
}
