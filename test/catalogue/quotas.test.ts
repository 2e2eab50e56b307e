import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceleratorsIn, zones } from '../../src/catalogue/zones.ts';
import { findAccelerator } from '../../src/catalogue/accelerators.ts';
import { parseQuotaError, parseQuotaId, quotaId, quotaOf, quotaUnits } from '../../src/catalogue/quotas.ts';

test('every type has the quota that Google names, and each id is read back', () => {
  const idOf = (type: string, pricing: 'spot' | 'preemptible' | 'ondemand' | 'reserved', scope: 'zone' | 'region') => {
    const accelerator = findAccelerator(type);
    assert.ok(accelerator);
    return quotaId(quotaOf(accelerator, pricing), scope);
  };
  assert.equal(idOf('v6e-8', 'spot', 'region'), 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI');
  assert.equal(idOf('v6e-8', 'preemptible', 'zone'), 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI');
  assert.equal(idOf('v5litepod-8', 'ondemand', 'zone'), 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI');
  assert.equal(idOf('v5litepod-16', 'spot', 'zone'), 'TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI');
  assert.equal(idOf('v4-8', 'spot', 'region'), 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI');
  assert.equal(idOf('v2-32', 'spot', 'zone'), 'TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI');
  assert.equal(idOf('v5p-8', 'spot', 'zone'), 'TPUV5PPreemptiblePerProjectPerZoneForTPUAPI');
  for (const accelerator of zones.flatMap(acceleratorsIn)) {
    for (const pricing of ['spot', 'ondemand', 'reserved'] as const) {
      for (const scope of ['zone', 'region'] as const) {
        const quota = quotaOf(accelerator, pricing);
        assert.deepEqual(parseQuotaId(quotaId(quota, scope)), { ...quota, scope });
      }
    }
  }
});

test('other quotas of the API are not read as a number of chips', () => {
  for (const id of ['CreateNodeRequestsPerMinutePerProject', 'TPUV9XPerProjectPerZoneForTPUAPI', ''])
    assert.equal(parseQuotaId(id), undefined, id);
});

test('the unit is a TensorCore, of which v5e and v6e have one per chip', () => {
  const unitsOf = (type: string) => {
    const accelerator = findAccelerator(type);
    return accelerator === undefined ? undefined : quotaUnits(accelerator);
  };
  assert.deepEqual(['v4-8', 'v5p-16', 'v5litepod-16', 'v6e-8'].map(unitsOf), [8, 16, 16, 8]);
});

test('the limit of a quota is read from the errors of both APIs', () => {
  const id = 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI';
  const quota = { generation: 'v4', variant: null, pricing: 'spot', scope: 'region', location: 'us-central2' };
  const queued = `RESOURCE_EXHAUSTED: Quota '${id}' exhausted. Limit 20800 in region us-central2`;
  assert.deepEqual(parseQuotaError(queued), { ...quota, limit: 20_800 });
  const node = `Quota limit '${id}' has been exceeded. Limit: 0 in region us-central2.`;
  assert.deepEqual(parseQuotaError(node), { ...quota, limit: 0 });
  for (const other of ["Quota limit 'X' has been exceeded. Limit: 0 in region us-east5.", 'IN_USE_ADDRESSES limit (8)'])
    assert.equal(parseQuotaError(other), undefined, other);
});
