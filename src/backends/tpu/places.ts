// Places: which zone of which project an allocation is in, and all allocations of one zone together.

import type { AllocationRef } from '../../app/ports.ts';
import { capacityOf } from '../../core/place.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { Place } from './api.ts';

/** The TPU that is asked for at the allocation's place. A job of another kind here is a mistake in the wiring. */
export function tpuOf({ job, allocation }: AllocationRef): TpuSpec {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind !== 'tpu')
    throw new Error(`job ${job.id} asks for ${capacity.kind} and was handed to the TPU backend`);
  return capacity;
}

export function placeOf(ref: AllocationRef): Place {
  const { project, zone } = tpuOf(ref);
  return { project, zone };
}

/** How many TPUs the allocation is: more than one are a multislice. */
export function sliceCount(ref: AllocationRef): number {
  return tpuOf(ref).nodeCount ?? 1;
}

/** The ids of its nodes, in the order of their workers. Google numbers those of a multislice behind the queued resource's id. */
export function nodeIds(ref: AllocationRef): readonly string[] {
  const { name } = ref.allocation;
  const count = sliceCount(ref);
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index}`);
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
