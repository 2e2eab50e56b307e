// Orphan usage: the usage of allocations that no pass of their job observes any more, as orphan collection finds them.

import type { Orphan, Store } from '../app/ports.ts';
import { recordOrphanUsage } from '../app/record-orphan.ts';
import type { SliceState } from '../core/model/ready-periods.ts';
import { second, type Instant } from '../core/model/time.ts';

/** Long enough for the cloud to finish a deletion, so that one collection is enough. */
export const delayAfterRelease = 45 * second;

export interface OrphanUsageOptions {
  readonly store: Store;
  readonly mayAct: () => boolean;
  /** The epoch of the lease. */
  readonly epoch: () => number | null;
  readonly missing: ReturnType<typeof createMissing>;
}

export function createOrphanUsage({ store, mayAct, epoch, missing }: OrphanUsageOptions) {
  return {
    /** `found` is everything with our label in the location of that prefix. */
    async record(prefix: string, found: readonly Orphan[], now: Instant): Promise<void> {
      if (!mayAct()) return;
      for (const orphan of joinSlices(found)) await recordOrphanUsage(store, orphan, orphan.slices ?? [], now, epoch());
      for (const { job, allocation, ownership, use, until, project, location } of await store.usage({ since: now })) {
        // Only an open ready period can end, and the list has no persistent capacity.
        if (ownership === 'persistent' || use === 'waiting' || until !== null) continue;
        if (prefix !== `projects/${project}/locations/${location}/`) continue;
        const isThere = isAmong(found, { job, allocation });
        const missedAt = missing.since(`${prefix}${job}/${allocation}`, isThere, now);
        const at = { job, allocation, resource: prefix };
        if (missedAt !== undefined) await recordOrphanUsage(store, at, [], missedAt, epoch());
      }
    },
  };
}

/**
 * Remembers when a collection first missed each resource, because one list may be partial. `onMissed` arranges for the
 * second collection.
 */
export function createMissing(onMissed: () => void) {
  const missed = new Map<string, Instant>();
  return {
    /** The first of two collections that missed it; undefined before the second. Then it is forgotten. */
    since(key: string, isThere: boolean, now: Instant): Instant | undefined {
      const missedAt = missed.get(key);
      if (isThere) missed.delete(key);
      else if (missedAt === undefined || now < missedAt) {
        missed.set(key, now);
        onMissed();
      } else if (now >= missedAt + delayAfterRelease) {
        missed.delete(key);
        return missedAt;
      }
      return undefined;
    },
  };
}

export function isAmong(found: readonly Orphan[], { job, allocation }: Pick<Orphan, 'job' | 'allocation'>): boolean {
  return found.some((one) => one.job === job && one.allocation === allocation);
}

/** One entry for each allocation: the nodes of a multislice without their queued resource are listed one by one. */
function joinSlices(found: readonly Orphan[]): readonly Orphan[] {
  const byAllocation = new Map<string, Orphan>();
  for (const orphan of found) {
    const key = `${orphan.job}/${orphan.allocation}`;
    const { slices: before = [] } = byAllocation.get(key) ?? {};
    const { slices = [] } = orphan;
    const length = Math.max(before.length, slices.length);
    const joined = Array.from({ length }, (_, index): SliceState => {
      const states = [before[index], slices[index]];
      return states.includes('ready') ? 'ready' : states.includes('preempted') ? 'preempted' : 'other';
    });
    byAllocation.set(key, { ...orphan, slices: joined });
  }
  return [...byAllocation.values()];
}
