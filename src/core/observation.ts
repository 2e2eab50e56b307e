// Observation: all that was seen of one job's world at one moment, and what could not be seen.
// A look that failed is `unknown` with its reason. It is never turned into absent, false or zero.

import type { AllocationState, CloudError, CloudErrorKind, Evidence, Host, PlaceAnswer } from './job.ts';
import type { WorkerId } from './spec.ts';
import type { Subject } from './decision.ts';
import type { Instant } from './time.ts';

/** One thing seen, with its time, or not seen, with the reason. */
export type Fact<T> = Known<T> | Unknown;
/** Seen, at that moment. */
export interface Known<T> {
  readonly kind: 'known';
  readonly value: T;
  readonly seenAt: Instant;
}
/** Asked, and not answered; `since` is when the asking began to fail, as far as the asker knows. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly reason: string;
  readonly since: Instant;
  /** True where no cloud was asked, or it did not accept who asks: this machine has no valid login. */
  readonly noLogin?: true;
  /** The permanent error with which the cloud refused to be asked: it will answer nothing else. */
  readonly refused?: CloudErrorKind;
}

export function known<T>(value: T, seenAt: Instant): Known<T> {
  return { kind: 'known', value, seenAt };
}

export function unknown(reason: string, since: Instant): Unknown {
  return { kind: 'unknown', reason, since };
}

/** Everything that one decision may rest on. */
export interface Observation {
  /** False while the job has to wait for its turn (slots of this machine, a lab's limit). Where it stands, `why` works out. */
  readonly admitted: boolean;
  /** An observation of each allocation that may exist, the newest always among them. A missing one counts as unknown. */
  readonly allocations: readonly AllocationFact[];
  /** A look at each worker of the newest ready allocation, and at `here` when the command runs here. */
  readonly workers: readonly WorkerFact[];
  /** The newest answer of each place to any job, while the job may still choose among several. Absent counts as unknown. */
  readonly places?: Fact<readonly PlaceSaid[]>;
  /** The results of actions since the last pass, oldest first. */
  readonly outcomes: readonly Outcome[];
  /** Allocations whose request was committed and whose asker was killed before the reply was recorded. Absent: none. */
  readonly unheard?: readonly number[];
}

/** The newest answer of one of the spec's places, by its number there. */
export interface PlaceSaid {
  readonly place: number;
  /** `ready`: it gave one. */
  readonly answer: PlaceAnswer | 'ready';
  readonly at: Instant;
}

export interface AllocationFact {
  readonly allocation: number;
  readonly fact: Fact<AllocationSeen>;
}

/** One look at one worker of one allocation. For `here` the allocation means nothing: this machine belongs to none. */
export interface WorkerFact {
  readonly allocation: number;
  readonly worker: WorkerId;
  readonly fact: Fact<WorkerSeen>;
}

/**
 * absent: looked for, and not there. waiting: asked for, no machine yet. provisioning: machines are being made.
 * ready: usable. interrupted: will come back by itself (maintenance, restart). lost: will never be usable again
 * (preempted, terminated, failed, suspended) and must be released. releasing: its deletion is under way.
 * foreign: something of that name exists which is not ours.
 */
export interface AllocationSeen {
  readonly state: AllocationState;
  /** The cloud's own word for it, for people: `WAITING_FOR_RESOURCES`, `PREEMPTED`. */
  readonly detail: string;
  /** With `lost`: why. A preemption is the cloud's act; a failure has an error. */
  readonly cause?: 'preempted' | 'failed';
  readonly error?: CloudError;
  /** With `ready`: how many workers there are, and where. */
  readonly workers?: number;
  readonly hosts?: readonly Host[];
  /** With `ready`, of a standing one: the cloud's word for when it was made, which tells it from a later one of its name. */
  readonly made?: string;
}

export interface WorkerSeen {
  /** Differs after each boot of the machine; a pid means nothing across two boots. */
  readonly bootId: string;
  /** Keys of setup steps that are proven on this worker. */
  readonly proofs: readonly string[];
  /** Every attempt of this job that left a run directory on this worker, in order. */
  readonly runs: readonly RunSeen[];
  /**
   * The first known pattern in the end of the newest attempt's output. Searched for once its run has exited or vanished, and
   * while it runs once it has been silent for `LimitsSpec.troubleTimeout`; then only after the last line of progress.
   */
  readonly matched?: { readonly attempt: number; readonly pattern: string; readonly line: string };
}

export type RunSeen =
  /** The run directory exists, the process does not yet, or its pid is not yet written. */
  | { readonly attempt: number; readonly state: 'starting'; readonly since: Instant }
  | {
      readonly attempt: number;
      readonly state: 'running';
      readonly startedAt: Instant;
      /** When the log last grew; the start when it never did. */
      readonly outputAt: Instant;
    }
  /** It ended by itself or was ended, and not by its machine going down; nothing of it is alive. */
  | {
      readonly attempt: number;
      readonly state: 'exited';
      readonly exitCode: number;
      readonly signal?: string;
      readonly endedAt: Instant;
      /** Why an exit code of 0 is not a success: what the run itself left in its run folder (`failure` there). */
      readonly failure?: string;
    }
  /** No process of it is alive and no exit tells of an end of its own: killed from outside, or the machine restarted. */
  | { readonly attempt: number; readonly state: 'vanished'; readonly detail: string };

/** True for a run that has ended well: exit code 0, and nothing says that this is no success. */
export function hasSucceeded(run: {
  readonly state: string;
  readonly exitCode?: number;
  readonly failure?: string;
}): boolean {
  return run.state === 'exited' && run.exitCode === 0 && run.failure === undefined;
}

export interface Outcome {
  readonly subject: Subject;
  /** The attempt that the action was for: it counts there, also when a later attempt is open by then. Absent: for none. */
  readonly attempt?: number;
  readonly at: Instant;
  readonly result: OutcomeResult;
}

/** Done, or why not, in the only distinctions that lead to different decisions. */
export type OutcomeResult =
  | { readonly kind: 'done' }
  /** Permanent: asking again would get the same answer. */
  | { readonly kind: 'refused'; readonly evidence: Evidence; readonly error?: CloudError }
  /** It did not happen, and may succeed when tried again. */
  | { readonly kind: 'failed'; readonly evidence: Evidence; readonly error?: CloudError }
  /** The reply was lost: it may have happened. Only a look can tell. */
  | { readonly kind: 'unclear'; readonly evidence: Evidence };
