// Attempts: how the next one begins, how its programs are stopped, how it is closed, and what a finished job may keep.

import { addAllocation, capacityTraits, isLost, release, usableAllocation } from './allocate.ts';
import { chain, told, unchanged, withAttempt } from './decision.ts';
import type { Change, Action } from './decision.ts';
import { allocationOf, copyOf, heldAllocations, lastAllocation } from './job.ts';
import type { Allocation, Attempt, Evidence, Exit, Job, Settled, Wish } from './job.ts';
import { stoppedWord, whatFollows, keptGraces, standingGivenUpAt } from './recover.ts';
import type { Following } from './recover.ts';
import type { FinishSpec, Reason, WorkerId } from './spec.ts';
import { earliest, minute, between, later, second } from './time.ts';
import type { Duration, Instant } from './time.ts';
import { mayBeAlive, strangersAlive, takenForGoodAt } from './facts.ts';
import type { View, Place } from './facts.ts';
import { tryAgainAt } from './prepare.ts';

// ------------------------------------------------------------------------------------------ the next attempt

/** The next attempt, on the allocation that can go on or on a new one. What cannot be used again is let go first. */
function addAttempt(
  job: Job,
  next: Pick<Attempt, 'how' | 'stage' | 'notBefore' | 'asked' | 'commandOnly'> & {
    readonly on: 'same' | 'new';
    /** Where a new allocation is asked for first; the first place of the spec when absent. */
    readonly place?: number;
  },
  now: Instant,
): Change {
  const { on, how, stage, notBefore, asked } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  // Steps are passed over only where they may hold: not on what has to be made first.
  const commandOnly = next.commandOnly === true && same !== undefined && same.readyAt !== null;
  const workdir = copyOf(job);
  const copy = workdir !== undefined && { workdir };
  const place =
    same === undefined
      ? chain(leaveBehind(job, on, now), (after) => addAllocation(after, now, next.place))
      : unchanged(job);
  return chain(place, (after) => {
    const attempt: Attempt = {
      ordinal: after.attempts.length + 1,
      stage,
      how,
      asked,
      ...(commandOnly && { commandOnly: true }),
      ...copy,
      allocation: after.allocations.length,
      createdAt: now,
      notBefore,
      failures: [],
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
      ...(commandOnly && { commandOnly: true }),
      ...copy,
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

export function answerWish(job: Job, now: Instant): Change {
  const how: Wish['how'] = job.wish?.how ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = how === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  const commandOnly = job.wish?.commandOnly === true && { commandOnly: true as const };
  return addAttempt(job, { how, stage, notBefore: now, asked: true, on: 'same', ...commandOnly }, now);
}

// ------------------------------------------------------------------------------------------ the end of one

/** The reason stands from here; a later one does not replace it. `exitAt` is when the program ended, by its worker's word. */
export function beginEnding(
  job: Job,
  attempt: Attempt,
  { reason, evidence, exitAt }: { readonly reason: Reason; readonly evidence: Evidence; readonly exitAt?: Instant },
  now: Instant,
): Change {
  const since = exitAt === undefined ? now : plausible(exitAt, attempt, now);
  const ending = { reason, evidence, since, stopAskedAt: null, told: [] };
  const next = withAttempt(job, attempt.ordinal, { ending });
  const apart = since === now ? {} : { since };
  return told(next, now, { kind: 'attempt_ending', attempt: attempt.ordinal, reason, evidence, ...apart });
}

/** A worker's clock may be wrong: an end before the start, or in the future, was when it was seen. */
function plausible(exitAt: Instant, { startedAt, runningAt }: Attempt, now: Instant): Instant {
  if (startedAt === null || exitAt < startedAt || exitAt > now) return now;
  // It was seen running in the same moment, by a look that took a while to be written down.
  return Math.min(now, Math.max(exitAt, runningAt ?? startedAt));
}

/** When the last program of it ended, where every one has told so; now, where one was never heard of again. */
function lastExit({ places, now }: View, attempt: Attempt): Instant {
  const exits = places.map(({ run }) => (run.state === 'exited' ? run.endedAt : now));
  const since = attempt.ending?.since ?? now;
  return attempt.startedAt === null || exits.length === 0 ? now : plausible(Math.max(since, ...exits), attempt, now);
}

function exitsOf({ places }: View): readonly Exit[] {
  const byHow = new Map<string, { exitCode: number; signal?: string; workers: WorkerId[] }>();
  for (const { worker, run } of places) {
    if (run.state !== 'exited') continue;
    const { exitCode, signal } = run;
    const key = `${exitCode} ${signal ?? ''}`;
    const one = byHow.get(key) ?? { exitCode, ...(signal === undefined ? {} : { signal }), workers: [] };
    one.workers.push(worker);
    byHow.set(key, one);
  }
  return [...byHow.values()];
}

/** Closes the attempt and records what follows: the next one, or the end of the job. */
export function closeAttempt(view: View, attempt: Attempt): Change {
  const { job, now } = view;
  const { reason, evidence } = attempt.ending ?? { reason: 'stopped' as const, evidence: { detail: '' } };
  const following = whatFollows(job, attempt, now);
  const endedAt = lastExit(view, attempt);
  const exits = exitsOf(view);
  const how = exits.length > 0 && { exits };
  const ended = withAttempt(job, attempt.ordinal, { endedAt, ...how });
  const apart = { ...(endedAt === now ? {} : { endedAt }), ...how };
  const first = told(ended, now, { kind: 'attempt_ended', attempt: attempt.ordinal, reason, evidence, ...apart });
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
      const { how, stage, on, notBefore, place } = following;
      return chain(toldOfRule(job, attempt, reason, following, now), (next) =>
        addAttempt(next, { how, stage, on, notBefore, place, asked: false }, now),
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

// ------------------------------------------------------------------------------------------ the job

function settle(job: Job, verdict: Settled['verdict'], reason: Reason, now: Instant): Change {
  const settled: Settled = { at: now, verdict, reason };
  return told({ ...job, settled, wish: null }, now, { kind: 'settled', verdict, reason });
}

export function settleAsAsked(job: Job, now: Instant): Change {
  return settle(job, stoppedWord(job), 'stopped', now);
}

/** Whether a finished job keeps that capacity: after `stop` what is usable, after its end what its spec says. */
function isKept(
  job: Job,
  allocation: Allocation,
  verdict: Settled['verdict'] | undefined = job.settled?.verdict,
  now?: Instant,
): boolean {
  if (allocation.readyAt === null || isLost(allocation)) return false;
  if (job.desired === 'hold') return true;
  if (job.desired !== 'run') return false;
  const keepFor = keptFor(job.spec.finish, verdict);
  return job.settled === null || now === undefined ? keepFor !== 0 : keepFor === null || now < job.settled.at + keepFor;
}

/** When kept capacity is let go by itself; undefined when it is kept until somebody says so, or not at all. */
export function keptUntil(job: Job): Instant | undefined {
  if (job.desired !== 'run' || job.settled === null) return undefined;
  const keepFor = keptFor(job.spec.finish, job.settled.verdict);
  return keepFor === null || keepFor === 0 ? undefined : job.settled.at + keepFor;
}

/** How long a job of that verdict keeps its capacity: not at all, so long, or (null) until somebody lets it go. */
function keptFor(finish: FinishSpec, verdict: Settled['verdict'] | undefined): Duration | null {
  const kept = finish.capacity === 'keep' ? finish.keepFor : 0;
  const held = verdict === 'failed' ? (finish.holdOnFailure ?? 0) : 0;
  return kept === null ? null : Math.max(kept, held);
}

/** Releases what a finished job may not keep; takes a deleted job off the list once it holds nothing. */
export function tidySettled(job: Job, now: Instant): Change & { readonly wakeAt: Instant | undefined } {
  if (job.removed) return { ...unchanged(job), wakeAt: undefined };
  const surplus = heldAllocations(job).filter(
    (one) => one.releasedAt === null && !isKept(job, one, job.settled?.verdict, now),
  );
  const tidied = chain(
    unchanged(job),
    ...surplus.map(
      ({ ordinal }) =>
        (next: Job) =>
          release(next, ordinal, whySurplus(job, ordinal), now),
    ),
  );
  const held = heldAllocations(tidied.job);
  if (job.desired === 'delete' && held.length === 0)
    return { ...chain(tidied, (next) => remove(next, now)), wakeAt: undefined };
  const isKeeping = held.some((one) => one.releasedAt === null);
  // Kept capacity is looked at: it costs money, and what the cloud takes away must be let go of.
  const wakeAt = isKeeping ? earliest(now + minute, keptUntil(job)) : undefined;
  return { ...tidied, wakeAt };
}

function whySurplus(job: Job, ordinal: number): string {
  if (isLost(allocationOf(job, ordinal))) return 'it is lost';
  if (job.desired !== 'run') return 'the owner let it go';
  if (keptFor(job.spec.finish, job.settled?.verdict) !== 0) return 'it was kept for as long as it was to be';
  return `the job has ${job.settled?.verdict ?? 'ended'}`;
}

/** Off the list; the rows stay for history. */
export function remove(job: Job, now: Instant): Change {
  return told({ ...job, removed: true }, now, { kind: 'removed' });
}

// ------------------------------------------------------------------------------------------ ending its programs

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
  const takenAt = takenForGoodAt(job, allocation);
  if (takenAt !== undefined && takenAt > now) wakeAt = earliest(wakeAt, takenAt);
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
  const isToStay = !letsGo(job, whatFollows(job, attempt, now), allocation);
  if (isToStay) return isOwned && isBeyondReach(view, attempt);
  // A re-apply has to take away what is still in use, so the program gets its grace there as everywhere.
  return isLost(allocation) || now >= killAt;
}

/**
 * When a silent worker is waited for no longer, although the cloud calls its machine ready: it will never confirm that its program
 * has ended. Undefined while all answer, and while the cloud itself is silent.
 *
 * | capacity | counts from | graces | then |
 * |---|---|---|---|
 * | owned, an attempt follows | the later of the ending and the silence | 1 | it is released |
 * | owned, the job settles | the same | `keptGraces` | it is released |
 * | standing (`standingGivenUpAt`) | the silence | `keptGraces` | its programs count as ended, and the job fails |
 * | standing, taken by the cloud (`takenForGoodAt`) | the loss | 1 | its programs count as ended |
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

function silentOne({ workers }: View): WorkerId | undefined {
  return workers.find(({ worker, isSilent }) => worker !== 'here' && isSilent)?.worker;
}

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
