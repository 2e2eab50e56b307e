// Faults: the effect of each verb on the emulator and on its clients.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { queryEmulator } from '../../src/emulator/admin.ts';
import { EmulatorError } from '../../src/emulator/contract.ts';
import { minutes, nodeBody, startTestEmulator, zone } from './test-emulator.ts';

test('a stockout fails a creation in its operation, lasts for its duration, and leaves no node', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('stockout', `${zone}/v4-8`, { for: '10m' });
  const begun = await cloud.createNode('n1');
  cloud.clock.advance(minutes(2));
  const done = await cloud.operation(begun);
  assert.equal(done.error.code, 8);
  assert.match(
    done.error.message,
    /^There is no more capacity in the zone "us-central2-b"; you can try in another zone/,
  );
  assert.equal(await cloud.nodeState('n1'), 'NOT_FOUND');
  await cloud.createNode('other', { acceleratorType: 'v4-16' });
  cloud.clock.advance(minutes(10));
  assert.equal(await cloud.nodeState('other'), 'READY');
  await cloud.createReadyNode('n1');
  assert.equal(await cloud.nodeState('n1'), 'READY');
});

test('a queued resource waits until a stockout ends', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('stockout', 'v4');
  await cloud.createQueued('q1');
  cloud.clock.advance(minutes(60));
  assert.equal(await cloud.queuedState('q1'), 'WAITING_FOR_RESOURCES');
  await cloud.admin('stockout', 'v4', { clear: 'true' });
  cloud.clock.advance(minutes(3));
  assert.equal(await cloud.queuedState('q1'), 'ACTIVE');
});

test('a zone has the chips of its capacity, and a deleted node returns its chips', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('capacity', `${zone}/v4`, { chips: '8' });
  await cloud.createNode('a');
  await cloud.createNode('b');
  const third = await cloud.createNode('c');
  cloud.clock.advance(minutes(2));
  assert.equal((await cloud.operation(third)).error.code, 8);
  await cloud.admin('preempt', 'a');
  await cloud.createReadyNode('c');
  assert.equal(await cloud.nodeState('c'), 'READY');
});

test('a quota refuses at once, names its limit, and counts preempted nodes until they are deleted', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('quota', 'v4', { limit: '8', pricing: 'spot' });
  await cloud.createReadyNode('a');
  await cloud.admin('preempt', 'a');
  const refused = await cloud.call('POST', 'nodes?nodeId=b', nodeBody);
  assert.equal(refused.status, 429);
  assert.equal(
    refused.body.error.message,
    "Quota limit 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 8 in region us-central2.",
  );
  await cloud.createNode('ondemand', { schedulingConfig: {} });
  await cloud.ok('DELETE', 'nodes/a');
  cloud.clock.advance(minutes(2));
  await cloud.createNode('b');
});

test('permission denies a zone, a permission, credentials, or the API', async (t) => {
  const cloud = await startTestEmulator(t);
  const refusal = async (target: string): Promise<string> => {
    await cloud.admin('permission', target);
    const reply = await cloud.call('POST', 'nodes?nodeId=n', nodeBody);
    await cloud.admin('permission', target, { clear: 'true' });
    return `${String(reply.status)} ${String(reply.body.error.status)} ${String(reply.body.error.details?.[0]?.reason)}`;
  };
  assert.equal(await refusal(zone), '403 PERMISSION_DENIED LOCATION_POLICY_VIOLATED');
  assert.equal(await refusal('tpu.nodes.create'), '403 PERMISSION_DENIED IAM_PERMISSION_DENIED');
  assert.equal(await refusal('api'), '403 PERMISSION_DENIED SERVICE_DISABLED');
  assert.equal(await refusal('login'), '401 UNAUTHENTICATED undefined');
  await cloud.createNode('n');
});

test('hold stops a creation and a queue until it is cleared', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('hold', zone);
  await cloud.createNode('n1');
  await cloud.createQueued('q1');
  cloud.clock.advance(minutes(60));
  assert.equal(await cloud.nodeState('n1'), 'CREATING');
  assert.equal(await cloud.queuedState('q1'), 'WAITING_FOR_RESOURCES');
  await cloud.admin('clear', 'hold');
  cloud.clock.advance(minutes(4));
  assert.equal(await cloud.nodeState('n1'), 'READY');
  assert.equal(await cloud.queuedState('q1'), 'ACTIVE');
});

test('fail affects one request: a node creation in its operation, a queued resource in its failedData', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('fail', '*', { code: '13' });
  const begun = await cloud.createNode('n1');
  cloud.clock.advance(minutes(2));
  assert.deepEqual((await cloud.operation(begun)).error, { code: 13, message: 'an internal error has occurred' });
  await cloud.admin('fail', 'v4', { code: '8', message: 'IN_USE_ADDRESSES limit (8)' });
  await cloud.createQueued('q1');
  cloud.clock.advance(minutes(6));
  const queued = await cloud.ok('GET', 'queuedResources/q1');
  assert.equal(queued.state.state, 'FAILED');
  assert.deepEqual(queued.state.failedData.error, { code: 8, message: 'IN_USE_ADDRESSES limit (8)' });
  assert.equal(await cloud.nodeState('q1-node'), 'NOT_FOUND');
  await cloud.createReadyNode('n2');
  assert.equal(await cloud.nodeState('n2'), 'READY');
});

test('slow delays actions', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('slow', zone, { factor: '5' });
  await cloud.createNode('n1');
  cloud.clock.advance(minutes(6));
  assert.equal(await cloud.nodeState('n1'), 'CREATING');
  cloud.clock.advance(minutes(5));
  assert.equal(await cloud.nodeState('n1'), 'READY');
});

test('drop loses the reply but makes the change, and only the given number of times', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('drop', 'create', { times: '1' });
  await assert.rejects(cloud.createNode('n1'));
  assert.equal(await cloud.nodeState('n1'), 'CREATING');
  await cloud.createNode('n2');
});

test('flaky answers 503 with its probability, and makes no change then', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('flaky', '*', { p: '0.5' });
  let unavailable = 0;
  for (let n = 0; n < 40; n += 1) {
    const { status } = await cloud.call('POST', `nodes?nodeId=n${String(n)}`, nodeBody);
    if (status === 503) unavailable += 1;
  }
  assert.ok(unavailable > 5 && unavailable < 35, String(unavailable));
  await cloud.admin('clear', 'all');
  assert.equal((await cloud.ok('GET', 'nodes')).nodes.length, 40 - unavailable);
});

test('maintenance takes a node down and brings it back', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1');
  await cloud.admin('maintenance', 'n1');
  const node = await cloud.ok('GET', 'nodes/n1');
  assert.equal(node.state, 'REPAIRING');
  assert.equal(node.health, 'UNHEALTHY_MAINTENANCE');
  cloud.clock.advance(minutes(5));
  assert.equal(await cloud.nodeState('n1'), 'READY');
});

test('a node is found by its job, with or without leading zeros, and only while it exists', async (t) => {
  const cloud = await startTestEmulator(t);
  const labels = { 'jobman-job': '000001' };
  await cloud.createReadyNode('a', { labels });
  await cloud.admin('preempt', '1');
  assert.equal(await cloud.nodeState('a'), 'PREEMPTED');
  await cloud.createNode('b', { labels });
  await cloud.admin('preempt', '000001');
  assert.equal(await cloud.nodeState('b'), 'PREEMPTED');
  await cloud.createNode('c');
  await cloud.admin('preempt', `projects/emulator/locations/${zone}/nodes/c`);
  assert.equal(await cloud.nodeState('c'), 'PREEMPTED');
});

test('a missing target is refused with the existing ones', async (t) => {
  const cloud = await startTestEmulator(t);
  await assert.rejects(
    cloud.admin('preempt', '1'),
    /^EmulatorError: There is no node "1"\. The emulator has no TPUs\.$/,
  );
  await cloud.createNode('train');
  const refusal = async (...args: Parameters<typeof cloud.admin>): Promise<string> => {
    const error = await cloud.admin(...args).then(
      () => assert.fail('the call must be refused'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof EmulatorError);
    return `${String(error.status)} ${error.message}`;
  };
  assert.match(
    await refusal('preempt', 'trian'),
    /^404 There is no node "trian"\. Did you mean train\?.*train \(us-central2-b, CREATING\)/,
  );
  assert.match(await refusal('preempt'), /^400 preempt needs a job id or a node\. The TPUs of the emulator: train/);
  assert.match(await refusal('premept', 'train'), /^404 .*Did you mean preempt\?/);
  assert.match(await refusal('stockout', 'us-centrl2-b'), /^404 .*Did you mean us-central2-b\?/);
  assert.match(await refusal('stockout', zone, { fro: '1m' }), /^400 .*Did you mean for\?/);
  assert.match(await refusal('stockout', zone, { for: 'long' }), /^400 .*30s, 10m or 2h/);
  assert.match(await refusal('capacity', zone), /^400 capacity needs the option chips: write a number/);
  assert.match(
    await refusal('quota', 'v4'),
    /^400 quota needs the option limit: .* of cores \(for v5e and v6e: chips\)/,
  );
  assert.match(await refusal('quota', 'v4', { limit: 'x' }), /^400 quota limit=x: write a number of cores/);
  assert.match(await refusal('kill-host', 'train'), /^409 train is CREATING/);
  assert.match(await refusal('preempt', 'train/1'), /^400 preempt acts on a whole node with all its workers/);
  assert.equal(await cloud.nodeState('train'), 'CREATING');
});

test('state and info show the world without private keys', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createNode('n1');
  await cloud.admin('hold', zone);
  const state = await queryEmulator(cloud.emulator.url, 'state');
  assert.equal((state['nodes'] as unknown[]).length, 1);
  assert.equal((state['conditions'] as { message: string }[])[0]?.message, `hold ${zone}`);
  assert.doesNotMatch(JSON.stringify(state), /PRIVATE KEY/);
  assert.doesNotMatch(JSON.stringify(state), /"\w*(?:now|at|since|At|Time)":\d/);
  assert.equal(state['now'], new Date(cloud.clock.now()).toISOString());
  const info = await queryEmulator(cloud.emulator.url, 'info');
  assert.equal(info['sshPort'], cloud.emulator.sshPort);
  assert.equal(info['speed'], 1);
});

test('a request of a foreign web page is refused', async (t) => {
  const cloud = await startTestEmulator(t);
  const { url } = cloud.emulator;
  const own = new URL(url).origin;
  const other = `http://127.0.0.1:${Number(new URL(url).port) + 1}`;
  for (const [origin, status] of [
    ['https://example.org', 403],
    ['null', 403],
    // Another user of this machine may serve the page.
    [other, 403],
    ['http://127.0.0.1', 403],
    [own.replace('http:', 'https:'), 403],
    [own, 200],
  ] as const) {
    const reply = await fetch(`${url}/emulator/clear`, {
      method: 'POST',
      headers: { origin, 'content-type': 'text/plain' },
      body: '{}',
    });
    assert.equal(reply.status, status, origin);
  }
});

test('a missing emulator is reported as a refusal', async () => {
  const { runAdminVerb: admin } = await import('../../src/emulator/admin.ts');
  await assert.rejects(admin('http://127.0.0.1:1', 'preempt', 'n'), (error: unknown) => {
    assert.ok(error instanceof EmulatorError);
    assert.equal(error.status, 0);
    return true;
  });
});

test('an expired condition is not in force, neither in the state nor for `clear`', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('stockout', 'v4', { for: '10m' });
  const { message } = await cloud.admin('quota', 'v4', { limit: '8' });
  assert.match(message, /^In force: quota v4, limit 8 cores\./);
  assert.match((await cloud.admin('quota', 'v5litepod-16', { limit: '8' })).message, /limit 8 chips\./);
  assert.match((await cloud.admin('quota', 'requests', { limit: '8' })).message, /limit 8 requests per minute\./);
  for (const target of ['v5litepod-16', 'requests']) await cloud.admin('quota', target, { clear: 'true' });
  const inForce = async () => {
    const { conditions } = await queryEmulator(cloud.emulator.url, 'state');
    return (conditions as readonly { readonly verb: string }[]).map(({ verb }) => verb);
  };
  assert.deepEqual(await inForce(), ['stockout', 'quota']);
  cloud.clock.advance(minutes(11));
  assert.deepEqual(await inForce(), ['quota']);
  assert.equal((await cloud.admin('clear', 'stockout')).message, 'No condition was in force.');
  assert.doesNotMatch((await cloud.admin('clear', 'all')).message, /stockout/);
  assert.deepEqual(await inForce(), []);
});
