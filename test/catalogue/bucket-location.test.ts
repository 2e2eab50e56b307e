// The regions of a bucket's location, for every kind of location in Cloud Storage.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatBucketLocation, isInRegion, zoneOfBucket } from '../../src/catalogue/bucket-location.ts';
import type { BucketLocation } from '../../src/catalogue/bucket-location.ts';
import { zones } from '../../src/catalogue/zones.ts';

const at = (location: string, kind: string | null = null, parts: readonly string[] = []): BucketLocation => ({
  location,
  kind,
  parts,
});

test('every kind of location contains the regions that Google documents, and no other', () => {
  const cases: readonly [location: BucketLocation, holds: readonly string[], not: readonly string[], text: string][] = [
    [at('us-central2', 'region'), ['us-central2-b'], ['us-central1-a'], 'us-central2'],
    [at('us-east1'), ['us-east1-d'], ['us-east4-b'], 'us-east1'],
    [
      at('us', 'multi-region'),
      ['us-central2-b', 'us-west4-a'],
      ['europe-west4-a', 'northamerica-northeast1-b'],
      'the multi-region US',
    ],
    [
      at('eu', 'multi-region'),
      ['europe-west4-b', 'europe-north1-c'],
      ['europe-west2-a', 'europe-west6-b', 'us-east1-d'],
      'the multi-region EU',
    ],
    [at('asia', 'multi-region'), ['asia-northeast1-b', 'asia-south1-c'], ['us-east1-d'], 'the multi-region ASIA'],
    [
      at('nam4', 'dual-region'),
      ['us-central1-a', 'us-east1-d'],
      ['us-central2-b'],
      'the dual-region NAM4 (us-central1 and us-east1)',
    ],
    [
      at('eur4', 'dual-region'),
      ['europe-west4-a', 'europe-north1-a'],
      ['europe-west1-b'],
      'the dual-region EUR4 (europe-north1 and europe-west4)',
    ],
    [
      at('asia1', 'dual-region'),
      ['asia-northeast1-b'],
      ['asia-east1-c'],
      'the dual-region ASIA1 (asia-northeast1 and asia-northeast2)',
    ],
    [
      at('us', 'dual-region', ['us-central1', 'us-west4']),
      ['us-west4-a', 'us-central1-b'],
      ['us-east5-a'],
      'the dual-region US (us-central1 and us-west4)',
    ],
    [at('us-west4', 'zone', ['us-west4-a']), ['us-west4-a', 'us-west4-b'], ['us-west1-c'], 'the zone us-west4-a'],
    [at('us-west4-a', 'zone'), ['us-west4-b'], ['us-east5-a'], 'the zone us-west4-a'],
  ];
  for (const [location, holds, not, text] of cases) {
    for (const zone of holds) assert.equal(isInRegion(location, zone), true, `${text} holds ${zone}`);
    for (const zone of not) assert.equal(isInRegion(location, zone), false, `${text} does not hold ${zone}`);
    assert.equal(formatBucketLocation(location), text);
  }
});

test('an unknown location is unknown, and refuses nothing', () => {
  for (const zone of zones) {
    assert.equal(isInRegion(at('mars'), zone), null);
    assert.equal(isInRegion(at('us', 'dual-region'), zone), null, 'a pair whose regions are not given');
  }
  assert.equal(zoneOfBucket(at('us-west4', 'region')), undefined);
});
