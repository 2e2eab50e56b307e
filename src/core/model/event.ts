// Event: the lines of a job's history. Events alone reproduce the state, which the simulator proves. Each number is the
// ordinal of an allocation or attempt.

import type { Digest } from '../../catalogue/digest.ts';
import type {
  AllocationFields,
  AllocationState,
  Attempt,
  CapacityAnswer,
  CloudError,
  Desired,
  Ending,
  Exit,
  Finish,
  ResumedFrom,
  Spending,
  StartRequest,
} from './job.ts';
import type { SliceState } from './ready-periods.ts';
import type { Override, Reason, RuleAnswer, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** One immutable line of a job's history. */
export type Event = { readonly at: Instant } & EventBody;

/** An event without its time. */
export type EventBody = {
  readonly [Kind in keyof EventFields]: { readonly kind: Kind } & EventFields[Kind];
}[keyof EventFields];

interface OfAttempt {
  readonly attempt: number;
}

interface OfAllocation {
  readonly allocation: number;
}

interface EventFields {
  created: { readonly by: string; readonly overrides?: readonly Override[] };
  /** A command of the owner. `desired` is the desired state after it. */
  command_received: {
    readonly verb: string;
    readonly by: string;
    readonly desired: Desired;
    readonly startMode?: StartRequest['startMode'];
    /** With stop: there was no ready capacity to keep. */
    readonly keepsNothing?: true;
    /** With resume: the new copy of the working directory. */
    readonly workdirCopy?: number;
    /** The blob with the list of the files of that copy. */
    readonly workdirTree?: Digest;
    /** With resume and rerun: US dollars that replace `job.budget`. */
    readonly budgetUsd?: number;
  };
  attempt_created: OfAttempt &
    Pick<
      Attempt,
      'stage' | 'startMode' | 'startedByOwner' | 'commandOnly' | 'workdirCopy' | 'allocation' | 'notBeforeAt'
    >;
  /** The attempt continues with another allocation or alternative, which is requested no earlier than `notBeforeAt`. */
  attempt_moved: OfAttempt & OfAllocation & { readonly notBeforeAt: Instant };
  allocation_requested: OfAllocation & Pick<AllocationFields, 'name' | 'ownership' | 'alternative'>;
  /** The alternative has no capacity, and the next one is requested instead. */
  alternative_exhausted: OfAllocation & {
    readonly alternative: number;
    readonly answer: CapacityAnswer;
    readonly next: number;
  };
  /** No request was sent to this alternative, because it refused another job recently. */
  alternative_skipped: OfAllocation & { readonly alternative: number; readonly next: number };
  allocation_refused: OfAllocation & { readonly error: CloudError; readonly nextAt?: Instant };
  allocation_seen: OfAllocation & {
    readonly state: AllocationState;
    readonly message: string;
    readonly workers?: number;
    /** Present if the ready periods do not follow from the state alone. */
    readonly slices?: readonly SliceState[];
    /** The first of two observations that missed it. Its ready periods end there. Absent: the time of the event. */
    readonly missedAt?: Instant;
  };
  allocation_released: OfAllocation & {
    readonly message: string;
    /** A finished job kept it until this budget was used up. */
    readonly budget?: Spending;
  };
  allocation_gone: OfAllocation & {
    /** As in `allocation_seen`. */
    readonly missedAt?: Instant;
  };
  /** Orphan collection observed it, or its end if it has no slices. The job itself does not observe it any more. */
  orphan_seen: OfAllocation & {
    readonly slices: readonly SliceState[];
    /** The alternative in which a TPU appeared after the job had left that alternative. Absent for the allocation itself. */
    readonly alternative?: number;
  };
  step_failed: OfAttempt &
    OfAllocation & {
      readonly worker: number;
      readonly step: string;
      readonly tries: number;
      readonly message: string;
    };
  /** The owner ran a setup step manually (`jobman setup`); with `force`, even where it already held. */
  step_run_manually: OfAllocation & {
    readonly by: string;
    readonly step: string;
    readonly force: boolean;
    /** Number of workers. */
    readonly workers: number;
    /** The workers on which the step failed. */
    readonly failed: readonly { readonly worker: number; readonly message: string }[];
  };
  attempt_started: OfAttempt & { readonly workers: readonly WorkerId[] };
  attempt_running: OfAttempt;
  /** A worker has reported the checkpoint that the attempt continues from. */
  attempt_resumed: OfAttempt & ResumedFrom;
  /** The program exited on a worker, and the exit is not judged yet. */
  exit_seen: OfAttempt & { readonly worker: WorkerId; readonly exitCode: number; readonly signal?: string };
  /** `programEndedAt` is the exit time that the program's worker reports. Absent: the time of the event. */
  attempt_ending: OfAttempt & Pick<Ending, 'reason' | 'evidence'> & { readonly programEndedAt?: Instant };
  /** No process of it is alive. `endedAt` is the exit time of its last program, if every worker reported one. */
  attempt_ended: OfAttempt &
    Pick<Ending, 'reason' | 'evidence'> & { readonly endedAt?: Instant; readonly exits?: readonly Exit[] };
  rule_applied: OfAttempt & AppliedRule & { readonly reason: Reason };
  unreachable: OfAllocation & {
    readonly worker?: WorkerId;
    /** Only the controller of another home can observe the program, on this machine or on another one. */
    readonly who?: 'home' | 'machine';
    readonly message: string;
  };
  /** `who: 'workers'`: a worker was silent, not the cloud. */
  reachable: OfAllocation & { readonly who?: 'workers' };
  /** The controller's clock was set back. Times that were in the future now count from this event. */
  clock_set_back: unknown;
  /** Most of a budget is used. */
  budget_warning: Spending;
  finished: { readonly verdict: Finish['verdict']; readonly reason: Reason };
  removed: unknown;
}

/** The recovery rule that answered an end, and the used part of its limit or budget. */
export interface AppliedRule {
  readonly then: RuleAnswer['then'];
  readonly on: RuleAnswer['on'];
  readonly used: number;
  readonly limit: number;
  /** The pattern, exit code and worker that the rule names: they show a reader which rule answered. */
  readonly pattern?: string;
  readonly exitCode?: number;
  readonly worker?: number;
  /** `used` and `limit` are the rule's own, not a budget's. */
  readonly isRuleLimit?: true;
}
