// Buckets that a manifest mounts, checked against the regions of the job's alternatives. src/app/buckets.ts asks Cloud
// Storage for the real location of each bucket.

import { alternativeCount, capacityAt, type CapacitySpec } from '../core/model/spec.ts';
import { regionOf } from '../catalogue/zones.ts';
import { bucketPattern, invalidBucketMessage } from './keys/setup.ts';
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
type Bucket = string | Readonly<Record<string, string>>;

/** Buckets of all mounts. `locate` returns the position of a key. */
export function namedBuckets(
  sections: Sections,
  capacity: CapacitySpec,
  locate: (path: Path) => NamedBucket['position'],
): readonly NamedBucket[] {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined || capacity.kind !== 'tpu') return [];
  const zones = Array.from(
    { length: alternativeCount(capacity) },
    (_, alternative) => capacityAt(capacity, alternative).zone,
  );
  const named: NamedBucket[] = [];
  const add = (
    at: Path,
    name: string,
    isForAllRegions: boolean,
    inZones: readonly string[],
    allowOtherRegion: boolean,
  ): void => {
    if (inZones.length === 0) return;
    named.push({
      bucket: bucketNameOf(name),
      position: locate(at),
      zones: [...new Set(inZones)],
      isForAllRegions,
      allowOtherRegion,
    });
  };
  const addMount = (at: Path, bucket: Bucket | undefined, allowOtherRegion: boolean): void => {
    if (typeof bucket === 'string') add(at, bucket, true, zones, allowOtherRegion);
    for (const [region, name] of typeof bucket === 'object' ? Object.entries(bucket) : []) {
      const regionZones = zones.filter((zone) => regionOf(zone) === region);
      add([...at, region], name, false, regionZones, allowOtherRegion);
    }
  };
  // An extra mount without a bucket uses the first mount's bucket, which is already in the list.
  for (const mount of mountsOf(gcsfuse))
    addMount([...mount.at, 'bucket_name'], mount.bucket_name, mount.allow_other_region === true);
  return named;
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

/** Reports invalid bucket names, and regions of the job for which no bucket is given. */
export function checkBuckets(sections: Sections, capacity: CapacitySpec | undefined): void {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined) return;
  for (const mount of mountsOf(gcsfuse))
    checkMount(sections, [...mount.at, 'bucket_name'], mount.bucket_name, capacity);
}

function checkMount(
  sections: Sections,
  at: Path,
  bucket: Bucket | undefined,
  capacity: CapacitySpec | undefined,
): void {
  if (bucket === undefined || typeof bucket === 'string') return;
  for (const [region, name] of Object.entries(bucket)) {
    if (!bucketPattern.test(name)) sections.problem([...at, region], `"${name}" ${invalidBucketMessage}`);
  }
  if (capacity?.kind !== 'tpu') return;
  const reported = new Set<string>();
  for (let alternative = 0; alternative < alternativeCount(capacity); alternative += 1) {
    const { zone } = capacityAt(capacity, alternative);
    const region = regionOf(zone);
    if (Object.hasOwn(bucket, region) || reported.has(region)) continue;
    reported.add(region);
    sections.problem(at, `has no bucket for ${region}, but the job may run there (${zone})`);
  }
}
