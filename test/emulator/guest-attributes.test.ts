// Guest attributes: programs of a worker write them to its metadata server, and the worker and the API read them.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openMetadataServer } from '../../src/emulator/hosts/metadata-server.ts';
import { metadataTree } from '../../src/emulator/hosts/metadata-tree.ts';
import { parseCall } from '../../src/emulator/http/tpu/parse-call.ts';
import { CloudError } from '../../src/emulator/wire/errors.ts';
import { maxGuestBytes, writeGuestAttribute } from '../../src/emulator/world/guest-attributes.ts';
import { createNode } from '../../src/emulator/world/node-requests.ts';
import { changeNode } from '../../src/emulator/world/nodes.ts';
import type { NodeRecord, WorkerRecord } from '../../src/emulator/world/records.ts';
import type { World } from '../../src/emulator/world/world.ts';
import { openBareWorld } from './bare-world.ts';
import { nodeBody, zone } from './test-emulator.ts';
import { temporaryFolder } from '../support/folder.ts';

const name = `projects/emulator/locations/${zone}/nodes/pair`;

function nodeOf(world: World): NodeRecord {
  const node = world.nodes.get(name);
  assert.ok(node);
  return node;
}

function folderOf(t: TestContext): string {
  const folder = temporaryFolder(t);
  return folder;
}

/** Creates a READY node with two workers. */
function makePair(world: World): void {
  world.change(() => {
    createNode(world, { version: 'v2', project: 'emulator', zone }, 'pair', { ...nodeBody, acceleratorType: 'v4-16' });
    changeNode(world, nodeOf(world), { state: 'READY', health: 'HEALTHY' });
  });
}

function workerOf(world: World, index: number): { readonly node: NodeRecord; readonly worker: WorkerRecord } {
  const node = nodeOf(world);
  const worker = node.workers[index];
  assert.ok(worker !== undefined);
  return { node, worker };
}

/** Each server has its own address, because `fetch` reuses connections to an earlier one. */
let lastAddress = 20;

type Ask = (method: string, path: string, body?: string | Buffer) => Promise<{ status: number; text: string }>;

/** The metadata server of a worker, and a request for a path below `instance/`. */
async function serverOf(t: TestContext, world: World, index: number): Promise<Ask> {
  lastAddress += 1;
  const server = await openMetadataServer({
    address: `127.63.0.${String(lastAddress)}`,
    tree() {
      const { node, worker } = workerOf(world, index);
      return metadataTree(node, worker, undefined);
    },
    storage: () => Promise.resolve(false),
    writeGuestAttribute(path, value) {
      const { node, worker } = workerOf(world, index);
      return world.change(() => writeGuestAttribute(world, node, worker, path, value));
    },
    isAllowed: () => true,
  });
  t.after(() => server.close());
  return async (method, path, body) => {
    const reply = await fetch(`http://${server.host}/computeMetadata/v1/instance/${path}`, {
      method,
      headers: { 'Metadata-Flavor': 'Google' },
      ...(body === undefined ? {} : { body }),
    });
    return { status: reply.status, text: await reply.text() };
  };
}

/** `namespace/key=value` of all attributes in the API, one list per worker, without host keys. */
function askApi(
  world: World,
  asked: { readonly queryPath?: string; readonly workerIds?: readonly string[] },
): string[][] {
  const call = parseCall({
    version: 'v2',
    method: 'POST',
    path: ['projects', 'emulator', 'locations', zone, 'nodes', 'pair:getGuestAttributes'],
    query: {},
    body: asked,
  });
  assert.ok(call !== undefined);
  const { guestAttributes } = call.answer(world) as {
    guestAttributes: {
      queryPath?: string;
      queryValue: { items?: { namespace: string; key: string; value: string }[] };
    }[];
  };
  for (const each of guestAttributes) assert.equal(each.queryPath, asked.queryPath);
  return guestAttributes.map(({ queryValue }) =>
    (queryValue.items ?? [])
      .filter(({ namespace }) => !['hostkeys', 'guestInventory', 'hostname'].includes(namespace))
      .map(({ namespace, key, value }) => `${namespace}/${key}=${value}`),
  );
}

test('a program reads its own attributes, and the API lists them per worker, until they are deleted', async (t) => {
  const { world, close } = openBareWorld(folderOf(t));
  t.after(close);
  makePair(world);
  const [first, second] = [await serverOf(t, world, 0), await serverOf(t, world, 1)];
  assert.deepEqual(askApi(world, {}), [[], []]);
  assert.deepEqual(await first('PUT', 'guest-attributes/startup/status', 'half = 50%\n'), { status: 200, text: '' });
  await first('PUT', 'guest-attributes/startup/status-2', 'two');
  await first('PUT', 'guest-attributes/0/1', 'numbers');
  await second('PUT', 'guest-attributes/startup/status', 'done');
  assert.equal((await first('GET', 'guest-attributes/startup/status')).text, 'half = 50%\n');
  assert.equal((await first('GET', 'guest-attributes/startup/')).text, 'status\nstatus-2\n');
  assert.deepEqual(JSON.parse((await first('GET', 'guest-attributes/?recursive=true')).text)['0'], { 1: 'numbers' });
  const whole = JSON.parse((await first('GET', '?recursive=true')).text) as Record<string, Record<string, unknown>>;
  assert.deepEqual(whole['guestAttributes']?.['startup'], { status: 'half = 50%\n', 'status-2': 'two' });

  const all = ['0/1=numbers', 'startup/status=half = 50%\n', 'startup/status-2=two'];
  assert.deepEqual(askApi(world, {}), [all, ['startup/status=done']]);
  assert.deepEqual(askApi(world, { workerIds: ['1'] }), [['startup/status=done']]);
  assert.deepEqual(askApi(world, { queryPath: 'startup/' }), [all.slice(1), ['startup/status=done']]);
  // A key does not match other keys that begin with it.
  assert.deepEqual(askApi(world, { queryPath: 'startup/status' }), [[all[1]], ['startup/status=done']]);
  assert.deepEqual(askApi(world, { queryPath: 'start' }), [[], []]);
  assert.throws(
    () => askApi(world, { workerIds: ['2'] }),
    (error) => error instanceof CloudError && error.httpStatus === 400,
  );

  assert.equal((await first('DELETE', 'guest-attributes/startup/status')).status, 200);
  assert.equal((await first('DELETE', 'guest-attributes/startup/status')).status, 404);
  assert.deepEqual(Object.keys(workerOf(world, 0).worker.guestAttributes ?? {}), ['startup/status-2', '0/1']);
  assert.equal((await first('GET', 'guest-attributes/startup/status')).status, 404);
  assert.deepEqual(askApi(world, { queryPath: 'startup/status' }), [[], ['startup/status=done']]);
});

test("programs see the agent's host keys and may overwrite them", async (t) => {
  const { world, close } = openBareWorld(folderOf(t));
  t.after(close);
  makePair(world);
  const ask = await serverOf(t, world, 0);
  const key = 'guest-attributes/hostkeys/ssh-ed25519';
  assert.equal((await ask('GET', key)).text, workerOf(world, 0).worker.hostKeyPublic);
  await ask('PUT', key, 'other');
  assert.equal((await ask('GET', key)).text, 'other');
  await ask('DELETE', key);
  assert.equal((await ask('GET', key)).status, 404);
});

test('other paths, other names and values beyond the limit are refused', async (t) => {
  const { world, close } = openBareWorld(folderOf(t));
  t.after(close);
  makePair(world);
  const ask = await serverOf(t, world, 0);
  const status = async (...what: Parameters<Ask>): Promise<number> => (await ask(...what)).status;
  assert.equal(await status('PUT', 'attributes/owner', 'ada'), 405);
  assert.equal(await status('DELETE', 'guest-attributes'), 405);
  assert.equal(await status('POST', 'guest-attributes/a/b', 'x'), 405);
  for (const path of ['a', 'a/', '/a', 'a/b/c', 'a%20b/c', 'a/..%2Fb']) {
    assert.equal(await status('PUT', `guest-attributes/${path}`, 'x'), 400, path);
  }
  assert.equal(await status('PUT', 'guest-attributes/a/b', Buffer.alloc(maxGuestBytes - 'a/b'.length - 1, 'x')), 200);
  assert.equal(await status('PUT', 'guest-attributes/a/c', ''), 413, 'the name counts too');
  assert.equal(await status('PUT', 'guest-attributes/a/c', Buffer.alloc(4 * maxGuestBytes, 'x')), 413);
  // A replacement counts once, and a deletion counts nothing.
  assert.equal(await status('PUT', 'guest-attributes/a/b', Buffer.alloc(maxGuestBytes - 'a/b'.length, 'y')), 200);
  assert.equal(await status('DELETE', 'guest-attributes/a/b'), 200);
  assert.equal(await status('PUT', 'guest-attributes/a/c', 'xy'), 200);
  assert.deepEqual(askApi(world, { workerIds: ['0'] }), [['a/c=xy']]);
});

test('names such as `__proto__` are ordinary names, and only their own worker has them', async (t) => {
  const { world, close } = openBareWorld(folderOf(t));
  t.after(close);
  makePair(world);
  const ask = await serverOf(t, world, 0);
  const paths = ['__proto__/status', 'constructor/__proto__'];
  for (const path of paths) await ask('PUT', `guest-attributes/${path}`, 'mine');
  for (const path of paths) assert.equal((await ask('GET', `guest-attributes/${path}`)).text, 'mine', path);
  assert.equal(Object.hasOwn(Object.prototype, 'status'), false);
  assert.deepEqual(askApi(world, {}), [['__proto__/status=mine', 'constructor/__proto__=mine'], []]);
  assert.match((await ask('GET', 'guest-attributes/?recursive=true')).text, /"__proto__":\{"status":"mine"\}/);
});

test('attributes survive a restart of the emulator, and are deleted with their node', async (t) => {
  const folder = folderOf(t);
  const before = openBareWorld(folder);
  makePair(before.world);
  const ask = await serverOf(t, before.world, 0);
  await ask('PUT', 'guest-attributes/run/step', '7');
  before.close();
  const { world, close } = openBareWorld(folder);
  t.after(close);
  assert.deepEqual(askApi(world, {}), [['run/step=7'], []]);
  world.change(() => world.nodes.remove(name));
  makePair(world);
  assert.deepEqual(askApi(world, {}), [[], []]);
});
