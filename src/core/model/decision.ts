// Decision: the result of `reconcile`. Actions are plain data that the controller performs. Rules return the changed
// job with its events.

import { withLifecycle, type AllocationFields, type Attempt, type Job } from './job.ts';
import type { Event, EventBody } from './event.ts';
import type { WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** The result of one pass over one job. */
export interface Decision {
  readonly job: Job;
  /** In order. Empty if nothing changed. */
  readonly events: readonly Event[];
  /** Idempotent actions that should be in progress now. Each pass returns them again while they are needed. */
  readonly actions: readonly Action[];
  /** The latest time of the next pass. Undefined if only a command of a user can change anything. */
  readonly wakeAt: Instant | undefined;
}

/** The subject of an action, by ordinals: a late action cannot touch a later subject. At most one action per subject runs. */
export type Subject =
  | { readonly kind: 'request' | 'release'; readonly allocation: number }
  | { readonly kind: 'step'; readonly allocation: number; readonly worker: number; readonly step: string }
  | { readonly kind: 'start'; readonly attempt: number; readonly worker: WorkerId }
  /** `stop` sends the job's stop signal, `kill` ends the program with all its children. */
  | { readonly kind: 'stop'; readonly attempt: number; readonly worker: WorkerId; readonly signal: 'stop' | 'kill' };

type SubjectOf<Kind> = Extract<Subject, { readonly kind: Kind }>;

/** One idempotent effect on its subject. */
export type Action =
  | SubjectOf<'request' | 'release'>
  | (SubjectOf<'step'> & { readonly attempt: number })
  /** The command must not start in another boot than `bootId`, in which the worker was set up. Absent: any boot. */
  | (SubjectOf<'start'> & { readonly allocation: number; readonly bootId?: string })
  | (SubjectOf<'stop'> & { readonly allocation: number });

/** A unique key for maps and rows: `start/2/0`. `subjectOf` parses it. */
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
      return `stop/${subject.attempt}/${subject.worker}/${subject.signal}`;
  }
}

/** Undefined for a key of another version of jobman. */
export function subjectOf(key: string): Subject | undefined {
  const [kind = '', first = '', second = '', ...rest] = key.split('/');
  const third = rest.join('/');
  switch (kind) {
    case 'request':
    case 'release':
      return { kind, allocation: Number(first) };
    case 'step':
      return { kind, allocation: Number(first), worker: Number(second), step: third };
    case 'start':
      return { kind, attempt: Number(first), worker: workerOf(second) };
    case 'stop':
      return { kind, attempt: Number(first), worker: workerOf(second), signal: third === 'kill' ? 'kill' : 'stop' };
    default:
      return undefined;
  }
}

function workerOf(text: string): WorkerId {
  return text === 'controller' ? text : Number(text);
}

/** Does nothing until that time. Without a time the job waits for a command, a slot or the end of a release. */
export function wait(job: Job, wakeAt?: Instant): Decision {
  return { ...withoutEvents(job), actions: [], wakeAt };
}

/** The job changed, so the next step may follow at once. */
export function recheckNow(change: Change, now: Instant): Decision {
  return { ...change, actions: [], wakeAt: now };
}

// ------------------------------------------------------------------------------------------ changes of a job

/** The changed job and the events of the change, in order. */
export interface Change {
  readonly job: Job;
  readonly events: readonly Event[];
}

export function withoutEvents(job: Job): Change {
  return { job, events: [] };
}

/** Applies each rule to the result of the one before, and keeps the events in order. */
export function chain(first: Change, ...rules: readonly ((job: Job) => Change)[]): Change {
  let { job, events } = first;
  for (const rule of rules) {
    const next = rule(job);
    job = next.job;
    if (next.events.length > 0) events = [...events, ...next.events];
  }
  return { job, events };
}

export function withEvents(job: Job, at: Instant, ...bodies: readonly EventBody[]): Change {
  return { job, events: bodies.map((body) => ({ at, ...body })) };
}

/** The value with these fields, or the same object if nothing differs: then the controller does not write. */
function patched<T extends object>(value: T, patch: Partial<T>): T {
  const keys = Object.keys(patch) as (keyof T)[];
  return keys.every((key) => Object.is(value[key], patch[key])) ? value : { ...value, ...patch };
}

/** Also updates the lifecycle of the allocation. */
export function withAllocation(job: Job, ordinal: number, patch: Partial<AllocationFields>): Job {
  return patched(job, {
    allocations: replaced(job.allocations, ordinal, (one) => {
      const next = patched<AllocationFields>(one, patch);
      return next === one ? one : withLifecycle(next);
    }),
  });
}

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
