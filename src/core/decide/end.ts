// Attempts: how the next one begins, how its programs are stopped, how it is closed, and what a finished job may keep.

import { addAllocation, capacityTraits, isLost, release, usableAllocation } from './allocate.ts';
import { chain, withEvents, unchanged, withAttempt } from '../model/decision.ts';
import type { Change, Action } from '../model/decision.ts';
import { allocationOf, workdirCopyOf, heldAllocations, lastAllocation } from '../model/job.ts';
import type { Allocation, Attempt, Evidence, Exit, Job, Finish, StartRequest } from '../model/job.ts';
import { stoppedVerdict, continuationOf, keptGraceFactor, persistentGiveUpAt } from './recover.ts';
import type { Continuation } from './recover.ts';
import type { FinishSpec, Reason, WorkerId } from '../model/spec.ts';
import { earliest, minute, clamp, inFuture, second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import { mayBeAlive, liveForeignRuns, lossGraceEnd } from './facts.ts';
import type { View, WorkerRun } from './facts.ts';
import { retryAt } from './prepare.ts';

// ------------------------------------------------------------------------------------------ the next attempt

/** The next attempt, on the allocation that can go on or on a new one. What cannot be used again is let go first. */
function addAttempt(
  job: Job,
  next: Pick<Attempt, 'startMode' | 'stage' | 'notBefore' | 'startedByOwner' | 'commandOnly'> & {
    readonly on: 'same' | 'new';
    /** Where a new allocation is asked for first; the first place of the spec when absent. */
    readonly alternative?: number;
  },
  now: Instant,
): Change {
  const { on, startMode, stage, notBefore, startedByOwner } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  // Steps are passed over only where they may hold: not on what has to be made first.
  const commandOnly = next.commandOnly === true && same !== undefined && same.readyAt !== null;
  const workdirCopy = workdirCopyOf(job);
  const withCopy = workdirCopy !== undefined && { workdirCopy };
  const prepared =
    same === undefined
      ? chain(releasePrevious(job, on, now), (after) => addAllocation(after, now, next.alternative))
      : unchanged(job);
  return chain(prepared, (after) => {
    const attempt: Attempt = {
      ordinal: after.attempts.length + 1,
      stage,
      startMode,
      startedByOwner,
      ...(commandOnly && { commandOnly: true }),
      ...withCopy,
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
    return withEvents({ ...after, attempts: [...after.attempts, attempt], startRequest: null }, now, {
      kind: 'attempt_created',
      attempt: ordinal,
      stage,
      startMode,
      startedByOwner,
      ...(commandOnly && { commandOnly: true }),
      ...withCopy,
      allocation,
      notBefore,
    });
  });
}

/** A persistent allocation is let go only where a rule says `new`, which for it means: apply for the same name again. */
function releasePrevious(job: Job, on: 'same' | 'new', now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined) return unchanged(job);
  const mayRelease =
    allocation.ownership === 'ephemeral' || (on === 'new' && capacityTraits(job.spec.capacity).replaceable);
  return mayRelease ? release(job, allocation.ordinal, 'a new one takes its place', now) : unchanged(job);
}

export function beginAttempt(job: Job, now: Instant): Change {
  const startMode: StartRequest['startMode'] =
    job.startRequest?.startMode ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = startMode === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  const commandOnly = job.startRequest?.commandOnly === true && { commandOnly: true as const };
  return addAttempt(job, { startMode, stage, notBefore: now, startedByOwner: true, on: 'same', ...commandOnly }, now);
}

// ------------------------------------------------------------------------------------------ the end of one

/** The reason stands from here; a later one does not replace it. `exitAt` is when the program ended, by its worker's word. */
export function beginEnding(
  job: Job,
  attempt: Attempt,
  { reason, evidence, exitAt }: { readonly reason: Reason; readonly evidence: Evidence; readonly exitAt?: Instant },
  now: Instant,
): Change {
  const since = exitAt === undefined ? now : plausibleEnd(exitAt, attempt, now);
  const ending = { reason, evidence, since, stopRequestedAt: null, stopConfirmedBy: [] };
  const next = withAttempt(job, attempt.ordinal, { ending });
  const extra = since === now ? {} : { since };
  return withEvents(next, now, { kind: 'attempt_ending', attempt: attempt.ordinal, reason, evidence, ...extra });
}

/** A worker's clock may be wrong: an end before the start, or in the future, was when it was seen. */
function plausibleEnd(exitAt: Instant, { startedAt, runningAt }: Attempt, now: Instant): Instant {
  if (startedAt === null || exitAt < startedAt || exitAt > now) return now;
  // It was seen running in the same moment, by a look that took a while to be written down.
  return Math.min(now, Math.max(exitAt, runningAt ?? startedAt));
}

/** When the last program of it ended, where every one has told so; now, where one was never heard of again. */
function lastExitTime({ runs, now }: View, attempt: Attempt): Instant {
  const exits = runs.map(({ run }) => (run.state === 'exited' ? run.endedAt : now));
  const since = attempt.ending?.since ?? now;
  return attempt.startedAt === null || exits.length === 0 ? now : plausibleEnd(Math.max(since, ...exits), attempt, now);
}

function exitsOf({ runs }: View): readonly Exit[] {
  const byExit = new Map<string, { exitCode: number; signal?: string; workers: WorkerId[] }>();
  for (const { worker, run } of runs) {
    if (run.state !== 'exited') continue;
    const { exitCode, signal } = run;
    const key = `${exitCode} ${signal ?? ''}`;
    const one = byExit.get(key) ?? { exitCode, ...(signal === undefined ? {} : { signal }), workers: [] };
    one.workers.push(worker);
    byExit.set(key, one);
  }
  return [...byExit.values()];
}

/** Closes the attempt and records what follows: the next one, or the end of the job. */
export function closeAttempt(view: View, attempt: Attempt): Change {
  const { job, now } = view;
  const { reason, evidence } = attempt.ending ?? { reason: 'stopped' as const, evidence: { detail: '' } };
  const continuation = continuationOf(job, attempt, now);
  const endedAt = lastExitTime(view, attempt);
  const exits = exitsOf(view);
  const withExits = exits.length > 0 && { exits };
  const ended = withAttempt(job, attempt.ordinal, { endedAt, ...withExits });
  const extra = { ...(endedAt === now ? {} : { endedAt }), ...withExits };
  const first = withEvents(ended, now, { kind: 'attempt_ended', attempt: attempt.ordinal, reason, evidence, ...extra });
  return chain(first, (next) => applyContinuation(next, attempt, reason, continuation, now));
}

function applyContinuation(
  job: Job,
  attempt: Attempt,
  reason: Reason,
  continuation: Continuation,
  now: Instant,
): Change {
  switch (continuation.next) {
    case 'start_request':
      return unchanged(job);
    case 'finish':
      return chain(recordRuleApplied(job, attempt, reason, continuation, now), (next) =>
        finishJob(next, continuation.verdict, reason, now),
      );
    case 'attempt': {
      const { startMode, stage, on, notBefore, alternative } = continuation;
      return chain(recordRuleApplied(job, attempt, reason, continuation, now), (next) =>
        addAttempt(next, { startMode, stage, on, notBefore, alternative, startedByOwner: false }, now),
      );
    }
  }
}

function recordRuleApplied(
  job: Job,
  attempt: Attempt,
  reason: Reason,
  { applied }: Exclude<Continuation, { next: 'start_request' }>,
  now: Instant,
): Change {
  if (applied === null) return unchanged(job);
  return withEvents(job, now, { kind: 'rule_applied', attempt: attempt.ordinal, reason, ...applied });
}

// ------------------------------------------------------------------------------------------ the job

function finishJob(job: Job, verdict: Finish['verdict'], reason: Reason, now: Instant): Change {
  const finish: Finish = { at: now, verdict, reason };
  return withEvents({ ...job, finish, startRequest: null }, now, { kind: 'finished', verdict, reason });
}

export function finishAsRequested(job: Job, now: Instant): Change {
  return finishJob(job, stoppedVerdict(job), 'stopped', now);
}

/** Whether a finished job keeps that capacity: after `stop` what is usable, after its end what its spec says. */
function isKept(
  job: Job,
  allocation: Allocation,
  verdict: Finish['verdict'] | undefined = job.finish?.verdict,
  now?: Instant,
): boolean {
  if (allocation.readyAt === null || isLost(allocation)) return false;
  if (job.desired === 'stopped') return true;
  if (job.desired !== 'running') return false;
  const keepFor = keepDuration(job.spec.finish, verdict);
  return job.finish === null || now === undefined ? keepFor !== 0 : keepFor === null || now < job.finish.at + keepFor;
}

/** When kept capacity is let go by itself; undefined when it is kept until somebody says so, or not at all. */
export function keptUntil(job: Job): Instant | undefined {
  if (job.desired !== 'running' || job.finish === null) return undefined;
  const keepFor = keepDuration(job.spec.finish, job.finish.verdict);
  return keepFor === null || keepFor === 0 ? undefined : job.finish.at + keepFor;
}

/** How long a job of that verdict keeps its capacity: not at all, so long, or (null) until somebody lets it go. */
function keepDuration(finish: FinishSpec, verdict: Finish['verdict'] | undefined): Duration | null {
  const kept = finish.capacity === 'keep' ? finish.keepFor : 0;
  const held = verdict === 'failed' ? (finish.holdOnFailure ?? 0) : 0;
  return kept === null ? null : Math.max(kept, held);
}

/** Releases what a finished job may not keep; takes a deleted job off the list once it holds nothing. */
export function tidyFinished(job: Job, now: Instant): Change & { readonly wakeAt: Instant | undefined } {
  if (job.removed) return { ...unchanged(job), wakeAt: undefined };
  const surplus = heldAllocations(job).filter(
    (one) => one.releasedAt === null && !isKept(job, one, job.finish?.verdict, now),
  );
  const tidied = chain(
    unchanged(job),
    ...surplus.map(
      ({ ordinal }) =>
        (next: Job) =>
          release(next, ordinal, surplusReleaseReason(job, ordinal), now),
    ),
  );
  const held = heldAllocations(tidied.job);
  if (job.desired === 'deleted' && held.length === 0)
    return { ...chain(tidied, (next) => remove(next, now)), wakeAt: undefined };
  const isKeeping = held.some((one) => one.releasedAt === null);
  // Kept capacity is looked at: it costs money, and what the cloud takes away must be let go of.
  const wakeAt = isKeeping ? earliest(now + minute, keptUntil(job)) : undefined;
  return { ...tidied, wakeAt };
}

function surplusReleaseReason(job: Job, ordinal: number): string {
  if (isLost(allocationOf(job, ordinal))) return 'it is lost';
  if (job.desired !== 'running') return 'the owner let it go';
  if (keepDuration(job.spec.finish, job.finish?.verdict) !== 0) return 'it was kept for as long as it was to be';
  return `the job has ${job.finish?.verdict ?? 'ended'}`;
}

/** Off the list; the rows stay for history. */
export function remove(job: Job, now: Instant): Change {
  return withEvents({ ...job, removed: true }, now, { kind: 'removed' });
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
  const since = attempt.ending?.stopRequestedAt ?? now;
  const killAt = since + job.spec.stop.grace;
  const changed = chain(unchanged(recordStopRequested(job, attempt, now)), (next) =>
    shouldRelease(view, attempt, allocation, killAt)
      ? release(next, allocation.ordinal, releaseReason(view, attempt), now)
      : unchanged(next),
  );
  const signal = now >= killAt ? 'kill' : 'stop';
  const actions: Action[] = [];
  let wakeAt: Instant | undefined = now + clamp(5 * second, (now - since) / 4, 30 * second);
  if (signal === 'stop') wakeAt = earliest(wakeAt, inFuture(killAt, now));
  const giveUpTime = giveUpAt(job, attempt, now);
  if (giveUpTime !== undefined && giveUpTime > now) wakeAt = earliest(wakeAt, giveUpTime);
  const lossGraceEndsAt = lossGraceEnd(job, allocation);
  if (lossGraceEndsAt !== undefined && lossGraceEndsAt > now) wakeAt = earliest(wakeAt, lossGraceEndsAt);
  // Where nothing was started nothing has to hear of the end: a silent worker is only waited for.
  const runs = attempt.startedAt === null ? [] : view.runs;
  for (const workerRun of runs) {
    if (!mayBeAlive(workerRun, attempt) || !canReceiveStop(workerRun, allocationOf(changed.job, allocation.ordinal)))
      continue;
    if (signal === 'stop' && attempt.ending?.stopConfirmedBy.includes(workerRun.worker) === true) continue;
    const dueAt = retryAt(job, attempt, { kind: 'stop', worker: workerRun.worker });
    if (dueAt > now) wakeAt = earliest(wakeAt, dueAt);
    else
      actions.push({
        kind: 'stop',
        attempt: attempt.ordinal,
        allocation: allocation.ordinal,
        worker: workerRun.worker,
        signal,
      });
  }
  return { ...changed, actions, wakeAt };
}

/** The grace counts from the first commit that asks. */
function recordStopRequested(job: Job, { ordinal, ending }: Attempt, now: Instant): Job {
  if (ending === null || ending.stopRequestedAt !== null) return job;
  return withAttempt(job, ordinal, { ending: { ...ending, stopRequestedAt: now } });
}

/** A machine that is lost or on its way out has nobody to hear a signal, unless it answers all the same. */
function canReceiveStop({ worker, status }: WorkerRun, allocation: Allocation): boolean {
  return worker === 'controller' || status !== undefined || (allocation.releasedAt === null && !isLost(allocation));
}

function shouldRelease(view: View, attempt: Attempt, allocation: Allocation, killAt: Instant): boolean {
  const { job, now } = view;
  const isEphemeral = allocation.ownership === 'ephemeral';
  // Its own capacity was recorded as an orphan when the job left the list.
  if (job.removed) return false;
  // Capacity that the cloud took is of no use, and counts against the quota until it is deleted.
  if (isEphemeral && isLost(allocation)) return true;
  const isToStay = !releasesAllocation(job, continuationOf(job, attempt, now), allocation);
  if (isToStay) return isEphemeral && isWorkerGivenUp(view, attempt);
  // A re-apply has to take away what is still in use, so the program gets its grace there as everywhere.
  return isLost(allocation) || now >= killAt;
}

/**
 * When a silent worker is waited for no longer, although the cloud calls its machine ready: it will never confirm that its program
 * has ended. Undefined while all answer, and while the cloud itself is silent.
 *
 * | capacity | counts from | graces | then |
 * |---|---|---|---|
 * | ephemeral, an attempt follows | the later of the ending and the silence | 1 | it is released |
 * | ephemeral, the job finishes | the same | `keptGraceFactor` | it is released |
 * | persistent (`persistentGiveUpAt`) | the silence | `keptGraceFactor` | its programs count as ended, and the job fails |
 * | persistent, taken by the cloud (`lossGraceEnd`) | the loss | 1 | its programs count as ended |
 */
export function giveUpAt(job: Job, attempt: Attempt, now: Instant): Instant | undefined {
  const { ownership, unreachableSince, unreachableWho } = allocationOf(job, attempt.allocation);
  if (ownership === 'persistent') return persistentGiveUpAt(job, attempt);
  if (attempt.ending === null || unreachableSince === null || unreachableWho !== 'worker') return undefined;
  const graces = continuationOf(job, attempt, now).next === 'finish' ? keptGraceFactor : 1;
  return Math.max(attempt.ending.since, unreachableSince) + graces * job.spec.recovery.unreachableGrace;
}

function isWorkerGivenUp(view: View, attempt: Attempt): boolean {
  const { job, now, observed } = view;
  const isReady = observed.kind === 'known' && observed.value.state === 'ready';
  const at = giveUpAt(job, attempt, now);
  return isReady && unreachableWorker(view) !== undefined && at !== undefined && now >= at;
}

function unreachableWorker({ workers }: View): WorkerId | undefined {
  return workers.find(({ worker, isUnreachable }) => worker !== 'controller' && isUnreachable)?.worker;
}

function releasesAllocation(job: Job, continuation: Continuation, allocation: Allocation): boolean {
  switch (continuation.next) {
    case 'start_request':
      return false;
    case 'attempt':
      return continuation.on === 'new';
    case 'finish':
      return allocation.ownership === 'ephemeral' && !isKept(job, allocation, continuation.verdict);
  }
}

function releaseReason(view: View, attempt: Attempt): string {
  const reason = attempt.ending?.reason ?? 'stopped';
  if (isLost(allocationOf(view.job, attempt.allocation))) return 'it is lost';
  if (isWorkerGivenUp(view, attempt)) return `worker ${unreachableWorker(view)} does not answer any more`;
  return view.job.desired === 'running' ? `attempt ${attempt.ordinal} ended: ${reason}` : 'the owner let it go';
}

/** Ends what is alive of other attempts, with the same patience; one that no record knows of is killed at once. */
export function stopForeignRuns(view: View): { readonly job: Job; readonly actions: readonly Action[] } {
  const { now } = view;
  let { job } = view;
  const actions: Action[] = [];
  for (const { worker, attempt: ordinal } of liveForeignRuns(view)) {
    const foreignAttempt = job.attempts[ordinal - 1];
    const ending = foreignAttempt?.ending ?? null;
    if (foreignAttempt !== undefined) job = recordStopRequested(job, foreignAttempt, now);
    const since = ending === null ? -Infinity : (ending.stopRequestedAt ?? now);
    const signal = now >= since + job.spec.stop.grace ? 'kill' : 'stop';
    if (signal === 'stop' && ending?.stopConfirmedBy.includes(worker) === true) continue;
    if (foreignAttempt !== undefined && retryAt(job, foreignAttempt, { kind: 'stop', worker }) > now) continue;
    actions.push({ kind: 'stop', attempt: ordinal, allocation: view.allocation?.ordinal ?? 1, worker, signal });
  }
  return { job, actions };
}
