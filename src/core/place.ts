// Place: where an allocation is. A spec may name several places that are asked in turn; from here everybody learns what a
// given allocation's zone, accelerator, pricing and price are.

import type { Allocation, Job } from './job.ts';
import type { CapacitySpec, TpuPlace, TpuSpec } from './spec.ts';

/** Every place that the spec names, its own first; the number of each in an allocation's `place` is its index. */
export function placesOf(spec: TpuSpec): readonly TpuPlace[] {
  const { zone, accelerator, pricing, runtimeVersion, topology, pricePerHour } = spec;
  const own = {
    zone,
    accelerator,
    pricing,
    runtimeVersion,
    pricePerHour,
    ...(topology === undefined ? {} : { topology }),
  };
  return [own, ...(spec.alternatives ?? [])];
}

/** How many places the spec names. */
export function placeCount(capacity: CapacitySpec): number {
  return capacity.kind === 'tpu' ? 1 + (capacity.alternatives?.length ?? 0) : 1;
}

/** The capacity to request at that place: the spec with the place's own values; the spec itself for a number it does not have. */
export function capacityAt(capacity: TpuSpec, place: number): TpuSpec;
export function capacityAt(capacity: CapacitySpec, place: number): CapacitySpec;
export function capacityAt(capacity: CapacitySpec, place: number): CapacitySpec {
  if (capacity.kind !== 'tpu' || place === 0) return capacity;
  const at = capacity.alternatives?.[place - 1];
  if (at === undefined) return capacity;
  // A wiring belongs to the type that it was written for.
  const { topology: _own, ...rest } = capacity;
  return { ...rest, ...at };
}

/** The capacity that is requested, or held, as that allocation; the spec's own where the job has none yet. */
export function capacityOf(job: Pick<Job, 'spec'>, allocation: Pick<Allocation, 'place'> | undefined): CapacitySpec {
  return capacityAt(job.spec.capacity, allocation?.place ?? 0);
}
