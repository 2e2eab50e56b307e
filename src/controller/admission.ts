// Admission: whose turn it is. A machine that is always there has no queue of its own, so its slots are ours to give.
// Who holds a slot is told by the records: a job with an open attempt that was let in. Nothing is remembered beyond them.

import type { Store } from '../app/ports.ts';
import { openAttempt } from '../core/job.ts';
import type { Job } from '../core/job.ts';
import type { Observation } from '../core/observation.ts';

export interface Admission {
  /** Whether this job may go on; gives it a slot when one is free and nobody is before it. */
  ask(job: Job): Observation['admitted'];
  /** The record after a commit: a job that needs its slot no longer gives it to the next in line. */
  note(job: Job): void;
  /** Reads from the store who holds a slot, before the first pass. */
  learn(store: Store): Promise<void>;
}

export function createAdmission(options: { readonly slots: number; readonly wake: (id: string) => void }): Admission {
  const holders = new Set<string>();
  const waiting = new Set<string>();

  const needsSlot = (job: Job): boolean => job.spec.capacity.kind === 'local';
  const holdsSlot = (job: Job): boolean => job.settled === null && openAttempt(job) !== undefined;

  return {
    ask(job) {
      if (!needsSlot(job) || holders.has(job.id)) return { ok: true };
      if (holders.size < options.slots && (waiting.size === 0 || job.id === firstOf(waiting))) {
        waiting.delete(job.id);
        holders.add(job.id);
        return { ok: true };
      }
      if (job.settled === null) waiting.add(job.id);
      return { ok: false, detail: `all ${options.slots} slots of this machine are taken` };
    },
    note(job) {
      if (!needsSlot(job)) return;
      if (job.settled !== null || job.desired !== 'run') waiting.delete(job.id);
      if (holdsSlot(job)) return;
      holders.delete(job.id);
      const next = firstOf(waiting);
      if (next !== undefined && holders.size < options.slots) options.wake(next);
    },
    async learn(store) {
      const page = await store.list({ settledMost: 0 });
      for (const job of page.jobs) if (needsSlot(job) && holdsSlot(job)) holders.add(job.id);
    },
  };
}

/** Lowest id first: who came first. */
function firstOf(ids: ReadonlySet<string>): string | undefined {
  let first: string | undefined;
  for (const id of ids) if (first === undefined || id < first) first = id;
  return first;
}
