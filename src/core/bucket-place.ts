// Bucket place: which regions the location of a bucket holds. A bucket is in a zone, a region, a pair of regions, or in a
// continent's worth of them.
// Source: Google's page of bucket locations (cloud.google.com/storage/docs/locations), and the fields `location`,
// `locationType` and `customPlacementConfig.dataLocations` of a bucket in the JSON API.

import { regionOf } from '../catalogue/zones.ts';

export interface BucketPlace {
  /** `us-central2`, `us`, `nam4`; in small letters, as zones are written. */
  readonly location: string;
  /** `region`, `dual-region`, `multi-region`, `zone`; null where it was not said. */
  readonly kind: string | null;
  /** Its regions: the two of a pair that its owner has chosen, or its one zone; empty where it was not said. */
  readonly parts: readonly string[];
}

const pairs: Readonly<Record<string, readonly string[]>> = {
  asia1: ['asia-northeast1', 'asia-northeast2'],
  eur4: ['europe-north1', 'europe-west4'],
  eur5: ['europe-west1', 'europe-west2'],
  eur7: ['europe-west2', 'europe-west3'],
  eur8: ['europe-west3', 'europe-west6'],
  nam4: ['us-central1', 'us-east1'],
};

/** Continents: how their regions begin, and which of these are none of theirs. London and Zurich are not in the Union. */
const continents: Readonly<Record<string, { readonly start: string; readonly without: readonly string[] }>> = {
  us: { start: 'us-', without: [] },
  eu: { start: 'europe-', without: ['europe-west2', 'europe-west6'] },
  asia: { start: 'asia-', without: [] },
};

const regionPattern = /^[a-z]+-[a-z]+\d+$/;
const zonePattern = /^[a-z]+-[a-z]+\d+-[a-z]$/;

/** Whether the bucket's data is in the region of that zone; null for a sort of location that this table does not know. */
export function isInRegion(place: BucketPlace, zone: string): boolean | null {
  const region = regionOf(zone);
  const parts = place.parts.length > 0 ? place.parts : pairs[place.location];
  if (parts !== undefined) return parts.some((part) => part === region || (isZone(part) && regionOf(part) === region));
  const continent = continents[place.location];
  // The continent of a pair says only where both of its regions are.
  if (continent !== undefined && place.kind !== 'dual-region') {
    return region.startsWith(continent.start) && !continent.without.includes(region);
  }
  if (regionPattern.test(place.location)) return place.location === region;
  if (isZone(place.location)) return regionOf(place.location) === region;
  return null;
}

/** The zone of a bucket that is in one zone alone; undefined for every other. */
export function zoneOfBucket({ location, parts }: BucketPlace): string | undefined {
  return [...parts, location].find(isZone);
}

/** Where it is, in words: `us-central2`, `the multi-region US`, `the dual-region NAM4 (us-central1 and us-east1)`. */
export function bucketPlaceText(place: BucketPlace): string {
  const zone = zoneOfBucket(place);
  if (zone !== undefined) return `the zone ${zone}`;
  const { location, parts } = place;
  const name = location.toUpperCase();
  const regions = parts.length > 0 ? parts : pairs[location];
  if (regions !== undefined) return `the dual-region ${name} (${regions.join(' and ')})`;
  if (continents[location] === undefined) return location;
  return place.kind === 'dual-region' ? `a dual-region in ${name}` : `the multi-region ${name}`;
}

function isZone(text: string): boolean {
  return zonePattern.test(text);
}
