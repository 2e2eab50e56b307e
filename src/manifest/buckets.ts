// Buckets: those that are given by region, held against the places that the job may come to.

import { placeCount, capacityAt } from '../core/place.ts';
import type { CapacitySpec } from '../core/spec.ts';
import { regionOf } from '../core/zones.ts';
import { bucketPattern, bucketRule } from './keys/gcsfuse.ts';
import type { Sections } from './sections.ts';

/** Says what names no bucket, and which region of the job's places has none. */
export function checkBuckets(sections: Sections, capacity: CapacitySpec | undefined): void {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined) return;
  checkOne(sections, ['gcsfuse', 'bucket_name'], gcsfuse.bucket_name, capacity);
  for (const [index, mount] of (gcsfuse.extra_mounts ?? []).entries()) {
    checkOne(sections, ['gcsfuse', 'extra_mounts', index, 'bucket_name'], mount.bucket_name, capacity);
  }
}

function checkOne(
  sections: Sections,
  at: readonly (string | number)[],
  bucket: string | Readonly<Record<string, string>> | undefined,
  capacity: CapacitySpec | undefined,
): void {
  if (bucket === undefined || typeof bucket === 'string') return;
  for (const [region, name] of Object.entries(bucket)) {
    if (!bucketPattern.test(name)) sections.problem([...at, region], `"${name}" ${bucketRule}`);
  }
  if (capacity?.kind !== 'tpu') return;
  const told = new Set<string>();
  for (let place = 0; place < placeCount(capacity); place += 1) {
    const { zone } = capacityAt(capacity, place);
    const region = regionOf(zone);
    if (Object.hasOwn(bucket, region) || told.has(region)) continue;
    told.add(region);
    sections.problem(at, `has no bucket for ${region}, where the job may run (${zone})`);
  }
}
