// Capacity watch: observes the capacity of running jobs between their passes, with one request for all jobs of a
// location, and wakes a job whose capacity has changed. A pass costs a session on each worker; a list costs little.

import type { AllocationRef, Backend, Clock } from '../app/ports.ts';
import { capacityTraits } from '../core/decide/allocate.ts';
import { lastAllocation, mayExist, type Job } from '../core/model/job.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import type { Observer } from './observe.ts';

/** jobman must react to a preemption within 30 s. */
const watchInterval: Duration = 20 * second;

export type CapacityWatch = ReturnType<typeof createCapacityWatch>;

export function createCapacityWatch(parts: {
  readonly clock: Clock;
  readonly backendOf: (spec: Job['spec']) => Backend;
  readonly observerFor: (backend: Backend) => Observer;
  readonly wake: (id: string) => void;
}) {
  const watched = new Map<string, AllocationRef>();
  let lastAt: Instant = -Infinity;
  let isPolling = false;

  async function observeAll(backend: Backend, refs: readonly AllocationRef[]): Promise<void> {
    const facts = await parts.observerFor(backend)(refs);
    for (const [index, { job, allocation }] of refs.entries()) {
      const fact = facts[index];
      // The next pass of the job finds out how long an unknown lasts.
      if (fact?.kind !== 'known' || fact.value.state === allocation.lastObserved?.state) continue;
      if (watched.get(job.id)?.allocation === allocation) parts.wake(job.id);
    }
  }

  return {
    /** Infinity while no job is watched. Earlier than `now` if the clock was set back. */
    dueAt(now: Instant): Instant {
      if (watched.size === 0) return Infinity;
      return lastAt > now ? now : Math.floor(lastAt / watchInterval) * watchInterval + watchInterval;
    },
    /** Call it after each pass. A job that is due before the next poll needs no watch. */
    update(job: Job, wakeAt: Instant | undefined, now: Instant): void {
      const allocation = lastAllocation(job);
      const isWatched =
        capacityTraits(job.spec.capacity).needsWatch &&
        allocation?.lastObserved?.state === 'ready' &&
        mayExist(allocation) &&
        wakeAt !== undefined &&
        wakeAt > now + watchInterval;
      if (isWatched) watched.set(job.id, { job, allocation });
      else watched.delete(job.id);
    },
    /**
     * Does nothing until the clouds have answered the previous poll, because each poll would add all jobs to the next
     * request. Never rejects, because an observer answers `unknown` for each failure.
     */
    async poll(now: Instant): Promise<void> {
      lastAt = now;
      if (isPolling) return;
      isPolling = true;
      const byBackend = Map.groupBy(watched.values(), ({ job }) => parts.backendOf(job.spec));
      await Promise.all([...byBackend].map(([backend, refs]) => observeAll(backend, refs)));
      isPolling = false;
    },
  };
}
