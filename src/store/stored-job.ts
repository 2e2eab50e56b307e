// Stored job: turns the numbers and texts of the record back into ids, actions and jobs. Keep it small: the lab's commands
// load it too.

import { withLife, type AllocationFields, type Attempt, type Job, type StepFailure } from '../core/job.ts';
import type { WorkerTask } from '../core/job.ts';
import type { JobSpec, WorkerId } from '../core/spec.ts';
import type { Subject } from '../core/decision.ts';

type StoredLife = Omit<Job, 'spec' | 'attempts' | 'allocations'> & {
  readonly attempts: readonly (Attempt | OldAttempt)[];
  readonly allocations: readonly AllocationFields[];
};

/** The job of two texts; `spec` is the whole spec or its outline. */
export function jobOf(life: string, spec: string): Job {
  const { attempts, allocations, ...rest } = objectOf<StoredLife>(life);
  return {
    ...rest,
    attempts: attempts.map(attemptOf),
    allocations: allocations.map(withLife),
    spec: objectOf<JobSpec>(spec),
  };
}

/** An object that the record keeps as JSON. Throws SyntaxError for other JSON, such as `null`: the record is damaged then. */
export function objectOf<T extends object>(text: string): T {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null) throw new SyntaxError(`a row holds ${text.slice(0, 20)}`);
  return value as T;
}

/** `42` of `000042`; undefined for what is no id. */
export function numberOf(id: string): number | undefined {
  return /^\d{6,}$/.test(id) ? Number(id) : undefined;
}

/** `000042` of 42. */
export function idOf(number: number): string {
  return String(number).padStart(6, '0');
}

/** The subject of a `subjectKey`; undefined for one of another version of jobman. */
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
      return { kind, attempt: Number(first), worker: workerOf(second), how: third === 'kill' ? 'kill' : 'ask' };
    default:
      return undefined;
  }
}

/** An attempt whose failures may be kept by their task's key, as older records have them. */
export function attemptOf(stored: Attempt | OldAttempt): Attempt {
  if ('failures' in stored) return stored;
  const { stepFailures, ...attempt } = stored;
  const failures = Object.entries(stepFailures).map(([key, failure]) => ({ ...failure, task: taskOf(key) }));
  return { ...attempt, failures };
}

/** Of a record that is older than `Attempt.failures`. */
type OldAttempt = Omit<Attempt, 'failures'> & {
  readonly stepFailures: Readonly<Record<string, Omit<StepFailure, 'task'>>>;
};

function taskOf(key: string): WorkerTask {
  const [first = '', ...rest] = key.split('/');
  const second = rest.join('/');
  if (first === 'start' || first === 'stop') return { kind: first, worker: workerOf(second) };
  return { kind: 'step', worker: Number(first), step: second };
}

function workerOf(text: string): WorkerId {
  return text === 'here' ? text : Number(text);
}
