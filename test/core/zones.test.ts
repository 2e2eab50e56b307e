import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accelerator, generations } from '../../src/core/accelerators.ts';
import type { Accelerator } from '../../src/core/accelerators.ts';
import { generationOfVersion, runtimeVersionMeant, runtimeVersions } from '../../src/core/runtime-versions.ts';
import { zoneMeant, zones, zonesOffering } from '../../src/core/zones.ts';
import * as cloud from '../../src/emulator/catalogue/zones.ts';

function known(type: string): Accelerator {
  const found = accelerator(type);
  assert.ok(found, type);
  return found;
}

const allTypes = generations.flatMap((one) => [...one.sizes.keys()].map((size) => known(`${one.prefix}${size}`)));

test('what a manifest may ask of the built-in cloud is what it offers, in every zone', () => {
  assert.deepEqual([...cloud.zones], zones);
  assert.deepEqual([...cloud.runtimeVersions].toSorted(), runtimeVersions.toSorted());
  for (const zone of zones) {
    const offered = new Set(cloud.acceleratorsIn(zone).map(({ type }) => type));
    for (const type of allTypes) {
      assert.equal(zonesOffering(type).includes(zone), offered.has(type.type), `${type.type} in ${zone}`);
    }
  }
});

test('single machines and slices of the old generations are sold in different zones', () => {
  assert.deepEqual(zonesOffering(known('v4-16')), ['us-central2-b']);
  assert.deepEqual(zonesOffering(known('v2-32')), ['us-central1-a', 'europe-west4-a']);
  assert.ok(!zonesOffering(known('v2-8')).includes('us-central1-a'));
  assert.deepEqual(zonesOffering(known('tpu7x-8')), []);
});

test('a zone that is nearly one is taken for it, where that offers what is asked for first', () => {
  assert.equal(zoneMeant('us-central2'), 'us-central2-b');
  assert.equal(zoneMeant('us-central2-a'), 'us-central2-b');
  assert.equal(zoneMeant('us-centrl2-b'), 'us-central2-b');
  assert.equal(zoneMeant('US_Central2_B'), 'us-central2-b');
  assert.equal(zoneMeant('us-east1'), 'us-east1-b');
  assert.equal(zoneMeant('us-east1', zonesOffering(known('v6e-8'))), 'us-east1-d');
  assert.equal(zoneMeant('mars'), undefined);
});

test('a runtime version is a slip, or one that is newer than this table', () => {
  assert.equal(runtimeVersionMeant('tpu-ubuntu2204-bas'), 'tpu-ubuntu2204-base');
  assert.equal(runtimeVersionMeant('v2-alpha-tpuv6'), 'v2-alpha-tpuv6e');
  assert.equal(runtimeVersionMeant('tpu-vm-tf-2.19.0-pod-pjrt'), undefined);
  assert.equal(runtimeVersionMeant('something-else'), undefined);
  for (const { runtimeVersion, name } of generations) {
    assert.ok([name, null].includes(generationOfVersion(runtimeVersion)), runtimeVersion);
  }
  assert.equal(generationOfVersion('v2-alpha-tpuv5-lite'), 'v5e');
  assert.equal(generationOfVersion('tpu-ubuntu2204-base'), null);
});
