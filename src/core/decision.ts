// Decision: what `reconcile` answers. Actions are plain data, which the controller performs; rules hand on a changed record with
// the events that tell of it.

import { withLife } from './job.ts';
import type {
  Desired,
  Evidence,
  Exit,
  Job,
  Settled,
  Wish,
  CloudError,
  AllocationState,
  PlaceAnswer,
  AllocationFields,
  Attempt,
} from './job.ts';
import type { Override, Reason, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** The answer to one look at one job. */
export interface Decision {
  readonly job: Job;
  /** Lines of history, in order; empty when nothing changed. */
  readonly events: readonly Event[];
  /** Idempotent effects that should be under way now. The same decision is repeated while they are. */
  readonly actions: readonly Action[];
  /** When to look again, at the latest; undefined when only somebody's wish can change anything. */
  readonly wakeAt: Instant | undefined;
}

/**
 * One idempotent effect. Each names the ordinal of what it acts on, so that a late one cannot touch a later thing.
 * `request` and `release` act on the allocation, `step` on a worker of it, `start` and `stop` on an attempt's process.
 */
export type Action =
  | { readonly kind: 'request'; readonly allocation: number }
  | { readonly kind: 'release'; readonly allocation: number }
  | {
      readonly kind: 'step';
      readonly allocation: number;
      readonly worker: number;
      readonly step: string;
      readonly attempt: number;
    }
  | {
      readonly kind: 'start';
      readonly attempt: number;
      readonly allocation: number;
      readonly worker: WorkerId;
      /** The boot in which the worker's steps were seen proven: on another one it must not start. Absent: any will do. */
      readonly bootId?: string;
    }
  | {
      readonly kind: 'stop';
      readonly attempt: number;
      readonly allocation: number;
      readonly worker: WorkerId;
      /** `ask` sends the job's stop signal, `kill` ends it with all its children. */
      readonly how: 'ask' | 'kill';
    };

/** One immutable line of history. Events alone reproduce the state (the invariant "history tells the state"). */
export type Event = { readonly at: Instant } & EventBody;
/** One thing that happened, without its time; every number in it is the ordinal of what it names. */
export type EventBody =
  | {
      readonly kind: 'created';
      readonly by: string;
      /** As in the spec. */
      readonly overrides?: readonly Override[];
    }
  /** The owner's word: start, stop, resume, rerun, cancel, delete; `desired` is what it came to. */
  | {
      readonly kind: 'asked';
      readonly verb: string;
      readonly by: string;
      readonly desired: Desired;
      readonly how?: Wish['how'];
      /** With stop: nothing was there that it could keep. */
      readonly keepsNothing?: true;
      /** With resume: the copy of the working directory that was taken anew for it. */
      readonly copy?: number;
    }
  | {
      readonly kind: 'attempt_created';
      readonly attempt: number;
      readonly stage: number;
      readonly how: Wish['how'];
      readonly asked: boolean;
      /** As in the attempt: its steps are passed over. */
      readonly commandOnly?: true;
      /** The copy of the working directory that it runs. */
      readonly workdir?: number;
      readonly allocation: number;
      readonly notBefore: Instant;
    }
  /** No capacity came of its allocation; it goes on with another, not asked for before that moment. */
  | {
      readonly kind: 'attempt_moved';
      readonly attempt: number;
      readonly allocation: number;
      readonly notBefore: Instant;
    }
  | {
      readonly kind: 'allocation_requested';
      readonly allocation: number;
      readonly name: string;
      readonly ownership: 'owned' | 'standing';
      /** As in the allocation. */
      readonly place?: number;
    }
  /** The allocation's place had nothing, and another is asked in its stead. */
  | {
      readonly kind: 'place_passed_over';
      readonly allocation: number;
      readonly place: number;
      readonly answer: PlaceAnswer;
      readonly next: number;
    }
  /** Nothing is asked for there, because it has told another job lately that it has nothing. */
  | {
      readonly kind: 'place_skipped';
      readonly allocation: number;
      readonly place: number;
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
      readonly detail: string;
      readonly workers?: number;
    }
  | { readonly kind: 'allocation_released'; readonly allocation: number; readonly why: string }
  | { readonly kind: 'allocation_gone'; readonly allocation: number }
  | {
      readonly kind: 'step_failed';
      /** The attempt in which it counts; absent in history that is older than this field. */
      readonly attempt?: number;
      readonly allocation: number;
      readonly worker: number;
      readonly step: string;
      readonly tries: number;
      readonly detail: string;
    }
  /**
   * Its owner had a setup step gone through by hand (`jobman setup`); with `force` also where it held. It says nothing of the
   * state: what holds is asked of the workers again before the next start.
   */
  | {
      readonly kind: 'step_by_hand';
      readonly by: string;
      readonly allocation: number;
      readonly step: string;
      readonly force: boolean;
      /** On how many workers. */
      readonly workers: number;
      /** Those of them on which it does not hold now. */
      readonly failed: readonly { readonly worker: number; readonly detail: string }[];
    }
  | { readonly kind: 'attempt_started'; readonly attempt: number; readonly workers: readonly WorkerId[] }
  | { readonly kind: 'attempt_running'; readonly attempt: number }
  /** The program has ended on a worker, and what it ended of is not judged yet. */
  | {
      readonly kind: 'exit_seen';
      readonly attempt: number;
      readonly worker: WorkerId;
      readonly exitCode: number;
      readonly signal?: string;
    }
  /**
   * Something decided that the attempt must end; the processes are being ended. `since` is when its program had ended by
   * itself, where the worker tells that; absent, it is the time of the event.
   */
  | {
      readonly kind: 'attempt_ending';
      readonly attempt: number;
      readonly reason: Reason;
      readonly evidence: Evidence;
      readonly since?: Instant;
    }
  /** Nothing of it is alive. `endedAt` is when the last of its programs ended, where all have told it. */
  | {
      readonly kind: 'attempt_ended';
      readonly attempt: number;
      readonly reason: Reason;
      readonly evidence: Evidence;
      readonly endedAt?: Instant;
      /** As in the attempt. */
      readonly exits?: readonly Exit[];
    }
  /** Which row of the rules answered, and how much of the budget is used. */
  | {
      readonly kind: 'rule_applied';
      readonly attempt: number;
      readonly reason: Reason;
      readonly then: string;
      readonly on: string;
      readonly used: number;
      readonly limit: number;
      /** The log pattern that the row names, if it names one. */
      readonly pattern?: string;
      /** The other things that the row names. */
      readonly exitCode?: number;
      readonly worker?: number;
      /** `used` and `limit` are the row's own, and not a budget's. */
      readonly isOwn?: true;
    }
  | { readonly kind: 'silent'; readonly allocation: number; readonly worker?: WorkerId; readonly detail: string }
  /** `who: 'workers'`: it was a worker that did not answer, and not the cloud. */
  | { readonly kind: 'answering'; readonly allocation: number; readonly who?: 'workers' }
  /** The controller's clock was set back: what was noted while it was ahead counts from this event's moment. */
  | { readonly kind: 'clock_set_back' }
  | { readonly kind: 'settled'; readonly verdict: Settled['verdict']; readonly reason: Reason }
  | { readonly kind: 'removed' };

// ------------------------------------------------------------------------------------------ changes of a record

/** A record and what happened to bring it about, in order; no events when nothing did. */
export interface Change {
  readonly job: Job;
  readonly events: readonly Event[];
}

/** Nothing happened yet. */
export function unchanged(job: Job): Change {
  return { job, events: [] };
}

/** This and then that; history stays in order. */
export function chain(first: Change, ...rules: readonly ((job: Job) => Change)[]): Change {
  let { job, events } = first;
  for (const rule of rules) {
    const next = rule(job);
    job = next.job;
    if (next.events.length > 0) events = [...events, ...next.events];
  }
  return { job, events };
}

/** A new record with its line of history. */
export function told(job: Job, at: Instant, ...bodies: readonly EventBody[]): Change {
  return { job, events: bodies.map((body) => ({ at, ...body })) };
}

/** The value with these fields; the value itself when it has them: an unchanged record tells the loop not to write. */
function patched<T extends object>(value: T, patch: Partial<T>): T {
  const keys = Object.keys(patch) as (keyof T)[];
  return keys.every((key) => Object.is(value[key], patch[key])) ? value : { ...value, ...patch };
}

/** The job with that allocation changed, and with it perhaps the part of its life. */
export function withAllocation(job: Job, ordinal: number, patch: Partial<AllocationFields>): Job {
  return patched(job, {
    allocations: replaced(job.allocations, ordinal, (one) => {
      const next = patched<AllocationFields>(one, patch);
      return next === one ? one : withLife(next);
    }),
  });
}

/** The job with that attempt changed. */
export function withAttempt(job: Job, ordinal: number, patch: Partial<Attempt>): Job {
  return patched(job, { attempts: replaced(job.attempts, ordinal, (one) => patched(one, patch)) });
}

function replaced<T extends { readonly ordinal: number }>(
  list: readonly T[],
  ordinal: number,
  change: (item: T) => T,
): readonly T[] {
  const next = list.map((item) => (item.ordinal === ordinal ? change(item) : item));
  return next.every((item, index) => item === list[index]) ? list : next;
}

// ------------------------------------------------------------------------------------------ subjects

/** An action is under way at most once for each subject. */
export type Subject =
  | { readonly kind: 'request' | 'release'; readonly allocation: number }
  | { readonly kind: 'step'; readonly allocation: number; readonly worker: number; readonly step: string }
  | { readonly kind: 'start'; readonly attempt: number; readonly worker: WorkerId }
  | { readonly kind: 'stop'; readonly attempt: number; readonly worker: WorkerId; readonly how: 'ask' | 'kill' };

/** A text that differs for each subject, as a key of maps and rows: `start/2/0`. Only the store reads it back. */
export function subjectKey(subject: Subject): string {
  switch (subject.kind) {
    case 'request':
    case 'release':
      return `${subject.kind}/${subject.allocation}`;
    case 'step':
      return `step/${subject.allocation}/${subject.worker}/${subject.step}`;
    case 'start':
      return `start/${subject.attempt}/${subject.worker}`;
    case 'stop':
      return `stop/${subject.attempt}/${subject.worker}/${subject.how}`;
  }
}
