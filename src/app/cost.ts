// Cost: what capacity costs an hour, in words, and whether anybody pays it.

import type { Job } from '../core/job.ts';
import { capacityOf } from '../core/place.ts';
import { builtInProject, type CapacitySpec, type LocalSpec, type TpuSpec } from '../core/spec.ts';
import { hour, type Instant } from '../core/time.ts';
import { priceText } from './figures.ts';

/** True for the TPUs of the built-in cloud. They have Google's prices, so that a rehearsal shows what the real thing costs. */
export function isPretended(capacity: Pick<LocalSpec, 'kind'> | Pick<TpuSpec, 'kind' | 'project'>): boolean {
  return capacity.kind === 'tpu' && capacity.project === builtInProject;
}

/** `about $4.00/h`, as a part of a sentence; on the built-in cloud `about $4.00/h at Google and nothing here`. */
export function costText({ pretended }: { readonly pretended: boolean }, pricePerHour: number): string {
  return `about ${priceText(pricePerHour)}${pretended ? ' at Google and nothing here' : ''}`;
}

/** The same of what a spec asks for. */
export function costOf(capacity: CapacitySpec, pricePerHour: number): string {
  return costText({ pretended: isPretended(capacity) }, pricePerHour);
}

/**
 * Dollars that what the job asked for has cost until now, an estimate: each allocation from ready until it was seen gone,
 * at the price of when the job was created. Null when no price is known, or nothing of its own was ever ready. What a
 * forced delete has left behind is nobody's look any more: it counts until that word, and `gc` tells what it costs since.
 */
export function spentOn(job: Job, now: Instant): number | null {
  const paid = job.allocations.filter(({ ownership, readyAt }) => ownership === 'owned' && readyAt !== null);
  if (paid.length === 0) return null;
  const until = job.removed ? job.desiredAt : now;
  let spent = 0;
  for (const allocation of paid) {
    const capacity = capacityOf(job, allocation);
    if (capacity.kind !== 'tpu' || capacity.pricePerHour === null) return null;
    const held = Math.max(0, (allocation.goneAt ?? until) - (allocation.readyAt ?? until));
    spent += (held / hour) * capacity.pricePerHour;
  }
  return spent;
}
