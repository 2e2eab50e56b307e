// This machine as capacity: it is there before and after every job, has one worker, and costs nothing that we know of.

import { access } from 'node:fs/promises';
import type { CapacityPort } from '../../app/ports.ts';
import { known } from '../../core/observation.ts';
import type { Fact, OutcomeResult } from '../../core/observation.ts';
import type { Instant } from '../../core/time.ts';

/** Always ready. Nothing is asked for and nothing is released, so nothing can be left behind either. */
export function createLocalCapacity(options: { readonly now: () => Instant }): CapacityPort {
  const done: OutcomeResult = { kind: 'done' };
  return {
    backend: 'local',
    look: (refs) =>
      Promise.resolve(refs.map(() => known({ state: 'ready', detail: 'this machine', workers: 1 }, options.now()))),
    async request() {
      try {
        await access('/proc/self/environ');
        return done;
      } catch {
        // The processes of a job are read from /proc; without it a stop could not find the children.
        const detail =
          'local jobs need Linux: this machine has no /proc, which tells the processes of a job from others';
        return { kind: 'refused', evidence: { detail }, error: { kind: 'invalid', message: detail, raw: detail } };
      }
    },
    release: () => Promise.resolve(done),
    sweep: (): Promise<Fact<readonly never[]>> => Promise.resolve(known([], options.now())),
    releaseStray: () => Promise.resolve(done),
    pricePerHour: () => null,
  };
}
