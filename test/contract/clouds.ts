// The methods about clouds, projects and registries, with fakes of these: what they find reaches a client over JSON.
// test/app/ and test/wiring/ have the rules behind the answers.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { ImagePort } from '../../src/app/images.ts';
import { orphansOf } from '../../src/app/orphans.ts';
import { noQuotaCache } from '../../src/app/quota.ts';
import type { ClientParts } from '../../src/app/store-client.ts';
import { aJob, noon, observedTpu, readyAllocation, tpuCapacity, tpuSpec, withAttempts } from '../support/builders.ts';
import type { Fixture } from './client.ts';

const tpu = observedTpu('vit-000042-1', { label: { installation: 'ours00', job: '000042', allocation: 1 } });

export const clouds: ClientParts['clouds'] = async () => ({
  tpus: {
    list: async () => ({ tpus: [tpu], unchecked: [] }),
    pricePerHour: () => 2,
    isSimulated: () => false,
  },
  quotas: { limits: async () => ({ ok: true, limits: [], unreadable: [] }) },
  quotaCache: { ...noQuotaCache, read: () => ({ limits: [], unreadable: [], readAt: noon }) },
  settings: { project: 'lab', grants: [], forgottenProjects: [] },
  installation: 'ours00',
  billing: async () => null,
  checkLogin: () => Promise.resolve(),
  bucketsOf: () => ({ observe: async () => ({ kind: 'absent' }) }),
  storageOf: async () => ({
    buckets: async () => {
      const bucket = { name: 'runs', location: null, storageClass: 'STANDARD', createdAt: noon };
      return { ok: true, value: { buckets: [bucket], unreadable: [] } };
    },
    metrics: null,
    gcloudEndpoint: null,
    async *count() {
      yield { count: { bytes: 1, objects: 1, newestAt: noon, isPartial: true }, error: null };
      yield { count: { bytes: 3, objects: 2, newestAt: noon, isPartial: false }, error: null };
    },
  }),
  async *countFiles() {
    yield { unreadable: 'it is not a folder' };
  },
  releaseOrphan: async () => ({ kind: 'done' }),
  excludeProject: () => Promise.resolve(),
});

const image = { name: 'trainer', project: 'lab', repository: 'trainer', pullCount: 3 };
const registry: ImagePort = {
  server: 'https://harbor.lab',
  list: async () => ({
    value: [{ ...image, tags: ['3.1'], artifactCount: 1, updatedAt: null }],
    fetchedAt: noon,
    staleReason: null,
  }),
  details: async () => ({ value: { ...image, description: '', artifacts: [] }, fetchedAt: noon, staleReason: null }),
  close: () => undefined,
};

export function cloudSuite(openFixture: (t: TestContext, own: Partial<ClientParts>) => Fixture): void {
  test('what the clouds and the registry answer reaches the client', async (t) => {
    const { client } = openFixture(t, { clouds, registry: async () => registry });
    assert.deepEqual(
      (await client.tpus({})).rows.map(({ name }) => name),
      [tpu.name],
    );
    assert.equal((await client.quota({})).anyAnswered, true);
    assert.deepEqual(await client.knownQuota(['lab']), []);
    assert.deepEqual(await client.quotaWarnings(tpuCapacity()), []);

    assert.deepEqual(
      (await client.orphans()).orphans.map(({ job, presence }) => [job, presence]),
      [['000042', 'present']],
    );
    const [orphan, ...others] = orphansOf(withAttempts(aJob(tpuSpec()), [readyAllocation], []));
    assert.ok(orphan !== undefined && others.length === 0);
    assert.equal((await client.observeOrphans([orphan])).length, 1);

    const reports = await Array.fromAsync(client.storage({ exact: true }));
    assert.deepEqual(reports.at(-1)?.counted, { counted: 1, ofAll: 1, objects: 2, bytes: 3 });
    assert.deepEqual((await Array.fromAsync(client.checkpoints())).at(-1)?.rows, []);

    const query = { refresh: false };
    assert.deepEqual((await client.images(query)).value[0]?.tags, ['3.1']);
    assert.equal((await client.image('trainer', query)).server, registry.server);
    await client.checkLogin('lab');
    assert.deepEqual(await client.bucketStatuses('lab', ['gs'], null), {
      statuses: [{ kind: 'absent' }],
      notice: null,
    });
  });
}
