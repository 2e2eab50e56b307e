// Facts: the conditions of the situation table, computed once per pass.

import {
  capacityTraits,
  capacityWaitEnd,
  isPermanent,
  isHidden,
  isBeingReplaced,
  isTakenBeforeFirstStart,
  lossErrorOf,
  mayCreate,
  nextCallAt,
  releasingAllocations,
} from './allocate.ts';
import { betterAlternativeOf, exhaustedAlternativeOf } from './alternatives.ts';
import { capacityOf, isLost, mayOutliveRemoval } from '../model/job.ts';
import type { Allocation, CloudError, Job, TaskFailure } from '../model/job.ts';
import { failedCallPatterns } from '../model/log-lines.ts';
import { hasSucceeded, type RunStatus } from '../model/observation.ts';
import { continuationOf, isOnHeldCapacity, lossGraceEnd, persistentGiveUpAt, unreachableGraceOf } from './recover.ts';
import { usedBudgetOf } from './spending.ts';
import { operationOf, type WorkerId } from '../model/spec.ts';
import { second, type Duration } from '../model/time.ts';
import { lastOutputAt, mayBeAlive, otherLiveRuns, unprovenWorkers } from './view.ts';
import type { AttemptView, View, WorkerRun } from './view.ts';

/** The facts by name, in the order of the rows that use them. A fact that is undefined does not hold. */
export type AttemptFacts = ReturnType<typeof attemptFacts>;

export function attemptFacts(view: AttemptView) {
  const { job, now, attempt, allocation, observed, runs } = view;
  const { maxRuntimeMs, silenceTimeoutMs } = job.spec.limits;
  const { readyAt, workers } = allocation;
  const hasStarted = attempt.startedAt !== null;
  // Judge no worker while another one is silent: the silent one may be the cause.
  const isJudged = hasStarted && runs.every(({ unreachableSince }) => unreachableSince === undefined);
  const capacityEnd = capacityWaitEnd(job, attempt);
  const lastOutput = lastOutputAt(runs);
  return {
    ...view,
    isEnding: attempt.ending !== null,
    isAnythingAlive: isAnythingAlive(view),
    isWorkerAwaited: isWorkerAwaited(view),
    // ---- the attempt must end, or needs other capacity
    hasCommandSucceeded: hasStarted && runs.length > 0 && runs.every(({ run }) => hasSucceeded(run)),
    lastExitAt: Math.max(...runs.map(({ run }) => (run.state === 'exited' ? run.endedAt : now))),
    // If there is a start request, the owner stopped the job and started it again before any pass saw the stop.
    isStopRequested: job.desired !== 'running' || job.startRequest !== null,
    // A rule made the attempt before the owner disabled recovery, and it has not started.
    isUnwantedRecovery: job.recoveryDisabled === true && !attempt.startedByOwner && !hasStarted,
    isPastMaxRuntime: attempt.runningAt !== null && maxRuntimeMs !== null && now >= attempt.runningAt + maxRuntimeMs,
    usedBudget: usedBudgetOf(view.budgets),
    isPastCapacityWait: readyAt === null && capacityEnd !== undefined && now >= capacityEnd,
    exhaustedAlternative: exhaustedAlternativeOf(view),
    refusal: refusalOf(allocation) ?? refusedReleaseOf(job),
    // Once the allocation was ready, every loss counts as a preemption, even a deletion by a user. Before, only a loss
    // that the cloud reports as a preemption does.
    wasPreempted:
      isLost(allocation) &&
      (readyAt !== null || (observed.kind === 'known' && observed.value.cause === 'preempted')) &&
      !isTakenBeforeFirstStart(job, allocation),
    isLost: isLost(allocation) && !isBeingReplaced(job, allocation),
    mayRequestAnother: !isPermanent(lossErrorOf(allocation).kind) && mayCreate(job, allocation),
    // A worker with neither process nor exit, including one that no longer knows a run that it had reported.
    vanishedRun: isJudged
      ? runs.find(
          ({ run: { state } }) =>
            state === 'vanished' || state === 'lost_start' || (state === 'none' && attempt.runningAt !== null),
        )
      : undefined,
    failedRun: isJudged ? findFailedRun(view) : undefined,
    hungRun: hasStarted ? findHungRun(view) : undefined,
    isPastSilenceTimeout:
      hasStarted && silenceTimeoutMs !== null && lastOutput !== undefined && now - lastOutput >= silenceTimeoutMs,
    workerPastGrace: findWorkerPastGrace(view),
    isOnReplaceableCapacity: allocation.ownership === 'ephemeral' && isOnHeldCapacity(job, attempt),
    exhaustedTask: attempt.failures.find((one) => one.task.kind !== 'stop' && areTriesExhausted(job, one)),
    runsOnNoWorker: workers !== null && runs.length === 0,
    missingWorker: runs.find(({ worker }) => workers !== null && worker !== 'controller' && worker >= workers)?.worker,
    // ---- the steps to a running command
    isOtherAttemptAlive: otherLiveRuns(view).length > 0,
    hasStarted,
    // After the attempt was seen running everywhere, a missing run means that the program vanished.
    unstartedWorkers: runs
      .filter(({ run }) => run.state === 'none' && attempt.runningAt === null)
      .map(({ worker }) => worker),
    // Every worker answers and has completed its setup steps.
    isPrepared: view.workers.every(({ status }) => status !== undefined) && unprovenWorkers(view).length === 0,
    isPreviousReleasing: releasingAllocations(job).length > 0,
    isHidden: isHidden(observed, allocation),
    betterAlternative: betterAlternativeOf(view),
    mayRequestNow: allocation.confirmedAt === null && mayCreate(job, allocation),
    nextRequestAt: nextCallAt(job, allocation),
  };
}

// ------------------------------------------------------------------------------------------ processes

/** True if a process of the attempt may be alive. */
function isAnythingAlive(view: AttemptView): boolean {
  const { job, now, attempt, allocation, runs } = view;
  if (attempt.startedAt === null) return false;
  const lossEnd = lossGraceEnd(job, allocation);
  const areSilentOnesEnded = (lossEnd !== undefined && now >= lossEnd) || isPersistentGivenUp(view);
  return runs.some(
    (workerRun) =>
      mayBeAlive(workerRun, attempt) &&
      !(areSilentOnesEnded && workerRun.worker !== 'controller' && workerRun.run.state === 'unknown'),
  );
}

/** True while the next attempt would need a worker that does not answer. `giveUpAt` limits the wait. */
function isWorkerAwaited(view: AttemptView): boolean {
  const { job, attempt, allocation, now } = view;
  if (attempt.ending?.reason !== 'unreachable' || longestUnreachableWorker(view) === undefined) return false;
  if (allocation.releasedAt !== null || isLost(allocation) || isPersistentGivenUp(view)) return false;
  const following = continuationOf(job, attempt, now);
  return following.next === 'attempt' && following.on === 'same';
}

/** True once a worker of a persistent allocation was silent until `persistentGiveUpAt`, and the cloud reports `ready`. */
function isPersistentGivenUp({ job, attempt, observedState, now }: AttemptView): boolean {
  const at = persistentGiveUpAt(job, attempt);
  return at !== undefined && now >= at && observedState === 'ready';
}

/**
 * True for a removed job while a program of it may be alive that only jobman can end. The slot and GPUs of a silent host are
 * not for the next job before that program has ended.
 */
export function mayRunAfterRemoval({ job, now, attempt, allocation, runs }: View): boolean {
  if (!job.removed || !mayOutliveRemoval(job) || attempt === undefined || allocation === undefined) return false;
  if (runs.some((workerRun) => workerRun.status !== undefined && mayBeAlive(workerRun, attempt))) return true;
  const isGivenUp = capacityTraits(job.spec.capacity).givenUpWhenSilent;
  if (!isGivenUp && runs.some(({ run }) => run.state === 'unknown')) return true;
  const since = removalGraceStart(job, allocation, now);
  return since === null || now < since + job.spec.recovery.unreachableGraceMs;
}

/** jobman does not record the silence of a released allocation, so the grace counts from the owner's command. */
function removalGraceStart(job: Job, { unreachableAt, releasedAt }: Allocation, now: number): number | null {
  if (releasedAt === null) return unreachableAt;
  // If the clock was set back, the time of the command may be in the future.
  return job.desiredAt > now ? releasedAt : job.desiredAt;
}

// ------------------------------------------------------------------------------------------ failures

type ExitedRun = Extract<RunStatus, { readonly state: 'exited' }>;

/** The first worker on which the command failed. Undefined while the cloud may still report a preemption instead. */
function findFailedRun(view: AttemptView): { readonly workerRun: WorkerRun; readonly run: ExitedRun } | undefined {
  for (const workerRun of view.runs) {
    const { run } = workerRun;
    if (run.state !== 'exited' || hasSucceeded(run)) continue;
    return awaitsPreemptionReport(view, workerRun, run) ? undefined : { workerRun, run };
  }
  return undefined;
}

/** The cloud reports a preemption at most this long after the program's exit. */
const preemptionReportWait: Duration = 30 * second;

/**
 * True while the cloud may still report a preemption: a program was killed there, or a program on this machine lost its
 * connection to it. A persistent TPU is shared, so a user may also have deleted it. The owner can end the wait.
 */
function awaitsPreemptionReport(view: AttemptView, workerRun: WorkerRun, run: ExitedRun): boolean {
  const { job, allocation, attempt, observed, observedState } = view;
  const isRevocable = capacityTraits(capacityOf(job, allocation)).revocable;
  if (!isRevocable && allocation.ownership !== 'persistent') return false;
  const wasKilled = run.signal !== undefined || run.exitCode === 143 || run.exitCode === 137;
  const hasLostConnection = workerRun.worker === 'controller' && hasFailedCall(workerRun);
  if (!wasKilled && !hasLostConnection) return false;
  if (observed.kind === 'unknown' || observedState !== 'ready') return true;
  if (!isRevocable || attempt.exitAcceptedAt !== undefined) return false;
  // Compare with the time of the cloud's answer, because the rest of this pass may have waited long for a silent
  // worker. The exit has the time of the worker's clock. If that clock is far off, do not wait.
  if (Math.abs(observed.observedAt - run.endedAt) < preemptionReportWait) return true;
  // An answer from before the exit does not explain it. Wait for one more pass only (`exitSeen`), because the worker's
  // clock may be ahead.
  return observed.observedAt < run.endedAt && attempt.exitSeen === undefined;
}

function hasFailedCall({ matched }: WorkerRun): boolean {
  return failedCallPatterns.includes(matched.pattern ?? '');
}

/** The worker searches its output only once it is silent, so an observed pattern is older than the silence. */
function findHungRun({ job, runs, now }: AttemptView): WorkerRun | undefined {
  const { failedCallTimeoutMs } = job.spec.limits;
  const last = lastOutputAt(runs);
  if (failedCallTimeoutMs === undefined || last === undefined || now - last < failedCallTimeoutMs) return undefined;
  return runs.find((one) => one.run.state === 'running' && hasFailedCall(one));
}

/**
 * A worker that has been silent for the grace period although the cloud reports it as ready. The grace runs only while
 * the cloud answers. No cloud reports on `controller`.
 */
function findWorkerPastGrace(view: AttemptView): WorkerId | undefined {
  const worker = longestUnreachableWorker(view);
  const { allocation, attempt, observed, observedState, job } = view;
  if (worker === undefined || observed.kind === 'unknown') return undefined;
  if (worker !== 'controller' && observedState !== 'ready') return undefined;
  if (allocation.unreachableWho !== 'worker' || allocation.unreachableAt === null) return undefined;
  // Compare with the time of the cloud's answer: a call to a silent worker takes long, and the cloud may have taken the
  // machine in the meantime.
  return observed.observedAt >= allocation.unreachableAt + unreachableGraceOf(job, attempt) ? worker : undefined;
}

function longestUnreachableWorker({ workers }: View): WorkerId | undefined {
  const since = (one: (typeof workers)[number]): number => one.unreachableSince ?? Infinity;
  const [longest] = workers.toSorted((one, other) => since(one) - since(other));
  return longest?.unreachableSince === undefined ? undefined : longest.worker;
}

function areTriesExhausted(job: Job, { tries, isFinal }: TaskFailure): boolean {
  return isFinal === true || tries >= Math.max(1, job.spec.limits.setupTries);
}

/** The permanent error of the release with which an operation begins. */
function refusedReleaseOf(job: Job): CloudError | undefined {
  if (operationOf(job.spec) === undefined) return undefined;
  const errors = releasingAllocations(job).flatMap(({ confirmedAt, lastError }) =>
    confirmedAt === null && lastError !== null ? [lastError.error] : [],
  );
  return errors.find(({ kind }) => isPermanent(kind));
}

/** The permanent error of a request that was never accepted. */
function refusalOf({ readyAt, confirmedAt, lastError }: Allocation): CloudError | undefined {
  if (readyAt !== null || confirmedAt !== null || lastError === null) return undefined;
  return isPermanent(lastError.error.kind) ? lastError.error : undefined;
}
