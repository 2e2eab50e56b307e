import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findAccelerator, generations, type Accelerator } from '../../src/catalogue/accelerators.ts';
import { generationOfVersion, suggestRuntimeVersion } from '../../src/catalogue/runtime-versions.ts';
import { acceleratorsIn, suggestZone, zones, zonesOffering } from '../../src/catalogue/zones.ts';

function known(type: string): Accelerator {
  const found = findAccelerator(type);
  assert.ok(found, type);
  return found;
}

test('a zone offers exactly the types that name it, and at least one', () => {
  const types = (zone: string): string[] => acceleratorsIn(zone).map(({ type }) => type);
  assert.ok(types('us-central2-b').includes('v4-8') && types('us-central2-b').every((type) => type.startsWith('v4-')));
  assert.deepEqual(types('asia-east1-c').slice(0, 2), ['v2-8', 'v5litepod-1']);
  assert.deepEqual(types('us-central2-a'), []);
  assert.ok(zones.every((zone) => types(zone).length > 0));
});

test('single machines and slices of the old generations are in different zones', () => {
  assert.deepEqual(zonesOffering(known('v4-16')), ['us-central2-b']);
  assert.deepEqual(zonesOffering(known('v2-32')), ['us-central1-a', 'europe-west4-a']);
  assert.ok(!zonesOffering(known('v2-8')).includes('us-central1-a'));
  assert.deepEqual(zonesOffering(known('tpu7x-8')), []);
});

test("Google's zones of v6e come first", () => {
  const offered = zonesOffering(known('v6e-8'));
  assert.deepEqual(offered.slice(0, 4), ['us-central1-b', 'us-east1-d', 'us-east5-a', 'us-east5-b']);
  assert.ok(!offered.includes('us-central1-a'));
});

test('a misspelt zone gets a suggestion, preferably one with the requested type', () => {
  assert.equal(suggestZone('us-central2'), 'us-central2-b');
  assert.equal(suggestZone('us-central2-a'), 'us-central2-b');
  assert.equal(suggestZone('us-centrl2-b'), 'us-central2-b');
  assert.equal(suggestZone('US_Central2_B'), 'us-central2-b');
  assert.equal(suggestZone('us-east1'), 'us-east1-b');
  assert.equal(suggestZone('us-east1', zonesOffering(known('v6e-8'))), 'us-east1-d');
  assert.equal(suggestZone('mars'), undefined);
});

test('an unknown runtime version is a typing error or newer than the table', () => {
  assert.equal(suggestRuntimeVersion('tpu-ubuntu2204-bas'), 'tpu-ubuntu2204-base');
  assert.equal(suggestRuntimeVersion('v2-alpha-tpuv6'), 'v2-alpha-tpuv6e');
  assert.equal(suggestRuntimeVersion('tpu-vm-tf-2.19.0-pod-pjrt'), undefined);
  assert.equal(suggestRuntimeVersion('something-else'), undefined);
  for (const { runtimeVersion, name } of generations) {
    assert.ok([name, null].includes(generationOfVersion(runtimeVersion)), runtimeVersion);
  }
  assert.equal(generationOfVersion('v2-alpha-tpuv5-lite'), 'v5e');
  assert.equal(generationOfVersion('tpu-ubuntu2204-base'), null);
});
