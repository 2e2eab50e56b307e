// The projects of Google Cloud that the user of a token may ask about with the login of the server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import type { Orphan } from '../../src/app/ports.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { openStore } from '../../src/store/store.ts';
import { day } from '../../src/core/model/time.ts';
import { clouds } from '../contract/clouds.ts';
import { aMember, noon, tpuCapacity, tpuSpec } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';

const orphanIn = (project: string): Orphan => ({
  backend: 'tpu',
  resource: `projects/${project}/locations/us-west4-a/nodes/vit-000001-1`,
  installation: 'abc123',
  job: '000001',
  allocation: 1,
  state: 'READY',
});

const queries: readonly ((client: Client, project: string) => Promise<unknown>)[] = [
  (client, project) => client.tpus({ project }),
  (client, project) => client.quota({ project }),
  (client, project) => client.knownQuota([project]),
  (client, project) => Array.fromAsync(client.storage({ project, exact: false })),
  (client, project) => client.checkLogin(project),
  (client, project) => client.bucketStatuses(project, ['b'], null),
  (client, project) => client.forgetProject(project),
  (client, project) => client.observeOrphans([orphanIn(project)]),
  (client, project) => client.releaseOrphan(orphanIn(project)),
  (client, project) => client.forgetOrphan(orphanIn(project)),
];

test('a query about another project is refused before the cloud gets a request, and is in the audit log', async () => {
  const store = openStore({ file: ':memory:' });
  const asked = new Error('the cloud was asked');
  const parts = clientParts('/nowhere', store, { now: () => noon, clouds: () => Promise.reject(asked) });
  const actor = aMember('ada', { via: 'token', logins: [], token: { id: '1', name: 'laptop' }, projects: ['lab'] });
  const client = clientFor(async () => actor, parts);
  for (const query of queries) {
    await assert.rejects(query(client, 'other'), { message: 'You may not use the project other: allowed is lab.' });
    await assert.rejects(query(client, 'lab'), asked, String(query));
    await assert.rejects(query(client, 'emulator'), asked, String(query));
  }
  await assert.rejects(client.zones({ project: 'other' }), { errorCode: 'forbidden' });
  await assert.rejects(client.quotaWarnings(tpuCapacity({ project: 'other' })), { errorCode: 'forbidden' });
  assert.equal((await store.access.audit({ actors: null, limit: 50, denied: true })).length, queries.length + 2);
});

test('a query about thousands of buckets or TPUs is refused, because each is a request to the cloud', async () => {
  const store = openStore({ file: ':memory:' });
  const asked = new Error('the cloud was asked');
  const parts = clientParts('/nowhere', store, { now: () => noon, clouds: () => Promise.reject(asked) });
  const client = clientFor(async () => aMember('ada'), parts);
  const times = <T>(count: number, one: T): readonly T[] => Array.from({ length: count }, () => one);
  await assert.rejects(client.bucketStatuses('lab', times(100, 'b'), null), asked);
  await assert.rejects(client.bucketStatuses('lab', times(101, 'b'), null), {
    message: 'At most 100 buckets at once.',
  });
  await assert.rejects(client.observeOrphans(times(1000, orphanIn('lab'))), asked);
  const tooMany = client.observeOrphans(times(1001, orphanIn('lab')));
  await assert.rejects(tooMany, { message: 'At most 1000 orphans at once.' });
});

test('a list of all projects has only those of the user', async () => {
  const store = openStore({ file: ':memory:' });
  for (const project of ['lab', 'other']) {
    await store.insert({ owner: 'ada', by: 'ada', spec: tpuSpec({}, { project }), manifest: '', at: noon });
    await store.recordOrphan({ ...orphanIn(project), job: project });
  }
  const charge = { day: '2026-11-28', service: 'Cloud TPU', sku: null, installation: null, job: null, currency: 'USD' };
  const rows = ['lab', 'other', null].map((project) => ({ ...charge, project, cost: 5, credits: 0, netUsd: 5 }));
  const about = { unreadableRows: 0, firstUsageAt: null, exportedAt: null, bytesRead: 0, bytesCharged: 0 };
  const billing = async () => ({ table: 'lab.costs.export', read: async () => ({ ...about, rows }) });
  const parts = clientParts('/nowhere', store, {
    now: () => noon,
    clouds: async () => ({ ...(await clouds()), billing }),
  });
  const readAs = async (projects: readonly string[] | null) => {
    const client = clientFor(async () => aMember('ada', { projects }), parts);
    const { report } = await client.billing({ by: [], since: noon, until: noon + day });
    return {
      zones: (await client.zones({})).map(({ project }) => project),
      orphans: (await client.orphans()).orphans.map(({ job }) => job).filter((job) => job !== '000042'),
      billed: report.billed.map(({ netAmount }) => netAmount),
    };
  };
  assert.deepEqual(await readAs(null), { zones: ['lab', 'other'], orphans: ['lab', 'other'], billed: [15] });
  assert.deepEqual(await readAs(['lab']), { zones: ['lab'], orphans: ['lab'], billed: [5] });
});
