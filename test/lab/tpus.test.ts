// Types, pricing and short names of TPUs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { persistentTpuSpec } from '../../src/lab/run-spec.ts';
import {
  parseAccelerator,
  acceleratorFromName,
  generationName,
  pricingFromName,
  shortName,
  findTpuBySuffix,
  tpuFromName,
} from '../../src/lab/tpus.ts';

const cases: readonly (readonly [name: string, type: string | null, pricing: string])[] = [
  ['kmh-tpuvm-v2-32-1', 'v2-32', 'ondemand'],
  ['kmh-tpuvm-v2-32-preemptible-1', 'v2-32', 'preemptible'],
  ['kmh-tpuvm-v4-32-preemptible-yiyang2', 'v4-32', 'preemptible'],
  ['lab-v5e-8-spot-3', 'v5litepod-8', 'spot'],
  ['lab-v5litepod-16', 'v5litepod-16', 'ondemand'],
  ['lab-v6e-8-spot1', 'v6e-8', 'spot'],
  ['lab-v5p-8-pre-1', 'v5p-8', 'preemptible'],
  ['lab-spotted-v4-8', 'v4-8', 'ondemand'],
  ['lab-v4-7', null, 'ondemand'],
  ['lab-tpu-1', null, 'ondemand'],
];
for (const [name, type, pricing] of cases) {
  test(`${name} has ${type ?? 'no type'}, ${pricing}`, () => {
    assert.equal(acceleratorFromName(name), type);
    assert.equal(pricingFromName(name), pricing);
    assert.equal(tpuFromName(name)?.accelerator ?? null, type);
  });
}

test('types have several spellings and a short display name', () => {
  assert.deepEqual(['v5e-8', 'V4-8', 'v6e_4', 'v2-31', 'lr'].map(parseAccelerator), [
    'v5litepod-8',
    'v4-8',
    'v6e-4',
    null,
    null,
  ]);
  assert.deepEqual([generationName('v5litepod-8'), generationName('v9-8')], ['v5e', 'v9-8']);
  assert.equal(shortName('kmh-tpuvm-v2-32-1', 'kmh-tpuvm-'), 'v2-32-1');
  assert.equal(shortName('kmh-tpuvm-', 'kmh-tpuvm-'), 'kmh-tpuvm-');
  assert.equal(shortName('other', ''), 'other');
});

test('the spec uses the values of the registry, and an unknown value is an error', () => {
  const tpu = tpuFromName('lab-v5e-8-spot-1');
  assert.ok(tpu !== null);
  const site = { zones: ['us-west1-c', 'us-central2-b'], remoteUser: 'lab', privateKey: null };
  const spec = persistentTpuSpec(tpu, site, { project: 'p' });
  assert.deepEqual(
    [spec.ownership, spec.accelerator, spec.runtimeVersion, spec.pricing, spec.zone, spec.name],
    ['persistent', 'v5litepod-8', 'v2-alpha-tpuv5-lite', 'spot', 'us-west1-c', 'lab-v5e-8-spot-1'],
  );
  assert.equal(persistentTpuSpec({ ...tpu, zone: 'us-east1-c' }, site, { project: 'p' }).zone, 'us-east1-c');
  assert.equal(persistentTpuSpec(tpu, site, { project: 'p', foundZone: 'us-east5-a' }).zone, 'us-east5-a');
  assert.equal(persistentTpuSpec({ ...tpu, runtimeVersion: 'x', project: 'q' }, site, { project: 'p' }).project, 'q');
  assert.throws(
    () => persistentTpuSpec(tpu, site, { project: null }),
    /The Google Cloud project of lab-v5e-8-spot-1 is unknown/,
  );
  assert.throws(() => persistentTpuSpec(tpu, { ...site, zones: [] }, { project: 'p' }), /zone of/);
});

// Short names, which `check` and `run` print, identify a TPU.
const names = [
  'kmh-tpuvm-v2-32-1',
  'kmh-tpuvm-v2-32-preemptible-1',
  'kmh-tpuvm-v2-32-spot-1',
  'old-tpu-v2-32-spot-1',
  'kmh-tpuvm-v4-8',
];
const tpus = names.map((name) => tpuFromName(name) ?? assert.fail(name));

for (const [suffix, expected] of [
  ['v2-32-preemptible-1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ['v2-32-1', 'kmh-tpuvm-v2-32-1'],
  ['tpuvm-v2-32-1', 'kmh-tpuvm-v2-32-1'],
  // Two TPUs match; a type; no type; a number.
  ['v2-32-spot-1', undefined],
  ['v4-8', undefined],
  ['preemptible-1', undefined],
  ['1', undefined],
  ['32-1', undefined],
] as const)
  test(`${suffix} is ${expected ?? 'no TPU'}`, () => assert.equal(findTpuBySuffix(tpus, suffix)?.name, expected));
