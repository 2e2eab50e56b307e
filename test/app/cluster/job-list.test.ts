/** The list of a cluster's jobs that is read again and again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openClusterLists } from '../../../src/app/cluster/job-list.ts';
import type { ArchivedJob } from '../../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { createCliHarness, fakeCluster, noSubmissions } from '../../cli/support/harness.ts';
import { aClusterJob, anArchivedJob } from '../../support/cluster-builders.ts';

test('a cluster that does not answer keeps its rows, with the reason and the time of its last answer', async () => {
  const { services } = createCliHarness();
  let isReached = true;
  const cluster = fakeCluster({
    async *jobs() {
      if (!isReached) throw new JobmanError('connect ECONNREFUSED 10.0.0.1:6443', exitCode.unreachable);
      yield [aClusterJob({ name: 'train', uid: 'u1', active: 1, ready: 1 })];
    },
    pods: async function* pods() {
      yield [];
    },
  });
  const copies: readonly ArchivedJob[] = ['train', 'eval'].map((name) =>
    anArchivedJob({ job: aClusterJob({ name, uid: `copy of ${name}` }), context: cluster.context().context }),
  );
  const client = { ...(await services.client()), archivedJobs: async () => copies };
  const parts = {
    ...services,
    cluster: async () => cluster,
    client: async () => client,
    clusterSubmissions: async () => ({ ...noSubmissions, isUsed: true }),
  };
  const lists = openClusterLists(parts, { all: true }, {});
  const namesOf = async () => (await lists.next()).rows.map(({ name }) => name).toSorted();
  assert.deepEqual(await namesOf(), ['eval', 'train']);
  isReached = false;
  const { rows, notes, failure } = await lists.next();
  assert.deepEqual(rows.map(({ name }) => name).toSorted(), ['eval', 'train']);
  assert.match(notes.join(), /^The cluster of \S+ is not updated since \d\d:\d\d:\d\d: connect ECONNREFUSED/);
  assert.equal(failure?.code, exitCode.unreachable);
  isReached = true;
  assert.deepEqual(await namesOf(), ['eval', 'train']);

  // Without an answer, the archive has the rows.
  isReached = false;
  const late = openClusterLists(parts, { all: true }, {});
  const first = await late.next();
  assert.deepEqual(first.rows.map(({ name }) => name).toSorted(), ['eval', 'train']);
  assert.match(first.notes.join(), /is not shown: connect ECONNREFUSED/);
});
