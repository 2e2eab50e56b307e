// Repeated calls with one `requestId`, and update masks.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitForHosts, minutes, nodeBody, startTestEmulator, zone } from './test-emulator.ts';

const parent = `projects/emulator/locations/${zone}`;
const alpha = `/v2alpha1/${parent}`;
const queuedBody = { spot: {}, tpu: { nodeSpec: [{ parent, nodeId: 'q-node', node: nodeBody }] } };

/**
 * The methods that take a `requestId`: https://cloud.google.com/tpu/docs/reference/rest. Methods of nodes do in
 * v2alpha1 only.
 */
const methods: readonly (readonly [string, string, object | undefined])[] = [
  ['POST', `${alpha}/nodes?nodeId=n1`, nodeBody],
  ['DELETE', `${alpha}/nodes/n1?`, undefined],
  ['POST', `/v2/${parent}/queuedResources?queuedResourceId=q`, queuedBody],
  ['DELETE', `/v2/${parent}/queuedResources/q?force=true`, undefined],
];

test('a repeated requestId returns the operation of the first call, also after its end', async (t) => {
  const cloud = await startTestEmulator(t);
  for (const [method, path, body] of methods) {
    const first = await cloud.ok(method, `${path}&requestId=once`, body);
    const operations = async (): Promise<number> => (await cloud.ok('GET', 'operations')).operations.length;
    const count = await operations();
    assert.equal((await cloud.ok(method, `${path}&requestId=once`, body)).name, first.name, path);
    cloud.clock.advance(minutes(5));
    await waitForHosts(cloud);
    cloud.clock.advance(minutes(5));
    const late = await cloud.ok(method, `${path}&requestId=once`, body);
    assert.deepEqual([late.name, late.done, await operations()], [first.name, true, count], path);
    // With another id it is a new call, and it is refused: the resource exists, or no longer exists.
    const { status } = await cloud.call(method, `${path}&requestId=twice`, body);
    assert.equal(status, method === 'POST' ? 409 : 404, path);
  }
});

test('an empty requestId is ignored, and a refused call does not use up its id', async (t) => {
  const cloud = await startTestEmulator(t);
  const path = `${alpha}/nodes?nodeId=n1`;
  const wrong = { ...nodeBody, acceleratorType: 'v6e-1' };
  assert.equal((await cloud.call('POST', `${path}&requestId=r`, wrong)).status, 400);
  await cloud.ok('POST', `${path}&requestId=r`, nodeBody);
  assert.equal((await cloud.call('POST', `${path}&requestId=`, nodeBody)).status, 409);
  // v2 refuses parameters that it does not know.
  const v2 = await cloud.call('POST', 'nodes?nodeId=n2&requestId=r', nodeBody);
  assert.equal(v2.status, 400);
  assert.match(v2.body.error.message, /Unknown name "requestId": Cannot bind query parameter/);
});

test('after a lost reply, the same requestId returns the operation of the one change', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.admin('drop', 'create');
  const path = `${alpha}/nodes?nodeId=n1&requestId=r`;
  await assert.rejects(cloud.call('POST', path, nodeBody));
  const begun = await cloud.ok('POST', path, nodeBody);
  cloud.clock.advance(minutes(2));
  assert.equal((await cloud.operation(begun)).response.state, 'READY');
});

const before = { description: 'unchanged', labels: { owner: 'ada' }, metadata: { kept: 'yes' }, tags: ['one'] };

/** Masks that are refused as a whole: one invalid field blocks the valid ones. */
const wrongMasks: readonly (readonly [string, RegExp])[] = [
  ['', /update_mask must name at least one field/],
  ['?updateMask=', /update_mask must name at least one field/],
  ['?updateMask=%20,', /update_mask must name at least one field/],
  ['?updateMask=*', /Invalid field '\*' in update_mask/],
  ['?updateMask=gardens', /Invalid field 'gardens' in update_mask/],
  ['?updateMask=description,acceleratorType', /Invalid field 'acceleratorType' in update_mask/],
  ['?updateMask=labels.owner', /Invalid field 'labels.owner' in update_mask/],
  ['?updateMask=network_config', /Invalid field 'network_config' in update_mask/],
  ['?updateMask=schedulingConfig.spot', /Invalid field 'schedulingConfig.spot' in update_mask/],
  ['?updateMask=state', /Invalid field 'state' in update_mask/],
  ['?mask=labels', /Unknown name "mask": Cannot bind query parameter/],
];

test('a mask that is empty, is a star, or names a read-only field is refused without any change', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1', before);
  const node = await cloud.ok('GET', 'nodes/n1');
  for (const [mask, message] of wrongMasks) {
    const { status, body } = await cloud.call('PATCH', `nodes/n1${mask}`, { description: 'other', labels: {} });
    assert.equal(status, 400, mask);
    assert.equal(body.error.status, 'INVALID_ARGUMENT', mask);
    assert.match(body.error.message, message, mask);
  }
  assert.deepEqual(await cloud.ok('GET', 'nodes/n1'), node);
});

test('the mask alone decides: a named field without a value is cleared, a value without a mask is ignored', async (t) => {
  const cloud = await startTestEmulator(t);
  await cloud.createReadyNode('n1', before);
  await cloud.ok('PATCH', 'nodes/n1?updateMask=labels,tags,description', {
    description: 'new',
    labels: { team: 'b' },
    metadata: { kept: 'no' },
  });
  const node = await cloud.ok('GET', 'nodes/n1');
  assert.deepEqual(
    [node.description, node.labels, node.tags, node.metadata],
    ['new', { team: 'b' }, undefined, before.metadata],
  );
  // A mask may be repeated and may contain spaces.
  await cloud.ok('PATCH', 'nodes/n1?updateMask=%20description%20,description', {});
  assert.equal((await cloud.ok('GET', 'nodes/n1')).description, undefined);
});
