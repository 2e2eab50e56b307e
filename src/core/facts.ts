// Facts: the questions that the table of situations asks, answered from a view, which is the record and the observation side
// by side.

import { openAttempt, lastAllocation, allocationOf, commandWorkers, outlivesRemoval, capacityOf } from './job.ts';
import type { Allocation, Attempt, Job, CloudError, PlaceAnswer } from './job.ts';
import { unknown, hasSucceeded } from './observation.ts';
import type { AllocationSeen, Fact, Observation, PlaceSaid, RunSeen, WorkerSeen } from './observation.ts';
import type { WorkerId } from './spec.ts';
import { minute, second } from './time.ts';
import type { Duration, Instant } from './time.ts';
import {
  capacityTraits,
  capacityWaitEnd,
  isHiddenForGood,
  isLost,
  isPermanent,
  leaving,
  lossError,
  mayRequest,
  nextTryAt,
} from './allocate.ts';
import { matchedIn } from './evidence.ts';
import { hasPlaces, nextTurn, sendsElsewhere, turnAfter } from './alternatives.ts';
import type { Turn } from './alternatives.ts';
import { betweenWorkers } from './log-lines.ts';
import { areTriesUsedUp, unprovenWorkers } from './prepare.ts';
import { isOnHeld, silencePatience, standingGivenUpAt, whatFollows } from './recover.ts';

/** One job and its world at one moment. */
export interface View {
  /** The record, with everything folded in that the observation brought. */
  readonly job: Job;
  readonly now: Instant;
  readonly admitted: boolean;
  /** The attempt that is under way. */
  readonly attempt: Attempt | undefined;
  /** The allocation of that attempt, else the newest one. */
  readonly allocation: Allocation | undefined;
  /** The observation of that allocation. */
  readonly look: Fact<AllocationSeen>;
  /** Every worker of that allocation, in order, and `here` when the command runs here. Empty until it was ready. */
  readonly workers: readonly WorkerView[];
  /** The places where the command of the attempt runs. */
  readonly places: readonly Place[];
  readonly lookOf: (allocation: number) => Fact<AllocationSeen>;
  /** The latest answers of the spec's alternatives, to any job; see `Observation`. */
  readonly said: Fact<readonly PlaceSaid[]> | undefined;
}

interface WorkerView {
  readonly worker: WorkerId;
  /** Undefined when it did not answer, or was not asked. */
  readonly seen: WorkerSeen | undefined;
  /** True when it was asked and did not answer. */
  readonly isSilent: boolean;
  /** Since when that has been so without a break; undefined while it answers, or is not asked. */
  readonly silentSince: Instant | undefined;
}

/** One place of the attempt's command and what is known of its run there. */
export interface Place extends WorkerView {
  readonly run: RunState;
}

/**
 * unknown: nobody could tell. none: the worker answers and knows no run of this attempt. gone: the worker does not exist
 * any more. The others are what the host says; `lost_start` is a run that never came to life.
 */
type RunState = { readonly state: 'unknown' | 'none' | 'gone' | 'lost_start' } | RunSeen;

/** A run directory without a process for this long: whoever made it died before the program began. */
const startLongest: Duration = 2 * minute;

/** Puts them side by side. The job must already hold what the observation brought. */
export function viewOf(job: Job, observation: Observation, now: Instant): View {
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? lastAllocation(job) : allocationOf(job, attempt.allocation);
  const lookOf = (ordinal: number): Fact<AllocationSeen> =>
    observation.allocations.find((one) => one.allocation === ordinal)?.fact ?? unknown('not looked at', now);
  const look = allocation === undefined ? unknown('there is none', now) : lookOf(allocation.ordinal);
  const workers = allocation === undefined ? [] : workersOf(job, allocation, observation);
  const places =
    attempt === undefined || allocation === undefined
      ? []
      : commandWorkers(job.spec.command, allocation.workers ?? 0).map((worker) =>
          placeOf(workers, worker, attempt, allocation, now),
        );
  const { admitted, places: said } = observation;
  return { job, now, admitted, attempt, allocation, look, workers, places, lookOf, said };
}

function workersOf(job: Job, allocation: Allocation, observation: Observation): readonly WorkerView[] {
  const numbered = Array.from({ length: allocation.workers ?? 0 }, (_, index): WorkerId => index);
  const all: readonly WorkerId[] = job.spec.command.place === 'here' ? [...numbered, 'here'] : numbered;
  return all.map((worker) => {
    // This machine is no part of any allocation; a numbered worker speaks for its own allocation only.
    const fact = observation.workers.find(
      (one) => one.worker === worker && (worker === 'here' || one.allocation === allocation.ordinal),
    )?.fact;
    return {
      worker,
      seen: fact?.kind === 'known' ? fact.value : undefined,
      isSilent: fact?.kind === 'unknown',
      silentSince: fact?.kind === 'unknown' ? fact.since : undefined,
    };
  });
}

function placeOf(
  workers: readonly WorkerView[],
  worker: WorkerId,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): Place {
  const view = workers.find((one) => one.worker === worker) ?? {
    worker,
    seen: undefined,
    isSilent: false,
    silentSince: undefined,
  };
  return { ...view, run: runOf(view, attempt, allocation, now) };
}

function runOf({ worker, seen }: WorkerView, attempt: Attempt, allocation: Allocation, now: Instant): RunState {
  if (worker !== 'here' && allocation.goneAt !== null) return { state: 'gone' };
  if (seen === undefined) return { state: 'unknown' };
  const run = seen.runs.find((one) => one.attempt === attempt.ordinal);
  if (run === undefined) return { state: 'none' };
  return isLostStart(run, now) ? { state: 'lost_start' } : run;
}

function isLostStart(run: RunSeen, now: Instant): boolean {
  return run.state === 'starting' && Math.abs(now - run.since) > startLongest;
}

/** Whether something of the attempt may be alive there, by the best that is known. */
export function mayBeAlive(place: Place, attempt: Attempt): boolean {
  switch (place.run.state) {
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
      // A start may still be on its way there. Once a stop has come back from the same worker it has been overtaken.
      return attempt.ending === null || !attempt.ending.told.includes(place.worker);
  }
}

/** Runs of other attempts than the open one that are alive on a worker that answers. */
export function strangersAlive(view: View): readonly { readonly worker: WorkerId; readonly attempt: number }[] {
  return view.workers.flatMap(({ worker, seen }) =>
    (seen?.runs ?? [])
      .filter((run) => run.attempt !== view.attempt?.ordinal && isStrangerAlive(view, run, worker))
      .map((run) => ({ worker, attempt: run.attempt })),
  );
}

function isStrangerAlive({ job, now }: View, run: RunSeen, worker: WorkerId): boolean {
  if (run.state !== 'running' && run.state !== 'starting') return false;
  const wasStopped = job.attempts[run.attempt - 1]?.ending?.told.includes(worker) === true;
  return !(isLostStart(run, now) && wasStopped);
}

/** Of the workers that were asked and did not answer the one that has been silent for longest. */
function silentWorker(view: View): WorkerId | undefined {
  const silent = view.workers.filter((one) => one.isSilent);
  const began = Math.min(...silent.map(({ silentSince }) => silentSince ?? Infinity));
  return silent.find(({ silentSince }) => (silentSince ?? Infinity) === began)?.worker;
}

/** When the attempt last printed anywhere; undefined where nothing runs or a place cannot be observed. */
export function lastOutputAt(places: readonly Place[]): Instant | undefined {
  const signs: Instant[] = [];
  for (const { run } of places) {
    if (run.state === 'running') signs.push(run.outputAt);
    else if (run.state === 'exited') signs.push(run.endedAt);
    else return undefined;
  }
  return places.some(({ run }) => run.state === 'running') ? Math.max(...signs) : undefined;
}

// ------------------------------------------------------------------------------------------ the facts of an attempt under way

/** A view with an attempt under way, and so with its allocation. */
export interface AttemptView extends View {
  readonly attempt: Attempt;
  readonly allocation: Allocation;
}

/** The answers by name. A fact that is undefined does not hold. */
export type Facts = ReturnType<typeof factsOf>;

/** A run that has ended. */
export type Exited = Extract<RunSeen, { readonly state: 'exited' }>;

/** The facts of an attempt under way. Reads only. */
export function factsOf(view: AttemptView) {
  const { job, now, attempt, allocation, look, places } = view;
  const { maxRuntime, silenceTimeout } = job.spec.limits;
  const hasStarted = attempt.startedAt !== null;
  const isAllocationLost = isLost(allocation);
  const workers = allocation.workers;
  const capacityEnd = capacityWaitEnd(job, attempt);
  const lastOutput = lastOutputAt(places);
  const isHidden = isHiddenForGood(look, allocation);
  return {
    ...view,
    isEnding: attempt.ending !== null,
    hasStarted,
    // A process of the attempt may be alive somewhere.
    mayBeAlive: isAnythingAlive(view),
    // The next attempt needs a worker that is silent, and that is still waited for.
    isWorkerAwaited: isWorkerAwaited(view),
    hasSucceeded: hasStarted && places.length > 0 && places.every(({ run }) => hasSucceeded(run)),
    // When the last of its programs ended, of those that have.
    lastExitAt: Math.max(...places.map(({ run }) => (run.state === 'exited' ? run.endedAt : now))),
    // A start request that is newer than the attempt is a stop and a start, of which nothing had noticed the stop.
    isStopRequested: job.desired !== 'run' || job.wish !== null,
    // A recovery rule made the attempt before its owner disabled recovery, and it has not begun.
    isUnwantedRecovery: job.answersNothing === true && !attempt.asked && attempt.startedAt === null,
    isPastMaxRuntime: attempt.runningAt !== null && maxRuntime !== null && now >= attempt.runningAt + maxRuntime,
    isPastCapacityWait: allocation.readyAt === null && capacityEnd !== undefined && now >= capacityEnd,
    // The answer of the present alternative, which has nothing to give, and the alternative to try next.
    alternative: alternativeAfter(view),
    // The permanent error of a request that was never accepted.
    refusal: refusalOf(allocation),
    isLost: isAllocationLost,
    // The cloud took the allocation: any loss after it was ready, before that only by the cloud's own report.
    wasTaken:
      isAllocationLost && (allocation.readyAt !== null || (look.kind === 'known' && look.value.cause === 'preempted')),
    // Requesting another allocation may succeed, and this job may request one.
    mayRequestAnother: !isPermanent(lossError(allocation).kind) && mayRequest(job, allocation),
    // A place of the started command without a process and without an exit.
    vanished: hasStarted ? vanishedPlace(view) : undefined,
    // A place where the command ended other than well, once nothing can explain it better.
    failed: hasStarted ? failedPlace(view) : undefined,
    // A place that printed a failed call between workers, and then nothing for `LimitsSpec.troubleTimeout`.
    inTrouble: hasStarted ? placeInTrouble(view) : undefined,
    isPastSilenceTimeout:
      hasStarted && silenceTimeout !== null && lastOutput !== undefined && now - lastOutput >= silenceTimeout,
    // A worker that has been silent beyond the job's patience although the cloud says that it is ready.
    unreachable: silentForTooLong(view),
    // The owner's new attempt begins on capacity that was kept for the job and can be replaced.
    isOnReplaceable: allocation.ownership === 'owned' && isOnHeld(job, attempt),
    // A step, or the start of the command, that has used up its tries on one worker.
    usedUp: attempt.failures.find((one) => one.task.kind !== 'stop' && areTriesUsedUp(job, one)),
    runsNowhere: workers !== null && places.length === 0,
    // A worker that the command names and the allocation does not have.
    missingWorker: places.find(({ worker }) => workers !== null && worker !== 'here' && worker >= workers)?.worker,
    isOtherAlive: strangersAlive(view).length > 0,
    // Workers that know no run of an attempt that was never seen running everywhere.
    unstarted: places
      .filter(({ run }) => run.state === 'none' && attempt.runningAt === null)
      .map(({ worker }) => worker),
    // Every worker answers, and all its steps are proven.
    isPrepared: isPrepared(view),
    isPreviousLeaving: leaving(job).length > 0,
    isUnseen: look.kind === 'unknown' && !isHidden,
    // The cloud will never let us see this allocation, and no request for it was ever confirmed.
    isHidden,
    // The alternative to request from first, where it is not the present one and nothing has been requested yet.
    better: betterAlternative(view),
    isAbsent: look.kind === 'known' && look.value.state === 'absent',
    isReady: look.kind === 'known' && look.value.state === 'ready',
    // No request has been confirmed, and the job may send one.
    mayRequest: allocation.acceptedAt === null && mayRequest(job, allocation),
    // When the next request may be sent.
    requestAt: nextTryAt(job, allocation),
  };
}

// ------------------------------------------------------------------------------------------ what is alive

function isAnythingAlive(view: AttemptView): boolean {
  const { attempt } = view;
  if (attempt.startedAt === null) return false;
  const isPresumedDead = ({ worker, run }: Place): boolean =>
    worker !== 'here' && run.state === 'unknown' && (isTakenForGood(view) || isAbandoned(view));
  return view.places.some((place) => mayBeAlive(place, attempt) && !isPresumedDead(place));
}

/** A silent worker that the next attempt would need, and would end of, too. `givenUpAt` (attempts.ts) says how long it is waited for. */
function isWorkerAwaited(view: AttemptView): boolean {
  const { job, attempt, allocation, now } = view;
  if (attempt.ending?.reason !== 'unreachable' || silentWorker(view) === undefined) return false;
  if (allocation.releasedAt !== null || isLost(allocation) || isAbandoned(view)) return false;
  const following = whatFollows(job, attempt, now);
  return following.next === 'attempt' && following.on === 'same';
}

/**
 * When the silent programs of a standing allocation that the cloud took count as ended: a release never sees it gone. Undefined
 * where the cloud did not take it.
 */
export function takenForGoodAt(job: Job, allocation: Allocation): Instant | undefined {
  if (allocation.ownership !== 'standing' || allocation.releasedAt !== null) return undefined;
  return isLost(allocation) && allocation.seen !== null
    ? allocation.seen.at + job.spec.recovery.unreachableGrace
    : undefined;
}

function isTakenForGood({ job, allocation, now }: AttemptView): boolean {
  const at = takenForGoodAt(job, allocation);
  return at !== undefined && now >= at;
}

/** A standing allocation that the cloud calls ready, and of which a worker has been silent beyond all patience. */
function isAbandoned({ job, attempt, look, now }: AttemptView): boolean {
  const at = standingGivenUpAt(job, attempt);
  return at !== undefined && now >= at && look.kind === 'known' && look.value.state === 'ready';
}

/** True for a removed job whose program may be alive and nothing else ends, until all its workers are silent for the grace. */
export function mayRunAfterRemoval(view: View): boolean {
  return view.job.removed && outlivesRemoval(view.job) && !isUnreachableForGood(view);
}

function isUnreachableForGood({ job, now, attempt, allocation, places }: View): boolean {
  if (attempt === undefined || allocation === undefined) return false;
  // Of a released allocation silence is not counted, and it may be gone: the wait began with the owner's command, or with the
  // release where the command was noted by a clock that has been set back since.
  const { silentSince, releasedAt } = allocation;
  const since = releasedAt === null ? silentSince : job.desiredAt > now ? releasedAt : job.desiredAt;
  if (since === null) return false;
  const isHeard = places.some((place) => place.seen !== undefined && mayBeAlive(place, attempt));
  return !isHeard && now >= since + job.spec.recovery.unreachableGrace;
}

// ------------------------------------------------------------------------------------------ how it failed

/** Without a process and without an exit: also a run that was seen and that its worker has since forgotten. */
function vanishedPlace({ places, attempt }: AttemptView): Place | undefined {
  // While a worker is silent none is judged: the silent one may be the cause.
  if (places.some(({ isSilent }) => isSilent)) return undefined;
  return places.find(
    ({ run }) =>
      run.state === 'vanished' || run.state === 'lost_start' || (run.state === 'none' && attempt.runningAt !== null),
  );
}

/** The lowest worker that failed; a program just killed on revocable capacity waits for the cloud's later report. */
function failedPlace(view: AttemptView): { readonly place: Place; readonly run: Exited } | undefined {
  const { places } = view;
  if (places.some(({ isSilent }) => isSilent)) return undefined;
  for (const place of places) {
    const { run } = place;
    if (run.state !== 'exited' || hasSucceeded(run)) continue;
    return mayHaveBeenTaken(view, place, run) ? undefined : { place, run };
  }
  return undefined;
}

/** How long after such an end the cloud may still take to say that it took the machine away. */
const killedJudgement: Duration = 30 * second;

/**
 * The cloud may be about to say that it took the machine: a program was just killed there, or one that drives it from this
 * machine has just lost its connection to it. Nothing can tell while the cloud does not answer or does not call it ready, and
 * nothing could begin then either. What the cloud leaves alone a person may have deleted: a standing TPU is shared.
 */
function mayHaveBeenTaken({ job, allocation, attempt, look }: AttemptView, place: Place, run: Exited): boolean {
  const capacity = capacityOf(job, allocation);
  const isRevocable = capacityTraits(capacity).revocable;
  if (!isRevocable && capacity.ownership !== 'standing') return false;
  const wasKilled = run.signal !== undefined || run.exitCode === 143 || run.exitCode === 137;
  const hasLostIt = place.worker === 'here' && betweenWorkers.includes(matchedIn(place, attempt).pattern ?? '');
  if (!wasKilled && !hasLostIt) return false;
  if (look.kind === 'unknown' || look.value.state !== 'ready') return true;
  // Use the time of the cloud's answer: the rest of this pass may have waited long for a worker that does not answer.
  // The end was written by the worker's clock: a clock that is far off is no reason to wait.
  const isSoon = Math.abs(look.seenAt - run.endedAt) < killedJudgement;
  // An answer from before the end says nothing about it. The next pass has a later one, whatever the worker's clock says.
  const isOlder = look.seenAt < run.endedAt && attempt.exitSeen === undefined;
  return isRevocable && (isSoon || isOlder) && attempt.judgeAt === undefined;
}

/** The observer searches the output only once the silence is long enough, so a pattern in the observation proves that it was. */
function placeInTrouble({ job, attempt, places, now }: AttemptView): Place | undefined {
  const { troubleTimeout } = job.spec.limits;
  const last = lastOutputAt(places);
  if (troubleTimeout === undefined || last === undefined || now - last < troubleTimeout) return undefined;
  return places.find(
    (one) => one.run.state === 'running' && betweenWorkers.includes(matchedIn(one, attempt).pattern ?? ''),
  );
}

/** The grace runs while the cloud itself answers; `here` has no cloud that could speak for it. */
function silentForTooLong(view: AttemptView): WorkerId | undefined {
  const worker = silentWorker(view);
  const { allocation, attempt, look, job } = view;
  if (worker === undefined || look.kind === 'unknown') return undefined;
  if (worker !== 'here' && look.value.state !== 'ready') return undefined;
  if (allocation.silentWho !== 'worker' || allocation.silentSince === null) return undefined;
  // Compare with the time of the cloud's answer: a call to a silent worker takes long, and the cloud may have taken its machine since.
  return look.seenAt >= allocation.silentSince + silencePatience(job, attempt) ? worker : undefined;
}

function isPrepared(view: AttemptView): boolean {
  return view.workers.every(({ seen }) => seen !== undefined) && unprovenWorkers(view).length === 0;
}

// ------------------------------------------------------------------------------------------ capacity

function refusalOf({ readyAt, acceptedAt, lastFailure }: Allocation): CloudError | undefined {
  if (readyAt !== null || acceptedAt !== null || lastFailure === null) return undefined;
  return isPermanent(lastFailure.error.kind) ? lastFailure.error : undefined;
}

function alternativeAfter(view: AttemptView): { readonly answer: PlaceAnswer; readonly turn: Turn } | undefined {
  const answer = answerOfAlternative(view);
  const turn = answer === undefined ? undefined : turnAfter(view.job, view.attempt, answer, view.said, view.now);
  return answer === undefined || turn === undefined ? undefined : { answer, turn };
}

/** The answer of an alternative that has nothing to give. Errors that say nothing about it leave the request where it is. */
function answerOfAlternative({ job, now, look, allocation }: AttemptView): PlaceAnswer | undefined {
  if (allocation.ownership === 'standing' || !hasPlaces(job)) return undefined;
  const { readyAt, requestedAt, releasedAt, acceptedAt, lastFailure, isDoubtful } = allocation;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  const kind = lastFailure?.error.kind;
  const isRefused = acceptedAt === null || isLost(allocation);
  // Without permission we can neither list nor delete there. If a request may have gone through, the refusal ends the attempt.
  if (kind !== undefined && isPermanent(kind) && isRefused && isDoubtful === true) return undefined;
  const isHidden = isHiddenForGood(look, allocation);
  const isSure = look.kind === 'known' || isHidden || (kind !== undefined && isPermanent(kind));
  if (kind !== undefined && isRefused && sendsElsewhere(kind) && isSure) return kind;
  const waitedOutAt = alternativeWaitEnd(job, allocation);
  if (waitedOutAt === undefined || now < waitedOutAt || (look.kind === 'unknown' && !isHidden)) return undefined;
  // A list may lack what is there and ready: what was accepted has to be missed twice before that says anything. And where
  // no answer has come yet (the asking process was killed), it is asked first, however long that took; once more where a
  // reply was lost.
  const isAnswered = lastFailure !== null && (isDoubtful !== true || lastFailure.at >= waitedOutAt);
  const state = look.kind === 'known' ? look.value.state : 'absent';
  const isMissed = state === 'absent' && acceptedAt === null && isAnswered;
  return state === 'waiting' || isMissed ? 'waiting' : undefined;
}

/** When the patience for the alternative that is asked ends; undefined where it has no end or none is asked. */
export function alternativeWaitEnd(job: Job, allocation: Allocation): Instant | undefined {
  const { capacity } = job.spec;
  const { readyAt, requestedAt, releasedAt, acceptedAt } = allocation;
  if (capacity.kind !== 'tpu' || capacity.alternativesWait === undefined || !hasPlaces(job)) return undefined;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  // An alternative that could be asked only now has not been waited in, however old the record says that the request is.
  return (acceptedAt ?? requestedAt) + capacity.alternativesWait;
}

function betterAlternative({ job, attempt, allocation, said, now }: AttemptView): Turn | undefined {
  if (allocation.requestedAt !== null || !hasPlaces(job)) return undefined;
  const turn = nextTurn(job, attempt, said, now);
  return turn?.place === (allocation.place ?? 0) ? undefined : turn;
}
