// Sweeper: lists every cloud resource with our label and checks which job it belongs to. It finds resources that no record
// names any more, such as one whose request took effect after its allocation had been seen gone. A resource that no record
// ever named is only noted, not deleted: it may belong to a copy of this installation, so a person decides.

import { textOf } from '../app/errors.ts';
import { placeOf, type AllocationRef, type CapacityPort, type Stray } from '../app/ports.ts';
import { capacityOf, type Job } from '../core/job.ts';
import { minute, second, type Instant } from '../core/time.ts';
import type { ControllerOptions } from './controller.ts';
import type { PerformerOptions } from './performer.ts';

/** Between two sweeps when nothing calls for one. */
const pace = 5 * minute;
/** After a release: long enough for a deletion to be through, so that one sweep tells. */
const afterRelease = 45 * second;
/** A request whose reply was lost may take effect after the release that was meant to end it, but not later than this. */
const lateness = 5 * minute;
/** A sweep that does not get through is repeated soon for so long: a login that has expired keeps no controller from leaving. */
const unknownMost = 3 * minute;

type Claim = 'claimed' | 'release' | 'unknown';

/** Whether the record claims what carries its label. What exists after its end was seen took effect late, and is not claimed. */
function claimOf(job: Job | undefined, ordinal: number, resource: string): Claim {
  const allocation = job?.allocations.find((one) => one.ordinal === ordinal);
  if (job === undefined || allocation === undefined) return 'unknown';
  if (allocation.ownership === 'standing') return 'claimed';
  // Where it was refused before it went on to another place, what carries its label took effect late, too.
  const place = placeOf(capacityOf(job, allocation));
  const isElsewhere = place !== null && !resource.startsWith(place);
  if (allocation.goneAt === null && !isElsewhere) return 'claimed';
  return 'release';
}

interface Place {
  readonly capacity: CapacityPort;
  /** The names of all resources there begin with this. */
  readonly name: string;
  readonly ref: AllocationRef;
}

export function createSweeper(
  options: Pick<ControllerOptions, 'store' | 'backendOf' | 'clock'> & Pick<PerformerOptions, 'mayAct' | 'say'>,
) {
  const { store, clock, mayAct } = options;
  let dueAt = clock.now();
  /** Until when a late request may still take effect; by the record, so that a new controller knows it too. */
  let owedUntil: Instant = 0;
  /** When the last sweep of their place has missed recorded orphans, by resource. */
  const missed = new Map<string, Instant>();

  /** Each place once that something of ours may be in, or was in lately. */
  async function places(began: Instant): Promise<readonly Place[]> {
    const { refs, goneAt } = await store.sweepable(began);
    if (goneAt !== null) owedUntil = Math.max(owedUntil, goneAt + lateness);
    return refs.flatMap((ref): readonly Place[] => {
      const name = placeOf(capacityOf(ref.job, ref.allocation));
      return name === null ? [] : [{ capacity: options.backendOf(ref.job.spec).capacity, name, ref }];
    });
  }

  /** A recorded orphan that two collections have missed is gone, and is forgotten. */
  async function forgetGone({ capacity, name }: Place, found: readonly Stray[], now: Instant): Promise<void> {
    for (const stray of await store.strays()) {
      if (stray.backend !== capacity.backend || !stray.resource.startsWith(name)) continue;
      const isThere = found.some(({ job, allocation }) => job === stray.job && allocation === stray.allocation);
      const missedAt = missed.get(stray.resource);
      if (isThere) missed.delete(stray.resource);
      else if (missedAt === undefined || now < missedAt) missed.set(stray.resource, now);
      else if (now >= missedAt + afterRelease) {
        await store.forgetStray(stray);
        missed.delete(stray.resource);
        options.say(`${stray.resource}, which was noted as a stray, is gone`);
      }
    }
  }

  /** Sweeps again soon: something was released just now. */
  function soon(): void {
    dueAt = Math.min(dueAt, clock.now() + afterRelease);
    owedUntil = clock.now() + lateness;
  }

  /** False where something is to be released and may not be without the lease. */
  async function settle(capacity: CapacityPort, stray: Stray): Promise<boolean> {
    // Loaded after the list was made: a job that was born in between claims what is its own.
    const job = (await store.load(stray.job))?.job;
    switch (claimOf(job, stray.allocation, stray.resource)) {
      case 'claimed':
        return true;
      case 'unknown':
        await store.recordStray(stray);
        options.say(
          `${stray.resource} carries our label and no job here claims it; it is left alone and noted as a stray`,
        );
        return true;
      case 'release': {
        // The next sweep verifies it, whatever the answer is. Without the lease the sweeps go on until it is released.
        soon();
        if (!mayAct()) return false;
        const result = await capacity.releaseStray(stray);
        options.say(`${stray.resource} of job ${stray.job} appeared after its release; released again: ${result.kind}`);
        return true;
      }
    }
  }

  return {
    /** When the next sweep is due. */
    get dueAt() {
      return dueAt;
    },
    /** A late request may still take effect: it is too early to leave. */
    get isOwed() {
      return owedUntil > 0;
    },
    soon,
    /** The clock that the next sweep was planned by was set back. */
    now(): void {
      dueAt = clock.now();
      owedUntil = Math.min(owedUntil, clock.now() + lateness);
    },
    /** One sweep of every place. Never throws; a place that did not answer is asked next time, and hides no other. */
    async sweep(): Promise<void> {
      const began = clock.now();
      dueAt = began + pace;
      // On a clock that was set back since the last sweep, the recorded time is too far ahead.
      owedUntil = Math.min(owedUntil, began + lateness);
      let isThrough = true;
      try {
        // In parallel, so that a slow place holds up no other.
        await Promise.all(
          (await places(began)).map(async (place) => {
            const found = await ask(place, options.say);
            if (found === undefined) {
              isThrough = false;
              return;
            }
            for (const stray of found) if (!(await settle(place.capacity, stray))) isThrough = false;
            await forgetGone(place, found, began);
          }),
        );
      } catch (error) {
        isThrough = false;
        options.say(`the sweep did not get through and is made again later: ${textOf(error)}`);
      }
      const isTriedAgain = !isThrough && began < owedUntil + unknownMost;
      if (owedUntil <= began && !isTriedAgain) owedUntil = 0;
      if (owedUntil > 0) dueAt = Math.min(dueAt, isTriedAgain ? began + afterRelease : owedUntil);
    },
  };
}

/** Undefined where the cloud did not answer. */
async function ask({ capacity, ref }: Place, say: (line: string) => void): Promise<readonly Stray[] | undefined> {
  try {
    const found = await capacity.sweep([ref]);
    return found.kind === 'known' ? found.value : undefined;
  } catch (error) {
    say(`a place could not be swept and is asked again later: ${textOf(error)}`);
    return undefined;
  }
}
