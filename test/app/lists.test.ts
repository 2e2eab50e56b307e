import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ArchivedJob } from '../../src/app/cluster/objects.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { openStore } from '../../src/store/store.ts';
import { aMember, localSpec, noon } from '../support/builders.ts';
import { aClusterJob, anArchivedJob } from '../support/cluster-builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { temporaryFolder } from '../support/folder.ts';

test('equal lists that are asked for at the same time are one read, which begins after the requests', async (t) => {
  const home = temporaryFolder(t);
  const store = openStore({ file: join(home, 'state.db') });
  t.after(() => store.close());
  const insert = (owner: string) => store.insert({ owner, spec: localSpec(), manifest: '', at: noon });
  let reads = 0;
  const parts = clientParts(home, store, {
    now: () => noon,
    store: {
      ...store,
      listRows(...filter) {
        reads += 1;
        return store.listRows(...filter);
      },
    },
  });
  const [ada, bob] = ['ada', 'bob'].map((user) => clientFor(async () => aMember(user), parts));
  assert.ok(ada && bob);
  const namesOf = async (lists: readonly ReturnType<typeof ada.list>[]) =>
    (await Promise.all(lists)).map(({ rows }) => rows.map(({ id }) => Number(id)));
  await insert('ada');
  assert.deepEqual(
    await namesOf([ada.list({}), bob.list({}), ada.list({}), ada.list({ own: true }), bob.list({ own: true })]),
    [[1], [1], [1], [1], []],
  );
  assert.equal(reads, 3);
  await insert('bob');
  assert.deepEqual(await namesOf([ada.list({}), bob.list({ own: true })]), [[2, 1], [2]]);
});

test('a page of the archive and its cursor are about jobs that the actor may read', async (t) => {
  const home = temporaryFolder(t);
  const store = openStore({ file: join(home, 'state.db') });
  t.after(() => store.close());
  for (const [at, owner] of ['bob', 'ada', 'bob', 'ada', 'bob'].entries()) {
    const job = aClusterJob({ uid: `uid-${at}`, owner, createdAt: noon + at });
    await store.clusters.archiveObservation(anArchivedJob({ job }), []);
  }
  const viewer = (user: string) =>
    clientFor(async () => aMember(user, { role: 'viewer' }), clientParts(home, store, { now: () => noon }));
  const first = await viewer('ada').archivedJobs({ limit: 1 });
  assert.deepEqual([uidsOf(first), keyOf(first.next)], [['uid-3'], ['archive', noon + 3, 'uid-3']]);
  const last = await viewer('ada').archivedJobs({ limit: 1, cursor: first.next ?? '' });
  assert.deepEqual([uidsOf(last), last.next], [['uid-1'], undefined]);
  assert.equal((await viewer('eve').archivedJobs({ limit: 1 })).next, undefined);
});

const uidsOf = (rows: readonly ArchivedJob[]) => rows.map(({ job }) => job.uid);
const keyOf = (cursor = ''): unknown => JSON.parse(Buffer.from(cursor, 'base64url').toString());
