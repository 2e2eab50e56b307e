// End: an attempt that must end. A pass records the reason, stops its processes, releases capacity that is not needed any
// more and closes the attempt, which adds the next one or finishes the job.

import { addAttempt } from './advance.ts';
import { release } from './allocate.ts';
import { requestedBy } from './evidence.ts';
import { cleanUp, finishJob, keepsAtFinish } from './finish.ts';
import { chain, recheckNow, withoutEvents, withAttempt, withEvents } from '../model/decision.ts';
import type { Action, Decision } from '../model/decision.ts';
import { allocationOf, isLost } from '../model/job.ts';
import type { Allocation, Attempt, Ending, Evidence, Exit, Job } from '../model/job.ts';
import { continuationOf, endingOf, giveUpAt, lossGraceEnd } from './recover.ts';
import type { Reason, WorkerId } from '../model/spec.ts';
import { clamp, earliest, second, type Instant } from '../model/time.ts';
import { mayBeAlive, nextTryAt, otherLiveRuns, type AttemptView, type View, type WorkerRun } from './view.ts';

/** Records the reason, which never changes later. `exitAt` is the exit time of the program, as its worker reports it. */
export function endAttempt(
  { job, now, attempt }: AttemptView,
  reason: Reason,
  evidence: Evidence,
  exitAt: Instant = now,
): Decision {
  const startedAt = plausibleEnd(exitAt, attempt, now);
  const ending = { reason, evidence, startedAt, stopRequestedAt: null, stopConfirmedBy: [] };
  const next = withAttempt(job, attempt.ordinal, { ending });
  const programEnd = startedAt === now ? {} : { programEndedAt: startedAt };
  const event = { kind: 'attempt_ending', attempt: attempt.ordinal, reason, evidence, ...programEnd } as const;
  return recheckNow(withEvents(next, now, event), now);
}

/** A worker's clock may be wrong. An end before the start or in the future is replaced by now. */
function plausibleEnd(exitAt: Instant, { startedAt, runningAt }: Attempt, now: Instant): Instant {
  if (startedAt === null || exitAt < startedAt || exitAt > now) return now;
  // `runningAt` is the time of the pass that saw it running, which may be later than the exit.
  return Math.min(now, Math.max(exitAt, runningAt ?? startedAt));
}

// ------------------------------------------------------------------------------------------ stopping processes

/**
 * Stops the processes of an ending attempt, and releases its allocation once nothing needs it. Each process gets the stop
 * signal once and is killed after the grace, which a worker that did not answer gets in full.
 */
export function stopAttempt(view: AttemptView): Decision {
  const { job, now, attempt, runs } = view;
  const { ordinal } = attempt;
  const ending = endingOf(job, attempt);
  const requestedAt = ending.stopRequestedAt ?? now;
  // The stop grace of the programs comes before the release.
  const releaseAt = Math.max(requestedAt, ...(ending.stopSentAt ?? []).map(({ at }) => at)) + job.spec.stop.graceMs;
  const changed = chain(withoutEvents(recordStopRequested(job, attempt, now)), (next) =>
    shouldRelease(view, releaseAt)
      ? release(next, attempt.allocation, { message: releaseReason(view) }, now)
      : withoutEvents(next),
  );
  const allocation = allocationOf(changed.job, attempt.allocation);
  const tries = runs
    .filter(
      (workerRun) =>
        attempt.startedAt !== null && mayBeAlive(workerRun, attempt) && canReceiveStop(workerRun, allocation),
    )
    .map(({ worker }) => ({
      worker,
      ...signalFor(job, ending, worker, now),
      dueAt: nextTryAt(job, attempt, { kind: 'stop', worker }),
    }));
  const unsent = tries.filter(({ signal }) => signal !== null);
  const limits = [
    giveUpAt(job, attempt, now),
    lossGraceEnd(job, view.allocation),
    releaseAt,
    ...tries.map(({ killAt }) => killAt),
    ...unsent.map(({ dueAt }) => dueAt),
  ];
  return {
    ...changed,
    actions: tries.flatMap(({ worker, signal, dueAt }) =>
      signal !== null && dueAt <= now
        ? [{ kind: 'stop', attempt: ordinal, allocation: attempt.allocation, worker, signal } as const]
        : [],
    ),
    wakeAt: earliest(
      now + clamp(5 * second, (now - requestedAt) / 4, 30 * second),
      ...limits.filter((at) => at !== undefined && at > now),
    ),
  };
}

/** The signal that a worker needs next: null during the grace of a confirmed stop. */
function signalFor(
  { spec }: Job,
  ending: Ending,
  worker: WorkerId,
  now: Instant,
): { readonly signal: 'stop' | 'kill' | null; readonly killAt?: Instant } {
  if (spec.stop.graceMs === 0) return { signal: 'kill' };
  const isConfirmed = ending.stopConfirmedBy.includes(worker);
  // An attempt of an earlier version has no times.
  const earlier = isConfirmed ? ending.stopRequestedAt : null;
  const sentAt = ending.stopSentAt?.find((one) => one.worker === worker)?.at ?? earlier;
  if (sentAt === null) return { signal: 'stop' };
  const killAt = sentAt + spec.stop.graceMs;
  if (now >= killAt) return { signal: 'kill' };
  return { signal: isConfirmed ? null : 'stop', killAt };
}

function recordStopRequested(job: Job, { ordinal, ending }: Attempt, now: Instant): Job {
  if (ending === null || ending.stopRequestedAt !== null) return job;
  return withAttempt(job, ordinal, { ending: { ...ending, stopRequestedAt: now } });
}

/** Workers of a lost or released allocation get a signal only if they still answer. */
function canReceiveStop({ worker, status, isElsewhere }: WorkerRun, allocation: Allocation): boolean {
  if (isElsewhere === true) return false;
  return worker === 'controller' || status !== undefined || (allocation.releasedAt === null && !isLost(allocation));
}

/** Stops the processes of other attempts, with the same grace. A process of an unknown attempt is killed at once. */
export function stopOtherRuns(view: AttemptView): Decision {
  const { now, allocation } = view;
  let { job } = view;
  const actions: Action[] = [];
  for (const { worker, attempt: ordinal } of otherLiveRuns(view)) {
    const attempt = job.attempts[ordinal - 1];
    if (attempt !== undefined) job = recordStopRequested(job, attempt, now);
    const ending = attempt?.ending ?? null;
    const signal = ending === null ? 'kill' : signalFor(job, ending, worker, now).signal;
    if (signal === null) continue;
    if (attempt !== undefined && nextTryAt(job, attempt, { kind: 'stop', worker }) > now) continue;
    actions.push({ kind: 'stop', attempt: ordinal, allocation: allocation.ordinal, worker, signal });
  }
  return { ...withoutEvents(job), actions, wakeAt: now + 5 * second };
}

// ------------------------------------------------------------------------------------------ releasing capacity

function shouldRelease(view: AttemptView, releaseAt: Instant): boolean {
  const { job, now, allocation } = view;
  const isEphemeral = allocation.ownership === 'ephemeral';
  // When the job left the list, its capacity was recorded as an orphan.
  if (job.removed) return false;
  // Capacity that the cloud took counts against the quota until it is deleted.
  if (isEphemeral && isLost(allocation)) return true;
  if (!isNoLongerNeeded(job, view.attempt, now)) return isEphemeral && isEphemeralGivenUp(view);
  return isLost(allocation) || now >= releaseAt;
}

/** True if the next attempt needs other capacity, or the finished job keeps none. */
export function isNoLongerNeeded(job: Job, attempt: Attempt, now: Instant): boolean {
  const allocation = allocationOf(job, attempt.allocation);
  const continuation = continuationOf(job, attempt, now);
  switch (continuation.next) {
    case 'start_request':
      return false;
    case 'attempt':
      return continuation.on === 'new';
    case 'finish':
      return allocation.ownership === 'ephemeral' && !keepsAtFinish(job, allocation, continuation.verdict);
  }
}

/** True once a worker of an ephemeral allocation was silent until `giveUpAt`, and the cloud reports `ready`. */
function isEphemeralGivenUp(view: AttemptView): boolean {
  const { job, now, attempt, observedState } = view;
  const at = giveUpAt(job, attempt, now);
  return observedState === 'ready' && unreachableWorker(view) !== undefined && at !== undefined && now >= at;
}

function unreachableWorker({ workers }: View): WorkerId | undefined {
  return workers.find(({ worker, unreachableSince }) => worker !== 'controller' && unreachableSince !== undefined)
    ?.worker;
}

function releaseReason(view: AttemptView): string {
  const { job, attempt, allocation } = view;
  if (isLost(allocation)) return 'it is lost';
  if (isEphemeralGivenUp(view)) return `worker ${unreachableWorker(view)} does not answer any more`;
  if (job.desired !== 'running') return requestedBy(job).message;
  return `attempt ${attempt.ordinal} ended: ${endingOf(job, attempt).reason}`;
}

// ------------------------------------------------------------------------------------------ closing the attempt

/** Records the end of the attempt and what follows: the next one, or the end of the job. */
export function closeAttempt(view: AttemptView): Decision {
  const { job, now, attempt } = view;
  const { ordinal } = attempt;
  const { reason, evidence } = endingOf(job, attempt);
  const continuation = continuationOf(job, attempt, now);
  const endedAt = lastExitTime(view);
  const exits = exitsOf(view);
  const withExits = exits.length > 0 && { exits };
  const ended = withAttempt(job, ordinal, { endedAt, ...withExits });
  const extra = { ...(endedAt === now ? {} : { endedAt }), ...withExits };
  const closed = withEvents(ended, now, { kind: 'attempt_ended', attempt: ordinal, reason, evidence, ...extra });
  if (continuation.next === 'start_request') return recheckNow(closed, now);
  const { applied } = continuation;
  const answered = chain(closed, (next) =>
    applied === null
      ? withoutEvents(next)
      : withEvents(next, now, { kind: 'rule_applied', attempt: ordinal, reason, ...applied }),
  );
  if (continuation.next === 'attempt') {
    const { startMode, stage, on, alternative, notBeforeAt } = continuation;
    const following = { startMode, stage, on, alternative, notBeforeAt, startedByOwner: false };
    return recheckNow(
      chain(answered, (next) => addAttempt(next, following, now)),
      now,
    );
  }
  // The finished job releases its surplus capacity in the same pass.
  return cleanUp(
    chain(answered, (next) => finishJob(next, continuation.verdict, reason, now)),
    view.budgets,
    now,
  );
}

/** The exit time of the attempt's last program; now if a worker reported no exit. */
function lastExitTime({ runs, now, attempt }: AttemptView): Instant {
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
