// Quotas of the Cloud TPU API: which one counts a TPU, its id, and its unit.
// Sources: Google's pages "Cloud TPU quotas" (cloud.google.com/tpu/docs/quota) and "Cloud TPU inference"
// (cloud.google.com/tpu/docs/v5e-inference); ids in error messages and in lists of `gcloud beta quotas info list` in
// public reports, read in 2026.

import type { Accelerator } from './accelerators.ts';

/** Preemptible TPUs share the quota of spot. */
export type QuotaPricing = 'spot' | 'ondemand' | 'reserved';

export interface Quota {
  /** The catalogue's name: `v5e`. */
  readonly generation: string;
  /** `pod`: v2 and v3 slices of several machines. `serving`: v5litepod-1, -4 and -8. Null: all others. */
  readonly variant: 'pod' | 'serving' | null;
  readonly pricing: QuotaPricing;
}

/** The quota that counts this type. */
export function quotaOf(
  { generation: { name: generation }, workers, chips }: Pick<Accelerator, 'generation' | 'workers' | 'chips'>,
  pricing: QuotaPricing | 'preemptible',
): Quota {
  const isPod = (generation === 'v2' || generation === 'v3') && workers > 1;
  const isServing = generation === 'v5e' && chips <= 8;
  return {
    generation,
    variant: isPod ? 'pod' : isServing ? 'serving' : null,
    pricing: pricing === 'preemptible' ? 'spot' : pricing,
  };
}

/** The size of one slice in the unit of its quota: TensorCores, of which v5e and v6e have one per chip. */
export function quotaUnits({ chips, generation }: Pick<Accelerator, 'chips' | 'generation'>): number {
  return chips * generation.coresPerChip;
}

const prefixes: Readonly<Record<string, string>> = {
  v2: 'TPUV2s',
  v3: 'TPUV3s',
  v4: 'TPUV4s',
  v5e: 'TPUV5s',
  v5p: 'TPUV5P',
  v6e: 'TPUV6E',
};
const pricingTerms = { spot: 'Preemptible', ondemand: '', reserved: 'Reserved' } as const;

/** `TPUV6EPreemptiblePerProjectPerRegionForTPUAPI`, `TPUV5sLitepodServingPerProjectPerZoneForTPUAPI`. */
export function quotaId({ generation, variant, pricing }: Quota, scope: 'zone' | 'region'): string {
  const family = generation === 'v5e' ? 'Litepod' : generation === 'v4' || variant === 'pod' ? 'Pod' : '';
  const serving = variant === 'serving' ? 'Serving' : '';
  const prefix = prefixes[generation] ?? `TPU${generation.toUpperCase()}`;
  const limit = scope === 'zone' ? 'PerProjectPerZone' : 'PerProjectPerRegion';
  return `${prefix}${pricingTerms[pricing]}${family}${serving}${limit}ForTPUAPI`;
}

/** Undefined for the id of another quota, such as one of requests per minute. */
export function parseQuotaId(id: string): (Quota & { readonly scope: 'zone' | 'region' }) | undefined {
  const match =
    /^(TPUV\d[A-Zs]?)(Preemptible|Reserved)?(Litepod|Pod)?(Serving)?PerProjectPer(Zone|Region)ForTPUAPI$/.exec(id);
  const generation = Object.entries(prefixes).find(([, prefix]) => prefix === match?.[1])?.[0];
  if (match === null || generation === undefined) return undefined;
  const isPod = match[3] === 'Pod' && (generation === 'v2' || generation === 'v3');
  return {
    generation,
    variant: isPod ? 'pod' : match[4] === undefined ? null : 'serving',
    pricing: match[2] === undefined ? 'ondemand' : match[2] === 'Reserved' ? 'reserved' : 'spot',
    scope: match[5] === 'Zone' ? 'zone' : 'region',
  };
}

/** The quota that refuses a request, and its limit in TensorCores. Undefined for another error, or without a limit. */
export function parseQuotaError(
  text: string,
): (Quota & { readonly scope: 'zone' | 'region'; readonly location: string; readonly limit: number }) | undefined {
  // "Quota 'ID' exhausted. Limit 32 in region us-central2", "Quota limit 'ID' has been exceeded. Limit: 0 in zone …".
  const match = /Quota (?:limit )?'(\w+)' .*\bLimit:? (\d+) in (?:region|zone) ([\w-]+)/.exec(text);
  const quota = match?.[1] === undefined ? undefined : parseQuotaId(match[1]);
  return quota && { ...quota, location: match?.[3] ?? '', limit: Number(match?.[2]) };
}
