// Cloud TPU as a source of capacity: looks in batches, asks, lets go, sweeps. It decides nothing about jobs and remembers
// nothing between two calls.

import type { CapacityPort, Clock } from '../../app/ports.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { TpuApi } from './api.ts';
import { lookAtAll } from './look.ts';
import { failed } from './outcomes.ts';
import { placeOf, tpuOf } from './places.ts';
import { pricePerHour } from '../../catalogue/prices.ts';
import { releaseAllocation, releaseFound } from './release.ts';
import { requestAllocation } from './request.ts';
import { sweepPlaces } from './sweep.ts';

export interface TpuCapacityOptions {
  /** The API that serves a project: Google's, a server that follows it, or the built-in cloud. */
  readonly apiFor: (project: string) => TpuApi;
  /** The same without starting anything: for the sweep, which asks about what nobody should miss. `apiFor` when absent. */
  readonly runningApiFor?: (project: string) => TpuApi;
  readonly clock: Clock;
  /** Lines of the node's `ssh-keys` metadata (`USER:TYPE KEY COMMENT`) which let jobman log in; see `ssh-keys.ts`. */
  readonly sshKeyLines: (spec: TpuSpec) => Promise<string>;
}

/** The adapter to Cloud TPU, with the contract of CapacityPort. */
export function createTpuCapacity(options: TpuCapacityOptions): CapacityPort {
  const { apiFor, sshKeyLines } = options;
  return {
    backend: 'tpu',
    look: (refs) => lookAtAll(refs, options),
    async request(ref) {
      let sshKeys: string;
      try {
        sshKeys = await sshKeyLines(tpuOf(ref));
      } catch (error) {
        // Without a way to log in the machine would only cost money.
        const raw = error instanceof Error ? error.message : String(error);
        return failed({ kind: 'internal', message: `the keys for logging in cannot be read: ${raw}`, raw });
      }
      return requestAllocation(apiFor(placeOf(ref).project), ref, sshKeys);
    },
    release: (ref) => releaseAllocation(apiFor(placeOf(ref).project), ref),
    sweep: (refs) => sweepPlaces(refs, { clock: options.clock, apiFor: options.runningApiFor ?? apiFor }),
    releaseStray: (stray) => releaseFound(apiFor, stray),
    pricePerHour: ({ capacity }) => (capacity.kind === 'tpu' ? pricePerHour(capacity) : null),
  };
}
