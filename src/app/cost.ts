// Cost: what capacity costs an hour, in words, and whether anybody pays it.

import type { CapacitySpec } from '../core/spec.ts';
import { priceText } from './figures.ts';

/** True for the TPUs of the built-in cloud. They have Google's prices, so that a rehearsal shows what the real thing costs. */
export function isPretended(capacity: CapacitySpec): boolean {
  return capacity.kind === 'tpu' && capacity.project === 'emulator';
}

/** `about $4.00/h`, as a part of a sentence; on the built-in cloud `about $4.00/h at Google and nothing here`. */
export function costText({ pretended }: { readonly pretended: boolean }, pricePerHour: number): string {
  return `about ${priceText(pricePerHour)}${pretended ? ' at Google and nothing here' : ''}`;
}

/** The same of what a spec asks for. */
export function costOf(capacity: CapacitySpec, pricePerHour: number): string {
  return costText({ pretended: isPretended(capacity) }, pricePerHour);
}
