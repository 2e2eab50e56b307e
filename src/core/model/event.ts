import type {
  AllocationState,
  CapacityAnswer,
  CloudError,
  Desired,
  Evidence,
  Exit,
  Finish,
  StartRequest,
} from './job.ts';
import type { Override, Reason, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/**
 * One immutable line of a job's history. Events alone reproduce the state (the invariant "history tells the state").
 */
export type Event = { readonly at: Instant } & EventBody;
/** An event without its time. Every number in it is the ordinal of its allocation or attempt. */
export type EventBody =
  | {
      readonly kind: 'created';
      readonly by: string;
      /** As in the spec. */
      readonly overrides?: readonly Override[];
    }
  /** A command of the owner: start, stop, resume, rerun, cancel, delete. `desired` is the desired state after it. */
  | {
      readonly kind: 'command_received';
      readonly verb: string;
      readonly by: string;
      readonly desired: Desired;
      readonly startMode?: StartRequest['startMode'];
      /** With stop: there was no ready capacity to keep. */
      readonly keepsNothing?: true;
      /** With resume: the new copy of the working directory. */
      readonly workdirCopy?: number;
    }
  | {
      readonly kind: 'attempt_created';
      readonly attempt: number;
      readonly stage: number;
      readonly startMode: StartRequest['startMode'];
      readonly startedByOwner: boolean;
      /** As in the attempt: its setup steps are skipped. */
      readonly commandOnly?: true;
      /** The copy of the working directory that it runs. */
      readonly workdirCopy?: number;
      readonly allocation: number;
      readonly notBeforeAt: Instant;
    }
  /** The attempt continues with another allocation or alternative, and requests it no earlier than `notBeforeAt`. */
  | {
      readonly kind: 'attempt_moved';
      readonly attempt: number;
      readonly allocation: number;
      readonly notBeforeAt: Instant;
    }
  | {
      readonly kind: 'allocation_requested';
      readonly allocation: number;
      readonly name: string;
      readonly ownership: 'ephemeral' | 'persistent';
      /** As in the allocation. */
      readonly alternative?: number;
    }
  /** The alternative has nothing to give, and the next one is requested instead. */
  | {
      readonly kind: 'alternative_exhausted';
      readonly allocation: number;
      readonly alternative: number;
      readonly answer: CapacityAnswer;
      readonly next: number;
    }
  /** No request was sent to this alternative, because it refused another job recently. */
  | {
      readonly kind: 'alternative_skipped';
      readonly allocation: number;
      readonly alternative: number;
      readonly next: number;
    }
  | {
      readonly kind: 'allocation_refused';
      readonly allocation: number;
      readonly error: CloudError;
      readonly nextAt?: Instant;
    }
  | {
      readonly kind: 'allocation_seen';
      readonly allocation: number;
      readonly state: AllocationState;
      readonly message: string;
      readonly workers?: number;
    }
  | { readonly kind: 'allocation_released'; readonly allocation: number; readonly message: string }
  | { readonly kind: 'allocation_gone'; readonly allocation: number }
  | {
      readonly kind: 'step_failed';
      /** The attempt in which the failure counts. Absent in history that is older than this field. */
      readonly attempt?: number;
      readonly allocation: number;
      readonly worker: number;
      readonly step: string;
      readonly tries: number;
      readonly message: string;
    }
  /**
   * The owner ran a setup step manually (`jobman setup`); with `force`, even where it already held. It changes nothing
   * in the record: the workers are observed again before the next start.
   */
  | {
      readonly kind: 'step_run_manually';
      readonly by: string;
      readonly allocation: number;
      readonly step: string;
      readonly force: boolean;
      /** Number of workers. */
      readonly workers: number;
      /** The workers on which the step does not hold now. */
      readonly failed: readonly { readonly worker: number; readonly message: string }[];
    }
  | { readonly kind: 'attempt_started'; readonly attempt: number; readonly workers: readonly WorkerId[] }
  | { readonly kind: 'attempt_running'; readonly attempt: number }
  /** The program exited on a worker, and the exit is not judged yet. */
  | {
      readonly kind: 'exit_seen';
      readonly attempt: number;
      readonly worker: WorkerId;
      readonly exitCode: number;
      readonly signal?: string;
    }
  /**
   * The attempt must end, and its processes are being stopped. `since` is the time at which the program ended by
   * itself, as its worker reports it; absent, it is the time of the event.
   */
  | {
      readonly kind: 'attempt_ending';
      readonly attempt: number;
      readonly reason: Reason;
      readonly evidence: Evidence;
      readonly programEndedAt?: Instant;
    }
  /** No process of it is alive. `endedAt` is the exit time of its last program, if every worker reported one. */
  | {
      readonly kind: 'attempt_ended';
      readonly attempt: number;
      readonly reason: Reason;
      readonly evidence: Evidence;
      readonly endedAt?: Instant;
      /** As in the attempt. */
      readonly exits?: readonly Exit[];
    }
  /** The recovery rule that answered, and the used part of the budget. */
  | {
      readonly kind: 'rule_applied';
      readonly attempt: number;
      readonly reason: Reason;
      readonly then: string;
      readonly on: string;
      readonly used: number;
      readonly limit: number;
      /** The log pattern that the rule names. */
      readonly pattern?: string;
      /** The exit code and the worker that the rule names. */
      readonly exitCode?: number;
      readonly worker?: number;
      /** `used` and `limit` are the rule's own, not a budget's. */
      readonly isRuleLimit?: true;
    }
  | { readonly kind: 'unreachable'; readonly allocation: number; readonly worker?: WorkerId; readonly message: string }
  /** `who: 'workers'`: a worker was silent, not the cloud. */
  | { readonly kind: 'reachable'; readonly allocation: number; readonly who?: 'workers' }
  /** The controller's clock was set back. Times that were in the future now count from this event. */
  | { readonly kind: 'clock_set_back' }
  | { readonly kind: 'finished'; readonly verdict: Finish['verdict']; readonly reason: Reason }
  | { readonly kind: 'removed' };
