// End: how an attempt comes to its end, and what is done with what it leaves behind.

import { addAllocation, between, capacityTraits, isLost, later, release, usableAllocation } from './allocate.ts';
import { chain, told, unchanged, withAttempt } from './change.ts';
import type { Change } from './change.ts';
import type { Action } from './decision.ts';
import { allocationOf, heldAllocations, lastAllocation } from './job.ts';
import type { Allocation, Attempt, Evidence, Job, Settled, Wish } from './job.ts';
import { planted } from './plant.ts';
import { tryAgainAt } from './prepare.ts';
import { stoppedWord, whatFollows } from './recover.ts';
import type { Following } from './recover.ts';
import type { Reason } from './spec.ts';
import { earliest, minute, second } from './time.ts';
import type { Instant } from './time.ts';
import { mayBeAlive } from './view.ts';
import type { Place, View } from './view.ts';

/** The reason stands from here; a later one does not replace it. */
export function beginEnding(job: Job, attempt: Attempt, reason: Reason, evidence: Evidence, now: Instant): Change {
  const ending = { reason, evidence, since: now, stopAskedAt: null, told: [] };
  const next = withAttempt(job, attempt.ordinal, { ending });
  return told(next, now, { kind: 'attempt_ending', attempt: attempt.ordinal, reason, evidence });
}

// ------------------------------------------------------------------------------------------ while it ends

export interface WindDown extends Change {
  readonly actions: readonly Action[];
  readonly wakeAt: Instant | undefined;
}

/**
 * What brings an ending attempt to its end: every place that may still be alive is asked once to stop, after the grace it
 * is killed; and capacity that is to go anyway goes, at once when it is of no use any more, else when the grace is over.
 */
export function windDown(view: View, attempt: Attempt): WindDown {
  const { job, now } = view;
  const allocation = allocationOf(job, attempt.allocation);
  const since = attempt.ending?.stopAskedAt ?? now;
  const killAt = since + job.spec.stop.grace;
  const asked = chain(unchanged(markAsked(job, attempt, now)), (next) =>
    isToBeReleased(view, attempt, allocation, killAt)
      ? release(next, allocation.ordinal, whyReleased(view, attempt), now)
      : unchanged(next),
  );
  const how = now >= killAt && !planted('never-kill') ? 'kill' : 'ask';
  const actions: Action[] = [];
  let wakeAt: Instant | undefined = now + between(5 * second, (now - since) / 4, 30 * second);
  if (how === 'ask') wakeAt = earliest(wakeAt, later(killAt, now));
  for (const place of view.places) {
    if (!mayBeAlive(place, attempt) || !canHear(place, allocationOf(asked.job, allocation.ordinal))) continue;
    if (how === 'ask' && attempt.ending?.told.includes(place.worker) === true) continue;
    const dueAt = tryAgainAt(job, attempt, `stop/${place.worker}`);
    if (dueAt > now) wakeAt = earliest(wakeAt, dueAt);
    else
      actions.push({
        kind: 'stop',
        attempt: attempt.ordinal,
        allocation: allocation.ordinal,
        worker: place.worker,
        how,
      });
  }
  return { ...asked, actions, wakeAt };
}

/** The grace counts from the first commit that asks. */
function markAsked(job: Job, { ordinal, ending }: Attempt, now: Instant): Job {
  if (ending === null || ending.stopAskedAt !== null) return job;
  return withAttempt(job, ordinal, { ending: { ...ending, stopAskedAt: now } });
}

/** A machine that is lost or on its way out has nobody to hear a signal, unless it answers all the same. */
function canHear({ worker, seen }: Place, allocation: Allocation): boolean {
  return worker === 'here' || seen !== undefined || (allocation.releasedAt === null && !isLost(allocation));
}

function isToBeReleased(view: View, attempt: Attempt, allocation: Allocation, killAt: Instant): boolean {
  const { job, now } = view;
  const isOwned = allocation.ownership === 'owned';
  // What the cloud took is of no use to anybody, and counts against the quota until it is deleted.
  if (isOwned && isLost(allocation)) return true;
  if (!letsGo(job, whatFollows(job, attempt, now), allocation)) return isOwned && isBeyondReach(view, attempt);
  // A re-apply has to take away what is still in use, so the program gets its grace there as everywhere.
  return isLost(allocation) || now >= killAt;
}

/**
 * A worker that fell silent and stays so for another grace, although the cloud calls it ready, will never confirm that
 * its program has ended. The rule may want the same allocation, but then nothing would ever go on.
 */
function isBeyondReach({ job, now, look, places }: View, { ending }: Attempt): boolean {
  if (ending?.reason !== 'unreachable' || job.desired !== 'run') return false;
  const isReady = look.kind === 'known' && look.value.state === 'ready';
  const isSilent = places.some((place) => place.worker !== 'here' && place.isSilent);
  return isReady && isSilent && now >= ending.since + job.spec.recovery.unreachableGrace;
}

/** Whether the allocation will not be used again after this end. */
function letsGo(job: Job, following: Following, allocation: Allocation): boolean {
  switch (following.next) {
    case 'wish':
      return false;
    case 'attempt':
      return following.on === 'new';
    case 'settle':
      return allocation.ownership === 'owned' && !isKept(job, allocation);
  }
}

function whyReleased(view: View, attempt: Attempt): string {
  const reason = attempt.ending?.reason ?? 'stopped';
  if (isLost(allocationOf(view.job, attempt.allocation))) return 'it is lost';
  return view.job.desired === 'run' ? `attempt ${attempt.ordinal} ended: ${reason}` : 'the owner let it go';
}

// ------------------------------------------------------------------------------------------ when it has ended

/** Closes the attempt and records what follows: the next one, or the end of the job. */
export function closeAttempt(view: View, attempt: Attempt): Change {
  const { job, now } = view;
  const { reason, evidence } = attempt.ending ?? { reason: 'stopped' as const, evidence: { detail: '' } };
  const following = whatFollows(job, attempt, now);
  const ended = withAttempt(job, attempt.ordinal, { endedAt: now });
  const first = planted('silent-end')
    ? unchanged(ended)
    : told(ended, now, { kind: 'attempt_ended', attempt: attempt.ordinal, reason, evidence });
  return chain(first, (next) => follow(next, attempt, reason, following, now));
}

function follow(job: Job, attempt: Attempt, reason: Reason, following: Following, now: Instant): Change {
  switch (following.next) {
    case 'wish':
      return unchanged(job);
    case 'settle':
      return chain(toldOfRule(job, attempt, reason, following, now), (next) =>
        settle(next, following.verdict, reason, now),
      );
    case 'attempt': {
      const { how, stage, on, notBefore } = following;
      return chain(toldOfRule(job, attempt, reason, following, now), (next) =>
        addAttempt(next, { how, stage, on, notBefore, asked: false }, now),
      );
    }
  }
}

function toldOfRule(
  job: Job,
  attempt: Attempt,
  reason: Reason,
  { applied }: Exclude<Following, { next: 'wish' }>,
  now: Instant,
): Change {
  if (applied === null) return unchanged(job);
  return told(job, now, { kind: 'rule_applied', attempt: attempt.ordinal, reason, ...applied });
}

/** The next attempt, on the allocation that can go on or on a new one. What cannot be used again is let go first. */
export function addAttempt(
  job: Job,
  next: Pick<Attempt, 'how' | 'stage' | 'notBefore' | 'asked'> & { readonly on: 'same' | 'new' },
  now: Instant,
): Change {
  const { on, how, stage, notBefore, asked } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  const place =
    same === undefined ? chain(leaveBehind(job, on, now), (after) => addAllocation(after, now)) : unchanged(job);
  return chain(place, (after) => {
    const attempt: Attempt = {
      ordinal: after.attempts.length + 1,
      stage,
      how,
      asked,
      allocation: after.allocations.length,
      createdAt: now,
      notBefore,
      stepFailures: {},
      startedAt: null,
      runningAt: null,
      ending: null,
      endedAt: null,
    };
    const { ordinal, allocation } = attempt;
    return told({ ...after, attempts: [...after.attempts, attempt], wish: null }, now, {
      kind: 'attempt_created',
      attempt: ordinal,
      stage,
      how,
      asked,
      allocation,
      notBefore,
    });
  });
}

/** A standing allocation is let go only where a rule says `new`, which for it means: apply for the same name again. */
function leaveBehind(job: Job, on: 'same' | 'new', now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined) return unchanged(job);
  const isOurs = allocation.ownership === 'owned' || (on === 'new' && capacityTraits(job.spec.capacity).replaceable);
  return isOurs ? release(job, allocation.ordinal, 'a new one takes its place', now) : unchanged(job);
}

/** The attempt that answers the owner's wish. */
export function answerWish(job: Job, now: Instant): Change {
  const how: Wish['how'] = job.wish?.how ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = how === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  return addAttempt(job, { how, stage, notBefore: now, asked: true, on: 'same' }, now);
}

// ------------------------------------------------------------------------------------------ when the job has ended

export function settle(job: Job, verdict: Settled['verdict'], reason: Reason, now: Instant): Change {
  const settled: Settled = { at: now, verdict, reason };
  return told({ ...job, settled, wish: null }, now, { kind: 'settled', verdict, reason });
}

/** For a job that its owner had ended while nothing was under way. */
export function settleAsAsked(job: Job, now: Instant): Change {
  return settle(job, stoppedWord(job), 'stopped', now);
}

/**
 * Whether a settled job (or one about to settle) keeps that capacity. `stop` keeps what is usable; a finished job what its
 * spec says, for as long as it says. What was never ready is nothing that anybody could be keeping, and what is lost is
 * of no use.
 */
function isKept(job: Job, allocation: Allocation, now?: Instant): boolean {
  if (allocation.readyAt === null || isLost(allocation)) return false;
  if (job.desired === 'hold') return true;
  if (planted('keep-after-finish') && job.settled?.verdict === 'failed') return true;
  if (job.desired !== 'run' || job.spec.finish.capacity !== 'keep') return false;
  const until = keptUntil(job);
  return until === undefined || now === undefined || now < until;
}

/** When kept capacity is let go by itself; undefined when it is kept until somebody says so. */
export function keptUntil(job: Job): Instant | undefined {
  const { keepFor } = job.spec.finish;
  if (job.desired !== 'run' || job.settled === null || keepFor === null) return undefined;
  return job.settled.at + keepFor;
}

/** Lets go of everything that a settled job may not keep, and takes a deleted one off the list once it holds nothing. */
export function tidySettled(job: Job, now: Instant): Change & { readonly wakeAt: Instant | undefined } {
  const surplus = heldAllocations(job).filter((one) => one.releasedAt === null && !isKept(job, one, now));
  const tidied = chain(
    unchanged(job),
    ...surplus.map(
      ({ ordinal }) =>
        (next: Job) =>
          release(next, ordinal, whySettledReleases(job), now),
    ),
  );
  const held = heldAllocations(tidied.job);
  if (job.desired === 'delete' && held.length === 0) return { ...remove(tidied.job, now), wakeAt: undefined };
  const isKeeping = held.some((one) => one.releasedAt === null);
  // Kept capacity is looked at: it costs money, and what the cloud takes away must be let go of.
  const wakeAt = isKeeping ? earliest(now + minute, keptUntil(job)) : undefined;
  return { ...tidied, wakeAt };
}

function whySettledReleases(job: Job): string {
  if (job.desired !== 'run') return 'the owner let it go';
  return job.spec.finish.capacity === 'keep'
    ? 'it was kept for as long as it was to be'
    : `the job has ${job.settled?.verdict ?? 'ended'}`;
}

/** Off the list; the rows stay for history. */
export function remove(job: Job, now: Instant): Change {
  return told({ ...job, removed: true }, now, { kind: 'removed' });
}
