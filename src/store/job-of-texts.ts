// Job of texts: a job as the record keeps it, back from there. Whoever only reads lives loads this, and nothing of what rows are made
// with.

import { withLife } from '../core/job.ts';
import type { AllocationFields, Attempt, Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';
import { attemptOf } from './subjects.ts';
import type { OldAttempt } from './subjects.ts';

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
