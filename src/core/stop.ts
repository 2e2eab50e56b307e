// Stop: how programs are brought to their end, and when the machine goes with them.

import { isLost, release } from './allocate.ts';
import { chain, unchanged, withAttempt } from './change.ts';
import type { Change } from './change.ts';
import type { Action } from './decision.ts';
import { isKept } from './attempts.ts';
import { allocationOf } from './job.ts';
import type { Allocation, Attempt, Job } from './job.ts';
import { between, later } from './pace.ts';
import { tryAgainAt } from './prepare.ts';
import { keptGraces, standingGivenUpAt, whatFollows } from './recover.ts';
import type { Following } from './recover.ts';
import type { WorkerId } from './spec.ts';
import { earliest, second } from './time.ts';
import type { Instant } from './time.ts';
import { mayBeAlive, strangersAlive } from './view.ts';
import type { Place, View } from './view.ts';

/** The result of ending an attempt in this pass. */
export interface WindDown extends Change {
  readonly actions: readonly Action[];
  readonly wakeAt: Instant | undefined;
}

/**
 * Brings an ending attempt to its end: every place that may still be alive is asked once to stop, after the grace it
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
  const how = now >= killAt ? 'kill' : 'ask';
  const actions: Action[] = [];
  let wakeAt: Instant | undefined = now + between(5 * second, (now - since) / 4, 30 * second);
  if (how === 'ask') wakeAt = earliest(wakeAt, later(killAt, now));
  const givenUp = givenUpAt(job, attempt, now);
  if (givenUp !== undefined && givenUp > now) wakeAt = earliest(wakeAt, givenUp);
  // Where nothing was started nothing has to hear of the end: a silent worker is only waited for.
  const places = attempt.startedAt === null ? [] : view.places;
  for (const place of places) {
    if (!mayBeAlive(place, attempt) || !canHear(place, allocationOf(asked.job, allocation.ordinal))) continue;
    if (how === 'ask' && attempt.ending?.told.includes(place.worker) === true) continue;
    const dueAt = tryAgainAt(job, attempt, { kind: 'stop', worker: place.worker });
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
  // Its own capacity was recorded as an orphan when the job left the list.
  if (job.removed) return false;
  // Capacity that the cloud took is of no use, and counts against the quota until it is deleted.
  if (isOwned && isLost(allocation)) return true;
  if (!letsGo(job, whatFollows(job, attempt, now), allocation)) return isOwned && isBeyondReach(view, attempt);
  // A re-apply has to take away what is still in use, so the program gets its grace there as everywhere.
  return isLost(allocation) || now >= killAt;
}

/**
 * When a worker that does not answer is waited for no longer, although the cloud calls its machine ready: it will never
 * confirm that its program has ended, and nothing would ever go on. Owned capacity that was to stay is then let go after
 * all; a standing one is only left (recover.ts). Undefined while all answer, and while the cloud itself is silent
 * (nothing follows from that).
 */
export function givenUpAt(job: Job, attempt: Attempt, now: Instant): Instant | undefined {
  const { ownership, silentSince, silentWho } = allocationOf(job, attempt.allocation);
  if (ownership === 'standing') return standingGivenUpAt(job, attempt);
  if (attempt.ending === null || silentSince === null || silentWho !== 'worker') return undefined;
  const graces = whatFollows(job, attempt, now).next === 'settle' ? keptGraces : 1;
  return Math.max(attempt.ending.since, silentSince) + graces * job.spec.recovery.unreachableGrace;
}

function isBeyondReach(view: View, attempt: Attempt): boolean {
  const { job, now, look } = view;
  const isReady = look.kind === 'known' && look.value.state === 'ready';
  const at = givenUpAt(job, attempt, now);
  return isReady && silentOne(view) !== undefined && at !== undefined && now >= at;
}

/** The first worker of the allocation that does not answer, also where the command does not run there. */
function silentOne({ workers }: View): WorkerId | undefined {
  return workers.find(({ worker, isSilent }) => worker !== 'here' && isSilent)?.worker;
}

/** Whether the allocation will not be used again after this end. */
function letsGo(job: Job, following: Following, allocation: Allocation): boolean {
  switch (following.next) {
    case 'wish':
      return false;
    case 'attempt':
      return following.on === 'new';
    case 'settle':
      return allocation.ownership === 'owned' && !isKept(job, allocation, following.verdict);
  }
}

function whyReleased(view: View, attempt: Attempt): string {
  const reason = attempt.ending?.reason ?? 'stopped';
  if (isLost(allocationOf(view.job, attempt.allocation))) return 'it is lost';
  if (isBeyondReach(view, attempt)) return `worker ${silentOne(view)} does not answer any more`;
  return view.job.desired === 'run' ? `attempt ${attempt.ordinal} ended: ${reason}` : 'the owner let it go';
}

/** Ends what is alive of other attempts, with the same patience; one that no record knows of is killed at once. */
export function stopStrangers(view: View): { readonly job: Job; readonly actions: readonly Action[] } {
  const { now } = view;
  let { job } = view;
  const actions: Action[] = [];
  for (const { worker, attempt: ordinal } of strangersAlive(view)) {
    const stranger = job.attempts[ordinal - 1];
    const ending = stranger?.ending ?? null;
    if (stranger !== undefined) job = markAsked(job, stranger, now);
    const since = ending === null ? -Infinity : (ending.stopAskedAt ?? now);
    const how = now >= since + job.spec.stop.grace ? 'kill' : 'ask';
    if (how === 'ask' && ending?.told.includes(worker) === true) continue;
    if (stranger !== undefined && tryAgainAt(job, stranger, { kind: 'stop', worker }) > now) continue;
    actions.push({ kind: 'stop', attempt: ordinal, allocation: view.allocation?.ordinal ?? 1, worker, how });
  }
  return { job, actions };
}
