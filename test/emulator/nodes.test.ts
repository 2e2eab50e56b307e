// Nodes through the API, as a client sees them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitForHosts, minutes, nodeBody, startTestEmulator, zone } from './test-emulator.ts';

test('a node is CREATING, then READY with one endpoint per worker, and its operation ends', async (t) => {
  const cloud = await startTestEmulator(t);
  const begun = await cloud.createNode('n1', { acceleratorType: 'v4-32', labels: { owner: 'ada' } });
  assert.match(
    begun.name,
    /^projects\/emulator\/locations\/us-central2-b\/operations\/operation-\d+-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}$/,
  );
  assert.equal(begun.done, undefined);
  assert.equal(begun.metadata['@type'], 'type.googleapis.com/google.cloud.tpu.v2.OperationMetadata');
  assert.equal(begun.metadata.verb, 'create');
  const creating = await cloud.ok('GET', 'nodes/n1');
  assert.equal(creating.state, 'CREATING');
  assert.equal(creating.networkEndpoints, undefined);
  assert.equal(creating.health, undefined);

  cloud.clock.advance(minutes(2));
  const ready = await cloud.ok('GET', 'nodes/n1');
  assert.equal(ready.state, 'READY');
  assert.equal(ready.health, 'HEALTHY');
  assert.equal(typeof ready.id, 'string');
  assert.match(ready.createTime, /^2026-05-01T12:00:00\.\d{9}Z$/);
  assert.deepEqual(ready.acceleratorConfig, { type: 'V4', topology: '2x2x4' });
  assert.deepEqual(ready.labels, { owner: 'ada' });
  assert.equal(ready.networkConfig.network, 'projects/emulator/global/networks/default');
  assert.equal(ready.networkConfig.subnetwork, 'projects/emulator/regions/us-central2/subnetworks/default');
  assert.equal('multisliceNode' in ready, false, 'default values are omitted');
  const addresses = ready.networkEndpoints.map((endpoint: { ipAddress: string }) => endpoint.ipAddress);
  assert.equal(new Set(addresses).size, 4);
  for (const address of addresses) assert.match(address, /^127\.\d+\.\d+\.\d+$/);
  const done = await cloud.operation(begun);
  assert.equal(done.done, true);
  assert.equal(done.response['@type'], 'type.googleapis.com/google.cloud.tpu.v2.Node');
  assert.equal(done.response.state, 'READY');
});

test('a deleted node is DELETING, then 404; its name is free again, with another id', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  await waitForHosts(cloud);
  const { id } = await cloud.ok('GET', 'nodes/n1');
  const begun = await cloud.ok('DELETE', 'nodes/n1');
  assert.equal(await cloud.nodeState('n1'), 'DELETING');
  await waitForHosts(cloud);
  cloud.clock.advance(minutes(2));
  const gone = await cloud.call('GET', 'nodes/n1');
  assert.equal(gone.status, 404);
  assert.equal(gone.body.error.status, 'NOT_FOUND');
  assert.equal(gone.body.error.message, `Resource 'projects/emulator/locations/${zone}/nodes/n1' was not found`);
  assert.equal((await cloud.operation(begun)).response['@type'], 'type.googleapis.com/google.protobuf.Empty');
  await cloud.createNode('n1');
  assert.notEqual((await cloud.ok('GET', 'nodes/n1')).id, id);
});

test('a preempted node stays PREEMPTED until it is deleted', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  assert.deepEqual(await cloud.admin('preempt', 'n1'), { message: `n1 in ${zone} is preempted.` });
  cloud.clock.advance(minutes(60));
  assert.equal(await cloud.nodeState('n1'), 'PREEMPTED');
  const patched = await cloud.call('PATCH', 'nodes/n1?updateMask=labels', { labels: { a: 'b' } });
  assert.equal(patched.status, 400);
  assert.match(
    patched.body.error.message,
    /^Cloud TPU received a bad request\. update is not supported while in state PREEMPTED \[EID: 0x[0-9a-f]+\]$/,
  );
  await cloud.ok('DELETE', 'nodes/n1');
  cloud.clock.advance(minutes(2));
  assert.equal(await cloud.nodeState('n1'), 'NOT_FOUND');
});

test('a preemption during creation ends the operation with code 3', async (t) => {
  const cloud = await startTestEmulator(t);
  const begun = await cloud.createNode('n1');
  await cloud.admin('preempt', 'n1');
  const done = await cloud.operation(begun);
  assert.equal(done.error.code, 3);
  assert.match(done.error.message, /update is not supported while in state PREEMPTED/);
  cloud.clock.advance(minutes(10));
  assert.equal(await cloud.nodeState('n1'), 'PREEMPTED');
});

test('PATCH replaces metadata at once, with either spelling of the mask, and replaces the whole field', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1', { metadata: { old: 'x' } });
  const begun = await cloud.ok('PATCH', 'nodes/n1?updateMask=metadata,network_config.enable_external_ips', {
    metadata: { 'ssh-keys': 'ada:ssh-ed25519 AAAA' },
    networkConfig: { enableExternalIps: false },
  });
  assert.equal(begun.done, undefined);
  const node = await cloud.ok('GET', 'nodes/n1');
  assert.deepEqual(node.metadata, { 'ssh-keys': 'ada:ssh-ed25519 AAAA' });
  assert.equal(node.networkConfig.enableExternalIps, undefined);
  assert.equal(node.networkEndpoints[0].accessConfig, undefined);
  cloud.clock.advance(minutes(1));
  assert.equal((await cloud.operation(begun)).response.state, 'READY');
  await cloud.ok('PATCH', 'nodes/n1?updateMask=dataDisks', { dataDisks: [{ sourceDisk: 'd' }] });
  assert.deepEqual((await cloud.ok('GET', 'nodes/n1')).dataDisks, [{ sourceDisk: 'd', mode: 'READ_WRITE' }]);
  const wrong = await cloud.call('PATCH', 'nodes/n1?updateMask=accelerator_type', { acceleratorType: 'v4-16' });
  assert.equal(wrong.status, 400);
});

test('only a single on-demand host can be stopped; its next start gives it another address', async (t) => {
  const cloud = await startTestEmulator(t);
  const onDemand = { schedulingConfig: {} };
  await cloud.createNode('single', onDemand);
  await cloud.createNode('slice', { ...onDemand, acceleratorType: 'v4-16' });
  await cloud.createReadyNode('spot');
  assert.equal((await cloud.call('POST', 'nodes/slice:stop', {})).status, 400);
  assert.equal((await cloud.call('POST', 'nodes/spot:stop', {})).status, 400);
  const before = (await cloud.ok('GET', 'nodes/single')).networkEndpoints[0].ipAddress;
  await cloud.ok('POST', 'nodes/single:stop', {});
  assert.equal(await cloud.nodeState('single'), 'STOPPING');
  cloud.clock.advance(minutes(2));
  assert.equal(await cloud.nodeState('single'), 'STOPPED');
  const begun = await cloud.ok('POST', 'nodes/single:start', {});
  assert.equal(await cloud.nodeState('single'), 'STARTING');
  cloud.clock.advance(minutes(2));
  assert.equal(await cloud.nodeState('single'), 'READY');
  assert.equal((await cloud.operation(begun)).done, true);
  assert.notEqual((await cloud.ok('GET', 'nodes/single')).networkEndpoints[0].ipAddress, before);
});

test('a preemptible node is preempted after 24 hours, a spot node is not', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('old', { schedulingConfig: { preemptible: true } });
  await cloud.createNode('new');
  cloud.clock.advance(minutes(24 * 60 - 5));
  assert.equal(await cloud.nodeState('old'), 'READY');
  cloud.clock.advance(minutes(10));
  assert.equal(await cloud.nodeState('old'), 'PREEMPTED');
  assert.equal(await cloud.nodeState('new'), 'READY');
});

test("an invalid node is refused with Google's message", async (t) => {
  const cloud = await startTestEmulator(t);
  const create = async (path: string, body: object): Promise<string> => {
    const reply = await cloud.call('POST', path, body);
    return `${String(reply.status)} ${String(reply.body.error.message)}`;
  };
  const elsewhere = (zoneName: string): string => `/v2/projects/emulator/locations/${zoneName}/nodes?nodeId=n`;
  assert.match(
    await create(elsewhere('moon-a'), nodeBody),
    /^400 Cloud TPU received a bad request\. The requested zone "moon-a" is not supported\. \[EID: 0x/,
  );
  assert.match(
    await create(elsewhere('asia-east1-a'), { ...nodeBody, acceleratorType: 'v6e-1' }),
    /^400 .*for accelerator type, "v6e-1", could not be found in the zonal accelerator configurations for "asia-east1-a"\.; the accelerator v6e-1 was not found in zone asia-east1-a \[EID/,
  );
  assert.match(await create('nodes?nodeId=Bad_Name', nodeBody), /^400 Invalid value at 'node_id'/);
  assert.match(await create('nodes', nodeBody), /^400 Invalid value at 'node_id'/);
  assert.equal(
    await create('nodes?nodeId=n', { ...nodeBody, flub: 1 }),
    `400 Invalid JSON payload received. Unknown name "flub" at 'node': Cannot find field.`,
  );
  assert.equal(
    await create('nodes?nodeId=n', { runtimeVersion: 'x', acceleratorConfig: { type: 'V99', topology: '2x2' } }),
    `400 Invalid value at 'node.accelerator_config.type' (type.googleapis.com/google.cloud.tpu.v2.AcceleratorConfig.Type), "V99"`,
  );
  assert.match(
    await create('nodes?nodeId=n&color=red', nodeBody),
    /^400 .*Unknown name "color": Cannot bind query parameter\. Field 'color' could not be found in request message\.$/,
  );
  await cloud.createNode('n');
  const twice = await cloud.call('POST', 'nodes?nodeId=n', nodeBody);
  assert.equal(twice.status, 409);
  assert.equal(twice.body.error.status, 'ALREADY_EXISTS');
});

test('an unknown path gets an HTML page, not JSON', async (t) => {
  const cloud = await startTestEmulator(t);
  const reply = await fetch(`${cloud.emulator.url}/v2/projects/emulator/locations/${zone}/gardens`);
  assert.equal(reply.status, 404);
  assert.match(reply.headers.get('content-type') ?? '', /text\/html/);
  assert.match(await reply.text(), /404/);
});

test('snake_case, a shape instead of a type, and enum numbers are accepted and returned', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.ok('POST', 'nodes?nodeId=n1', {
    accelerator_config: { type: 'V4', topology: '2x2x2' },
    runtime_version: 'tpu-ubuntu2204-base',
    scheduling_config: { spot: true },
  });
  const node = await cloud.ok('GET', 'nodes/n1?$alt=json;enum-encoding=int');
  assert.equal(node.acceleratorType, 'v4-16');
  assert.equal(node.state, 1);
  assert.equal(node.acceleratorConfig.type, 7);
});

test('pages of a list neither repeat nor lose items, for one zone or all', async (t) => {
  const cloud = await startTestEmulator(t);
  for (const id of ['a', 'b', 'c', 'd', 'e']) await cloud.createNode(id);
  await cloud.ok('POST', '/v2/projects/emulator/locations/us-central1-a/nodes?nodeId=a', {
    ...nodeBody,
    acceleratorType: 'v5litepod-4',
  });
  const names: string[] = [];
  let token = '';
  for (let pages = 1; ; pages += 1) {
    const page = await cloud.ok('GET', `nodes?pageSize=2${token === '' ? '' : `&pageToken=${token}`}`);
    for (const node of page.nodes) names.push(node.name.split('/').at(-1));
    if (page.nextPageToken === undefined) {
      assert.equal(pages, 3);
      break;
    }
    token = page.nextPageToken;
  }
  assert.deepEqual(names, ['a', 'b', 'c', 'd', 'e']);
  assert.equal((await cloud.ok('GET', '/v2/projects/emulator/locations/-/nodes')).nodes.length, 6);
  assert.deepEqual(await cloud.ok('GET', '/v2/projects/other/locations/-/nodes'), {});
  const first = await cloud.ok('GET', 'nodes?pageSize=2');
  const foreign = await cloud.call(
    'GET',
    `/v2/projects/emulator/locations/-/nodes?pageToken=${String(first.nextPageToken)}`,
  );
  assert.equal(foreign.status, 400);
});

test('guest attributes hold the host key of each worker once the node is READY', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('n1', { acceleratorType: 'v4-16' });
  const ask = async (workerIds: string[]): Promise<{ namespace: string; key: string; value: string }[][]> => {
    const body = await cloud.ok('POST', 'nodes/n1:getGuestAttributes', { workerIds });
    return body.guestAttributes.map((each: { queryValue: { items?: never[] } }) => each.queryValue.items);
  };
  assert.deepEqual(await ask(['']), [undefined, undefined]);
  cloud.clock.advance(minutes(2));
  const [first, second] = await ask(['']);
  const keyOf = (items: { namespace: string; key: string; value: string }[] | undefined): string | undefined =>
    items?.find((item) => item.namespace === 'hostkeys' && item.key === 'ssh-ed25519')?.value;
  assert.match(keyOf(first) ?? '', /^AAAAC3NzaC1lZDI1NTE5/);
  assert.notEqual(keyOf(first), keyOf(second));
  assert.deepEqual(await ask(['1']), [second]);
});

test('the catalogue: zones, types with their shapes, versions; v1 for command groups that still use it', async (t) => {
  const cloud = await startTestEmulator(t);
  const { locations } = await cloud.ok('GET', '/v2/projects/p/locations');
  assert.ok(locations.some((each: { locationId: string }) => each.locationId === 'us-central1-a'));
  const type = await cloud.ok('GET', '/v2/projects/p/locations/us-central1-a/acceleratorTypes/v5litepod-16');
  assert.deepEqual(type.acceleratorConfigs, [{ type: 'V5LITE_POD', topology: '4x4' }]);
  const old = await cloud.ok('GET', '/v1/projects/p/locations/us-central1-a/acceleratorTypes/v5litepod-16');
  assert.equal('acceleratorConfigs' in old, false);
  const { tensorflowVersions } = await cloud.ok('GET', '/v1/projects/p/locations/us-central1-a/tensorflowVersions');
  assert.ok(tensorflowVersions.length > 0);
  const { runtimeVersions } = await cloud.ok('GET', 'runtimeVersions?filter=version=tpu-vm-base');
  assert.equal(runtimeVersions.length, 1);
  assert.equal((await cloud.ok('GET', '/compute/v1/projects/p')).kind, 'compute#project');
});
