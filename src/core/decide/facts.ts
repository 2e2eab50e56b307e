// Facts: the answers to the questions of the situation table. They come from a view: the record together with the
// observation.

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
  lossError,
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
  /** The record, with the observation already folded in. */
  readonly job: Job;
  readonly now: Instant;
  readonly admitted: boolean;
  readonly attempt: Attempt | undefined;
  /** The allocation of the open attempt, or the newest one if no attempt is open. */
  readonly allocation: Allocation | undefined;
  readonly observed: Observed<AllocationStatus>;
  /**
   * The workers of that allocation in order, and `controller` if the command runs on this machine. Empty until it was
   * ready.
   */
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

/** A run folder without a process for this long: the process that made it died before it started the program. */
const startTimeout: Duration = 2 * minute;

/** The job must already have the observation folded in. */
export function viewOf(job: Job, observation: Observation, now: Instant): View {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? lastAllocation(job) : allocationOf(job, attempt.allocation);
  const observationOf = (ordinal: number): Observed<AllocationStatus> =>
    observation.allocations.find((one) => one.allocation === ordinal)?.observed ?? unknown('not looked at', now);
  const observed = allocation === undefined ? unknown('there is none', now) : observationOf(allocation.ordinal);
  const workers = allocation === undefined ? [] : workerViews(job, allocation, observation);
  const runs =
    attempt === undefined || allocation === undefined
      ? []
      : commandWorkers(job.spec.command, allocation.workers ?? 0).map((worker) =>
          workerRunOf(workers, worker, attempt, allocation, now),
        );
  const { admitted, alternativeAnswers } = observation;
  return { job, now, admitted, attempt, allocation, observed, workers, runs, observationOf, alternativeAnswers };
}

function workerViews(job: Job, allocation: Allocation, observation: Observation): readonly WorkerView[] {
  const numbered = Array.from({ length: allocation.workers ?? 0 }, (_, index): WorkerId => index);
  const all: readonly WorkerId[] = job.spec.command.runsOn === 'controller' ? [...numbered, 'controller'] : numbered;
  return all.map((worker) => {
    // This machine belongs to no allocation. A numbered worker belongs to its own allocation only.
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

function workerRunOf(
  workers: readonly WorkerView[],
  worker: WorkerId,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): WorkerRun {
  const view = workers.find((one) => one.worker === worker) ?? {
    worker,
    status: undefined,
    isUnreachable: false,
    unreachableSince: undefined,
  };
  return { ...view, run: runStatusOf(view, attempt, allocation, now) };
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
      // A start may still be in progress there. A confirmed stop from the same worker came after it.
      return attempt.ending === null || !attempt.ending.stopConfirmedBy.includes(workerRun.worker);
  }
}

/** Live runs of other attempts, on workers that answer. */
export function liveForeignRuns(view: View): readonly { readonly worker: WorkerId; readonly attempt: number }[] {
  return view.workers.flatMap(({ worker, status }) =>
    (status?.runs ?? [])
      .filter((run) => run.attempt !== view.attempt?.ordinal && isForeignRunAlive(view, run, worker))
      .map((run) => ({ worker, attempt: run.attempt })),
  );
}

function isForeignRunAlive({ job, now }: View, run: RunStatus, worker: WorkerId): boolean {
  if (run.state !== 'running' && run.state !== 'starting') return false;
  const wasStopped = job.attempts[run.attempt - 1]?.ending?.stopConfirmedBy.includes(worker) === true;
  return !(hasStartTimedOut(run, now) && wasStopped);
}

/** Of the silent workers, the one that has been silent for longest. */
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

// ------------------------------------------------------------------------------------------ the facts of an attempt under way

/** A view with an open attempt and its allocation. */
export interface AttemptView extends View {
  readonly attempt: Attempt;
  readonly allocation: Allocation;
}

/** The facts by name. A fact that is undefined does not hold. */
export type AttemptFacts = ReturnType<typeof attemptFacts>;

export type ExitedRun = Extract<RunStatus, { readonly state: 'exited' }>;

/** The facts of the open attempt. */
export function attemptFacts(view: AttemptView) {
  const { job, now, attempt, allocation, observed, runs } = view;
  const { maxRuntime, silenceTimeout } = job.spec.limits;
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
    // A process of the attempt may be alive.
    isAnythingAlive: isAnythingAlive(view),
    // The next attempt needs a worker that is silent and not given up yet.
    isWorkerAwaited: isWorkerAwaited(view),
    hasSucceeded: hasStarted && runs.length > 0 && runs.every(({ run }) => hasSucceeded(run)),
    // Exit time of the last program that has exited.
    lastExitAt: Math.max(...runs.map(({ run }) => (run.state === 'exited' ? run.endedAt : now))),
    // A start request newer than the attempt means a stop and a start before any pass saw the stop.
    isStopRequested: job.desired !== 'running' || job.startRequest !== null,
    // A rule made the attempt before the owner disabled recovery, and it has not started.
    isUnwantedRecovery: job.recoveryDisabled === true && !attempt.startedByOwner && attempt.startedAt === null,
    isPastMaxRuntime: attempt.runningAt !== null && maxRuntime !== null && now >= attempt.runningAt + maxRuntime,
    isPastCapacityWait: allocation.readyAt === null && capacityEnd !== undefined && now >= capacityEnd,
    // The answer of the present alternative, which has nothing to give, and the next alternative.
    exhaustedAlternative: exhaustedAlternativeOf(view),
    // The permanent error of a request that was never accepted.
    refusal: refusalOf(allocation),
    isLost: isAllocationLost,
    // The cloud took the allocation: any loss after it was ready; before that, only if the cloud reports it.
    wasPreempted:
      isAllocationLost &&
      (allocation.readyAt !== null || (observed.kind === 'known' && observed.value.cause === 'preempted')),
    // Another request may succeed, and the job may send one.
    mayRequestAnother: !isPermanent(lossError(allocation).kind) && mayCreate(job, allocation),
    // A worker where the command was started, and that has neither its process nor its exit.
    vanishedRun: hasStarted ? findVanishedRun(view) : undefined,
    // A worker where the command failed, once no better explanation can come.
    failedRun: hasStarted ? findFailedRun(view) : undefined,
    // A worker with a failed call between workers in the output, and no output since for
    // `LimitsSpec.failedCallTimeout`.
    hungRun: hasStarted ? findHungRun(view) : undefined,
    isPastSilenceTimeout:
      hasStarted && silenceTimeout !== null && lastOutput !== undefined && now - lastOutput >= silenceTimeout,
    // A worker that was silent for longer than the grace, although the cloud reports the allocation as ready.
    workerPastGrace: findWorkerPastGrace(view),
    // The owner's new attempt uses capacity that was kept for the job and can be replaced.
    isOnReplaceableCapacity: allocation.ownership === 'ephemeral' && isOnHeldCapacity(job, attempt),
    // A setup step, or the start of the command, without tries left on one worker.
    exhaustedTask: attempt.failures.find((one) => one.task.kind !== 'stop' && areTriesExhausted(job, one)),
    runsOnNoWorker: workers !== null && runs.length === 0,
    // A worker that the command names and the allocation does not have.
    missingWorker: runs.find(({ worker }) => workers !== null && worker !== 'controller' && worker >= workers)?.worker,
    isOtherAttemptAlive: liveForeignRuns(view).length > 0,
    // Workers without a run of an attempt that was never seen running everywhere.
    unstartedWorkers: runs
      .filter(({ run }) => run.state === 'none' && attempt.runningAt === null)
      .map(({ worker }) => worker),
    // Every worker answers, and all its steps are proven.
    isPrepared: isPrepared(view),
    isPreviousReleasing: releasingAllocations(job).length > 0,
    isUnknown: observed.kind === 'unknown' && !isHidden,
    // The cloud refuses to show this allocation, and no request for it was confirmed.
    isUnobservable: isHidden,
    // The alternative to request first, if it is not the present one and nothing was requested yet.
    betterAlternative: betterAlternativeOf(view),
    isAbsent: observed.kind === 'known' && observed.value.state === 'absent',
    isReady: observed.kind === 'known' && observed.value.state === 'ready',
    // No request is confirmed, and the job may send one.
    mayRequestNow: allocation.confirmedAt === null && mayCreate(job, allocation),
    nextRequestAt: nextCallAt(job, allocation),
  };
}

// ------------------------------------------------------------------------------------------ what is alive

function isAnythingAlive(view: AttemptView): boolean {
  const { attempt } = view;
  if (attempt.startedAt === null) return false;
  const isPresumedEnded = ({ worker, run }: WorkerRun): boolean =>
    worker !== 'controller' && run.state === 'unknown' && (isPastLossGrace(view) || isAbandoned(view));
  return view.runs.some((workerRun) => mayBeAlive(workerRun, attempt) && !isPresumedEnded(workerRun));
}

/** True while the next attempt needs a silent worker: it would fail there too. `giveUpAt` (end.ts) limits the wait. */
function isWorkerAwaited(view: AttemptView): boolean {
  const { job, attempt, allocation, now } = view;
  if (attempt.ending?.reason !== 'unreachable' || longestUnreachableWorker(view) === undefined) return false;
  if (allocation.releasedAt !== null || isLost(allocation) || isAbandoned(view)) return false;
  const following = continuationOf(job, attempt, now);
  return following.next === 'attempt' && following.on === 'same';
}

/**
 * Time from which the silent programs of a persistent allocation count as ended, after the cloud took it: without a
 * release, no observation proves that it is gone. Undefined if the cloud did not take it.
 */
export function lossGraceEnd(job: Job, allocation: Allocation): Instant | undefined {
  if (allocation.ownership !== 'persistent' || allocation.releasedAt !== null) return undefined;
  return isLost(allocation) && allocation.lastObserved !== null
    ? allocation.lastObserved.at + job.spec.recovery.unreachableGrace
    : undefined;
}

function isPastLossGrace({ job, allocation, now }: AttemptView): boolean {
  const at = lossGraceEnd(job, allocation);
  return at !== undefined && now >= at;
}

/**
 * True for a persistent allocation that the cloud reports as ready, with a worker that was silent until the give-up
 * time.
 */
function isAbandoned({ job, attempt, observed, now }: AttemptView): boolean {
  const at = persistentGiveUpAt(job, attempt);
  return at !== undefined && now >= at && observed.kind === 'known' && observed.value.state === 'ready';
}

/**
 * True for a removed job with a program that may be alive and that only we can end, until all its workers were silent
 * for the grace.
 */
export function mayRunAfterRemoval(view: View): boolean {
  return view.job.removed && mayOutliveRemoval(view.job) && !isUnreachableForGood(view);
}

function isUnreachableForGood({ job, now, attempt, allocation, runs }: View): boolean {
  if (attempt === undefined || allocation === undefined) return false;
  // The silence of a released allocation is not recorded. Its wait begins with the owner's command; if that time is in
  // the future because the clock was set back, with the release.
  const { unreachableSince, releasedAt } = allocation;
  const since = releasedAt === null ? unreachableSince : job.desiredAt > now ? releasedAt : job.desiredAt;
  if (since === null) return false;
  const isAnswering = runs.some((workerRun) => workerRun.status !== undefined && mayBeAlive(workerRun, attempt));
  return !isAnswering && now >= since + job.spec.recovery.unreachableGrace;
}

// ------------------------------------------------------------------------------------------ how it failed

/** No process and no exit. This includes a run that was seen before and that its worker no longer knows. */
function findVanishedRun({ runs, attempt }: AttemptView): WorkerRun | undefined {
  // Judge no worker while one is silent: the silent one may be the cause.
  if (runs.some(({ isUnreachable }) => isUnreachable)) return undefined;
  return runs.find(
    ({ run }) =>
      run.state === 'vanished' || run.state === 'lost_start' || (run.state === 'none' && attempt.runningAt !== null),
  );
}

/** The lowest worker that failed. A program that was just killed on revocable capacity waits for the cloud's report. */
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

/** Longest delay of the cloud's report of a preemption after the exit. */
const preemptionReportWait: Duration = 30 * second;

/**
 * True if the cloud may soon report a preemption: a program was just killed there, or a program on this machine has
 * just lost its connection to it. While the cloud does not answer or does not report it as ready, nothing can be
 * decided, and nothing could start either. A persistent TPU is shared: if the cloud did not take it, a user may have
 * deleted it.
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
  // Compare with the time of the cloud's answer: the rest of this pass may have waited long for a silent worker. The
  // exit has the time of the worker's clock: a clock that is far off is no reason to wait.
  const isSoon = Math.abs(observed.observedAt - run.endedAt) < preemptionReportWait;
  // An answer from before the exit says nothing about it. The next pass has a later one, so wait only once
  // (`exitSeen`): the worker's clock may be ahead.
  const isOlder = observed.observedAt < run.endedAt && attempt.exitSeen === undefined;
  return isRevocable && (isSoon || isOlder) && attempt.exitAcceptedAt === undefined;
}

/** The worker searches its output only after the silence, so a pattern in the observation is from before it. */
function findHungRun({ job, attempt, runs, now }: AttemptView): WorkerRun | undefined {
  const { failedCallTimeout } = job.spec.limits;
  const last = lastOutputAt(runs);
  if (failedCallTimeout === undefined || last === undefined || now - last < failedCallTimeout) return undefined;
  return runs.find(
    (one) => one.run.state === 'running' && failedCallPatterns.includes(matchedPattern(one, attempt).pattern ?? ''),
  );
}

/** The grace runs only while the cloud answers. `controller` has no cloud that reports on it. */
function findWorkerPastGrace(view: AttemptView): WorkerId | undefined {
  const worker = longestUnreachableWorker(view);
  const { allocation, attempt, observed, job } = view;
  if (worker === undefined || observed.kind === 'unknown') return undefined;
  if (worker !== 'controller' && observed.value.state !== 'ready') return undefined;
  if (allocation.unreachableWho !== 'worker' || allocation.unreachableSince === null) return undefined;
  // Compare with the time of the cloud's answer: a call to a silent worker takes long, and the cloud may have taken the
  // machine since.
  return observed.observedAt >= allocation.unreachableSince + unreachableGraceOf(job, attempt) ? worker : undefined;
}

function isPrepared(view: AttemptView): boolean {
  return view.workers.every(({ status }) => status !== undefined) && unprovenWorkers(view).length === 0;
}

// ------------------------------------------------------------------------------------------ capacity

function refusalOf({ readyAt, confirmedAt, lastError }: Allocation): CloudError | undefined {
  if (readyAt !== null || confirmedAt !== null || lastError === null) return undefined;
  return isPermanent(lastError.error.kind) ? lastError.error : undefined;
}

function exhaustedAlternativeOf(
  view: AttemptView,
): { readonly answer: CapacityAnswer; readonly next: NextAlternative } | undefined {
  const answer = capacityAnswerOf(view);
  const next =
    answer === undefined
      ? undefined
      : alternativeAfter(view.job, view.attempt, answer, view.alternativeAnswers, view.now);
  return answer === undefined || next === undefined ? undefined : { answer, next };
}

/** The answer of an alternative that has nothing to give. Other errors leave the request there. */
function capacityAnswerOf({ job, now, observed, allocation }: AttemptView): CapacityAnswer | undefined {
  if (allocation.ownership === 'persistent' || !hasAlternatives(job)) return undefined;
  const { readyAt, requestedAt, releasedAt, confirmedAt, lastError, hasUnansweredRequest } = allocation;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  const kind = lastError?.error.kind;
  const isRefused = confirmedAt === null || isLost(allocation);
  // Without permission we can neither list nor delete there. If a request may have gone through, the refusal ends the
  // attempt.
  if (kind !== undefined && isPermanent(kind) && isRefused && hasUnansweredRequest === true) return undefined;
  const isHidden = isUnobservable(observed, allocation);
  const isSure = observed.kind === 'known' || isHidden || (kind !== undefined && isPermanent(kind));
  if (kind !== undefined && isRefused && exhaustsAlternative(kind) && isSure) return kind;
  const waitEnd = alternativeWaitEnd(job, allocation);
  if (waitEnd === undefined || now < waitEnd || (observed.kind === 'unknown' && !isHidden)) return undefined;
  // A list may lack an allocation that exists, so an accepted one must be missed twice first. Without any answer (the
  // process that sent the request was killed) the request is sent again before the wait counts; after a lost reply,
  // once more.
  const isAnswered = lastError !== null && (hasUnansweredRequest !== true || lastError.at >= waitEnd);
  const state = observed.kind === 'known' ? observed.value.state : 'absent';
  const isMissed = state === 'absent' && confirmedAt === null && isAnswered;
  return state === 'waiting' || isMissed ? 'waiting' : undefined;
}

/** Time at which the wait in the present alternative ends. Undefined if it has no limit or nothing is requested. */
export function alternativeWaitEnd(job: Job, allocation: Allocation): Instant | undefined {
  const { capacity } = job.spec;
  const { readyAt, requestedAt, releasedAt, confirmedAt } = allocation;
  if (capacity.kind !== 'tpu' || capacity.alternativesWait === undefined || !hasAlternatives(job)) return undefined;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  // Count from the acceptance: an old request may have been accepted only now.
  return (confirmedAt ?? requestedAt) + capacity.alternativesWait;
}

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
