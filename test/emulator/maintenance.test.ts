// Announced maintenance, the end of flex-start, cancelled operations, zones that do not answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openMetadataServer } from '../../src/emulator/hosts/metadata-server.ts';
import { metadataTree } from '../../src/emulator/hosts/metadata-tree.ts';
import type { NodeRecord } from '../../src/emulator/world/records.ts';
import { waitForHosts, minutes, nodeBody, type Reply, startTestEmulator, zone } from './test-emulator.ts';

const parent = `projects/emulator/locations/${zone}`;
const alpha = `/v2alpha1/${parent}`;

test('announced maintenance is shown, begins on time, and disappears from the node afterwards', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  await cloud.admin('maintenance', 'n1', { in: '30m' });
  const { upcomingMaintenance } = await cloud.ok('GET', 'nodes/n1');
  assert.equal(upcomingMaintenance.type, 'SCHEDULED');
  assert.equal(upcomingMaintenance.canReschedule, true);
  assert.equal(upcomingMaintenance.maintenanceStatus, 'PENDING');
  assert.match(upcomingMaintenance.windowStartTime, /^2026-05-01T12:32:00\.\d{9}Z$/);
  cloud.clock.advance(minutes(29));
  assert.equal(await cloud.nodeState('n1'), 'READY');
  cloud.clock.advance(minutes(1));
  const during = await cloud.ok('GET', 'nodes/n1');
  assert.deepEqual([during.state, during.upcomingMaintenance.maintenanceStatus], ['REPAIRING', 'ONGOING']);
  cloud.clock.advance(minutes(5));
  const after = await cloud.ok('GET', 'nodes/n1');
  assert.deepEqual([after.state, after.upcomingMaintenance], ['READY', undefined]);
});

test('a worker reads announced maintenance from its metadata server', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  const record = async (): Promise<NodeRecord> => {
    const reply = await fetch(`${cloud.emulator.url}/emulator/state`);
    return ((await reply.json()) as { nodes: [NodeRecord] }).nodes[0];
  };
  let node = await record();
  const server = await openMetadataServer({
    address: '127.63.0.9',
    tree: () => node.workers[0] && metadataTree(node, node.workers[0], undefined),
    storage: () => Promise.resolve(false),
    writeGuestAttribute: () => 'absent',
    isAllowed: () => true,
  });
  t.after(() => server.close());
  const ask = (what: string): Promise<Response> =>
    fetch(`http://${server.host}/computeMetadata/v1/instance/upcoming-maintenance${what}`, {
      headers: { 'Metadata-Flavor': 'Google' },
      redirect: 'error',
    });
  // The request of Google's page on host maintenance. It follows no redirect.
  const none = await ask('?alt=json');
  assert.deepEqual(
    [none.status, await none.json()],
    [503, { error: 'no notifications have been received yet, try again later' }],
  );
  await cloud.admin('maintenance', 'n1', { in: '30m' });
  node = await record();
  const metadata = (await (await ask('?alt=json')).json()) as Record<string, string>;
  // In Google's page the keys have underscores and every value is a string.
  assert.deepEqual(Object.keys(metadata).toSorted(), [
    'can_reschedule',
    'latest_window_start_time',
    'maintenance_status',
    'type',
    'window_end_time',
    'window_start_time',
  ]);
  assert.deepEqual(
    [metadata['type'], metadata['can_reschedule'], metadata['maintenance_status']],
    ['SCHEDULED', 'true', 'PENDING'],
  );
  assert.match(metadata['window_start_time'] ?? '', /^2026-05-01T12:32:00/);
  assert.deepEqual(await (await ask('/?recursive=true')).json(), metadata);
  assert.equal(await (await ask('/type')).text(), 'SCHEDULED');
});

test('maintenance that was performed early does not come again; without an announcement the call fails', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  const refused = await cloud.call('POST', `${alpha}/nodes/n1:performMaintenance`, {});
  assert.deepEqual([refused.status, refused.body.error.status], [400, 'FAILED_PRECONDITION']);
  assert.equal(
    (await fetch(`${cloud.emulator.url}/v2/${parent}/nodes/n1:performMaintenance`, { method: 'POST' })).status,
    404,
  );
  await cloud.admin('maintenance', 'n1', { in: '30m' });
  const begun = await cloud.ok('POST', `${alpha}/nodes/n1:performMaintenance`, {});
  assert.equal(await cloud.nodeState('n1'), 'REPAIRING');
  cloud.clock.advance(minutes(5));
  assert.equal((await cloud.operation(begun)).response.state, 'READY');
  cloud.clock.advance(minutes(26));
  assert.equal(await cloud.nodeState('n1'), 'READY');
});

test('a simulated event takes the node down at once, and refuses a worker that does not exist', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1', { acceleratorType: 'v4-16' });
  const wrong = await cloud.call('POST', `${alpha}/nodes/n1:simulateMaintenanceEvent`, { workerIds: ['7'] });
  assert.equal(wrong.status, 400);
  await cloud.ok('POST', `${alpha}/nodes/n1:simulateMaintenanceEvent`, { workerIds: ['0'] });
  const node = await cloud.ok('GET', 'nodes/n1');
  assert.deepEqual([node.state, node.health], ['REPAIRING', 'UNHEALTHY_MAINTENANCE']);
  assert.equal(node.upcomingMaintenance.type, 'UNSCHEDULED');
});

test('a queued resource shows the maintenance of its nodes, performs it, and stays ACTIVE', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.ok('POST', 'queuedResources?queuedResourceId=q', {
    spot: {},
    tpu: { nodeSpec: [{ parent, multisliceParams: { nodeCount: 2, nodeIdPrefix: 'ms' }, node: nodeBody }] },
  });
  cloud.clock.advance(minutes(5));
  const info = `${alpha}/queuedResources/q:getMaintenanceInfo`;
  assert.deepEqual(await cloud.ok('GET', info), {});
  await cloud.admin('maintenance', 'ms-1', { in: '1h' });
  const { nodeUpcomingMaintenances } = await cloud.ok('GET', info);
  const node = await cloud.ok('GET', 'nodes/ms-1');
  assert.deepEqual(
    nodeUpcomingMaintenances.map((each: { nodeName: string; nodeUid: string }) => [each.nodeName, each.nodeUid]),
    [[node.name, node.id]],
  );
  const perform = `${alpha}/queuedResources/q:performMaintenanceQueuedResource`;
  assert.equal((await cloud.call('POST', perform, { nodeNames: ['elsewhere'] })).status, 404);
  const begun = await cloud.ok('POST', perform, { nodeNames: [node.name] });
  assert.equal(await cloud.nodeState('ms-1'), 'REPAIRING');
  assert.equal(await cloud.nodeState('ms-0'), 'READY');
  cloud.clock.advance(minutes(6));
  assert.equal((await cloud.operation(begun)).response.state.state, 'ACTIVE');
  assert.equal(await cloud.nodeState('ms-1'), 'READY');
});

test('a maintenance call is refused when nothing is announced; without names it means all nodes', async (t) => {
  const cloud = await startTestEmulator(t);
  const messageOf = async (method: string, path: string, body?: object): Promise<string> => {
    const reply = await cloud.call(method, `${alpha}/${path}`, body);
    return `${String(reply.status)} ${String(reply.body.error?.status ?? 'well')}`;
  };
  for (const path of ['nodes/n1:performMaintenance', 'nodes/n1:simulateMaintenanceEvent']) {
    assert.equal(await messageOf('POST', path, {}), '404 NOT_FOUND', path);
  }
  await cloud.createNode('n1');
  assert.equal(await messageOf('POST', 'nodes/n1:performMaintenance', {}), '400 INVALID_ARGUMENT');
  assert.equal(await messageOf('POST', 'nodes/n1:simulateMaintenanceEvent', {}), '400 INVALID_ARGUMENT');
  assert.equal(await messageOf('GET', 'queuedResources/q:getMaintenanceInfo'), '404 NOT_FOUND');
  await cloud.ok('POST', 'queuedResources?queuedResourceId=q', {
    spot: {},
    tpu: { nodeSpec: [{ parent, multisliceParams: { nodeCount: 2, nodeIdPrefix: 'ms' }, node: nodeBody }] },
  });
  cloud.clock.advance(minutes(5));
  const perform = 'queuedResources/q:performMaintenanceQueuedResource';
  assert.equal(await messageOf('POST', perform, {}), '400 FAILED_PRECONDITION');
  assert.equal(await messageOf('POST', perform, { nodeNames: 'ms-0' }), '400 INVALID_ARGUMENT');
  await cloud.admin('maintenance', 'ms-0', { in: '1h' });
  // One of the two nodes has no announcement, so the call changes neither.
  assert.equal(await messageOf('POST', perform, {}), '400 FAILED_PRECONDITION');
  assert.equal(await cloud.nodeState('ms-0'), 'READY');
  await cloud.admin('maintenance', 'ms-1', { in: '2h' });
  assert.equal(await messageOf('POST', perform, {}), '200 well');
  assert.deepEqual([await cloud.nodeState('ms-0'), await cloud.nodeState('ms-1')], ['REPAIRING', 'REPAIRING']);
  // Maintenance in progress is shown as such and cannot be performed again.
  const { nodeUpcomingMaintenances } = await cloud.ok('GET', `${alpha}/queuedResources/q:getMaintenanceInfo`);
  assert.deepEqual(
    nodeUpcomingMaintenances.map(({ upcomingMaintenance: { maintenanceStatus, canReschedule } }: Reply) => [
      maintenanceStatus,
      canReschedule,
    ]),
    [
      ['ONGOING', undefined],
      ['ONGOING', undefined],
    ],
  );
  assert.equal(await messageOf('POST', perform, {}), '400 INVALID_ARGUMENT');
  cloud.clock.advance(minutes(10));
  assert.deepEqual(await cloud.ok('GET', `${alpha}/queuedResources/q:getMaintenanceInfo`), {});
});

test('flex-start shows its end and ends then', async (t) => {
  const cloud = await startTestEmulator(t);
  const west = '/v2alpha1/projects/emulator/locations/us-west4-a';
  const body = (type: string, runDuration?: object): object => ({
    provisioningModel: 'FLEX_START',
    ...(runDuration === undefined ? {} : { runDuration }),
    tpu: {
      nodeSpec: [
        {
          parent: 'projects/emulator/locations/us-west4-a',
          nodeId: 'f-node',
          node: { acceleratorType: type, runtimeVersion: 'v2-alpha-tpuv5-lite' },
        },
      ],
    },
  });
  const path = `${west}/queuedResources?queuedResourceId=f`;
  assert.equal((await cloud.call('POST', path, body('v5litepod-4'))).status, 400);
  assert.equal((await cloud.call('POST', path, body('v5litepod-4', { maxRunDuration: '700000s' }))).status, 400);
  await cloud.ok('POST', path, body('v5litepod-4', { maxRunDuration: '3600s' }));
  cloud.clock.advance(minutes(5));
  const active = await cloud.ok('GET', `${west}/queuedResources/f`);
  assert.equal(active.state.state, 'ACTIVE');
  assert.match(active.runDuration.terminationTime, /^2026-05-01T13:0\d:/);
  cloud.clock.advance(minutes(60));
  await waitForHosts(cloud);
  cloud.clock.advance(minutes(10));
  const over = await cloud.ok('GET', `${west}/queuedResources/f`);
  assert.deepEqual([over.state.state, over.state.stateInitiator], ['SUSPENDED', 'SERVICE']);
  assert.equal((await cloud.call('GET', `${west}/nodes/f-node`)).status, 404);

  const v4 = body('v4-8', { maxRunDuration: '60s' }) as { tpu: { nodeSpec: { parent: string }[] } };
  for (const spec of v4.tpu.nodeSpec) spec.parent = parent;
  const begun = await cloud.ok('POST', `${alpha}/queuedResources?queuedResourceId=f`, v4);
  cloud.clock.advance(minutes(1));
  assert.deepEqual((await cloud.operation(begun)).error, {
    code: 3,
    message: `FLEX_START provisioning model is not supported for accelerator type "v4-8" in location "${zone}"`,
  });
});

test('a cancelled creation ends as cancelled without a node; an update ignores the cancellation', async (t) => {
  const cloud = await startTestEmulator(t);
  const begun = await cloud.createNode('n1');
  await cloud.ok('POST', `/v2/${begun.name}:cancel`, {});
  const done = await cloud.operation(begun);
  assert.equal(done.error.code, 1);
  assert.equal(done.metadata.cancelRequested, true);
  cloud.clock.advance(minutes(2));
  assert.equal(await cloud.nodeState('n1'), 'NOT_FOUND');
  await cloud.createReadyNode('n2');
  const update = await cloud.ok('PATCH', 'nodes/n2?updateMask=labels', { labels: { a: 'b' } });
  await cloud.ok('POST', `/v2/${update.name}:cancel`, {});
  cloud.clock.advance(minutes(1));
  assert.equal((await cloud.operation(update)).response.state, 'READY');
});

test('a list of all zones names an unreachable zone; a request to that zone gets 503', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('n1');
  await cloud.admin('flaky', zone, { p: '1' });
  const all = await cloud.ok('GET', '/v2/projects/emulator/locations/-/nodes');
  assert.deepEqual(all, { unreachable: [`projects/emulator/locations/${zone}`] });
  assert.equal((await cloud.call('GET', 'nodes')).status, 503);
  await cloud.admin('clear', 'flaky');
  assert.equal((await cloud.ok('GET', '/v2/projects/emulator/locations/-/nodes')).nodes.length, 1);
});

test('a change of project metadata needs the current fingerprint', async (t) => {
  const cloud = await startTestEmulator(t);
  const { commonInstanceMetadata } = await cloud.ok('GET', '/compute/v1/projects/p');
  const path = '/compute/v1/projects/p/setCommonInstanceMetadata';
  const items = [{ key: 'ssh-keys', value: 'ada:ssh-ed25519 AAAA ada' }];
  const operation = await cloud.ok('POST', path, { fingerprint: commonInstanceMetadata.fingerprint, items });
  assert.equal(operation.status, 'DONE');
  assert.equal((await cloud.ok('GET', `/compute/v1/projects/p/global/operations/${operation.name}`)).status, 'DONE');
  const stale = await cloud.call('POST', path, { fingerprint: commonInstanceMetadata.fingerprint, items: [] });
  assert.equal(stale.status, 412);
  assert.deepEqual((await cloud.ok('GET', '/compute/v1/projects/p')).commonInstanceMetadata.items, items);
});
