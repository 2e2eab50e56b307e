// The states of a node and its queued resource with the stored allocation, as a table of allocation states.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allocationStatus, type FoundResources } from '../../../src/backends/tpu/resources.ts';
import { endpoints, nodeOf, now, queuedOf, tpuRef, type RefOptions } from './support/refs.ts';

const queue: RefOptions = { spec: { mode: 'queued-resources' } };
const once = { readyAt: now - 1_000, creationTime: '2026-04-01T00:00:00.123456789Z' };
const later = '2026-04-30T00:00:00Z';
const wasReady: RefOptions = { allocation: once };
const queueOnceReady: RefOptions = { ...queue, allocation: once };
const persistent: RefOptions = { spec: { ownership: 'persistent' }, allocation: { ownership: 'persistent' } };
const stood: RefOptions = { ...persistent, allocation: { ownership: 'persistent', ...once } };
const stockout = { code: 8, message: 'There is no more capacity in the zone "us-central2-b"' };

type Row = readonly [string, RefOptions, Partial<FoundResources>, string];

const rows: readonly Row[] = [
  // The node alone.
  ['nothing there', {}, {}, 'absent'],
  ['nothing there after it was ready', wasReady, {}, 'absent'],
  ['a node that is being made', {}, { node: nodeOf({ state: 'CREATING' }) }, 'provisioning'],
  [
    'a node that starts after a stop, once it was ready',
    wasReady,
    { node: nodeOf({ state: 'STARTING' }) },
    'interrupted',
  ],
  ['a ready node', {}, { node: nodeOf() }, 'ready'],
  ['a ready node without addresses', {}, { node: nodeOf({ networkEndpoints: [] }) }, 'provisioning'],
  ['the same, once it was ready', wasReady, { node: nodeOf({ networkEndpoints: [] }) }, 'interrupted'],
  ['a node under maintenance', wasReady, { node: nodeOf({ state: 'REPAIRING' }) }, 'interrupted'],
  ['a node that restarts', wasReady, { node: nodeOf({ state: 'RESTARTING' }) }, 'interrupted'],
  ['a hidden node', wasReady, { node: nodeOf({ state: 'HIDDEN' }) }, 'interrupted'],
  ['a state from the future', wasReady, { node: nodeOf({ state: 'HIBERNATING' }) }, 'interrupted'],
  ['a node without a state', {}, { node: { ...nodeOf(), state: '' } }, 'interrupted'],
  ['a preempted node', wasReady, { node: nodeOf({ state: 'PREEMPTED' }) }, 'lost preempted'],
  ['a node preempted while being made', {}, { node: nodeOf({ state: 'PREEMPTED' }) }, 'lost preempted'],
  ['a terminated node', wasReady, { node: nodeOf({ state: 'TERMINATED' }) }, 'lost preempted'],
  ['a node that a user stopped', wasReady, { node: nodeOf({ state: 'STOPPED' }) }, 'lost failed internal'],
  ['a node that is being stopped', wasReady, { node: nodeOf({ state: 'STOPPING' }) }, 'lost failed internal'],
  ['a node on its way out', wasReady, { node: nodeOf({ state: 'DELETING' }) }, 'releasing'],

  // The owner.
  ['a node without labels', {}, { node: nodeOf({ labels: {} }) }, 'foreign'],
  ['a node of another installation', {}, { node: labelled('jobman-installation', 'zz99zz') }, 'foreign'],
  ['a node of another job', {}, { node: labelled('jobman-job', '000008') }, 'foreign'],
  ['a node of an earlier allocation', {}, { node: labelled('jobman-allocation', '2') }, 'foreign'],
  ['a node with a number that is none', {}, { node: labelled('jobman-allocation', '') }, 'foreign'],
  ['a persistent node without labels', persistent, { node: nodeOf({ labels: {} }) }, 'ready'],
  ['a persistent node of a job of this installation', persistent, { node: labelled('jobman-job', '000008') }, 'ready'],
  [
    'a persistent node of a job of another installation',
    persistent,
    { node: labelled('jobman-installation', 'zz99zz') },
    'foreign',
  ],
  [
    'a persistent node that a user stopped',
    persistent,
    { node: nodeOf({ labels: {}, state: 'STOPPED' }) },
    'interrupted',
  ],
  [
    'a persistent node that was preempted',
    persistent,
    { node: nodeOf({ labels: {}, state: 'PREEMPTED' }) },
    'lost preempted',
  ],
  ['no persistent node', persistent, {}, 'absent'],
  ['the persistent node that it had', stood, { node: nodeOf({ labels: {}, createTime: once.creationTime }) }, 'ready'],
  ['a persistent node that a user has recreated', stood, { node: nodeOf({ labels: {}, createTime: later }) }, 'absent'],
  [
    'a recreated one that is not ready yet',
    stood,
    { node: nodeOf({ createTime: later, state: 'CREATING' }) },
    'absent',
  ],
  ['a node of the job belongs to it by its labels', wasReady, { node: nodeOf({ createTime: later }) }, 'ready'],

  // A create that left nothing.
  ['a create under way', {}, { createStatus: { kind: 'pending' } }, 'provisioning'],
  ['a create that failed', {}, { createStatus: { kind: 'failed', error: stockout } }, 'absent stockout'],
  [
    'a create that failed and left its node',
    {},
    { node: nodeOf({ state: 'CREATING' }), createStatus: { kind: 'failed', error: stockout } },
    'lost failed stockout',
  ],

  // The queue, before there is a node.
  ['no queued resource', queue, {}, 'absent'],
  ['just created', queue, { queued: queuedOf('CREATING') }, 'waiting'],
  ['accepted, the older name', queue, { queued: queuedOf('ACCEPTED') }, 'waiting'],
  ['waiting', queue, { queued: queuedOf('WAITING_FOR_RESOURCES') }, 'waiting'],
  ['provisioning without a node', queue, { queued: queuedOf('PROVISIONING') }, 'provisioning'],
  ['a state from the future', queue, { queued: queuedOf('PONDERING') }, 'provisioning'],
  ['not ours', queue, { queued: queuedOf('WAITING_FOR_RESOURCES', { node: { labels: {} } }) }, 'foreign'],

  // The queue with its node.
  ['provisioning', queue, { queued: queuedOf('PROVISIONING'), node: nodeOf({ state: 'CREATING' }) }, 'provisioning'],
  ['active and ready', queue, { queued: queuedOf('ACTIVE'), node: nodeOf() }, 'ready'],
  [
    'active, node under repair',
    queueOnceReady,
    { queued: queuedOf('ACTIVE'), node: nodeOf({ state: 'REPAIRING' }) },
    'interrupted',
  ],
  [
    'active, node preempted',
    queueOnceReady,
    { queued: queuedOf('ACTIVE'), node: nodeOf({ state: 'PREEMPTED' }) },
    'lost preempted',
  ],
  ['active, node not created yet', queue, { queued: queuedOf('ACTIVE') }, 'provisioning'],
  ['active, node deleted', queueOnceReady, { queued: queuedOf('ACTIVE') }, 'interrupted'],
  [
    'active, a user deletes the node',
    queueOnceReady,
    { queued: queuedOf('ACTIVE'), node: nodeOf({ state: 'DELETING' }) },
    'releasing',
  ],
  [
    'active, the node has lost its labels',
    queue,
    { queued: queuedOf('ACTIVE'), node: nodeOf({ labels: {}, queuedResource: queuedOf('ACTIVE').name }) },
    'ready',
  ],
  [
    'failed, because a foreign node has the name',
    queue,
    {
      queued: queuedOf('FAILED', { more: { failedData: { error: { code: 6, message: 'already exists' } } } }),
      node: nodeOf({ labels: {} }),
    },
    'lost failed invalid',
  ],

  // The queue's ends.
  ['suspending after ready', queueOnceReady, { queued: queuedOf('SUSPENDING') }, 'lost preempted'],
  ['suspended after ready', queueOnceReady, { queued: queuedOf('SUSPENDED') }, 'lost preempted'],
  [
    'suspending, node preempted',
    queue,
    { queued: queuedOf('SUSPENDING'), node: nodeOf({ state: 'PREEMPTED' }) },
    'lost preempted',
  ],
  ['suspending before ready', queue, { queued: queuedOf('SUSPENDING') }, 'provisioning'],
  ['suspended before ready', queue, { queued: queuedOf('SUSPENDED') }, 'lost failed stockout'],
  ['failed without a reason', queue, { queued: queuedOf('FAILED') }, 'lost failed internal'],
  ['failed for capacity', queue, failedWith(stockout), 'lost failed stockout'],
  ['failed for addresses', queue, failedWith({ code: 8, message: 'IN_USE_ADDRESSES limit (8)' }), 'lost failed quota'],
  ['failed inside', queue, failedWith({ code: 13, message: 'an internal error has occurred' }), 'lost failed internal'],
  ['being deleted', queue, { queued: queuedOf('DELETING'), node: nodeOf({ state: 'DELETING' }) }, 'releasing'],
  ['a node of ours whose queued resource is deleted', queueOnceReady, { node: nodeOf() }, 'ready'],
];

function labelled(label: string, value: string): FoundResources['node'] {
  const node = nodeOf();
  return { ...node, labels: { ...node.labels, [label]: value } };
}

function failedWith(error: object): Partial<FoundResources> {
  return { queued: queuedOf('FAILED', { more: { failedData: { error } } }) };
}

suite('what the cloud shows means', () => {
  for (const [what, ref, shown, expected] of rows) {
    test(`${ref.spec?.mode === 'queued-resources' ? 'queue: ' : ''}${what}: ${expected}`, () => {
      const seen = allocationStatus(tpuRef(ref), {
        node: undefined,
        queued: undefined,
        createStatus: undefined,
        ...shown,
      });
      assert.equal(
        [seen.state, seen.cause, seen.error?.kind].filter((field) => field !== undefined).join(' '),
        expected,
      );
      if (seen.state === 'lost' && seen.cause === 'failed') assert.ok(seen.error?.message);
    });
  }
});

test('a ready node reports its workers and their addresses in order', () => {
  const seen = allocationStatus(tpuRef(), { node: nodeOf(), queued: undefined, createStatus: undefined });
  assert.deepEqual(seen, {
    state: 'ready',
    detail: 'READY',
    workers: 2,
    hosts: [
      { internalIp: '10.128.0.5', externalIp: '34.1.2.3' },
      { internalIp: '10.128.0.6', externalIp: null },
    ],
  });
});

test('with two network cards each, the first address of each worker counts', () => {
  const second = { ipAddress: '10.200.0.1' };
  const networkEndpoints = endpoints.flatMap((endpoint) => [endpoint, second]);
  const node = nodeOf({ networkEndpoints, networkConfigs: [{}, {}] });
  const seen = allocationStatus(tpuRef(), { node, queued: undefined, createStatus: undefined });
  assert.deepEqual(
    seen.hosts?.map((host) => host.internalIp),
    ['10.128.0.5', '10.128.0.6'],
  );
});

test('bad health of a ready node is reported and changes nothing', () => {
  const node = nodeOf({ health: 'UNHEALTHY_MAINTENANCE' });
  const seen = allocationStatus(tpuRef(), { node, queued: undefined, createStatus: undefined });
  assert.equal(seen.state, 'ready');
  assert.equal(seen.detail, 'READY, UNHEALTHY_MAINTENANCE');
});

test('a suspension by a user says so', () => {
  const queued = queuedOf('SUSPENDED', { more: { stateInitiator: 'USER' } });
  const seen = allocationStatus(tpuRef(queueOnceReady), { node: undefined, queued, createStatus: undefined });
  assert.equal(seen.detail, 'SUSPENDED, by a user');
});
