// Finish: the end of a job, and the capacity that it keeps afterwards.

import { release } from './allocate.ts';
import { requestedBy } from './evidence.ts';
import { chain, withEvents, type Change, type Decision } from '../model/decision.ts';
import { heldAllocations, isLost, lastAttempt } from '../model/job.ts';
import type { Allocation, Evidence, Finish, Job } from '../model/job.ts';
import { budgetEvidence, usedBudgetOf, type Budget } from './spending.ts';
import type { Reason } from '../model/spec.ts';
import { earliest, minute, type Duration, type Instant } from '../model/time.ts';

export function finishJob(job: Job, verdict: Finish['verdict'], reason: Reason, now: Instant): Change {
  const finish: Finish = { at: now, verdict, reason };
  return withEvents({ ...job, finish, startRequest: null }, now, { kind: 'finished', verdict, reason });
}

/** For a finished job: releases the capacity that it may not keep, and leaves the list if it was deleted and holds none. */
export function cleanUp(change: Change, budgets: readonly Budget[], now: Instant): Decision {
  const { job } = change;
  if (job.removed) return { ...change, actions: [], wakeAt: undefined };
  const used = usedBudgetOf(budgets);
  const isSurplus = (one: Allocation): boolean => used !== undefined || !isKeptNow(job, one, now);
  const surplus = heldAllocations(job).filter((one) => one.releasedAt === null && isSurplus(one));
  const released = chain(
    change,
    ...surplus.map((one) => (next: Job) => release(next, one.ordinal, releaseReason(job, one, used), now)),
  );
  const held = heldAllocations(released.job);
  if (job.desired === 'deleted' && held.length === 0)
    return { ...chain(released, (next) => removeFromList(next, now)), actions: [], wakeAt: undefined };
  // Kept capacity is observed because it costs money, and must be released if the cloud takes it.
  const isKeeping = held.some((one) => one.releasedAt === null);
  return { ...released, actions: [], wakeAt: isKeeping ? earliest(now + minute, keptUntil(job)) : undefined };
}

function isKeptNow(job: Job, allocation: Allocation, now: Instant): boolean {
  const until = keptUntil(job);
  if (!keepsAtFinish(job, allocation, job.finish?.verdict)) return false;
  return until === undefined || now < until;
}

/** True if a job with that verdict keeps this capacity. After `stop` it does; otherwise the manifest decides. */
export function keepsAtFinish(job: Job, allocation: Allocation, verdict: Finish['verdict'] | undefined): boolean {
  if (allocation.readyAt === null || isLost(allocation)) return false;
  if (job.desired === 'stopped') return true;
  if (lastAttempt(job)?.ending?.reason === 'budget') return false;
  return job.desired === 'running' && keepDuration(job, verdict) !== 0;
}

/** End of the time for which capacity is kept. Undefined without an end. `keepsAtFinish` decides whether it is kept. */
export function keptUntil(job: Job): Instant | undefined {
  if (job.desired !== 'running' || job.finish === null) return undefined;
  const keepFor = keepDuration(job, job.finish.verdict);
  return keepFor === null || keepFor === 0 ? undefined : job.finish.at + keepFor;
}

/** Null: until a user releases it. */
function keepDuration({ spec: { finish } }: Job, verdict: Finish['verdict'] | undefined): Duration | null {
  const kept = finish.capacity === 'keep' ? finish.keepForMs : 0;
  const held = verdict === 'failed' ? (finish.holdOnFailureMs ?? 0) : 0;
  return kept === null ? null : Math.max(kept, held);
}

function releaseReason(job: Job, allocation: Allocation, used: Budget | undefined): Evidence {
  if (isLost(allocation)) return { message: 'it is lost' };
  if (used !== undefined && keepsAtFinish(job, allocation, job.finish?.verdict)) return budgetEvidence(used, job.owner);
  if (job.desired !== 'running') return requestedBy(job);
  if (keepDuration(job, job.finish?.verdict) !== 0) return { message: 'job.keep_for has passed' };
  return { message: `the job has ${job.finish?.verdict ?? 'finished'}` };
}

/** Removes the job from lists. Its rows in the database stay, for its history. */
export function removeFromList(job: Job, now: Instant): Change {
  return withEvents({ ...job, removed: true }, now, { kind: 'removed' });
}
