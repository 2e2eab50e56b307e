// Lists and partial replies: fields, order, filter, pages; and the oldest API.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseFilter, selectFields } from '../../src/emulator/wire/lists.ts';
import { startTestEmulator, zone } from './test-emulator.ts';

test('`fields` keeps the named parts, in every notation of Google', () => {
  const reply = { nodes: [{ name: 'a', state: 'READY', labels: { b: 'c' } }], nextPageToken: 't' };
  const table: readonly (readonly [fields: string, left: object])[] = [
    ['nextPageToken', { nextPageToken: 't' }],
    ['nodes(name,state),nextPageToken', { nodes: [{ name: 'a', state: 'READY' }], nextPageToken: 't' }],
    ['nodes/name', { nodes: [{ name: 'a' }] }],
    ['nodes.labels.b, nodes.name', { nodes: [{ name: 'a', labels: { b: 'c' } }] }],
    ['*', reply],
    ['*/name', { nodes: [{ name: 'a' }], nextPageToken: 't' }],
    ['next_page_token', { nextPageToken: 't' }],
    ['nodes,nodes/name', { nodes: reply.nodes }],
    ['nodes/labels(b),nodes(state)', { nodes: [{ state: 'READY', labels: { b: 'c' } }] }],
    ['nothing', {}],
  ];
  for (const [fields, left] of table) assert.deepEqual(selectFields(reply, fields), left, fields);
  for (const wrong of ['', ',', 'nodes(', 'nodes)', 'nodes(name', 'a b', 'nodes//name', 'nodes()']) {
    assert.throws(() => selectFields(reply, wrong), /Invalid field selection/, wrong);
  }
});

test('a filter follows AIP-160', () => {
  const item = { type: 'v6e-8', done: true, size: '16', metadata: { verb: 'create', names: ['a', 'b'] } };
  const table: readonly (readonly [filter: string, passes: boolean])[] = [
    ['', true],
    ['type=v6e-8', true],
    ['type = "v6e-*"', true],
    ['type != "*-8"', false],
    ['type:V6', true],
    ['NOT type:pod', true],
    ['-type:v6e', false],
    ['done=true', true],
    ['cancelled=false', true],
    ['metadata.verb = create AND size >= 16', true],
    ['size > 9 size < 100', true],
    ['type=x OR metadata.verb=create', true],
    ['(type=x OR type=y) AND done=true', false],
    // OR binds closer than AND.
    ['done=false AND type=x OR type=v6e-8', false],
    ['metadata.names:b', true],
    ['metadata.names=c', false],
    ['nothing:*', false],
    ['type:*', true],
  ];
  for (const [filter, passes] of table) assert.equal(parseFilter(filter)(item), passes, filter);
  for (const wrong of ['type', 'type=', '=x', '(type=x', 'type=x)', 'type ! x', 'a=b AND', 'a=b OR OR c=d']) {
    assert.throws(() => parseFilter(wrong), /Invalid value at 'filter'/, wrong);
  }
});

test('a list is filtered, sorted and paged at once, and every item is on one page', async (t) => {
  const cloud = await startTestEmulator(t);
  const types: string[] = [];
  let token = '';
  do {
    const query = `filter=type:v4&orderBy=type+desc&pageSize=7&fields=acceleratorTypes/type,nextPageToken&pageToken=${token}`;
    const page = await cloud.ok('GET', `acceleratorTypes?${query}`);
    types.push(...page.acceleratorTypes.map((each: { type: string }) => each.type));
    token = page.nextPageToken ?? '';
  } while (token !== '');
  const all = await cloud.ok('GET', 'acceleratorTypes');
  const expected = all.acceleratorTypes.map((each: { type: string }) => each.type);
  assert.ok(expected.length > 14);
  assert.deepEqual(types, expected.toSorted().toReversed());
  assert.equal((await cloud.call('GET', 'acceleratorTypes?orderBy=type+down')).status, 400);

  await cloud.createNode('n1');
  const running = await cloud.ok('GET', 'operations?filter=done%3Dfalse');
  assert.equal(running.operations.length, 1);
  assert.deepEqual(await cloud.ok('GET', 'operations?filter=done%3Dtrue'), {});
  assert.deepEqual(await cloud.ok('GET', 'nodes/n1?fields=state'), { state: 'CREATING' });
  // Nodes cannot be filtered: Google does not know the parameter there.
  assert.equal((await cloud.call('GET', 'nodes?filter=state%3DREADY')).status, 400);
});

test('a reply is indented unless the client asks otherwise; a malformed path is refused', async (t) => {
  const cloud = await startTestEmulator(t);
  const base = `${cloud.emulator.url}/v2/projects/emulator/locations`;
  const text = async (url: string): Promise<string> => (await fetch(url)).text();
  assert.match(await text(`${base}/${zone}`), /^\{\n {2}"name"/);
  assert.match(await text(`${base}/${zone}?prettyPrint=false`), /^\{"name"/);
  const malformed = await fetch(`${base}/%E0/nodes`);
  assert.equal(malformed.status, 400);
  assert.match(await malformed.text(), /malformed/);
});

test('API v1 has no nodes and creates none', async (t) => {
  const cloud = await startTestEmulator(t);
  const old = `/v1/projects/emulator/locations/${zone}/nodes`;
  await cloud.createNode('n1');
  assert.deepEqual(await cloud.ok('GET', old), {});
  assert.equal((await cloud.call('GET', `${old}/n1`)).body.error.status, 'NOT_FOUND');
  assert.equal((await cloud.call('DELETE', `${old}/n1`)).status, 404);
  const refused = await cloud.call('POST', `${old}?nodeId=n2`, {
    acceleratorType: 'v2-8',
    tensorflowVersion: '2.18.0',
  });
  assert.equal(refused.body.error.status, 'INVALID_ARGUMENT');
  assert.match(refused.body.error.message, /create a TPU VM/);
  assert.equal((await cloud.call('GET', `/v1/projects/emulator/locations/moon-a/nodes`)).status, 400);
});
