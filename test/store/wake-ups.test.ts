// Wake-ups between the processes that share a database: `Store.notify` and `Store.listen`.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { WakeUp } from '../../src/app/ports.ts';
import type { DatabaseAddress } from '../../src/store/open-database.ts';
import { openStore } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { requirePostgres } from '../support/postgres.ts';
import { openWorld } from '../support/world.ts';

const sent: readonly WakeUp[] = [
  { topic: 'job', id: '000042' },
  { topic: 'job', id: '1000000' },
  { topic: 'clusters' },
  { topic: 'settings' },
  { topic: 'exit', program: '1.0.0 (database version 4)' },
];

function openBoth(t: TestContext, address: DatabaseAddress = { file: join(openWorld(t).home, 'state.db') }) {
  const [client, controller] = [1, 2].map(() => openStore(address)) as [Opened, Opened];
  t.after(() => Promise.all([client.close(), controller.close()]));
  return { client, controller };
}

type Opened = ReturnType<typeof openStore>;

const sorted = (wakeUps: readonly WakeUp[]) => wakeUps.map((one) => JSON.stringify(one)).toSorted();

async function receivesUntilClosed({ client, controller }: ReturnType<typeof openBoth>): Promise<void> {
  const received: WakeUp[] = [];
  const listener = await controller.listen((wakeUps) => received.push(...wakeUps));
  for (const wakeUp of sent) await client.notify(wakeUp);
  await listener.poll();
  assert.deepEqual(sorted(received), sorted(sent));
  await client.notify({ topic: 'exit', program: null });
  await listener.poll();
  assert.deepEqual(received.slice(sent.length), [{ topic: 'exit', program: null }]);

  await listener.close();
  await client.notify({ topic: 'clusters' });
  await listener.poll();
  assert.equal(received.length, sent.length + 1);
}

test('a listener receives what other processes send, until it is closed', async (t) => {
  await receivesUntilClosed(openBoth(t));
});

test('a listener on a server receives the same, and everything once after a lost connection', async (t) => {
  const server = await requirePostgres(t);
  if (server === undefined) return;
  const both = openBoth(t, { url: server.urlOf(await server.createDatabase()) });
  await receivesUntilClosed(both);
  const received: WakeUp[] = [];
  const listener = await both.controller.listen((wakeUps) => received.push(...wakeUps));
  t.after(() => listener.close());
  await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where query = 'listen jobman'`);
  await eventually(() => received.length > 0);
  assert.deepEqual(received, [{ topic: 'all' }]);
  await both.client.notify({ topic: 'clusters' });
  await listener.poll();
  assert.deepEqual(received.slice(1), [{ topic: 'clusters' }]);
});

test('a file keeps wake-ups until a controller listens, and one wake-up of each job', async (t) => {
  const { client, controller } = openBoth(t);
  for (const wakeUp of [...sent, ...sent]) await client.notify(wakeUp);
  const received: WakeUp[] = [];
  const listener = await controller.listen((wakeUps) => received.push(...wakeUps));
  await listener.poll();
  await listener.close();
  assert.deepEqual(sorted(received), sorted(sent));
});
