// Ownership: whose a node is. Everything that jobman makes in the cloud carries labels that say so; what carries others,
// or none, is never touched. Labels: keys and values of Google's labels are `[a-z0-9_-]`, up to 63, keys begin with a letter.

import type { AllocationRef } from '../../app/ports.ts';
import type { QueuedResource, TpuNode } from './api.ts';

export interface Owner {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

/** The owner that the allocation's own labels name. */
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

/** The owner of a queued resource. It has no labels of its own; the node that it asks for carries them. */
export function queuedOwner(queued: QueuedResource | undefined): Owner | undefined {
  return nodeOwner(queued?.tpu?.nodeSpec?.[0]?.node);
}

/** True for the same installation, job and allocation: a late message for allocation 1 cannot touch allocation 2. */
export function isSameOwner(owner: Owner | undefined, other: Owner): boolean {
  return owner?.installation === other.installation && owner.job === other.job && owner.allocation === other.allocation;
}
