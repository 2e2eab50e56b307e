// View: the record and the observation side by side, as the table of situations reads them.

import { openAttempt, lastAllocation, allocationOf, commandWorkers } from './job.ts';
import type { Allocation, Attempt, Job } from './job.ts';
import type { AllocationSeen, Fact, Observation, PlaceSaid, RunSeen, WorkerSeen } from './observation.ts';
import { unknown } from './observation.ts';
import type { WorkerId } from './spec.ts';
import { minute } from './time.ts';
import type { Duration, Instant } from './time.ts';

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

/** One worker and what it says. */
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
export function silentWorker(view: View): WorkerId | undefined {
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
