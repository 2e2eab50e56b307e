// The cloud resources of an allocation: project and zone, the ids of the nodes, and the labels that name the owner.
// Everything that jobman makes in the cloud carries those labels; what carries others, or none, is never touched.
// Keys and values of Google's labels are `[a-z0-9_-]`, up to 63, keys begin with a letter.

import type { AllocationRef } from '../../app/ports.ts';
import { capacityOf } from '../../core/job.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { Place, QueuedResource, TpuNode } from './api.ts';

export interface Owner {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

export function ownerOf({ job, allocation }: AllocationRef): Owner {
  return { installation: job.installation, job: job.id, allocation: allocation.ordinal };
}

/** The labels of a node made for that owner; inside a queued resource too, before any machine exists. */
export function labelsOf(owner: Owner): Readonly<Record<string, string>> {
  return {
    'jobman-installation': owner.installation,
    'jobman-job': owner.job,
    'jobman-allocation': String(owner.allocation),
  };
}

/**
 * The labels of a TPU that a lab shares (`tpu apply`, or a re-apply by the rule of a job): which jobman made it, and no job. So
 * nothing that deletes with a job can take it for a job's own.
 */
export function sharedLabels(installation: string): Readonly<Record<string, string>> {
  return { 'jobman-installation': installation, 'jobman-shared': 'true' };
}

/** The installation that made a shared TPU; undefined for a job's own TPU and for one that no jobman made. */
export function sharedMaker(node: Partial<TpuNode> | undefined): string | undefined {
  const { 'jobman-installation': installation, 'jobman-shared': shared } = node?.labels ?? {};
  return shared === 'true' ? installation : undefined;
}

/** The owner of a node; undefined when it carries no labels of a jobman, or not all of them. */
export function nodeOwner(node: Partial<TpuNode> | undefined): Owner | undefined {
  const {
    'jobman-installation': installation,
    'jobman-job': job,
    'jobman-allocation': allocation = '',
  } = node?.labels ?? {};
  if (installation === undefined || job === undefined || !/^[1-9]\d*$/.test(allocation)) return undefined;
  return { installation, job, allocation: Number(allocation) };
}

export function queuedOwner(queued: QueuedResource | undefined): Owner | undefined {
  return nodeOwner(queued?.tpu?.nodeSpec?.[0]?.node);
}

/** True for the same installation, job and allocation: a late message for allocation 1 cannot touch allocation 2. */
export function isSameOwner(owner: Owner | undefined, other: Owner): boolean {
  return owner?.installation === other.installation && owner.job === other.job && owner.allocation === other.allocation;
}

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

export function sliceCount(ref: AllocationRef): number {
  return tpuOf(ref).nodeCount ?? 1;
}

/** The ids of its nodes, in the order of their workers. Google numbers those of a multislice behind the queued resource's id. */
export function nodeIds(ref: AllocationRef): readonly string[] {
  const { name } = ref.allocation;
  const count = sliceCount(ref);
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

export function byPlace(
  refs: readonly AllocationRef[],
): readonly { readonly place: Place; readonly refs: readonly AllocationRef[] }[] {
  const groups = new Map<string, { readonly place: Place; readonly refs: AllocationRef[] }>();
  for (const ref of refs) {
    const place = placeOf(ref);
    const key = `${place.project}/${place.zone}`;
    const group = groups.get(key) ?? { place, refs: [] };
    group.refs.push(ref);
    groups.set(key, group);
  }
  return [...groups.values()];
}
