// The projects of Google Cloud that the user of a token may ask about with the login of the server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import type { Orphan } from '../../src/app/ports.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { openStore } from '../../src/store/store.ts';
import { aMember, noon, tpuCapacity } from '../support/builders.ts';
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
    await assert.rejects(query(client, 'other'), { message: 'Ada may not use the project other: allowed is lab.' });
    await assert.rejects(query(client, 'lab'), asked, String(query));
    await assert.rejects(query(client, 'emulator'), asked, String(query));
  }
  await assert.rejects(client.quotaWarnings(tpuCapacity({ project: 'other' })), { errorCode: 'forbidden' });
  assert.equal((await store.access.audit({ actors: null, limit: 50, denied: true })).length, queries.length + 1);
});
