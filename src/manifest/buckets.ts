// Buckets: those that a manifest mounts, held against the places that the job may come to. What is given by region is
// checked here; where a bucket really is, only Storage knows, and src/app/buckets.ts asks it about what is named here.

import { placeCount, capacityAt, type CapacitySpec } from '../core/spec.ts';
import { regionOf } from '../catalogue/zones.ts';
import { bucketPattern, bucketRule } from './keys/setup.ts';
import type { Section } from './keys.ts';
import type { Problem } from '../schema/problems.ts';
import type { Sections } from './sections.ts';
import type { Path } from '../schema/kinds.ts';

export interface NamedBucket {
  readonly bucket: string;
  /** The key that names it, for whoever has something to say about it. */
  readonly at: Pick<Problem, 'path' | 'line' | 'column' | 'set'>;
  /** The zones that the job may come to, as far as this bucket is the one that is mounted there; one at least. */
  readonly zones: readonly string[];
  readonly isOneForAll: boolean;
  readonly anyRegion: boolean;
}
type Bucket = string | Readonly<Record<string, string>>;

/** Every mount's buckets. `locate` gives the place of a key. */
export function namedBuckets(
  sections: Sections,
  capacity: CapacitySpec,
  locate: (path: Path) => NamedBucket['at'],
): readonly NamedBucket[] {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined || capacity.kind !== 'tpu') return [];
  const zones = Array.from({ length: placeCount(capacity) }, (_, place) => capacityAt(capacity, place).zone);
  const named: NamedBucket[] = [];
  const add = (at: Path, name: string, isOneForAll: boolean, inZones: readonly string[], anyRegion: boolean): void => {
    if (inZones.length === 0) return;
    named.push({ bucket: plainBucket(name), at: locate(at), zones: [...new Set(inZones)], isOneForAll, anyRegion });
  };
  const addMount = (at: Path, bucket: Bucket | undefined, anyRegion: boolean): void => {
    if (typeof bucket === 'string') add(at, bucket, true, zones, anyRegion);
    for (const [region, name] of typeof bucket === 'object' ? Object.entries(bucket) : []) {
      const there = zones.filter((zone) => regionOf(zone) === region);
      add([...at, region], name, false, there, anyRegion);
    }
  };
  // A mount that names none is of the first one's bucket, of which everything has been said.
  for (const mount of mountsOf(gcsfuse))
    addMount([...mount.at, 'bucket_name'], mount.bucket_name, mount.allow_other_region === true);
  return named;
}

/** The mounts of the section, each with its path: the first one's keys are those of the section itself. */
export function mountsOf(gcsfuse: Section<'gcsfuse'>) {
  const more = (gcsfuse.extra_mounts ?? []).map((mount, index) => {
    const at: Path = ['gcsfuse', 'extra_mounts', index];
    return { at, ...mount };
  });
  return [{ at: ['gcsfuse'] as Path, ...gcsfuse }, ...more];
}

/** The name alone of a bucket as people write it: `gs://my-bucket/` is `my-bucket`. */
export function plainBucket(name: string): string {
  return name
    .trim()
    .replace(/^gs:\/\//, '')
    .replace(/\/$/, '');
}

/** Says what names no bucket, and which region of the job's places has none. */
export function checkBuckets(sections: Sections, capacity: CapacitySpec | undefined): void {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined) return;
  for (const mount of mountsOf(gcsfuse)) checkOne(sections, [...mount.at, 'bucket_name'], mount.bucket_name, capacity);
}

function checkOne(sections: Sections, at: Path, bucket: Bucket | undefined, capacity: CapacitySpec | undefined): void {
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
