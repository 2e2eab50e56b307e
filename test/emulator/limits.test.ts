// The limits of a project, its reservations, and the bill.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EmulatorFixture, minutes, nodeBody, type Reply, startTestEmulator, zone } from './test-emulator.ts';

const alpha = `/v2alpha1/projects/emulator/locations/${zone}`;
const reserved = { schedulingConfig: { reserved: true } };

async function reservations(cloud: EmulatorFixture): Promise<Reply[]> {
  return (await cloud.ok('GET', `${alpha}/reservations`)).reservations ?? [];
}

test("a reservation is listed with its use, and refuses more with Google's message", async (t) => {
  const cloud = await startTestEmulator(t);
  assert.deepEqual(await reservations(cloud), []);
  const without = await cloud.createNode('none', reserved);
  cloud.clock.advance(minutes(2));
  assert.equal((await cloud.operation(without)).error.code, 9);

  await cloud.admin('reserve', `${zone}/v4`, { chips: '8', name: 'ours' });
  await cloud.createNode('a', reserved);
  const second = await cloud.createNode('b', { ...reserved, acceleratorType: 'v4-16' });
  cloud.clock.advance(minutes(2));
  assert.equal(await cloud.nodeState('a'), 'READY');
  const { error } = await cloud.operation(second);
  assert.match(
    error.message,
    /^Insufficient reserved capacity\. Contact customer support to increase your reservation\./,
  );
  const [only] = await reservations(cloud);
  assert.equal(only.name, `projects/emulator/locations/${zone}/reservations/ours`);
  assert.equal(only.state, 'ACTIVE');
  assert.deepEqual(
    [only.standard.size, only.standard.capacityUnits, only.standard.usage],
    [16, 'CORES', { total: '8' }],
  );
});

test('reserved capacity is available in a zone that is full for others', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('capacity', `${zone}/v4`, { chips: '0' });
  await cloud.admin('reserve', `${zone}/v4`, { chips: '4' });
  const spot = await cloud.createNode('spot');
  await cloud.createReadyNode('kept', reserved);
  assert.equal((await cloud.operation(spot)).error.code, 8);
  assert.equal(await cloud.nodeState('kept'), 'READY');
});

test("a queued resource waits for its reservation, also with gcloud's wrong zone in the name", async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('reserve', `${zone}/v4`, { chips: '64', name: 'theirs' });
  const parent = `projects/emulator/locations/${zone}`;
  await cloud.ok('POST', 'queuedResources?queuedResourceId=q', {
    guaranteed: {},
    reservationName: 'projects/emulator/locations/None/reservations/ours',
    tpu: { nodeSpec: [{ parent, nodeId: 'q-node', node: { ...nodeBody, schedulingConfig: {} } }] },
  });
  cloud.clock.advance(minutes(10));
  assert.equal(await cloud.queuedState('q'), 'WAITING_FOR_RESOURCES');
  await cloud.admin('reserve', `${zone}/v4`, { chips: '64', name: 'ours' });
  cloud.clock.advance(minutes(5));
  assert.equal(await cloud.queuedState('q'), 'ACTIVE');
  const used = Object.fromEntries(
    (await reservations(cloud)).map((each) => [each.name.split('/').at(-1), each.standard.usage?.total ?? '0']),
  );
  assert.deepEqual(used, { ours: '8', theirs: '0' });
});

test('a quota may apply to one project and to one tier', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('quota', 'v4', { limit: '0', project: 'other' });
  await cloud.admin('quota', 'v4', { limit: '8', pricing: 'spot' });
  await cloud.admin('quota', 'v4', { limit: '0', pricing: 'ondemand' });
  await cloud.createNode('spot');
  const status = async (path: string, body: object): Promise<number> => (await cloud.call('POST', path, body)).status;
  assert.equal(await status('nodes?nodeId=more', nodeBody), 429);
  assert.equal(await status('nodes?nodeId=ondemand', { ...nodeBody, schedulingConfig: {} }), 429);
  assert.equal(await status(`/v2/projects/other/locations/${zone}/nodes?nodeId=x`, nodeBody), 429);
  assert.equal(await status(`/v2/projects/third/locations/${zone}/nodes?nodeId=x`, nodeBody), 200);
});

test('external addresses are limited separately from chips, and only for nodes that have them', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('quota', `${zone}/addresses`, { limit: '8' });
  await cloud.createNode('a', { acceleratorType: 'v4-32' });
  const parent = `projects/emulator/locations/${zone}`;
  const slice = { ...nodeBody, acceleratorType: 'v4-64' };
  await cloud.createQueued('q', { tpu: { nodeSpec: [{ parent, nodeId: 'q-node', node: slice }] } });
  await cloud.createNode('inner', { acceleratorType: 'v4-64', networkConfig: {} });
  cloud.clock.advance(minutes(10));
  const queued = await cloud.ok('GET', 'queuedResources/q');
  assert.equal(queued.state.state, 'FAILED');
  assert.deepEqual(queued.state.failedData.error, { code: 8, message: 'IN_USE_ADDRESSES limit (8)' });
  assert.equal(await cloud.nodeState('inner'), 'READY');
});

test('creations are limited per minute', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('quota', 'requests', { limit: '2' });
  await cloud.createNode('a');
  await cloud.createNode('b');
  const third = await cloud.call('POST', 'nodes?nodeId=c', nodeBody);
  assert.equal(third.status, 429);
  assert.match(third.body.error.message, /Maximum number of CreateNode requests per minute/);
  cloud.clock.advance(minutes(1.1));
  await cloud.createNode('c');
});

test('the bill counts READY time at Google’s prices, and nothing for a node preempted in its first minute', async (t) => {
  // The speed makes nodes ready earlier, and their time no longer.
  const cloud = await startTestEmulator(t, { speed: 40 });
  const bill = async (): Promise<{ lines: Reply[] }> => cloud.ok('GET', '/emulator/bill');
  assert.deepEqual(await bill(), { lines: [] });
  await cloud.createNode('long');
  await cloud.createReadyNode('short');
  const at = cloud.clock.now();
  await cloud.createNode('taken');
  while ((await cloud.nodeState('taken')) !== 'READY') cloud.clock.advance(10_000);
  await cloud.admin('preempt', 'taken');
  await cloud.ok('DELETE', 'nodes/short');
  cloud.clock.advance(minutes(60) - (cloud.clock.now() - at));
  const { lines } = await bill();
  const hours = Object.fromEntries(lines.map((line) => [line.node.split('/').at(-1), line.billedMs / 3_600_000]));
  assert.equal(hours['taken'], 0);
  assert.ok(hours['long'] >= 1 && hours['long'] < 1.1, String(hours['long']));
  assert.ok(hours['short'] > 0 && hours['short'] < 0.1, String(hours['short']));
  assert.equal(lines[0].pricePerHourUsd, 4 * 0.9215);
  assert.match(
    (await cloud.admin('bill')).message,
    /^3 nodes were READY for .* would have cost \$.* 1 of them would be free: preempted within a minute\./,
  );
  // The latest price that matches a node applies, whatever its target.
  const dollars = async (): Promise<number> => (await bill()).lines[0]?.pricePerHourUsd;
  await cloud.admin('price', 'v4', { usd: '2', pricing: 'spot' });
  assert.equal(await dollars(), 8);
  await cloud.admin('price', `${zone}/v4`, { usd: '3' });
  assert.equal(await dollars(), 12);
  await cloud.admin('price', `${zone}/v4`, { usd: '9', pricing: 'ondemand' });
  assert.equal(await dollars(), 12);
  await cloud.admin('price', 'v4', { usd: '1', pricing: 'spot' });
  assert.equal(await dollars(), 4);
});

test('a stockout or a quota with `times` applies that many times and ends', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('stockout', zone, { times: '1' });
  const first = await cloud.createNode('a');
  const second = await cloud.createNode('b');
  cloud.clock.advance(minutes(2));
  assert.equal((await cloud.operation(first)).error.code, 8);
  assert.equal((await cloud.operation(second)).error, undefined);
  await cloud.admin('quota', `${zone}/v4`, { limit: '0', times: '1' });
  const refused = await cloud.call('POST', 'nodes?nodeId=c', nodeBody);
  assert.equal(refused.body.error.status, 'RESOURCE_EXHAUSTED');
  await cloud.createNode('c');
});

test('with `times`, a limit on addresses or calls and `slow` apply that many times', async (t) => {
  const cloud = await startTestEmulator(t);
  const outside = { networkConfig: { enableExternalIps: true } };
  await cloud.admin('quota', `${zone}/addresses`, { limit: '0', times: '1' });
  const [first, second] = [await cloud.createNode('a', outside), await cloud.createNode('b', outside)];
  cloud.clock.advance(minutes(2));
  assert.match((await cloud.operation(first)).error.message, /IN_USE_ADDRESSES/);
  assert.equal((await cloud.operation(second)).error, undefined);
  await cloud.admin('quota', `${zone}/requests`, { limit: '0', times: '1' });
  assert.equal((await cloud.call('POST', 'nodes?nodeId=c', nodeBody)).status, 429);
  await cloud.createReadyNode('c');
  await cloud.admin('slow', zone, { factor: '100', times: '1' });
  await cloud.createNode('d');
  await cloud.createNode('e');
  cloud.clock.advance(minutes(3));
  assert.deepEqual([await cloud.nodeState('d'), await cloud.nodeState('e')], ['CREATING', 'READY']);
});

test('a verb without single uses refuses `times`', async (t) => {
  const cloud = await startTestEmulator(t);
  const refused: readonly (readonly [string, string, Record<string, string>])[] = [
    ['capacity', `${zone}/v4`, { chips: '8' }],
    ['reserve', `${zone}/v4`, { chips: '8' }],
    ['price', `${zone}/v4`, { usd: '1' }],
    ['hold', zone, {}],
  ];
  for (const [verb, target, options] of refused) {
    await assert.rejects(cloud.admin(verb, target, { ...options, times: '1' }), /has no option "times"/);
    await cloud.admin(verb, target, options);
  }
});

test('`replies` delays the replies of the given zone and nothing else', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('slow', 'us-central1-a', { replies: '1h' });
  await cloud.createNode('a');
  await cloud.admin('slow', zone, { replies: '1ms', times: '1' });
  await cloud.createNode('b');
  cloud.clock.advance(minutes(3));
  assert.deepEqual([await cloud.nodeState('a'), await cloud.nodeState('b')], ['READY', 'READY']);
});
