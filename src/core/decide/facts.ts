// Facts: the conditions of the situation table. They are computed from a view: a job together with its observation.

import {
  openAttempt,
  lastAllocation,
  allocationOf,
  commandWorkers,
  mayOutliveRemoval,
  capacityOf,
} from '../model/job.ts';
import type { Allocation, Attempt, Job, CloudError, CapacityAnswer } from '../model/job.ts';
import { unknown, hasSucceeded } from '../model/observation.ts';
import type {
  AllocationStatus,
  Observed,
  Observation,
  AlternativeAnswer,
  RunStatus,
  WorkerStatus,
} from '../model/observation.ts';
import type { WorkerId } from '../model/spec.ts';
import { minute, second } from '../model/time.ts';
import type { Duration, Instant } from '../model/time.ts';
import {
  capacityTraits,
  capacityWaitEnd,
  isUnobservable,
  isLost,
  isPermanent,
  releasingAllocations,
  lossErrorOf,
  mayCreate,
  nextCallAt,
} from './allocate.ts';
import { matchedPattern } from './evidence.ts';
import { hasAlternatives, nextAlternative, exhaustsAlternative, alternativeAfter } from './alternatives.ts';
import type { NextAlternative } from './alternatives.ts';
import { failedCallPatterns } from '../model/log-lines.ts';
import { areTriesExhausted, unprovenWorkers } from './prepare.ts';
import { isOnHeldCapacity, unreachableGraceOf, persistentGiveUpAt, continuationOf } from './recover.ts';

/** One job with its observation at one time. */
export interface View {
  /** The observation is already folded in. */
  readonly job: Job;
  readonly now: Instant;
  readonly admitted: boolean;
  readonly attempt: Attempt | undefined;
  /** The allocation of the open attempt, or the newest one if no attempt is open. */
  readonly allocation: Allocation | undefined;
  readonly observed: Observed<AllocationStatus>;
  /** The workers of that allocation in order, and `controller` if the command runs there. Empty until it was ready. */
  readonly workers: readonly WorkerView[];
  /** The workers that run the command of the attempt. */
  readonly runs: readonly WorkerRun[];
  readonly observationOf: (allocation: number) => Observed<AllocationStatus>;
  /** The newest answers of the spec's alternatives to any job; see `Observation`. */
  readonly alternativeAnswers: Observed<readonly AlternativeAnswer[]> | undefined;
}

interface WorkerView {
  readonly worker: WorkerId;
  /** Undefined if it did not answer or was not asked. */
  readonly status: WorkerStatus | undefined;
  /** True if it was asked and did not answer. */
  readonly isUnreachable: boolean;
  /** Start of the silence. Undefined while it answers, or if it was not asked. */
  readonly unreachableSince: Instant | undefined;
}

/** A worker that runs the attempt's command, and the state of its run there. */
export interface WorkerRun extends WorkerView {
  readonly run: WorkerRunStatus;
}

/**
 * unknown: no observation. none: the worker answers and has no run of this attempt. gone: the worker no longer exists.
 * lost_start: the run folder exists, but its process never started. The others are as the worker reports them.
 */
type WorkerRunStatus = { readonly state: 'unknown' | 'none' | 'gone' | 'lost_start' } | RunStatus;

/** If a run folder has no process for this long, its creator died before it started the program. */
const startTimeout: Duration = 2 * minute;

export function viewOf(job: Job, observation: Observation, now: Instant): View {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? lastAllocation(job) : allocationOf(job, attempt.allocation);
  const observationOf = (ordinal: number): Observed<AllocationStatus> =>
    observation.allocations.find((one) => one.allocation === ordinal)?.observed ?? unknown('not observed', now);
  const observed =
    allocation === undefined ? unknown('the job has no allocation', now) : observationOf(allocation.ordinal);
  const workers = allocation === undefined ? [] : workerViews(job, allocation, observation);
  const runs =
    attempt === undefined || allocation === undefined
      ? []
      : commandWorkers(job.spec.command, allocation.workers ?? 0).map((worker): WorkerRun => {
          const unobserved = { worker, status: undefined, isUnreachable: false, unreachableSince: undefined };
          const view = workers.find((one) => one.worker === worker) ?? unobserved;
          return { ...view, run: runStatusOf(view, attempt, allocation, now) };
        });
  const { admitted, alternativeAnswers } = observation;
  return { job, now, admitted, attempt, allocation, observed, workers, runs, observationOf, alternativeAnswers };
}

function workerViews(job: Job, allocation: Allocation, observation: Observation): readonly WorkerView[] {
  const numbered = Array.from({ length: allocation.workers ?? 0 }, (_, index): WorkerId => index);
  const all: readonly WorkerId[] = job.spec.command.runsOn === 'controller' ? [...numbered, 'controller'] : numbered;
  return all.map((worker) => {
    const observed = observation.workers.find(
      (one) => one.worker === worker && (worker === 'controller' || one.allocation === allocation.ordinal),
    )?.observed;
    return {
      worker,
      status: observed?.kind === 'known' ? observed.value : undefined,
      isUnreachable: observed?.kind === 'unknown',
      unreachableSince: observed?.kind === 'unknown' ? observed.since : undefined,
    };
  });
}

function runStatusOf(
  { worker, status }: WorkerView,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): WorkerRunStatus {
  if (worker !== 'controller' && allocation.goneAt !== null) return { state: 'gone' };
  if (status === undefined) return { state: 'unknown' };
  const run = status.runs.find((one) => one.attempt === attempt.ordinal);
  if (run === undefined) return { state: 'none' };
  return hasStartTimedOut(run, now) ? { state: 'lost_start' } : run;
}

function hasStartTimedOut(run: RunStatus, now: Instant): boolean {
  return run.state === 'starting' && Math.abs(now - run.since) > startTimeout;
}

/** True unless it is known that no process of the attempt is alive there. */
export function mayBeAlive(workerRun: WorkerRun, attempt: Attempt): boolean {
  switch (workerRun.run.state) {
    case 'gone':
    case 'exited':
    case 'vanished':
      return false;
    case 'unknown':
    case 'starting':
    case 'running':
      return true;
    case 'none':
    case 'lost_start':
      // A start may still be in progress, until the worker has confirmed a stop.
      return attempt.ending === null || !attempt.ending.stopConfirmedBy.includes(workerRun.worker);
  }
}

/** Live runs of other attempts, on workers that answer. */
export function otherLiveRuns(view: View): readonly { readonly worker: WorkerId; readonly attempt: number }[] {
  return view.workers.flatMap(({ worker, status }) =>
    (status?.runs ?? [])
      .filter((run) => run.attempt !== view.attempt?.ordinal && isOtherRunAlive(view, run, worker))
      .map((run) => ({ worker, attempt: run.attempt })),
  );
}

function isOtherRunAlive({ job, now }: View, run: RunStatus, worker: WorkerId): boolean {
  if (run.state !== 'running' && run.state !== 'starting') return false;
  const wasStopped = job.attempts[run.attempt - 1]?.ending?.stopConfirmedBy.includes(worker) === true;
  return !(hasStartTimedOut(run, now) && wasStopped);
}

function longestUnreachableWorker(view: View): WorkerId | undefined {
  const unreachable = view.workers.filter((one) => one.isUnreachable);
  const began = Math.min(...unreachable.map(({ unreachableSince }) => unreachableSince ?? Infinity));
  return unreachable.find(({ unreachableSince }) => (unreachableSince ?? Infinity) === began)?.worker;
}

/** Time of the attempt's newest output. Undefined if nothing runs, or if one run cannot be observed. */
export function lastOutputAt(runs: readonly WorkerRun[]): Instant | undefined {
  const times: Instant[] = [];
  for (const { run } of runs) {
    if (run.state === 'running') times.push(run.outputAt);
    else if (run.state === 'exited') times.push(run.endedAt);
    else return undefined;
  }
  return runs.some(({ run }) => run.state === 'running') ? Math.max(...times) : undefined;
}

// ------------------------------------------------------------------------------------------ facts of the open attempt

/** A view with an open attempt and its allocation. */
export interface AttemptView extends View {
  readonly attempt: Attempt;
  readonly allocation: Allocation;
}

/** The facts by name. A fact that is undefined does not hold. */
export type AttemptFacts = ReturnType<typeof attemptFacts>;

export type ExitedRun = Extract<RunStatus, { readonly state: 'exited' }>;

export function attemptFacts(view: AttemptView) {
  const { job, now, attempt, allocation, observed, runs } = view;
  const { maxRuntimeMs, silenceTimeoutMs } = job.spec.limits;
  const hasStarted = attempt.startedAt !== null;
  const isAllocationLost = isLost(allocation);
  const workers = allocation.workers;
  const capacityEnd = capacityWaitEnd(job, attempt);
  const lastOutput = lastOutputAt(runs);
  const isHidden = isUnobservable(observed, allocation);
  return {
    ...view,
    isEnding: attempt.ending !== null,
    hasStarted,
    isAnythingAlive: isAnythingAlive(view),
    isWorkerAwaited: isWorkerAwaited(view),
    hasSucceeded: hasStarted && runs.length > 0 && runs.every(({ run }) => hasSucceeded(run)),
    lastExitAt: Math.max(...runs.map(({ run }) => (run.state === 'exited' ? run.endedAt : now))),
    // With a start request, the owner stopped and started the job before any pass saw the stop.
    isStopRequested: job.desired !== 'running' || job.startRequest !== null,
    // A rule made the attempt before the owner disabled recovery, and it has not started.
    isUnwantedRecovery: job.recoveryDisabled === true && !attempt.startedByOwner && attempt.startedAt === null,
    isPastMaxRuntime: attempt.runningAt !== null && maxRuntimeMs !== null && now >= attempt.runningAt + maxRuntimeMs,
    isPastCapacityWait: allocation.readyAt === null && capacityEnd !== undefined && now >= capacityEnd,
    exhaustedAlternative: exhaustedAlternativeOf(view),
    refusal: refusalOf(allocation),
    isLost: isAllocationLost,
    // Before the allocation was ready, a loss counts as a preemption only if the cloud reports one.
    wasPreempted:
      isAllocationLost &&
      (allocation.readyAt !== null || (observed.kind === 'known' && observed.value.cause === 'preempted')),
    mayRequestAnother: !isPermanent(lossErrorOf(allocation).kind) && mayCreate(job, allocation),
    vanishedRun: hasStarted ? findVanishedRun(view) : undefined,
    failedRun: hasStarted ? findFailedRun(view) : undefined,
    hungRun: hasStarted ? findHungRun(view) : undefined,
    isPastSilenceTimeout:
      hasStarted && silenceTimeoutMs !== null && lastOutput !== undefined && now - lastOutput >= silenceTimeoutMs,
    workerPastGrace: findWorkerPastGrace(view),
    isOnReplaceableCapacity: allocation.ownership === 'ephemeral' && isOnHeldCapacity(job, attempt),
    exhaustedTask: attempt.failures.find((one) => one.task.kind !== 'stop' && areTriesExhausted(job, one)),
    runsOnNoWorker: workers !== null && runs.length === 0,
    missingWorker: runs.find(({ worker }) => workers !== null && worker !== 'controller' && worker >= workers)?.worker,
    isOtherAttemptAlive: otherLiveRuns(view).length > 0,
    // After the attempt was seen running everywhere, a missing run means that the program vanished.
    unstartedWorkers: runs
      .filter(({ run }) => run.state === 'none' && attempt.runningAt === null)
      .map(({ worker }) => worker),
    isPrepared: isPrepared(view),
    isPreviousReleasing: releasingAllocations(job).length > 0,
    isUnknown: observed.kind === 'unknown' && !isHidden,
    isUnobservable: isHidden,
    betterAlternative: betterAlternativeOf(view),
    isAbsent: observed.kind === 'known' && observed.value.state === 'absent',
    isReady: observed.kind === 'known' && observed.value.state === 'ready',
    mayRequestNow: allocation.confirmedAt === null && mayCreate(job, allocation),
    nextRequestAt: nextCallAt(job, allocation),
  };
}

// ------------------------------------------------------------------------------------------ processes

/** True if a process of the attempt may be alive. */
function isAnythingAlive(view: AttemptView): boolean {
  const { attempt } = view;
  if (attempt.startedAt === null) return false;
  const isPresumedEnded = ({ worker, run }: WorkerRun): boolean =>
    worker !== 'controller' && run.state === 'unknown' && (isPastLossGrace(view) || isAbandoned(view));
  return view.runs.some((workerRun) => mayBeAlive(workerRun, attempt) && !isPresumedEnded(workerRun));
}

/** True while the next attempt would need a worker that does not answer. `giveUpAt` (end.ts) limits the wait. */
function isWorkerAwaited(view: AttemptView): boolean {
  const { job, attempt, allocation, now } = view;
  if (attempt.ending?.reason !== 'unreachable' || longestUnreachableWorker(view) === undefined) return false;
  if (allocation.releasedAt !== null || isLost(allocation) || isAbandoned(view)) return false;
  const following = continuationOf(job, attempt, now);
  return following.next === 'attempt' && following.on === 'same';
}

/**
 * The cloud took a persistent allocation: the time from which its silent programs count as ended. jobman does not
 * release it, so no observation will prove that it is gone. Undefined if the cloud did not take it.
 */
export function lossGraceEnd(job: Job, allocation: Allocation): Instant | undefined {
  if (allocation.ownership !== 'persistent' || allocation.releasedAt !== null) return undefined;
  return isLost(allocation) && allocation.lastObserved !== null
    ? allocation.lastObserved.at + job.spec.recovery.unreachableGraceMs
    : undefined;
}

function isPastLossGrace({ job, allocation, now }: AttemptView): boolean {
  const at = lossGraceEnd(job, allocation);
  return at !== undefined && now >= at;
}

/** True once a worker of a persistent allocation was silent until the give-up time, although the cloud reports `ready`. */
function isAbandoned({ job, attempt, observed, now }: AttemptView): boolean {
  const at = persistentGiveUpAt(job, attempt);
  return at !== undefined && now >= at && observed.kind === 'known' && observed.value.state === 'ready';
}

/** True for a removed job while a program of it may be alive that only jobman can end. */
export function mayRunAfterRemoval(view: View): boolean {
  return view.job.removed && mayOutliveRemoval(view.job) && !isUnreachableForGood(view);
}

function isUnreachableForGood({ job, now, attempt, allocation, runs }: View): boolean {
  if (attempt === undefined || allocation === undefined) return false;
  // jobman does not record the silence of a released allocation, so the grace counts from the owner's command. If the
  // clock was set back and that time is in the future, it counts from the release.
  const { unreachableAt, releasedAt } = allocation;
  const since = releasedAt === null ? unreachableAt : job.desiredAt > now ? releasedAt : job.desiredAt;
  if (since === null) return false;
  const isAnswering = runs.some((workerRun) => workerRun.status !== undefined && mayBeAlive(workerRun, attempt));
  return !isAnswering && now >= since + job.spec.recovery.unreachableGraceMs;
}

// ------------------------------------------------------------------------------------------ failures

/** A worker with neither process nor exit, including one that no longer knows a run that it had reported. */
function findVanishedRun({ runs, attempt }: AttemptView): WorkerRun | undefined {
  // Judge no worker while one is silent: the silent one may be the cause.
  if (runs.some(({ isUnreachable }) => isUnreachable)) return undefined;
  return runs.find(
    ({ run }) =>
      run.state === 'vanished' || run.state === 'lost_start' || (run.state === 'none' && attempt.runningAt !== null),
  );
}

/** The first worker on which the command failed. Undefined while the cloud may still report a preemption instead. */
function findFailedRun(view: AttemptView): { readonly workerRun: WorkerRun; readonly run: ExitedRun } | undefined {
  const { runs } = view;
  if (runs.some(({ isUnreachable }) => isUnreachable)) return undefined;
  for (const workerRun of runs) {
    const { run } = workerRun;
    if (run.state !== 'exited' || hasSucceeded(run)) continue;
    return mayBePreempted(view, workerRun, run) ? undefined : { workerRun, run };
  }
  return undefined;
}

/** The cloud reports a preemption at most this long after the program's exit. */
const preemptionReportWait: Duration = 30 * second;

/**
 * True if the cloud may soon report a preemption: a program was killed there, or a program on this machine lost its
 * connection to it. A persistent TPU is shared, so a user may also have deleted it.
 */
function mayBePreempted(
  { job, allocation, attempt, observed }: AttemptView,
  workerRun: WorkerRun,
  run: ExitedRun,
): boolean {
  const capacity = capacityOf(job, allocation);
  const isRevocable = capacityTraits(capacity).revocable;
  if (!isRevocable && capacity.ownership !== 'persistent') return false;
  const wasKilled = run.signal !== undefined || run.exitCode === 143 || run.exitCode === 137;
  const hasLostConnection =
    workerRun.worker === 'controller' && failedCallPatterns.includes(matchedPattern(workerRun, attempt).pattern ?? '');
  if (!wasKilled && !hasLostConnection) return false;
  if (observed.kind === 'unknown' || observed.value.state !== 'ready') return true;
  // Compare with the time of the cloud's answer, because the rest of this pass may have waited long for a silent
  // worker. The exit has the time of the worker's clock. If that clock is far off, do not wait.
  const isSoon = Math.abs(observed.observedAt - run.endedAt) < preemptionReportWait;
  // An answer from before the exit does not explain it. Wait for one more pass only (`exitSeen`), because the worker's
  // clock may be ahead.
  const isOlder = observed.observedAt < run.endedAt && attempt.exitSeen === undefined;
  return isRevocable && (isSoon || isOlder) && attempt.exitAcceptedAt === undefined;
}

/** The worker searches its output only once it is silent, so an observed pattern is older than the silence. */
function findHungRun({ job, attempt, runs, now }: AttemptView): WorkerRun | undefined {
  const { failedCallTimeoutMs } = job.spec.limits;
  const last = lastOutputAt(runs);
  if (failedCallTimeoutMs === undefined || last === undefined || now - last < failedCallTimeoutMs) return undefined;
  return runs.find(
    (one) => one.run.state === 'running' && failedCallPatterns.includes(matchedPattern(one, attempt).pattern ?? ''),
  );
}

/**
 * A worker that has been silent for the grace period although the cloud reports it as ready. The grace runs only while
 * the cloud answers. No cloud reports on `controller`.
 */
function findWorkerPastGrace(view: AttemptView): WorkerId | undefined {
  const worker = longestUnreachableWorker(view);
  const { allocation, attempt, observed, job } = view;
  if (worker === undefined || observed.kind === 'unknown') return undefined;
  if (worker !== 'controller' && observed.value.state !== 'ready') return undefined;
  if (allocation.unreachableWho !== 'worker' || allocation.unreachableAt === null) return undefined;
  // Compare with the time of the cloud's answer: a call to a silent worker takes long, and the cloud may have taken the
  // machine in the meantime.
  return observed.observedAt >= allocation.unreachableAt + unreachableGraceOf(job, attempt) ? worker : undefined;
}

/** Every worker answers and has completed its setup steps. */
function isPrepared(view: AttemptView): boolean {
  return view.workers.every(({ status }) => status !== undefined) && unprovenWorkers(view).length === 0;
}

// ------------------------------------------------------------------------------------------ capacity

/** The permanent error of a request that was never accepted. */
function refusalOf({ readyAt, confirmedAt, lastError }: Allocation): CloudError | undefined {
  if (readyAt !== null || confirmedAt !== null || lastError === null) return undefined;
  return isPermanent(lastError.error.kind) ? lastError.error : undefined;
}

/** The answer of the current alternative, if it has no capacity to give, and the next alternative. */
function exhaustedAlternativeOf(
  view: AttemptView,
): { readonly answer: CapacityAnswer; readonly next: NextAlternative } | undefined {
  const answer = capacityAnswerOf(view);
  if (answer === undefined) return undefined;
  const next = alternativeAfter(view.job, view.attempt, answer, view.alternativeAnswers, view.now);
  return next === undefined ? undefined : { answer, next };
}

/** Undefined for other errors: the request is sent to the same alternative again. */
function capacityAnswerOf({ job, now, observed, allocation }: AttemptView): CapacityAnswer | undefined {
  if (allocation.ownership === 'persistent' || !hasAlternatives(job)) return undefined;
  const { readyAt, requestedAt, releasedAt, confirmedAt, lastError, hasUnansweredRequest } = allocation;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  const kind = lastError?.error.kind;
  const isRefused = confirmedAt === null || isLost(allocation);
  // Without permission jobman can neither list nor delete there. If a request may have gone through, the refusal ends
  // the attempt.
  if (kind !== undefined && isPermanent(kind) && isRefused && hasUnansweredRequest === true) return undefined;
  const isHidden = isUnobservable(observed, allocation);
  const isSure = observed.kind === 'known' || isHidden || (kind !== undefined && isPermanent(kind));
  if (kind !== undefined && isRefused && exhaustsAlternative(kind) && isSure) return kind;
  const waitEnd = alternativeWaitEnd(job, allocation);
  if (waitEnd === undefined || now < waitEnd || (observed.kind === 'unknown' && !isHidden)) return undefined;
  // An accepted allocation may be missing from one list, so two lists must miss it first. A request without an answer
  // (its process was killed, or its reply was lost) is sent again before the wait counts.
  const isAnswered = lastError !== null && (hasUnansweredRequest !== true || lastError.at >= waitEnd);
  const state = observed.kind === 'known' ? observed.value.state : 'absent';
  const isMissed = state === 'absent' && confirmedAt === null && isAnswered;
  return state === 'waiting' || isMissed ? 'waiting' : undefined;
}

/** End of the wait in the current alternative. Undefined if it has no limit or nothing is requested. */
export function alternativeWaitEnd(job: Job, allocation: Allocation): Instant | undefined {
  const { capacity } = job.spec;
  const { readyAt, requestedAt, releasedAt, confirmedAt } = allocation;
  if (capacity.kind !== 'tpu' || capacity.alternativesWaitMs === undefined || !hasAlternatives(job)) return undefined;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  // Count from the acceptance, because an old request may have been accepted only now.
  return (confirmedAt ?? requestedAt) + capacity.alternativesWaitMs;
}

/** The alternative to request first, if it is not the current one and nothing was requested yet. */
function betterAlternativeOf({
  job,
  attempt,
  allocation,
  alternativeAnswers,
  now,
}: AttemptView): NextAlternative | undefined {
  if (allocation.requestedAt !== null || !hasAlternatives(job)) return undefined;
  const next = nextAlternative(job, attempt, alternativeAnswers, now);
  return next?.alternative === (allocation.alternative ?? 0) ? undefined : next;
}
