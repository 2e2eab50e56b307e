// View: one job together with its observation, as the facts and the actions of a pass see it.

import {
  allocationOf,
  commandWorkers,
  failureOf,
  lastAllocation,
  openAttempt,
  stepsOf,
  taskKey,
} from '../model/job.ts';
import type { Allocation, AllocationState, Attempt, Job, WorkerTask } from '../model/job.ts';
import { unknown } from '../model/observation.ts';
import type {
  AllocationStatus,
  AlternativeAnswer,
  Observation,
  Observed,
  RunStatus,
  WorkerStatus,
} from '../model/observation.ts';
import { operationOf, type SetupStep, type WorkerId } from '../model/spec.ts';
import { budgetsOf, type Budget } from './spending.ts';
import { backoffDelay, minute, second, type Duration, type Instant } from '../model/time.ts';

export interface View {
  /** The observation is already folded in. */
  readonly job: Job;
  readonly now: Instant;
  readonly admitted: boolean;
  /** As in the observation. */
  readonly slots: Observation['slots'];
  readonly attempt: Attempt | undefined;
  /** The allocation of the open attempt, or the newest one if no attempt is open. */
  readonly allocation: Allocation | undefined;
  /** The observation of that allocation. */
  readonly observed: Observed<AllocationStatus>;
  /** Its state in that observation. Undefined if the observation failed. */
  readonly observedState: AllocationState | undefined;
  /** The workers of that allocation in order, and `controller` if the command runs there. Empty until it was ready. */
  readonly workers: readonly WorkerView[];
  /** The workers that run the command of the attempt. */
  readonly runs: readonly WorkerRun[];
  /** The newest answers of the spec's alternatives to any job; see `Observation`. */
  readonly alternativeAnswers: Observed<readonly AlternativeAnswer[]> | undefined;
  /** The budgets that limit the job. */
  readonly budgets: readonly Budget[];
}

/** A view with an open attempt and its allocation. */
export interface AttemptView extends View {
  readonly attempt: Attempt;
  readonly allocation: Allocation;
}

/** `status` and `unreachableSince` are both undefined for a worker that was not asked. */
interface WorkerView {
  readonly worker: WorkerId;
  readonly status: WorkerStatus | undefined;
  /** Set if it was asked and did not answer. */
  readonly unreachableSince: Instant | undefined;
  /** `Unknown.elsewhere`: it cannot be asked now. */
  readonly isElsewhere?: boolean;
}

/** A worker that runs the attempt's command, and the state of its run there. */
export interface WorkerRun extends WorkerView {
  readonly run: WorkerRunStatus;
  /** The log pattern that the attempt's output matched on this worker, and the line. Empty without a match. */
  readonly matched: { readonly pattern?: string; readonly line?: string };
}

/**
 * unknown: no observation. elsewhere: only the controller of another home can observe it. none: the worker answers and
 * has no run of this attempt. gone: the worker no longer exists. lost_start: the run folder exists, but its process never
 * started. The others are as the worker reports them.
 */
type WorkerRunStatus = { readonly state: 'unknown' | 'elsewhere' | 'none' | 'gone' | 'lost_start' } | RunStatus;

export function viewOf(job: Job, observation: Observation, now: Instant): View {
  const { admitted, slots, alternativeAnswers } = observation;
  const budgets = budgetsOf(job, observation.ownerSpending, now);
  const attempt = openAttempt(job);
  const allocation = attempt === undefined ? lastAllocation(job) : allocationOf(job, attempt.allocation);
  if (allocation === undefined) {
    const observed = unknown('the job has no allocation', now);
    const empty = { observedState: undefined, workers: [], runs: [] };
    return { job, now, admitted, slots, attempt, allocation, observed, ...empty, alternativeAnswers, budgets };
  }
  const observed = observedAllocation(observation, allocation.ordinal, now);
  const observedState = observed.kind === 'known' ? observed.value.state : undefined;
  const workers = workerViews(job, allocation, observation);
  const ids = attempt === undefined ? [] : commandWorkers(job.spec.command, allocation.workers ?? 0);
  const runs = ids.map((worker): WorkerRun => {
    const notAsked = { worker, status: undefined, unreachableSince: undefined };
    const view = workers.find((one) => one.worker === worker) ?? notAsked;
    const { attempt: of, ...matched } = view.status?.matched ?? {};
    const run = runStatusOf(view, attempt?.ordinal, allocation, now);
    return { ...view, run, matched: of === attempt?.ordinal ? matched : {} };
  });
  return {
    job,
    now,
    admitted,
    slots,
    attempt,
    allocation,
    observed,
    observedState,
    workers,
    runs,
    alternativeAnswers,
    budgets,
  };
}

/** Unknown if the pass did not observe it. */
export function observedAllocation(
  { allocations }: Observation,
  ordinal: number,
  now: Instant,
): Observed<AllocationStatus> {
  return allocations.find((one) => one.allocation === ordinal)?.observed ?? unknown('not observed', now);
}

function workerViews(job: Job, allocation: Allocation, observation: Observation): readonly WorkerView[] {
  const numbered = Array.from({ length: allocation.workers ?? 0 }, (_, index): WorkerId => index);
  const all: readonly WorkerId[] = job.spec.command.runsOn === 'controller' ? [...numbered, 'controller'] : numbered;
  return all.map((worker) => {
    const observed = observation.workers.find(
      (one) => one.worker === worker && (worker === 'controller' || one.allocation === allocation.ordinal),
    )?.observed;
    const isElsewhere = observed?.kind === 'unknown' && observed.elsewhere !== undefined;
    return {
      worker,
      status: observed?.kind === 'known' ? observed.value : undefined,
      unreachableSince: observed?.kind === 'unknown' && !isElsewhere ? observed.since : undefined,
      isElsewhere,
    };
  });
}

// ------------------------------------------------------------------------------------------ programs

/** If a run folder has no process for this long, its creator died before it started the program. */
const startTimeout: Duration = 2 * minute;

function runStatusOf(
  { worker, status, isElsewhere }: WorkerView,
  attempt: number | undefined,
  allocation: Allocation,
  now: Instant,
): WorkerRunStatus {
  if (worker !== 'controller' && allocation.goneAt !== null) return { state: 'gone' };
  if (status === undefined) return { state: isElsewhere === true ? 'elsewhere' : 'unknown' };
  const run = status.runs.find((one) => one.attempt === attempt);
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
    case 'elsewhere':
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

// ------------------------------------------------------------------------------------------ tasks on workers

/** Workers that answer and have setup steps left, each with its first unproven step. */
export function unprovenWorkers(view: View): readonly { readonly worker: number; readonly step: SetupStep }[] {
  if (view.attempt?.commandOnly === true) return [];
  return view.workers.flatMap(({ worker, status }) => {
    if (worker === 'controller' || status === undefined) return [];
    const { proofs } = status;
    const step = stepsOf(view.job).find(({ key }) => !proofs.includes(key));
    return step === undefined ? [] : [{ worker, step }];
  });
}

/** The first delay between checks that become rarer. A person waits for an operation. */
export function firstCheckDelay({ spec }: Job): Duration {
  return operationOf(spec) === undefined ? 5 * second : second;
}

/** Time of the next try on that worker: at first 5 s after a failure, doubling to 2 min. 0 if the task never failed. */
export function nextTryAt(job: Job, attempt: Attempt, task: WorkerTask): Instant {
  const failure = failureOf(attempt, task);
  if (failure === undefined) return 0;
  const tries = Math.max(1, failure.tries);
  return failure.lastAt + backoffDelay(firstCheckDelay(job), 2 * minute, tries, job.id, attempt.ordinal, taskKey(task));
}
