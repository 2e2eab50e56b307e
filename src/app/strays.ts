// Strays: what may have been left behind in a cloud. A forced delete notes it, and so does a sweep that finds what no job
// claims; here a person goes through the notes: look first, then let go, and forget what is seen gone.

import type { Job } from '../core/job.ts';
import { heldAllocations } from '../core/job.ts';
import type { Fact, OutcomeResult } from '../core/observation.ts';
import type { JobSpec } from '../core/spec.ts';
import { sentencePart } from './history.ts';
import { placeOf } from './places.ts';
import type { AllocationRef, CapacityPort, Store, Stray } from './ports.ts';

/** A stray, and what is seen of it now. */
export interface StrayView extends Stray {
  /** `unknown` when its place could not be asked. */
  readonly seen: 'there' | 'gone' | 'unknown';
  /** The cloud's word for its state, or why it is not known. */
  readonly says: string;
}

/** All that a person can do about strays. */
export interface StrayKeeper {
  /** Those on record, each with what its place says of it now. Changes nothing and starts nothing. */
  look(): Promise<readonly StrayView[]>;
  /** Asks the cloud to let it go. `done` means that the order was taken, or that nothing of ours is there. Safe to repeat. */
  letGo(stray: Stray): Promise<OutcomeResult>;
  /** Takes it off the record: a look has seen it gone. */
  forget(stray: Stray): Promise<void>;
  close(): Promise<void>;
}

/** What a job that leaves the list may leave behind: every owned allocation that nobody has seen gone. */
export function straysOf(job: Job): readonly Stray[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return [];
  // As the cloud calls them, which is how a sweep finds them and what letting them go asks for.
  const collection = capacity.mode === 'queued-resources' ? 'queuedResources' : 'nodes';
  return heldAllocations(job).map((allocation) => ({
    backend: capacity.kind,
    resource: `${placeOf(capacity) ?? ''}${collection}/${allocation.name}`,
    installation: job.installation,
    job: job.id,
    allocation: allocation.ordinal,
    state: allocation.seen?.detail ?? 'unknown',
  }));
}

/** Over the record and the backends that its strays are in. `end` lets go of what they hold. */
export function createStrayKeeper(parts: {
  readonly store: Store;
  readonly capacityOf: (spec: JobSpec) => CapacityPort;
  readonly end: () => Promise<void>;
}): StrayKeeper {
  const { store, capacityOf } = parts;

  async function neighbourOf(stray: Stray): Promise<Neighbour | undefined> {
    const { jobs } = await store.list({ settledMost: null, withRemoved: true });
    return neighbourIn(jobs, stray);
  }

  return {
    async look() {
      const strays = await store.strays();
      if (strays.length === 0) return [];
      const { jobs } = await store.list({ settledMost: null, withRemoved: true });
      const answers = new Map<string, Promise<Fact<readonly Stray[]>>>();
      return Promise.all(
        strays.map(async (stray): Promise<StrayView> => {
          const neighbour = neighbourIn(jobs, stray);
          if (neighbour === undefined) return { ...stray, seen: 'unknown', says: nowhere };
          const { ref, place } = neighbour;
          const answer = answers.get(place) ?? capacityOf(ref.job.spec).sweep([ref]);
          answers.set(place, answer);
          return { ...stray, ...seenIn(await answer, stray) };
        }),
      );
    },
    async letGo(stray) {
      const neighbour = await neighbourOf(stray);
      if (neighbour !== undefined) return capacityOf(neighbour.ref.job.spec).releaseStray(stray);
      return { kind: 'refused', evidence: { detail: `${nowhere}, so nobody knows whom to ask` } };
    },
    forget: (stray) => store.forgetStray(stray),
    close: () => parts.end(),
  };
}

const nowhere = 'no job on record was in its place';

/** An allocation of ours in the same place: that is how a backend is told where to look. */
interface Neighbour {
  readonly ref: AllocationRef;
  readonly place: string;
}

function neighbourIn(jobs: readonly Job[], stray: Stray): Neighbour | undefined {
  for (const job of jobs) {
    const { capacity } = job.spec;
    const [allocation] = job.allocations;
    const place = placeOf(capacity);
    if (place === null || allocation === undefined || job.installation !== stray.installation) continue;
    if (stray.resource.startsWith(place)) return { ref: { job, allocation }, place };
  }
  return undefined;
}

/** By its labels and not by its name: a node that outlived its queued resource is the same stray. */
function seenIn(answer: Fact<readonly Stray[]>, stray: Stray): Pick<StrayView, 'seen' | 'says'> {
  if (answer.kind === 'unknown') return { seen: 'unknown', says: sentencePart(answer.reason) };
  const found = answer.value.find(({ job, allocation }) => job === stray.job && allocation === stray.allocation);
  return found === undefined ? { seen: 'gone', says: 'gone' } : { seen: 'there', says: found.state };
}
