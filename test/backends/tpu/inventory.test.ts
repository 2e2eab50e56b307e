// All TPUs of a project; a zone that could not be reached is reported and never counts as empty.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listTpus } from '../../../src/backends/tpu/inventory.ts';
import { failure, openTpuServer, parent } from './support/server.ts';

const label = { 'jobman-installation': 'abc123', 'jobman-job': '000007', 'jobman-allocation': '2' };

test('one request of each kind lists all zones, and a node and its queued resource are one row', async (t) => {
  const server = await openTpuServer(t);
  const queued = `${parent}/queuedResources/llama-000007-2`;
  server.addQueued({
    name: queued,
    createTime: '2026-05-01T10:00:00Z',
    spot: {},
    tpu: { nodeSpec: [{ nodeId: 'llama-000007-2', node: { labels: label, acceleratorType: 'v4-16' } }] },
    state: { state: 'ACTIVE' },
  });
  server.addQueued({
    name: `${parent}/queuedResources/waits`,
    createTime: '2026-05-01T10:30:00Z',
    spot: {},
    tpu: {
      nodeSpec: [
        {
          nodeId: 'waits',
          node: {
            acceleratorType: 'v4-8',
            labels: { 'jobman-installation': 'abc123', 'jobman-shared': 'true' },
            metadata: { owner: 'grace' },
          },
        },
      ],
    },
    state: { state: 'WAITING_FOR_RESOURCES' },
  });
  server.addNode({
    name: `${parent}/nodes/llama-000007-2`,
    state: 'READY',
    labels: label,
    acceleratorType: 'v4-16',
    queuedResource: queued,
    createTime: '2026-05-01T11:00:00Z',
  });
  server.addNode({
    name: `${parent}/nodes/dev`,
    state: 'STOPPED',
    acceleratorConfig: { type: 'V4', topology: '2x2x1' },
    schedulingConfig: { preemptible: true },
    createTime: '2026-05-01T09:00:00Z',
  });
  server.pageLength = 1;

  const { tpus, unchecked } = await listTpus(server.api, { project: 'p', zones: null });
  assert.deepEqual(unchecked, []);
  assert.deepEqual(tpus, [
    {
      project: 'p',
      zone: 'us-central2-b',
      name: 'dev',
      resource: `${parent}/nodes/dev`,
      nodeState: 'STOPPED',
      queuedResourceState: null,
      accelerator: 'V4 2x2x1',
      pricing: 'preemptible',
      nodeCount: 1,
      label: null,
      sharedByInstallation: null,
      metadataOwner: null,
      createdAt: Date.parse('2026-05-01T09:00:00Z'),
    },
    {
      project: 'p',
      zone: 'us-central2-b',
      name: 'llama-000007-2',
      resource: queued,
      nodeState: 'READY',
      queuedResourceState: 'ACTIVE',
      accelerator: 'v4-16',
      pricing: 'spot',
      nodeCount: 1,
      label: { installation: 'abc123', job: '000007', allocation: 2 },
      sharedByInstallation: null,
      metadataOwner: null,
      createdAt: Date.parse('2026-05-01T11:00:00Z'),
    },
    {
      project: 'p',
      zone: 'us-central2-b',
      name: 'waits',
      resource: `${parent}/queuedResources/waits`,
      nodeState: null,
      queuedResourceState: 'WAITING_FOR_RESOURCES',
      accelerator: 'v4-8',
      pricing: 'spot',
      nodeCount: 1,
      label: null,
      sharedByInstallation: 'abc123',
      metadataOwner: 'grace',
      createdAt: Date.parse('2026-05-01T10:30:00Z'),
    },
  ]);
  assert.deepEqual(
    new Set(server.requests.map(({ path }) => path)),
    new Set(['/v2/projects/p/locations/-/nodes', '/v2/projects/p/locations/-/queuedResources']),
  );
});

test('of the named zones only; an unreachable zone is reported if it is one of them', async (t) => {
  const server = await openTpuServer(t);
  server.addNode({ name: `${parent}/nodes/here`, state: 'READY', schedulingConfig: { reserved: true } });
  server.addNode({ name: 'projects/p/locations/us-east5-a/nodes/there', state: 'READY' });
  server.unreachable = ['projects/p/locations/us-west4-a', 'europe-west4-b'];
  const { tpus, unchecked } = await listTpus(server.api, {
    project: 'p',
    zones: ['us-central2-b', 'us-west4-a'],
  });
  assert.deepEqual(
    tpus.map(({ name, pricing }) => `${name} ${pricing}`),
    ['here reserved'],
  );
  assert.deepEqual(
    unchecked.map(({ zone }) => zone),
    ['us-west4-a'],
  );
  assert.equal((await listTpus(server.api, { project: 'p', zones: null })).unchecked.length, 2);
});

test('a server that refuses to list all zones at once is asked zone by zone, and each may refuse for itself', async (t) => {
  const server = await openTpuServer(t);
  server.addNode({ name: `${parent}/nodes/here`, state: 'READY' });
  server.fault = ({ path }) => {
    if (path.includes('/locations/-/')) return failure(400, 'INVALID_ARGUMENT', 'no wildcards');
    return path.includes('us-west4-a') ? failure(403, 'PERMISSION_DENIED', 'not yours') : undefined;
  };
  const { tpus, unchecked } = await listTpus(server.api, {
    project: 'p',
    zones: ['us-central2-b', 'us-west4-a'],
  });
  assert.deepEqual(
    tpus.map(({ name }) => name),
    ['here'],
  );
  assert.deepEqual(unchecked, [
    {
      project: 'p',
      zone: 'us-west4-a',
      message: 'PERMISSION_DENIED: not yours',
      isEmulatorStopped: false,
      fix: 'gcloud projects add-iam-policy-binding p --member user:YOU --role roles/tpu.viewer',
    },
  ]);
});

test('if the queued resources cannot be listed, the zone counts as unknown', async (t) => {
  const server = await openTpuServer(t);
  server.addNode({ name: `${parent}/nodes/here`, state: 'READY' });
  server.fault = ({ path }) => (path.endsWith('queuedResources') ? 'drop' : undefined);
  const { tpus, unchecked } = await listTpus(server.api, {
    project: 'p',
    zones: ['us-central2-b', 'us-west4-a'],
  });
  assert.deepEqual(tpus, []);
  assert.equal(unchecked.length, 1);
  assert.equal(unchecked[0]?.zone, null);
  assert.match(unchecked[0]?.message ?? '', /did not answer/);
});

test('an answer with a value of a wrong type counts as no answer', async (t) => {
  const whole = {
    name: `${parent}/nodes/a`,
    state: 'READY',
    labels: label,
    networkEndpoints: [{ ipAddress: '10.0.0.1', accessConfig: { externalIp: '1.2.3.4' } }],
  };
  const queued = { name: `${parent}/queuedResources/a`, state: { state: 'ACTIVE' }, tpu: { nodeSpec: [{ node: {} }] } };
  const wrong: readonly (readonly [field: string, items: readonly unknown[]])[] = [
    ['nodes', [null]],
    ['nodes', ['a']],
    ['nodes', [{ state: 'READY' }]],
    ['nodes', [{ ...whole, name: 5 }]],
    ['nodes', [{ ...whole, labels: null }]],
    ['nodes', [{ ...whole, labels: { 'jobman-job': 7 } }]],
    ['nodes', [{ ...whole, networkEndpoints: {} }]],
    ['nodes', [{ ...whole, networkEndpoints: [{ accessConfig: null }] }]],
    ['queuedResources', [{ ...queued, state: 'ACTIVE' }]],
    ['queuedResources', [{ ...queued, tpu: { nodeSpec: [null] } }]],
  ];
  for (const [field, items] of [['nodes', [whole]] as const, ...wrong]) {
    const server = await openTpuServer(t);
    server.fault = ({ path }) => (path.endsWith(field) ? { status: 200, body: { [field]: items } } : undefined);
    const { tpus, unchecked } = await listTpus(server.api, { project: 'p', zones: ['us-central2-b'] });
    assert.equal(tpus.length, items[0] === whole ? 1 : 0, JSON.stringify(items));
    assert.equal(unchecked.length, items[0] === whole ? 0 : 1, JSON.stringify(items));
  }
});

test('one node of an unexpected form is named with its zone, and hides neither the others nor its queued resource', async (t) => {
  const server = await openTpuServer(t);
  const nodes = [
    { name: `${parent}/nodes/a`, state: 'READY' },
    { name: `${parent}/nodes/b`, state: 7 },
  ];
  const queuedResources = [{ name: `${parent}/queuedResources/b` }, { name: null }];
  server.fault = ({ path }) => ({ status: 200, body: path.endsWith('nodes') ? { nodes } : { queuedResources } });
  const { tpus, unchecked } = await listTpus(server.api, { project: 'p', zones: null });
  assert.deepEqual(
    tpus.map(({ name }) => name),
    ['a', 'b'],
  );
  assert.deepEqual(unchecked, [
    {
      project: 'p',
      zone: 'us-central2-b',
      message: 'b has an unexpected form and is not shown',
      isEmulatorStopped: false,
    },
    { project: 'p', zone: null, message: 'entry 2 has an unexpected form and is not shown', isEmulatorStopped: false },
  ]);
});
