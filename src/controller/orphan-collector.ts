// Orphan collector: lists every cloud resource with our label and finds its job. A request may take effect after its
// allocation was observed as deleted; such a resource is released. A resource of an unknown job or allocation is
// recorded but not released, because it may belong to a copy of this installation.

import { messageOf } from '../app/errors.ts';
import { locationPrefix, type AllocationRef, type CapacityPort, type Clock, type Orphan } from '../app/ports.ts';
import { capacityOf, type Job } from '../core/model/job.ts';
import { alternativeOf } from '../core/model/spec.ts';
import { minute, type Duration, type Instant } from '../core/model/time.ts';
import type { ControllerOptions } from './controller.ts';
import {
  createMissing,
  createOrphanUsage,
  delayAfterRelease,
  isAmong,
  type OrphanUsageOptions,
} from './orphan-usage.ts';
import type { PerformerOptions } from './performer.ts';

const collectInterval = 5 * minute;
/** A request whose reply was lost takes effect at most this long after the release. */
const maxRequestDelay = 5 * minute;
/**
 * An incomplete collection is soon repeated, but an expired login must not keep the controller running. A number instead
 * of a time, because the clock may jump.
 */
const maxRetries = 4;

type Claim = 'claimed' | 'release' | 'unknown';

/** A resource that exists after its allocation was observed as deleted is not claimed. */
function claimOf(job: Job | undefined, orphan: Orphan): Claim {
  const { allocation: ordinal, resource } = orphan;
  const allocation = job?.allocations.find((one) => one.ordinal === ordinal);
  if (job === undefined || allocation === undefined) return 'unknown';
  if (allocation.ownership === 'persistent') return 'claimed';
  // Nor is a resource in a location that refused the request before the job tried another location.
  const prefix = locationPrefix(capacityOf(job, allocation));
  const isElsewhere = prefix !== null && !resource.startsWith(prefix);
  // Nor one that was requested in another alternative of the same zone.
  const { alternative = 0, readyAt } = allocation;
  const isOther = readyAt === null && alternativeOf(job.spec.capacity, alternative, orphan) !== alternative;
  if (allocation.goneAt === null && !isElsewhere && !isOther) return 'claimed';
  return 'release';
}

interface OrphanLocation {
  readonly capacity: CapacityPort;
  readonly prefix: string;
  readonly ref: AllocationRef;
}

export function createOrphanCollector(
  options: Pick<ControllerOptions, 'store' | 'backendOf' | 'clock'> &
    Pick<PerformerOptions, 'mayAct' | 'report'> &
    Omit<OrphanUsageOptions, 'missing'>,
) {
  const { store, clock, mayAct } = options;
  const schedule = createCollectionSchedule(clock);
  const missing = createMissing(() => schedule.again(delayAfterRelease));
  const usage = createOrphanUsage({ ...options, missing });

  async function locations(began: Instant): Promise<readonly OrphanLocation[]> {
    const { refs, goneAt } = await store.locationsToCollect(began);
    schedule.expectLateRequests(goneAt);
    return refs.flatMap((ref): readonly OrphanLocation[] => {
      const prefix = locationPrefix(capacityOf(ref.job, ref.allocation));
      return prefix === null ? [] : [{ capacity: options.backendOf(ref.job.spec).capacity, prefix, ref }];
    });
  }

  /** An orphan is gone when two collections have missed it. */
  async function forgetGone(
    { capacity, prefix }: OrphanLocation,
    found: readonly Orphan[],
    now: Instant,
  ): Promise<void> {
    for (const orphan of await store.orphans()) {
      if (orphan.backend !== capacity.backend || !orphan.resource.startsWith(prefix)) continue;
      if (missing.since(orphan.resource, isAmong(found, orphan), now) === undefined) continue;
      await store.forgetOrphan(orphan);
      options.report(`the orphan ${orphan.resource} no longer exists`);
    }
  }

  /** False when a resource must be released and this controller lacks the lease. */
  async function handleResource(capacity: CapacityPort, orphan: Orphan): Promise<boolean> {
    // Loaded after the list was made, so that a job created in between can claim its resources.
    const job = (await store.load(orphan.job))?.job;
    switch (claimOf(job, orphan)) {
      case 'claimed':
        return true;
      case 'unknown':
        await store.recordOrphan(orphan, clock.now());
        options.report(`no job here claims ${orphan.resource}, which has our label; recorded as an orphan`);
        return true;
      case 'release': {
        // The next collection verifies the release. Without the lease, collections continue.
        schedule.again(maxRequestDelay);
        if (!mayAct()) return false;
        const result = await capacity.releaseOrphan(orphan);
        options.report(
          `${orphan.resource} of job ${orphan.job} appeared after its release; releasing it again: ${result.kind}`,
        );
        return true;
      }
    }
  }

  /** False when a later collection must repeat it. */
  async function collectIn(location: OrphanLocation, began: Instant): Promise<boolean> {
    const found = await listResources(location, options.report);
    if (found === undefined) return false;
    let isThrough = true;
    for (const orphan of found) if (!(await handleResource(location.capacity, orphan))) isThrough = false;
    await forgetGone(location, found, began);
    await usage.record(location.prefix, found, began);
    return isThrough;
  }

  return {
    get dueAt() {
      return schedule.dueAt;
    },
    get expectsLateRequests() {
      return schedule.expectsLateRequests;
    },
    collectSoon: () => schedule.again(maxRequestDelay),
    makeDue: () => schedule.makeDue(),
    /** Never throws. A location that did not answer is retried next time and does not affect the others. */
    async collect(): Promise<void> {
      const began = schedule.begin();
      let isThrough = false;
      try {
        // In parallel, so that a slow location does not delay the others.
        const results = (await locations(began)).map((location) => collectIn(location, began));
        isThrough = (await Promise.all(results)).every(Boolean);
      } catch (error) {
        options.report(`the orphan collection failed and is retried later: ${messageOf(error)}`);
      }
      schedule.end(began, isThrough);
    },
  };
}

/** When the next collection is due, and how long the controller stays for it. */
function createCollectionSchedule(clock: Clock) {
  let dueAt = clock.now();
  /**
   * Until then a late request may take effect, or a second collection may confirm that a resource is gone. Based on the
   * store, so that a new controller knows it too.
   */
  let lateRequestsUntil: Instant = 0;
  /** Incomplete collections since that time. */
  let retries = 0;
  return {
    get dueAt() {
      return dueAt;
    },
    get expectsLateRequests() {
      return lateRequestsUntil > 0;
    },
    /** The controller does not exit as idle for that time. */
    again(stay: Duration): void {
      dueAt = Math.min(dueAt, clock.now() + delayAfterRelease);
      lateRequestsUntil = Math.max(lateRequestsUntil, clock.now() + stay);
    },
    /** `goneAt`: when the newest resource disappeared; null for none. */
    expectLateRequests(goneAt: Instant | null): void {
      if (goneAt !== null) lateRequestsUntil = Math.max(lateRequestsUntil, goneAt + maxRequestDelay);
    },
    makeDue(): void {
      dueAt = clock.now();
      lateRequestsUntil = Math.min(lateRequestsUntil, dueAt + maxRequestDelay);
    },
    begin(): Instant {
      const began = clock.now();
      dueAt = began + collectInterval;
      // The clock may have been set back since the last collection.
      lateRequestsUntil = Math.min(lateRequestsUntil, began + maxRequestDelay);
      return began;
    },
    end(began: Instant, isThrough: boolean): void {
      const isLast = lateRequestsUntil <= began;
      if (isThrough || !isLast) retries = 0;
      else retries += 1;
      const isTriedAgain = !isThrough && retries <= maxRetries;
      if (isLast && !isTriedAgain) lateRequestsUntil = 0;
      if (lateRequestsUntil > 0) dueAt = Math.min(dueAt, isTriedAgain ? began + delayAfterRelease : lateRequestsUntil);
    },
  };
}

async function listResources(
  { capacity, ref }: OrphanLocation,
  report: (line: string) => void,
): Promise<readonly Orphan[] | undefined> {
  try {
    const found = await capacity.listLabelled([ref]);
    return found.kind === 'known' ? found.value : undefined;
  } catch (error) {
    report(`cannot list the resources of a location; retrying later: ${messageOf(error)}`);
    return undefined;
  }
}
