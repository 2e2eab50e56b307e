// Silences: since when each worker has not answered, without a break. A look that failed says nothing about the time since
// the one before it: the worker may have answered in between, with nobody there to ask (the process stood still, the disk
// was full, the laptop slept). So a silence is as long as looks that followed closely upon one another have found it to be.
// This is kept beside the record, not in it, because it changes with every look. Losing it costs patience and nothing else.

import type { WorkerFact } from '../core/observation.ts';
import { unknown } from '../core/observation.ts';
import { minute } from '../core/time.ts';
import type { Duration, Instant } from '../core/time.ts';

/** From the end of one look to the beginning of the next, within one silence: twice the longest wait for a next look. */
const apartMost: Duration = minute;
/** An observation that takes longer looks more like a process that stood still in the middle of it. */
const lookLongest: Duration = 2 * minute;

export interface Silences {
  /** The fact of an observation from `began` to `now`; of a silent worker with the time since which it has been silent. */
  heard(job: string, fact: WorkerFact, began: Instant, now: Instant): WorkerFact;
  /** The same fact of a worker that was not asked, because this process could not: its silence has lasted for no time. */
  notAsked(job: string, fact: WorkerFact, now: Instant): WorkerFact;
  /** Nobody asks about that job any more. */
  forget(job: string): void;
}

interface Silence {
  readonly since: Instant;
  readonly lastAt: Instant;
}

/** Remembers nothing yet: for a controller that has just begun every silence begins with its first look. */
export function createSilences(): Silences {
  const silences = new Map<string, Map<string, Silence>>();
  return {
    heard(job, seen, began, now) {
      const { allocation, worker, fact } = seen;
      const key = `${allocation}/${worker}`;
      const ofJob = silences.get(job);
      if (fact.kind === 'known') {
        ofJob?.delete(key);
        if (ofJob?.size === 0) silences.delete(job);
        return seen;
      }
      const before = ofJob?.get(key);
      // A clock that was set back makes the time between two looks unknown, as a long one is.
      const isUnbroken =
        before !== undefined &&
        began >= before.lastAt &&
        began - before.lastAt <= apartMost &&
        now >= began &&
        now - began <= lookLongest;
      const since = isUnbroken ? before.since : now;
      silences.set(job, (ofJob ?? new Map<string, Silence>()).set(key, { since, lastAt: now }));
      return { ...seen, fact: unknown(fact.reason, since) };
    },
    notAsked(job, seen, now) {
      silences.get(job)?.delete(`${seen.allocation}/${seen.worker}`);
      return seen.fact.kind === 'known' ? seen : { ...seen, fact: unknown(seen.fact.reason, now) };
    },
    forget: (job) => void silences.delete(job),
  };
}
