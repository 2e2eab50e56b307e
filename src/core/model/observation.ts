// Observation: the state of one job's world at one time. A failed observation is `unknown` with its reason; it never
// becomes absent, false or zero.

import type {
  AllocationState,
  CloudError,
  CloudErrorKind,
  Evidence,
  HomeRef,
  Host,
  CapacityAnswer,
  OwnerBudget,
  ResumedFrom,
  Slot,
  Spending,
} from './job.ts';
import type { WorkerId } from './spec.ts';
import type { Subject } from './decision.ts';
import type { SliceState } from './ready-periods.ts';
import type { Instant } from './time.ts';

export type Observed<T> = Known<T> | Unknown;
/** A value that was observed at that time. */
export interface Known<T> {
  readonly kind: 'known';
  readonly value: T;
  readonly observedAt: Instant;
}
/** A failed check. `since` is the time from which the checks have failed, as far as the observer knows. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly reason: string;
  readonly since: Instant;
  /** No cloud was asked, or it rejected the credentials: this machine has no valid login. */
  readonly noLogin?: true;
  /** The permanent error with which the cloud refuses to answer. It will not answer anything else. */
  readonly refused?: CloudErrorKind;
  /**
   * The program runs in another home, on this machine or on another one, and only a controller of that home can observe
   * it. This ends nothing, however long it lasts.
   */
  readonly elsewhere?: 'home' | 'machine';
}

export function known<T>(value: T, observedAt: Instant): Known<T> {
  return { kind: 'known', value, observedAt };
}

export function unknown(reason: string, since: Instant): Unknown {
  return { kind: 'unknown', reason, since };
}

/** The only input of a decision besides the job and the time. */
export interface Observation {
  /** False while the job must wait for slots of its hosts or for its persistent TPU (`queuePositionOf`). */
  readonly admitted: boolean;
  /** The slots that an admitted job got, in the order of its hosts. Absent: it needs none. */
  readonly slots?: readonly Slot[];
  /** One for each allocation that may exist, and always for the newest. A missing one counts as unknown. */
  readonly allocations: readonly AllocationObservation[];
  /** One for each worker of the newest ready allocation, and for `controller` when the command runs on this machine. */
  readonly workers: readonly WorkerObservation[];
  /** Newest answer of each alternative to any job, while the job can choose. Absent counts as unknown. */
  readonly alternativeAnswers?: Observed<readonly AlternativeAnswer[]>;
  /**
   * The spending of the job's owner in the current period, for each budget of a grant that matches the job. Absent: no
   * budget limits the owner.
   */
  readonly ownerSpending?: Observed<readonly OwnerSpending[]>;
  /** Results of actions since the last pass, oldest first. */
  readonly outcomes: readonly Outcome[];
  /** Allocations whose request was committed by a process that died before it recorded the reply. Absent: none. */
  readonly unansweredRequests?: readonly number[];
}

/** The spending of a user in a period, from the usage ledger, and the US dollars per hour being spent at that time. */
export interface OwnerSpending extends Spending {
  readonly ownerBudget: OwnerBudget;
  readonly rateUsd: number;
}

export interface AlternativeAnswer {
  readonly alternative: number;
  /** `ready`: it provided an allocation. */
  readonly answer: CapacityAnswer | 'ready';
  readonly at: Instant;
}

export interface AllocationObservation {
  readonly allocation: number;
  readonly observed: Observed<AllocationStatus>;
}

/** One worker of one allocation. `controller` is this machine, which belongs to no allocation. */
export interface WorkerObservation {
  readonly allocation: number;
  readonly worker: WorkerId;
  readonly observed: Observed<WorkerStatus>;
}

/**
 * - absent: it does not exist
 * - waiting: requested, and no machine exists yet
 * - provisioning: the machines are being created
 * - ready: usable
 * - interrupted: returns by itself (maintenance, restart)
 * - lost: never usable again (preempted, terminated, failed, suspended); it must be released
 * - releasing: its deletion is in progress
 * - foreign: the resource of that name is not ours
 */
export interface AllocationStatus {
  readonly state: AllocationState;
  /** The cloud's own state, for people: `WAITING_FOR_RESOURCES`, `PREEMPTED`. */
  readonly detail: string;
  /** With `lost`. A preemption is the cloud's act; a failure has an error. */
  readonly cause?: 'preempted' | 'failed';
  readonly error?: CloudError;
  /** Each slice, for the usage ledger. Absent: one slice, in this state. */
  readonly slices?: readonly SliceState[];
  /** With `ready`: the number of workers and their addresses. */
  readonly workers?: number;
  readonly hosts?: readonly Host[];
  /** Persistent only, absent without a node: the creation time in the cloud. Tells it from a later one of that name. */
  readonly creationTime?: string;
}

export interface WorkerStatus {
  /** Changes at each boot of the machine. A pid means nothing after a boot. */
  readonly bootId: string;
  /** For this machine: the home of the controller. Absent if the database belongs to one home. */
  readonly home?: HomeRef;
  /** Keys of setup steps that are proven on this worker. */
  readonly proofs: readonly string[];
  /** In order, each attempt of this job that has a run folder on this worker. */
  readonly runs: readonly RunStatus[];
  /** The attempts whose program has reported metrics there. Absent: none. */
  readonly reportedMetrics?: readonly number[];
  /**
   * The first known pattern at the end of the newest attempt's output, with its line; without one, the exception with
   * which a Python program ended. The worker searches once the run has exited or vanished. While it runs, the worker
   * searches for patterns after `LimitsSpec.failedCallTimeoutMs` of silence, and only after the last line of progress.
   */
  readonly matched?: { readonly attempt: number; readonly pattern?: string; readonly line: string };
}

/** `resumedFrom`: as the attempt's. Absent if the attempt does not resume, or has not chosen a checkpoint yet. */
export type RunStatus = RunState & { readonly resumedFrom?: ResumedFrom };

type RunState =
  /** The run folder exists; the process or its pid file does not exist yet. */
  | { readonly attempt: number; readonly state: 'starting'; readonly since: Instant }
  | {
      readonly attempt: number;
      readonly state: 'running';
      readonly startedAt: Instant;
      /** When the log last grew, or the start if it never did. */
      readonly outputAt: Instant;
    }
  /** It ended by itself or was ended, but not by a machine going down. No process of it is alive. */
  | {
      readonly attempt: number;
      readonly state: 'exited';
      readonly exitCode: number;
      readonly signal?: string;
      readonly endedAt: Instant;
      /** The `failure` file of the run folder: the reason why exit code 0 is not a success. */
      readonly failure?: string;
    }
  /** No process of it is alive, and no exit was recorded: another program killed it, or the machine restarted. */
  | { readonly attempt: number; readonly state: 'vanished'; readonly detail: string };

/** True for a run that exited with code 0 and left no `failure`. */
export function hasSucceeded(run: {
  readonly state: string;
  readonly exitCode?: number;
  readonly failure?: string;
}): boolean {
  return run.state === 'exited' && run.exitCode === 0 && run.failure === undefined;
}

export interface Outcome {
  readonly subject: Subject;
  /** The attempt of the action. The outcome counts there, even if a later attempt is open. Absent: none. */
  readonly attempt?: number;
  readonly at: Instant;
  readonly result: OutcomeResult;
}

/** These kinds lead to different decisions; finer ones would not. */
export type OutcomeResult =
  | { readonly kind: 'done' }
  /** Permanent: the same call gets the same answer. */
  | { readonly kind: 'refused'; readonly evidence: Evidence; readonly error?: CloudError }
  /** It did not happen. Another try may succeed. */
  | { readonly kind: 'failed'; readonly evidence: Evidence; readonly error?: CloudError }
  /** The reply was lost: it may have happened. Only an observation can decide. */
  | { readonly kind: 'unclear'; readonly evidence: Evidence };
