import type {
  AllocationFields,
  AllocationState,
  Attempt,
  CapacityAnswer,
  CloudError,
  Desired,
  Evidence,
  Exit,
  Finish,
  StartRequest,
} from './job.ts';
import type { Override, Reason, RuleAnswer, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** One immutable line of a job's history. Events alone reproduce the state, which the simulator proves. */
export type Event = { readonly at: Instant } & EventBody;
/** An event without its time. Every number in it is the ordinal of its allocation or attempt. */
export type EventBody =
  | { readonly kind: 'created'; readonly by: string; readonly overrides?: readonly Override[] }
  /** A command of the owner. `desired` is the desired state after it. */
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
  | ({ readonly kind: 'attempt_created'; readonly attempt: number } & Pick<
      Attempt,
      'stage' | 'startMode' | 'startedByOwner' | 'commandOnly' | 'workdirCopy' | 'allocation' | 'notBeforeAt'
    >)
  /** The attempt continues with another allocation or alternative, which is requested no earlier than `notBeforeAt`. */
  | {
      readonly kind: 'attempt_moved';
      readonly attempt: number;
      readonly allocation: number;
      readonly notBeforeAt: Instant;
    }
  | ({ readonly kind: 'allocation_requested'; readonly allocation: number } & Pick<
      AllocationFields,
      'name' | 'ownership' | 'alternative'
    >)
  /** The alternative has no capacity, and the next one is requested instead. */
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
      readonly attempt: number;
      readonly allocation: number;
      readonly worker: number;
      readonly step: string;
      readonly tries: number;
      readonly message: string;
    }
  /** The owner ran a setup step manually (`jobman setup`); with `force`, even where it already held. */
  | {
      readonly kind: 'step_run_manually';
      readonly by: string;
      readonly allocation: number;
      readonly step: string;
      readonly force: boolean;
      /** Number of workers. */
      readonly workers: number;
      /** The workers on which the step failed. */
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
  /** The attempt must end. `since` is the exit time that the program's worker reports. Absent: the time of the event. */
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
      readonly exits?: readonly Exit[];
    }
  | ({ readonly kind: 'rule_applied'; readonly attempt: number; readonly reason: Reason } & AppliedRule)
  | { readonly kind: 'unreachable'; readonly allocation: number; readonly worker?: WorkerId; readonly message: string }
  /** `who: 'workers'`: a worker was silent, not the cloud. */
  | { readonly kind: 'reachable'; readonly allocation: number; readonly who?: 'workers' }
  /** The controller's clock was set back. Times that were in the future now count from this event. */
  | { readonly kind: 'clock_set_back' }
  | { readonly kind: 'finished'; readonly verdict: Finish['verdict']; readonly reason: Reason }
  | { readonly kind: 'removed' };

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
