/** Jobs on record that a cluster does not list any more: how they are asked for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import type { KeptPlace } from '../../src/app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { watchNamespace } from '../../src/controller/cluster-mirror.ts';
import { openStore } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { aClusterJob } from '../app/cluster/sample.ts';

const place: KeptPlace = {
  server: 'https://127.0.0.1:1',
  namespace: 'vision',
  context: 'lab',
  setting: { type: 'default', file: null },
  kubeconfig: null,
  flavorKey: 'jobman/flavor',
  wantedAt: Date.now(),
};
const [young, ...old] = ['u1', 'u2', 'u3'].map((uid) => aClusterJob({ name: `train-${uid}`, uid }));

/** The uids that are on record as gone after a list that told of none, and how often the cluster was asked for its jobs. */
async function goneAfter(count: number, jobs: () => AsyncIterable<unknown>) {
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  for (const job of [young, ...old]) {
    if (job === undefined) continue;
    await store.clusters.keepObject({ server: place.server, context: 'lab', seenAt: Date.now(), job }, '{}');
  }
  let asks = 0;
  const cluster = {
    async *watchJobs({ signal }: { readonly signal: AbortSignal }) {
      yield { kind: 'synced' } as const;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
    jobs() {
      asks += 1;
      return jobs();
    },
    async *watchPods() {},
    async *pods() {},
    events: async () => [],
    close: async () => undefined,
  };
  const watch = watchNamespace(place, {
    record: store.clusters,
    installation: () => store.installation(),
    open: async () => cluster as unknown as Cluster,
    copyOf: () => assert.fail('nothing was printed'),
    clock: {
      now: () => Date.now(),
      at(at, call) {
        const timer = setTimeout(call, at - Date.now());
        return () => clearTimeout(timer);
      },
    },
    say: () => undefined,
  });
  const gone = async () =>
    (await store.clusters.jobs({})).flatMap(({ job, goneAt }) => (goneAt === null ? [] : [job.uid])).toSorted();
  try {
    assert.ok(await eventually(async () => (await gone()).length === count));
    return { gone: await gone(), asks };
  } finally {
    await watch.stop();
    await store.close();
  }
}

test('jobs that are missing in the list are gone, but for one that was submitted meanwhile; one more list says which', async () => {
  const found = await goneAfter(2, async function* () {
    yield [young];
  });
  assert.deepEqual(found, { gone: ['u2', 'u3'], asks: 1 });
});

test('jobs of a namespace that was deleted are gone', async () => {
  const found = await goneAfter(3, async function* () {
    yield [];
    throw new JobmanError('There is no namespace vision in lab.', exitCode.notFound);
  });
  assert.deepEqual(found.gone, ['u1', 'u2', 'u3']);
});
