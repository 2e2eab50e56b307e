// Admission: keeps at hand the records of the jobs that take turns, so that each pass can be told whose turn it is.
// Who that is, core/admit.ts decides from the records alone.

import { admit, holdsSlot, isAdmitted, takesTurns, waitsForSlot } from '../core/admit.ts';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';

export interface Admission {
  /** Whether this job may go on. */
  ask(job: Job): boolean;
  /** The record after a commit: whoever has his turn by it is woken. */
  note(job: Job): void;
  /** Who holds a slot and who waits, before the first pass. Called once. */
  learn(unsettled: readonly Job[]): void;
}

export function createAdmission(options: {
  readonly slots: number;
  readonly wake: (id: string) => void;
  readonly now: () => Instant;
}): Admission {
  const jobs = new Map<string, Job>();
  let admitted: ReadonlySet<string> = new Set();

  /** True when it changed who holds or waits, on which, beside the end of a pause, the turns depend. */
  function keep(job: Job): boolean {
    const before = jobs.get(job.id);
    if (holdsSlot(job) || waitsForSlot(job)) jobs.set(job.id, job);
    else jobs.delete(job.id);
    const isSame =
      before === undefined
        ? !jobs.has(job.id)
        : jobs.has(job.id) && holdsSlot(before) === holdsSlot(job) && before.wish?.at === job.wish?.at;
    return !isSame;
  }

  function admitNow(): void {
    admitted = admit(options.slots, [...jobs.values()], options.now(), admitted);
  }

  return {
    ask(job) {
      // One that is not admitted may ask because its pause is over.
      if (takesTurns(job) && (keep(job) || !admitted.has(job.id))) admitNow();
      return isAdmitted(admitted, job);
    },
    note(job) {
      if (!takesTurns(job) || !keep(job)) return;
      const before = admitted;
      admitNow();
      for (const id of admitted) if (!before.has(id) && id !== job.id) options.wake(id);
    },
    learn(unsettled) {
      for (const job of unsettled) if (takesTurns(job)) keep(job);
      admitNow();
      // A job that waits for its turn has no time of its own.
      for (const id of admitted) options.wake(id);
    },
  };
}
