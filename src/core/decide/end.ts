// End: how an attempt ends and the next one begins, and which capacity a finished job keeps.

import { addAllocation, capacityTraits, isLost, release, usableAllocation } from './allocate.ts';
import { chain, withEvents, unchanged, withAttempt } from '../model/decision.ts';
import type { Change, Action, Decision } from '../model/decision.ts';
import { allocationOf, workdirCopyOf, heldAllocations, lastAllocation } from '../model/job.ts';
import type { Allocation, Attempt, Evidence, Exit, Job, Finish, StartRequest } from '../model/job.ts';
import { stoppedVerdict, continuationOf, keptGraceFactor, persistentGiveUpAt } from './recover.ts';
import type { Continuation } from './recover.ts';
import type { FinishSpec, Reason, WorkerId } from '../model/spec.ts';
import { earliest, minute, clamp, inFuture, second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import { mayBeAlive, otherLiveRuns, lossGraceEnd } from './facts.ts';
import type { View, WorkerRun } from './facts.ts';
import { retryAt } from './prepare.ts';

// ------------------------------------------------------------------------------------------ the next attempt

/** Adds the next attempt, on the newest allocation if it is usable and otherwise on a new one. */
function addAttempt(
  job: Job,
  next: Pick<Attempt, 'startMode' | 'stage' | 'notBeforeAt' | 'startedByOwner' | 'commandOnly'> & {
    readonly on: 'same' | 'new';
    /** The alternative that a new allocation tries first. Absent: the spec's own. */
    readonly alternative?: number;
  },
  now: Instant,
): Change {
  const { on, startMode, stage, notBeforeAt, startedByOwner } = next;
  const same = on === 'same' ? usableAllocation(job) : undefined;
  // The setup steps are skipped only on an allocation that may be set up already.
  const commandOnly = next.commandOnly === true && same !== undefined && same.readyAt !== null;
  const workdirCopy = workdirCopyOf(job);
  const withCopy = workdirCopy !== undefined && { workdirCopy };
  const prepared =
    same === undefined
      ? chain(releasePrevious(job, on, now), (after) => addAllocation(after, now, next.alternative))
      : unchanged(job);
  return chain(prepared, (after) => {
    const ordinal = after.attempts.length + 1;
    const begin = { stage, startMode, startedByOwner, ...(commandOnly && { commandOnly: true as const }), ...withCopy };
    const recorded = { ...begin, allocation: after.allocations.length, notBeforeAt };
    const open = { failures: [], startedAt: null, runningAt: null, ending: null, endedAt: null };
    const attempt: Attempt = { ordinal, ...recorded, createdAt: now, ...open };
    const event = { kind: 'attempt_created', attempt: ordinal, ...recorded } as const;
    return withEvents({ ...after, attempts: [...after.attempts, attempt], startRequest: null }, now, event);
  });
}

/** Only a rule with `new` releases a persistent allocation, which is then requested again under the same name. */
function releasePrevious(job: Job, on: 'same' | 'new', now: Instant): Change {
  const allocation = lastAllocation(job);
  if (allocation === undefined) return unchanged(job);
  const mayRelease =
    allocation.ownership === 'ephemeral' || (on === 'new' && capacityTraits(job.spec.capacity).replaceable);
  return mayRelease ? release(job, allocation.ordinal, 'a new allocation replaces it', now) : unchanged(job);
}

export function beginAttempt(job: Job, now: Instant): Change {
  const startMode: StartRequest['startMode'] =
    job.startRequest?.startMode ?? (job.attempts.length === 0 ? 'fresh' : 'resume');
  const lastStarted = job.attempts.findLast((attempt) => attempt.startedAt !== null);
  const stage = startMode === 'resume' && lastStarted !== undefined ? lastStarted.stage + 1 : 0;
  const commandOnly = job.startRequest?.commandOnly === true && { commandOnly: true as const };
  return addAttempt(job, { startMode, stage, notBeforeAt: now, startedByOwner: true, on: 'same', ...commandOnly }, now);
}

// ------------------------------------------------------------------------------------------ the end of an attempt

/** Records the reason, which never changes later. `exitAt` is the exit time of the program, as its worker reports it. */
export function beginEnding(
  job: Job,
  attempt: Attempt,
  { reason, evidence, exitAt }: { readonly reason: Reason; readonly evidence: Evidence; readonly exitAt?: Instant },
  now: Instant,
): Change {
  const startedAt = exitAt === undefined ? now : plausibleEnd(exitAt, attempt, now);
  const ending = { reason, evidence, startedAt, stopRequestedAt: null, stopConfirmedBy: [] };
  const next = withAttempt(job, attempt.ordinal, { ending });
  const extra = startedAt === now ? {} : { programEndedAt: startedAt };
  return withEvents(next, now, { kind: 'attempt_ending', attempt: attempt.ordinal, reason, evidence, ...extra });
}

/** A worker's clock may be wrong. An end before the start or in the future is replaced by now. */
function plausibleEnd(exitAt: Instant, { startedAt, runningAt }: Attempt, now: Instant): Instant {
  if (startedAt === null || exitAt < startedAt || exitAt > now) return now;
  // The observation that saw it running may be stored later than the exit.
  return Math.min(now, Math.max(exitAt, runningAt ?? startedAt));
}

/** The exit time of the attempt's last program; now if a worker reported no exit. */
function lastExitTime({ runs, now }: View, attempt: Attempt): Instant {
  const exits = runs.map(({ run }) => (run.state === 'exited' ? run.endedAt : now));
  const since = attempt.ending?.startedAt ?? now;
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
  const { reason, evidence } = attempt.ending ?? { reason: 'stopped' as const, evidence: { message: '' } };
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
        addAttempt(next, { startMode, stage, on, notBeforeAt: notBefore, alternative, startedByOwner: false }, now),
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

/** True if the job keeps this capacity: usable capacity after `stop`, otherwise as the manifest says. */
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

/** Time at which kept capacity is released. Undefined if it is kept until a user releases it, or not kept. */
export function keptUntil(job: Job): Instant | undefined {
  if (job.desired !== 'running' || job.finish === null) return undefined;
  const keepFor = keepDuration(job.spec.finish, job.finish.verdict);
  return keepFor === null || keepFor === 0 ? undefined : job.finish.at + keepFor;
}

/** Null: until a user releases it. */
function keepDuration(finish: FinishSpec, verdict: Finish['verdict'] | undefined): Duration | null {
  const kept = finish.capacity === 'keep' ? finish.keepForMs : 0;
  const held = verdict === 'failed' ? (finish.holdOnFailureMs ?? 0) : 0;
  return kept === null ? null : Math.max(kept, held);
}

/** Releases capacity that a finished job may not keep. Removes a deleted job from the list once it holds nothing. */
export function cleanUpFinished(job: Job, now: Instant): Change & { readonly wakeAt: Instant | undefined } {
  if (job.removed) return { ...unchanged(job), wakeAt: undefined };
  const surplus = heldAllocations(job).filter(
    (one) => one.releasedAt === null && !isKept(job, one, job.finish?.verdict, now),
  );
  const released = chain(
    unchanged(job),
    ...surplus.map((one) => (next: Job) => release(next, one.ordinal, surplusReleaseReason(job, one), now)),
  );
  const held = heldAllocations(released.job);
  if (job.desired === 'deleted' && held.length === 0)
    return { ...chain(released, (next) => removeFromList(next, now)), wakeAt: undefined };
  const isKeeping = held.some((one) => one.releasedAt === null);
  // Kept capacity is observed because it costs money, and must be released if the cloud takes it.
  const wakeAt = isKeeping ? earliest(now + minute, keptUntil(job)) : undefined;
  return { ...released, wakeAt };
}

function surplusReleaseReason(job: Job, allocation: Allocation): string {
  if (isLost(allocation)) return 'it is lost';
  if (job.desired !== 'running') return 'requested by the owner';
  if (keepDuration(job.spec.finish, job.finish?.verdict) !== 0) return 'its keep time is over';
  return `the job has ${job.finish?.verdict ?? 'finished'}`;
}

/** The rows stay for history. */
export function removeFromList(job: Job, now: Instant): Change {
  return withEvents({ ...job, removed: true }, now, { kind: 'removed' });
}

// ------------------------------------------------------------------------------------------ stopping processes

/**
 * Stops the processes of an ending attempt: each gets the stop signal once and is killed after the grace. Capacity that
 * is not needed any more is released, at once if it is unusable and otherwise after the grace.
 */
export function stopAttempt(view: View, attempt: Attempt): Decision {
  const { job, now } = view;
  const allocation = allocationOf(job, attempt.allocation);
  const since = attempt.ending?.stopRequestedAt ?? now;
  const killAt = since + job.spec.stop.graceMs;
  const changed = chain(unchanged(recordStopRequested(job, attempt, now)), (next) =>
    shouldRelease(view, attempt, allocation, killAt)
      ? release(next, allocation.ordinal, releaseReason(view, attempt), now)
      : unchanged(next),
  );
  const signal = now >= killAt ? 'kill' : 'stop';
  const actions: Action[] = [];
  let wakeAt: Instant | undefined = now + clamp(5 * second, (now - since) / 4, 30 * second);
  if (signal === 'stop') wakeAt = earliest(wakeAt, inFuture(killAt, now));
  for (const limit of [giveUpAt(job, attempt, now), lossGraceEnd(job, allocation)])
    if (limit !== undefined && limit > now) wakeAt = earliest(wakeAt, limit);
  const runs = attempt.startedAt === null ? [] : view.runs;
  for (const workerRun of runs) {
    if (!mayBeAlive(workerRun, attempt) || !canReceiveStop(workerRun, allocationOf(changed.job, allocation.ordinal)))
      continue;
    if (signal === 'stop' && attempt.ending?.stopConfirmedBy.includes(workerRun.worker) === true) continue;
    const dueAt = retryAt(job, attempt, { kind: 'stop', worker: workerRun.worker });
    const { worker } = workerRun;
    if (dueAt > now) wakeAt = earliest(wakeAt, dueAt);
    else actions.push({ kind: 'stop', attempt: attempt.ordinal, allocation: allocation.ordinal, worker, signal });
  }
  return { ...changed, actions, wakeAt };
}

function recordStopRequested(job: Job, { ordinal, ending }: Attempt, now: Instant): Job {
  if (ending === null || ending.stopRequestedAt !== null) return job;
  return withAttempt(job, ordinal, { ending: { ...ending, stopRequestedAt: now } });
}

/** Workers of a lost or released allocation get a signal only if they still answer. */
function canReceiveStop({ worker, status }: WorkerRun, allocation: Allocation): boolean {
  return worker === 'controller' || status !== undefined || (allocation.releasedAt === null && !isLost(allocation));
}

function shouldRelease(view: View, attempt: Attempt, allocation: Allocation, killAt: Instant): boolean {
  const { job, now } = view;
  const isEphemeral = allocation.ownership === 'ephemeral';
  // When the job left the list, its capacity was recorded as an orphan.
  if (job.removed) return false;
  // Capacity that the cloud took counts against the quota until it is deleted.
  if (isEphemeral && isLost(allocation)) return true;
  const isToStay = !releasesAllocation(job, continuationOf(job, attempt, now), allocation);
  if (isToStay) return isEphemeral && isWorkerGivenUp(view, attempt);
  // The program gets its grace first, also before a persistent TPU is created again.
  return isLost(allocation) || now >= killAt;
}

/**
 * The end of the wait for a silent worker that the cloud reports as ready: it will never confirm that its program has
 * ended. Undefined while all workers answer, and while the cloud does not answer.
 *
 * | capacity | counts from | graces | then |
 * |---|---|---|---|
 * | ephemeral, an attempt follows | the later of the ending and the silence | 1 | it is released |
 * | ephemeral, the job finishes | the same | `keptGraceFactor` | it is released |
 * | persistent (`persistentGiveUpAt`) | the silence | `keptGraceFactor` | its programs count as ended, and the job fails |
 * | persistent, taken by the cloud (`lossGraceEnd`) | the loss | 1 | its programs count as ended |
 */
export function giveUpAt(job: Job, attempt: Attempt, now: Instant): Instant | undefined {
  const { ownership, unreachableAt, unreachableWho } = allocationOf(job, attempt.allocation);
  if (ownership === 'persistent') return persistentGiveUpAt(job, attempt);
  if (attempt.ending === null || unreachableAt === null || unreachableWho !== 'worker') return undefined;
  const graces = continuationOf(job, attempt, now).next === 'finish' ? keptGraceFactor : 1;
  return Math.max(attempt.ending.startedAt, unreachableAt) + graces * job.spec.recovery.unreachableGraceMs;
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
  return view.job.desired === 'running' ? `attempt ${attempt.ordinal} ended: ${reason}` : 'requested by the owner';
}

/** Stops the processes of other attempts, with the same grace. A process of an unknown attempt is killed at once. */
export function stopOtherRuns(view: View): { readonly job: Job; readonly actions: readonly Action[] } {
  const { now } = view;
  let { job } = view;
  const actions: Action[] = [];
  for (const { worker, attempt: ordinal } of otherLiveRuns(view)) {
    const attempt = job.attempts[ordinal - 1];
    const ending = attempt?.ending ?? null;
    if (attempt !== undefined) job = recordStopRequested(job, attempt, now);
    const since = ending === null ? -Infinity : (ending.stopRequestedAt ?? now);
    const signal = now >= since + job.spec.stop.graceMs ? 'kill' : 'stop';
    if (signal === 'stop' && ending?.stopConfirmedBy.includes(worker) === true) continue;
    if (attempt !== undefined && retryAt(job, attempt, { kind: 'stop', worker }) > now) continue;
    actions.push({ kind: 'stop', attempt: ordinal, allocation: view.allocation?.ordinal ?? 1, worker, signal });
  }
  return { job, actions };
}
