/** The clusters that the requests of a server share. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import type { Services } from '../../src/app/services.ts';
import { openSharedCluster, type SharedClusters } from '../../src/wiring/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';

/** Over a kubeconfig of an API server whose logs do not end. */
async function openShared(t: TestContext) {
  const world = openWorld(t);
  const server = createServer((incoming, outgoing) => {
    if (incoming.url?.includes('/log') === true) outgoing.writeHead(200).write('2026-11-22T12:00:00Z begun\n');
    else outgoing.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  world.atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const file = join(world.folder, 'kubeconfig');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(
    file,
    JSON.stringify({
      'current-context': 'lab',
      contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'ada' } }],
      clusters: [{ name: 'lab', cluster: { server: url } }],
      users: [{ name: 'ada', user: { token: 'secret' } }],
    }),
  );
  const io = { env: { KUBECONFIG: file }, cwd: world.folder, userHome: world.folder, now: Date.now, stderr: {} };
  const settings = { kubeConfig: { type: 'default', file: null }, job: { resources: { label: 'jobman/flavor' } } };
  const services = { io, home: world.home, clusterSettings: async () => ({ settings }) } as object as Services;
  const shared: SharedClusters = new Map();
  const connections = () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
  return { open: (namespace: string) => openSharedCluster(services, { namespace }, shared), shared, connections };
}

const isSame = (one: Cluster, other: Cluster): boolean => one.job === other.job;

test('a cluster in use stays shared while requests name many others, and one that is not ends its connections', async (t) => {
  const { open, shared, connections } = await openShared(t);
  const [used, unused] = [await open('used'), await open('unused')];
  await unused.job('train');
  const leave = new AbortController();
  const lines = unused.logs('train-a', 'main', { follow: true, signal: leave.signal })[Symbol.asyncIterator]();
  assert.equal(String((await lines.next()).value), 'begun\n');
  for (let number = 0; number < 120; number += 1) {
    await open(`other-${number}`);
    assert.ok(isSame(used, await open('used')), `after ${number} others`);
  }
  assert.equal(shared.size, 100);
  assert.ok(!isSame(unused, await open('unused')));
  assert.notEqual(await connections(), 0, 'a log that someone follows continues');
  leave.abort();
  await lines.next();
  assert.ok(await eventually(async () => (await connections()) === 0, { withinMs: 20_000 }));
});
