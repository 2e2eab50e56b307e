// Stored job: turns the numbers and texts of the database into ids and jobs. Keep it small: the lab's commands
// load it too.

import { withLifecycle, type AllocationFields, type Job } from '../core/model/job.ts';
import { upgradeSpec, type StoredSpec } from '../core/model/spec-version.ts';

type StoredStatus = Omit<Job, 'spec' | 'allocations'> & { readonly allocations: readonly AllocationFields[] };

/** `spec` is a whole spec or an outline. */
export function jobOf(status: string, spec: string): Job {
  const { allocations, ...rest } = objectOf<StoredStatus>(status);
  return { ...rest, allocations: allocations.map(withLifecycle), spec: upgradeSpec(objectOf<StoredSpec>(spec)) };
}

/** Throws SyntaxError for other JSON, such as `null`, because the database is then damaged. */
export function objectOf<T extends object>(text: string): T {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null) throw new SyntaxError(`a row holds ${text.slice(0, 20)}`);
  return value as T;
}

/** PostgreSQL numbers jobs, and the events of a job, with 32 bits. */
export const maxNumber = 2 ** 31 - 1;

/** `42` for `000042`; undefined for a text that is not a job id. */
export function numberOf(id: string): number | undefined {
  return /^\d{6,}$/.test(id) && Number(id) <= maxNumber ? Number(id) : undefined;
}

export function idOf(number: number): string {
  return String(number).padStart(6, '0');
}
