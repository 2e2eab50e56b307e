// The request, field by field, as the emulator reads it: it refuses every name that is not in Google's schema,
// and shows the fields that it has received.

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { createGoogleApiClient, createTpuApi } from '../../../src/backends/tpu/api.ts';
import { observeAllocations, releaseAllocation, requestAllocation } from '../../../src/backends/tpu/capacity.ts';
import type { AllocationRef } from '../../../src/app/ports.ts';
import { hour } from '../../../src/core/model/time.ts';
import { minutes, startTestEmulator, type Reply } from '../../emulator/test-emulator.ts';
import { fixedClock, labels, name, tpuRef, type RefOptions } from './support/refs.ts';

const keys = 'ada:ssh-ed25519 AAAA jobman';
const zoneParent = 'projects/emulator/locations/us-central2-b';

async function open(t: TestContext) {
  const cloud = await startTestEmulator(t);
  const api = createTpuApi(
    createGoogleApiClient({
      env: {},
      endpoint: () => Promise.resolve(cloud.emulator.url),
      credentials: { headers: () => Promise.resolve({}), invalidate: () => '' },
    }),
  );
  return { cloud, api };
}

function refOf({ spec = {}, ...options }: RefOptions): AllocationRef {
  return tpuRef({ ...options, spec: { project: 'emulator', ...spec } });
}

/** All options of a machine. */
const everything = {
  networkTags: ['allow-nfs'],
  startupScript: '#!/bin/sh\ntrue\n',
  metadata: { owner: 'ada' },
  network: 'tpu-net',
  subnetwork: 'tpu-sub',
  serviceAccount: 'trainer@p.example.org',
  dataDisks: [
    { source: 'imagenet', mode: 'read-only' },
    { source: 'projects/q/zones/us-central2-b/disks/other', mode: 'read-only' },
  ],
  topology: '2x2x2',
} as const;

/** The parts of a node that it was asked with. */
function summarize(node: Reply): object {
  const { acceleratorType, acceleratorConfig, runtimeVersion, networkConfig, serviceAccount } = node;
  const { dataDisks, labels: made, tags, metadata } = node;
  return {
    acceleratorType,
    acceleratorConfig,
    runtimeVersion,
    networkConfig,
    serviceAccount,
    dataDisks,
    labels: made,
    tags,
    metadata,
  };
}

const understood = {
  // Asked by its topology; the service fills in the type.
  acceleratorType: 'v4-16',
  acceleratorConfig: { type: 'V4', topology: '2x2x2' },
  runtimeVersion: 'tpu-ubuntu2204-base',
  networkConfig: {
    enableExternalIps: true,
    network: 'projects/emulator/global/networks/tpu-net',
    subnetwork: 'projects/emulator/regions/us-central2/subnetworks/tpu-sub',
  },
  serviceAccount: { email: 'trainer@p.example.org', scope: ['https://www.googleapis.com/auth/cloud-platform'] },
  dataDisks: [
    { sourceDisk: 'projects/emulator/zones/us-central2-b/disks/imagenet', mode: 'READ_ONLY' },
    { sourceDisk: 'projects/q/zones/us-central2-b/disks/other', mode: 'READ_ONLY' },
  ],
  labels,
  tags: ['allow-nfs'],
  metadata: { owner: 'ada', 'startup-script': '#!/bin/sh\ntrue\n', 'ssh-keys': keys },
};

suite('every key of the section tpu arrives', () => {
  for (const pricing of ['spot', 'ondemand', 'preemptible'] as const) {
    test(`of a node, ${pricing}`, async (t) => {
      const { cloud, api } = await open(t);
      const ref = refOf({ spec: { ...everything, pricing } });
      assert.deepEqual(await requestAllocation(api, ref, keys), { kind: 'done' });
      const node = await cloud.ok('GET', `nodes/${name}`);
      assert.deepEqual(summarize(node), understood);
      assert.deepEqual(node.schedulingConfig ?? {}, pricing === 'ondemand' ? {} : { [pricing]: true });
    });

    test(`of a queued resource, ${pricing}`, async (t) => {
      const { cloud, api } = await open(t);
      const ref = refOf({ spec: { ...everything, pricing, mode: 'queued-resources', validForMs: 6 * hour } });
      assert.deepEqual(await requestAllocation(api, ref, keys), { kind: 'done' });
      // The older tier of the queue is shown by the version of the API that knows it.
      const version = pricing === 'preemptible' ? 'v2alpha1' : 'v2';
      const queued = await cloud.ok('GET', `/${version}/${zoneParent}/queuedResources/${name}`);
      const tier = { spot: queued.spot, bestEffort: queued.bestEffort, guaranteed: queued.guaranteed };
      const expected = { spot: { spot: {} }, preemptible: { bestEffort: {} }, ondemand: {} }[pricing];
      assert.deepEqual(JSON.parse(JSON.stringify(tier)), expected);
      assert.deepEqual(queued.queueingPolicy, { validUntilDuration: '21600s' });
      const [spec, ...others] = queued.tpu.nodeSpec;
      assert.deepEqual(others, []);
      assert.equal(spec.nodeId, name);
      assert.deepEqual(summarize(spec.node), understood);
    });
  }

  test('of reserved capacity', async (t) => {
    const { cloud, api } = await open(t);
    await cloud.admin('reserve', 'us-central2-b/v4', { chips: '64', name: 'lab-v4' });
    const reserved = { pricing: 'ondemand', reservation: 'lab-v4' } as const;
    const ref = refOf({ spec: { ...reserved, mode: 'queued-resources' } });
    assert.deepEqual(await requestAllocation(api, ref, keys), { kind: 'done' });
    const queued = await cloud.ok('GET', `queuedResources/${name}`);
    assert.equal(queued.reservationName, `${zoneParent}/reservations/lab-v4`);
    assert.deepEqual(queued.guaranteed, {});
    const direct = refOf({ spec: reserved, allocation: { ordinal: 2 } });
    assert.deepEqual(await requestAllocation(api, direct, keys), { kind: 'done' });
    assert.equal((await cloud.ok('GET', `nodes/${direct.allocation.name}`)).schedulingConfig.reserved, true);
  });
});

test('a multislice is one allocation: its workers are numbered through all slices, and they go together', async (t) => {
  const { cloud, api } = await open(t);
  const options = { apiFor: () => api, clock: fixedClock };
  const spec = { mode: 'queued-resources', nodeCount: 3 } as const;
  const ref = refOf({ spec });
  assert.deepEqual(await requestAllocation(api, ref, keys), { kind: 'done' });
  const queued = await cloud.ok('GET', `queuedResources/${name}`);
  assert.deepEqual(
    queued.tpu.nodeSpec.map((one: Reply) => one.nodeId),
    [`${name}-0`, `${name}-1`, `${name}-2`],
  );
  const seen = async (allocation: RefOptions['allocation'] = {}) => {
    const [fact] = await observeAllocations([refOf({ spec, allocation })], options);
    assert.ok(fact?.kind === 'known', JSON.stringify(fact));
    return fact.value;
  };
  assert.equal((await seen()).state, 'waiting');
  cloud.clock.advance(minutes(6));
  const ready = await seen();
  assert.equal(ready.state, 'ready');
  assert.equal(ready.workers, 6);
  const addresses: string[] = [];
  for (const index of [0, 1, 2]) {
    const { networkEndpoints } = await cloud.ok('GET', `nodes/${name}-${index}`);
    addresses.push(...networkEndpoints.map((one: Reply) => one.ipAddress));
  }
  assert.deepEqual(
    ready.hosts?.map(({ internalIp }) => internalIp),
    addresses,
  );

  await cloud.admin('preempt', `${name}-1`);
  const taken = await seen({ readyAt: 1, workers: 6 });
  assert.deepEqual([taken.state, taken.cause], ['lost', 'preempted']);
  assert.deepEqual(await releaseAllocation(api, refOf({ spec, allocation: { releasedAt: 2 } })), { kind: 'done' });
  cloud.clock.advance(minutes(15));
  await releaseAllocation(api, refOf({ spec, allocation: { releasedAt: 2 } }));
  cloud.clock.advance(minutes(15));
  assert.deepEqual((await cloud.ok('GET', 'nodes')).nodes ?? [], []);
  assert.deepEqual((await cloud.ok('GET', 'queuedResources')).queuedResources ?? [], []);
  assert.equal((await seen({ readyAt: 1, releasedAt: 2 })).state, 'absent');
});
