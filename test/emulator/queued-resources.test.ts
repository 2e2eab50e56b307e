// Queued resources through the API: waiting, provisioning, loss of nodes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitForHosts, minutes, nodeBody, type Reply, startTestEmulator, zone } from './test-emulator.ts';

const parent = `projects/emulator/locations/${zone}`;

test('a request waits, is PROVISIONING with its node CREATING, and becomes ACTIVE', async (t) => {
  const cloud = await startTestEmulator(t);
  const begun = await cloud.createQueued('q1');
  assert.equal(await cloud.queuedState('q1'), 'CREATING');
  const seen = new Set<string>();
  let nodeWhileProvisioning = '';
  for (let step = 0; step < 80; step += 1) {
    cloud.clock.advance(3_000);
    const state = await cloud.queuedState('q1');
    seen.add(state);
    if (state === 'PROVISIONING') nodeWhileProvisioning = await cloud.nodeState('q1-node');
  }
  assert.deepEqual([...seen], ['CREATING', 'WAITING_FOR_RESOURCES', 'PROVISIONING', 'ACTIVE']);
  assert.equal(nodeWhileProvisioning, 'CREATING');
  assert.equal(
    (await cloud.operation(begun)).response['@type'],
    'type.googleapis.com/google.cloud.tpu.v2.QueuedResource',
  );
  const queued = await cloud.ok('GET', 'queuedResources/q1');
  assert.deepEqual(queued.state, { state: 'ACTIVE', stateInitiator: 'SERVICE', activeData: {} });
  assert.deepEqual(queued.spot, {});
  const node = await cloud.ok('GET', 'nodes/q1-node');
  assert.equal(node.queuedResource, `${parent}/queuedResources/q1`);
  assert.equal(node.schedulingConfig.spot, true);
});

test('after a preemption the node is PREEMPTED and then deleted; its queued resource is SUSPENDING, then SUSPENDED', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createQueued('q1');
  cloud.clock.advance(minutes(4));
  await cloud.admin('preempt', 'q1-node');
  assert.equal(await cloud.nodeState('q1-node'), 'PREEMPTED');
  assert.equal(await cloud.queuedState('q1'), 'SUSPENDING');
  cloud.clock.advance(minutes(3));
  assert.equal(await cloud.nodeState('q1-node'), 'NOT_FOUND');
  assert.equal(await cloud.queuedState('q1'), 'SUSPENDED');
  cloud.clock.advance(minutes(600));
  assert.equal(await cloud.queuedState('q1'), 'SUSPENDED');
  assert.equal((await cloud.call('POST', 'queuedResources/q1:reset', {})).status, 400);
  const begun = await cloud.ok('DELETE', 'queuedResources/q1');
  cloud.clock.advance(minutes(3));
  assert.equal((await cloud.operation(begun)).done, true);
  assert.equal(await cloud.queuedState('q1'), 'NOT_FOUND');
});

test('an active queued resource is deleted only with force, after its nodes; while provisioning, its deletion fails', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createQueued('q1');
  const early = await cloud.ok('DELETE', 'queuedResources/q1?force=True');
  cloud.clock.advance(minutes(4));
  assert.equal((await cloud.operation(early)).error.code, 9);
  assert.equal(await cloud.queuedState('q1'), 'ACTIVE');
  await waitForHosts(cloud);
  const refused = await cloud.call('DELETE', 'queuedResources/q1');
  assert.equal(refused.status, 400);
  assert.equal(refused.body.error.status, 'FAILED_PRECONDITION');
  await cloud.ok('DELETE', 'queuedResources/q1?force=true');
  assert.equal(await cloud.queuedState('q1'), 'DELETING');
  assert.equal(await cloud.nodeState('q1-node'), 'DELETING');
  await waitForHosts(cloud);
  cloud.clock.advance(minutes(5));
  assert.equal(await cloud.queuedState('q1'), 'NOT_FOUND');
  assert.equal(await cloud.nodeState('q1-node'), 'NOT_FOUND');
});

test("a user's deletion of the node suspends the request by USER", async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createQueued('q1');
  cloud.clock.advance(minutes(4));
  await waitForHosts(cloud);
  await cloud.ok('DELETE', 'nodes/q1-node');
  await waitForHosts(cloud);
  cloud.clock.advance(minutes(4));
  const queued = await cloud.ok('GET', 'queuedResources/q1');
  assert.equal(queued.state.state, 'SUSPENDED');
  assert.equal(queued.state.stateInitiator, 'USER');
});

test('a multislice is all or nothing, with one node per slice', async (t) => {
  const cloud = await startTestEmulator(t);
  const nodeSpec = [{ parent, multisliceParams: { nodeCount: 2, nodeIdPrefix: 'ms' }, node: nodeBody }];
  await cloud.createQueued('q1', { tpu: { nodeSpec } });
  cloud.clock.advance(minutes(4));
  const queued = await cloud.ok('GET', 'queuedResources/q1');
  assert.equal(queued.state.state, 'ACTIVE');
  assert.deepEqual(
    queued.tpu.nodeSpec.map((spec: { nodeId: string }) => spec.nodeId),
    ['ms-0', 'ms-1'],
  );
  assert.equal((await cloud.ok('GET', 'nodes/ms-1')).multisliceNode, true);
  await cloud.admin('preempt', 'ms-1');
  assert.equal(await cloud.nodeState('ms-0'), 'DELETING');
  cloud.clock.advance(minutes(4));
  assert.equal(await cloud.queuedState('q1'), 'SUSPENDED');
  assert.equal(await cloud.nodeState('ms-0'), 'NOT_FOUND');
});

test('a waiting request that expires is FAILED, stays listed, and can be deleted', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('stockout', zone);
  await cloud.createQueued('q1', { queueingPolicy: { validUntilDuration: '600s' } });
  cloud.clock.advance(minutes(9));
  assert.equal(await cloud.queuedState('q1'), 'WAITING_FOR_RESOURCES');
  cloud.clock.advance(minutes(2));
  const queued = await cloud.ok('GET', 'queuedResources/q1');
  assert.equal(queued.state.state, 'FAILED');
  assert.equal(queued.state.failedData.error.code, 9);
  await cloud.ok('DELETE', 'queuedResources/q1');
});

test('v2 refuses names that only v2alpha1 has', async (t) => {
  const cloud = await startTestEmulator(t);
  const body = { bestEffort: {}, tpu: { nodeSpec: [{ parent, nodeId: 'n', node: nodeBody }] } };
  assert.equal((await cloud.call('POST', 'queuedResources?queuedResourceId=q1', body)).status, 400);
  const alpha = `/v2alpha1/${parent}/queuedResources?queuedResourceId=q1`;
  const begun = await cloud.ok('POST', alpha, body);
  assert.equal(begun.metadata['@type'], 'type.googleapis.com/google.cloud.tpu.v2alpha1.OperationMetadata');
});

test('a reset reboots every machine of an ACTIVE request and keeps disks, addresses and state', async (t) => {
  const cloud = await startTestEmulator(t);
  const nodeSpec = [{ parent, multisliceParams: { nodeCount: 2, nodeIdPrefix: 'ms' }, node: nodeBody }];
  await cloud.createQueued('q1', { tpu: { nodeSpec } });
  cloud.clock.advance(minutes(4));
  const ids = ['ms-0', 'ms-1'];
  const nodes = (): Promise<Reply[]> => Promise.all(ids.map((id) => cloud.ok('GET', `nodes/${id}`)));
  const boots = async (): Promise<number[]> => {
    const state = await cloud.ok('GET', '/emulator/state');
    return state.nodes.flatMap(({ workers }: Reply) => workers.map(({ boot }: Reply) => boot));
  };
  const before = await nodes();
  assert.deepEqual(await boots(), [1, 1]);
  const begun = await cloud.ok('POST', 'queuedResources/q1:reset', {});
  assert.deepEqual([begun.metadata.verb, begun.metadata.target], ['reset', `${parent}/queuedResources/q1`]);
  assert.deepEqual(
    (await nodes()).map(({ state }) => state),
    ['RESTARTING', 'RESTARTING'],
  );
  assert.equal(await cloud.queuedState('q1'), 'ACTIVE');
  cloud.clock.advance(minutes(10));
  assert.deepEqual(await nodes(), before);
  assert.deepEqual(await boots(), [2, 2]);
  assert.equal((await cloud.operation(begun)).response.state.state, 'ACTIVE');
});

test('a reset is refused in every other state, with an unknown body, and for a missing request', async (t) => {
  const cloud = await startTestEmulator(t);
  const reset = async (body: object = {}): Promise<string> => {
    const reply = await cloud.call('POST', 'queuedResources/q1:reset', body);
    return `${String(reply.status)} ${String(reply.body.error?.status ?? 'begun')}`;
  };
  assert.equal(await reset(), '404 NOT_FOUND');
  await cloud.admin('hold', zone);
  await cloud.createQueued('q1');
  assert.equal(await reset(), '400 FAILED_PRECONDITION');
  cloud.clock.advance(minutes(1));
  assert.equal(await cloud.queuedState('q1'), 'WAITING_FOR_RESOURCES');
  assert.equal(await reset(), '400 FAILED_PRECONDITION');
  await cloud.admin('clear', 'hold');
  cloud.clock.advance(minutes(1));
  assert.equal(await cloud.queuedState('q1'), 'PROVISIONING');
  assert.equal(await reset(), '400 FAILED_PRECONDITION');
  cloud.clock.advance(minutes(4));
  assert.equal(await reset({ gentle: true }), '400 INVALID_ARGUMENT');
  assert.equal(await reset(), '200 begun');
  await cloud.admin('preempt', 'q1-node');
  assert.equal(await cloud.queuedState('q1'), 'SUSPENDING');
  assert.equal(await reset(), '400 FAILED_PRECONDITION');
});

/** The times between which each policy allows provisioning, in minutes after the request at 12:00. */
const policies: readonly (readonly [object, from: number, until: number])[] = [
  [{ validUntilDuration: '600s' }, 0, 10],
  [{ validUntilTime: '2026-05-01T12:10:00Z' }, 0, 10],
  [{ validAfterDuration: '600s' }, 10, Infinity],
  [{ validAfterTime: '2026-05-01T12:10:00.5Z' }, 10, Infinity],
  [{ validInterval: { startTime: '2026-05-01T12:05:00Z', endTime: '2026-05-01T14:20:00+02:00' } }, 5, 20],
];

test('a policy sets the earliest and latest time of provisioning, and is shown as requested', async (t) => {
  for (const [queueingPolicy, from, until] of policies) {
    const name = JSON.stringify(queueingPolicy);
    const cloud = await startTestEmulator(t);
    await cloud.createQueued('q1', { queueingPolicy });
    assert.deepEqual((await cloud.ok('GET', 'queuedResources/q1')).queueingPolicy, queueingPolicy);
    if (from > 0) {
      cloud.clock.advance(minutes(from - 0.5));
      assert.equal(await cloud.queuedState('q1'), 'WAITING_FOR_RESOURCES', name);
    }
    cloud.clock.advance(minutes(5));
    assert.equal(await cloud.queuedState('q1'), 'ACTIVE', name);
    // The end limits the start of a run, not the run.
    cloud.clock.advance(minutes(120));
    assert.equal(await cloud.queuedState('q1'), 'ACTIVE', name);

    await cloud.admin('stockout', zone);
    const again = Object.fromEntries(Object.entries(queueingPolicy).filter(([key]) => key.endsWith('Duration')));
    if (Object.keys(again).length === 0) continue;
    await cloud.createQueued('q2', {
      queueingPolicy: again,
      tpu: { nodeSpec: [{ parent, nodeId: 'other', node: nodeBody }] },
    });
    cloud.clock.advance(minutes(until === Infinity ? 600 : until - 0.5));
    assert.equal(await cloud.queuedState('q2'), 'WAITING_FOR_RESOURCES', name);
    cloud.clock.advance(minutes(1));
    assert.equal(await cloud.queuedState('q2'), until === Infinity ? 'WAITING_FOR_RESOURCES' : 'FAILED', name);
  }
});

test('a policy whose end has passed fails at the first check', async (t) => {
  const cloud = await startTestEmulator(t);
  const past = '2026-05-01T11:00:00Z';
  await cloud.createQueued('q1', { queueingPolicy: { validUntilTime: past } });
  await cloud.createQueued('q2', {
    queueingPolicy: { validInterval: { startTime: '2026-05-01T10:00:00Z', endTime: past } },
    tpu: { nodeSpec: [{ parent, nodeId: 'other', node: nodeBody }] },
  });
  cloud.clock.advance(minutes(2));
  for (const id of ['q1', 'q2']) {
    const { state } = await cloud.ok('GET', `queuedResources/${id}`);
    assert.deepEqual([state.state, state.failedData.error.code], ['FAILED', 9], id);
  }
});

test('a request has one of five policies, with valid durations and times', async (t) => {
  const cloud = await startTestEmulator(t);
  const refused: readonly object[] = [
    { validUntilDuration: '10m' },
    { validUntilDuration: 600 },
    { validUntilTime: 'tomorrow' },
    { validInterval: { startTime: '2026-05-01T12:00:00Z', endTime: 'later' } },
    { validUntilDuration: '600s', validUntilTime: '2026-05-01T12:10:00Z' },
    { validAfterDuration: '60s', validUntilDuration: '600s' },
    { validForever: true },
  ];
  for (const queueingPolicy of refused) {
    const body = { spot: {}, tpu: { nodeSpec: [{ parent, nodeId: 'n', node: nodeBody }] }, queueingPolicy };
    const reply = await cloud.call('POST', 'queuedResources?queuedResourceId=q1', body);
    assert.deepEqual(
      [reply.status, reply.body.error?.status],
      [400, 'INVALID_ARGUMENT'],
      JSON.stringify(queueingPolicy),
    );
  }
});
