// Buckets that a manifest mounts, checked against the regions of the job's alternatives. src/app/buckets.ts asks Cloud
// Storage for the real location of each bucket.

import { alternativesOf, type CapacitySpec } from '../core/model/spec.ts';
import { regionOf } from '../catalogue/zones.ts';
import type { Section } from './keys.ts';
import type { Problem } from '../schema/problems.ts';
import type { Sections } from './sections.ts';
import type { Path } from '../schema/kinds.ts';

export interface NamedBucket {
  readonly bucket: string;
  /** The key that names the bucket, for later problems. */
  readonly position: Pick<Problem, 'path' | 'line' | 'column' | 'set'>;
  /** Zones of the job in which this bucket is the one mounted; at least one. */
  readonly zones: readonly string[];
  readonly isForAllRegions: boolean;
  readonly allowOtherRegion: boolean;
}

/** Buckets of all mounts. */
export function namedBuckets(
  sections: Sections,
  capacity: CapacitySpec,
  problemAt: (path: Path, message: string) => Problem,
): readonly NamedBucket[] {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined || capacity.kind !== 'tpu') return [];
  // An extra mount without a bucket uses the first mount's bucket, which is already in the list.
  return mountsOf(gcsfuse).flatMap(({ at, bucket_name: bucket, allow_other_region: allowOtherRegion = false }) => {
    const named = typeof bucket === 'string' ? [[null, bucket] as const] : Object.entries(bucket ?? {});
    return named.flatMap(([region, name]) => {
      const zones = zonesOf(capacity).filter((zone) => region === null || regionOf(zone) === region);
      if (zones.length === 0) return [];
      const position = problemAt([...at, 'bucket_name', ...(region === null ? [] : [region])], '');
      return [{ bucket: bucketNameOf(name), position, zones, isForAllRegions: region === null, allowOtherRegion }];
    });
  });
}

/** The zones of all alternatives, each once. */
function zonesOf(capacity: CapacitySpec): readonly string[] {
  return capacity.kind === 'tpu' ? [...new Set(alternativesOf(capacity).map(({ zone }) => zone))] : [];
}

/** All mounts with their paths. The keys of the first mount are directly in the section. */
export function mountsOf(gcsfuse: Section<'gcsfuse'>) {
  const more = (gcsfuse.extra_mounts ?? []).map((mount, index) => {
    const at: Path = ['gcsfuse', 'extra_mounts', index];
    return { at, ...mount };
  });
  return [{ at: ['gcsfuse'] as Path, ...gcsfuse }, ...more];
}

/** Bucket name without scheme and slash: `gs://my-bucket/` is `my-bucket`. */
export function bucketNameOf(name: string): string {
  return name
    .trim()
    .replace(/^gs:\/\//, '')
    .replace(/\/$/, '');
}

/** Reports regions of the job for which no bucket is given. */
export function checkBuckets(sections: Sections, capacity: CapacitySpec | undefined): void {
  const gcsfuse = sections.read('gcsfuse');
  for (const mount of gcsfuse === undefined ? [] : mountsOf(gcsfuse)) {
    const { bucket_name: bucket } = mount;
    if (bucket === undefined || typeof bucket === 'string') continue;
    const at = [...mount.at, 'bucket_name'];
    const zones = capacity === undefined ? [] : zonesOf(capacity);
    for (const [region, [zone]] of Map.groupBy(zones, regionOf)) {
      if (Object.hasOwn(bucket, region)) continue;
      sections.problem(at, `has no bucket for ${region}, but the job may run there (${zone})`);
    }
  }
}
