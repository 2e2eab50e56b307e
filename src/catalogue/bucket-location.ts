// Bucket location: the regions of a bucket, which is in a zone, a region, a pair of regions or a continent.
// Source: Google's page of bucket locations (cloud.google.com/storage/docs/locations), and the fields `location`,
// `locationType` and `customPlacementConfig.dataLocations` of a bucket in the JSON API.

import { regionOf } from './zones.ts';

export interface BucketLocation {
  /** `us-central2`, `us`, `nam4`; in lower case, as zones are written. */
  readonly location: string;
  /** `region`, `dual-region`, `multi-region`, `zone`. Null if unknown. */
  readonly kind: string | null;
  /** Its regions: the two that the owner of a dual-region bucket chose, or its one zone. Empty if unknown. */
  readonly parts: readonly string[];
}

const dualRegions: Readonly<Record<string, readonly string[]>> = {
  asia1: ['asia-northeast1', 'asia-northeast2'],
  eur4: ['europe-north1', 'europe-west4'],
  eur5: ['europe-west1', 'europe-west2'],
  eur7: ['europe-west2', 'europe-west3'],
  eur8: ['europe-west3', 'europe-west6'],
  nam4: ['us-central1', 'us-east1'],
};

/** Continents, by the prefix of their regions, and the exceptions. London and Zurich are not in the European Union. */
const multiRegions: Readonly<Record<string, { readonly start: string; readonly without: readonly string[] }>> = {
  us: { start: 'us-', without: [] },
  eu: { start: 'europe-', without: ['europe-west2', 'europe-west6'] },
  asia: { start: 'asia-', without: [] },
};

const regionPattern = /^[a-z]+-[a-z]+\d+$/;
const zonePattern = /^[a-z]+-[a-z]+\d+-[a-z]$/;

/** The location in a bucket's resource; null if it names none, as a bucket of the TPU emulator before its first use. */
export function readBucketLocation(fields: {
  readonly location?: unknown;
  readonly locationType?: unknown;
  readonly customPlacementConfig?: { readonly dataLocations?: unknown } | null;
}): BucketLocation | null {
  const { location, locationType, customPlacementConfig } = fields;
  if (typeof location !== 'string' || location === '') return null;
  const parts = customPlacementConfig?.dataLocations;
  return {
    location: location.toLowerCase(),
    kind: typeof locationType === 'string' ? locationType : null,
    parts: Array.isArray(parts)
      ? parts.filter((part) => typeof part === 'string').map((part) => part.toLowerCase())
      : [],
  };
}

/** True if the bucket's data is in the region of that zone. Null if this table does not know the location. */
export function isInRegion(bucket: BucketLocation, zone: string): boolean | null {
  const region = regionOf(zone);
  const parts = bucket.parts.length > 0 ? bucket.parts : dualRegions[bucket.location];
  if (parts !== undefined) return parts.some((part) => part === region || (isZone(part) && regionOf(part) === region));
  const continent = multiRegions[bucket.location];
  // For a dual-region bucket the continent says only that both regions are on it.
  if (continent !== undefined && bucket.kind !== 'dual-region') {
    return region.startsWith(continent.start) && !continent.without.includes(region);
  }
  if (regionPattern.test(bucket.location)) return bucket.location === region;
  if (isZone(bucket.location)) return regionOf(bucket.location) === region;
  return null;
}

/** The zone of a bucket that is in one zone alone. Undefined for every other. */
export function zoneOfBucket({ location, parts }: BucketLocation): string | undefined {
  return [...parts, location].find(isZone);
}

/** For messages: `us-central2`, `the multi-region US`, `the dual-region NAM4 (us-central1 and us-east1)`. */
export function formatBucketLocation(bucket: BucketLocation): string {
  const zone = zoneOfBucket(bucket);
  if (zone !== undefined) return `the zone ${zone}`;
  const { location, parts } = bucket;
  const name = location.toUpperCase();
  const regions = parts.length > 0 ? parts : dualRegions[location];
  if (regions !== undefined) return `the dual-region ${name} (${regions.join(' and ')})`;
  if (multiRegions[location] === undefined) return location;
  return bucket.kind === 'dual-region' ? `a dual-region in ${name}` : `the multi-region ${name}`;
}

function isZone(text: string): boolean {
  return zonePattern.test(text);
}
