// Places: which zone of which project an allocation is in, and all allocations of one zone together.

import type { AllocationRef } from '../../app/ports.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { Place } from './api.ts';

/** The job's TPU. A job of another kind here is a mistake in the wiring. */
export function tpuOf({ job }: AllocationRef): TpuSpec {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu')
    throw new Error(`job ${job.id} asks for ${capacity.kind} and was handed to the TPU backend`);
  return capacity;
}

export function placeOf(ref: AllocationRef): Place {
  const { project, zone } = tpuOf(ref);
  return { project, zone };
}

/** The name of a place, different for any two. */
function placeName(ref: AllocationRef): string {
  const { project, zone } = placeOf(ref);
  return `${project}/${zone}`;
}

/** Each place once, with the allocations there in their order. */
export function byPlace(
  refs: readonly AllocationRef[],
): readonly { readonly place: Place; readonly refs: readonly AllocationRef[] }[] {
  const groups = new Map<string, { readonly place: Place; readonly refs: AllocationRef[] }>();
  for (const ref of refs) {
    const place = placeOf(ref);
    const key = placeName(ref);
    const group = groups.get(key) ?? { place, refs: [] };
    group.refs.push(ref);
    groups.set(key, group);
  }
  return [...groups.values()];
}
