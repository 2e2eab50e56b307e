/**
 * The archive of clusters' jobs: repeated writes have one effect, and no observation overwrites the submitted object.
 */

import assert from 'node:assert/strict';
import type { ArchivedJob, WatchedContext } from '../../src/app/cluster/objects.ts';
import type { FlavorPrice } from '../../src/reports/prices.ts';
import { aClusterJob, aClusterPod, noon } from '../support/cluster-builders.ts';
import { testStore } from '../support/stores.ts';

const context: WatchedContext = {
  server: 'https://lab',
  namespace: 'vision',
  context: 'lab',
  setting: { type: 'default', file: null },
  kubeconfig: '/home/ada/kubeconfig',
  flavorAnnotation: 'jobman/flavor',
  requestedAt: noon,
};
const observed = (changes: Partial<ArchivedJob> = {}) => ({
  server: 'https://lab',
  context: 'lab',
  observedAt: noon,
  goneAt: null,
  job: aClusterJob({ uid: 'u1', name: 'train' }),
  pods: [],
  events: [],
  ...changes,
});

testStore(
  'a context is watched until its namespace is empty, unless a user submits a job there at the same time',
  async (store) => {
    const { clusters } = store;
    await clusters.watchContext(context);
    assert.deepEqual(await clusters.contexts(), [context]);
    await clusters.watchContext({ ...context, requestedAt: noon + 1 });
    await clusters.unwatchContext(context);
    assert.equal((await clusters.contexts()).length, 1);
    await clusters.unwatchContext({ ...context, requestedAt: noon + 1 });
    assert.deepEqual(await clusters.contexts(), []);
  },
);

testStore('a job keeps its submitted object, each event once, and its logs', async (store) => {
  const { clusters } = store;
  await clusters.archiveLog('u1', { pod: 'train-a', container: 'main', state: 'open' });
  await clusters.archiveObject(observed(), '{"spec":1}');
  const event = { key: 'began', at: noon, message: 'it began' };
  await clusters.archiveObservation(observed({ job: aClusterJob({ uid: 'u1', name: 'train', ready: 1 }) }), [event]);
  await clusters.archiveObservation(observed({ goneAt: noon + 5 }), [
    event,
    { ...event, key: 'BackOff', message: 'again (2 times)' },
  ]);
  await clusters.archiveObservation(observed({ goneAt: noon + 5 }), [
    { ...event, key: 'BackOff', message: 'again (3 times)' },
  ]);
  await clusters.archiveLog('u1', { pod: 'train-a', container: 'main', state: 'open' });
  await clusters.archiveLog('u1', { pod: 'train-a', container: 'main', state: 'complete' });
  await clusters.hide('u1');
  const [kept, ...others] = await clusters.jobs({ name: 'train', namespace: 'vision' });
  assert.equal(others.length, 0);
  assert.deepEqual([kept?.object, kept?.goneAt, kept?.hidden], ['{"spec":1}', noon + 5, true]);
  assert.deepEqual(kept?.logs, [{ pod: 'train-a', container: 'main', state: 'complete' }]);
  assert.deepEqual(
    (await clusters.events('u1')).map(({ message }) => message),
    // Events of one second keep the order of writing.
    ['it began', 'again (3 times)'],
  );
  assert.deepEqual(await clusters.jobs({ server: 'https://other' }), []);
  await clusters.remove('u1');
  assert.deepEqual([await clusters.jobs({}), await clusters.events('u1')], [[], []]);
});

testStore('the usage of each pod is written with the job: from its start to its end, with its GPUs', async (store) => {
  const { clusters } = store;
  const job = aClusterJob({ uid: 'u1', name: 'train', flavor: 'a100', owner: 'ada' });
  const requests = { 'nvidia.com/gpu': '4', cpu: '8' };
  const waiting = aClusterPod({ name: 'train-a', createdAt: noon, requests, phase: 'Pending', containers: [] });
  await clusters.archiveObservation(observed({ job, pods: [waiting] }), []);
  const used = async () =>
    (await store.usage({})).map(({ name, use, from, until, chips, pricePerHourUsd }) => [
      name,
      use,
      from - noon,
      until === null ? null : until - noon,
      chips,
      pricePerHourUsd,
    ]);
  assert.deepEqual(await used(), [['train-a', 'waiting', 0, null, 4, 0]]);
  const running = aClusterPod(
    { name: 'train-a', createdAt: noon, requests, phase: 'Running' },
    { startedAt: noon + 5 },
  );
  await clusters.archiveObservation(observed({ job, pods: [running] }), []);
  assert.deepEqual(await used(), [
    ['train-a', 'waiting', 0, 5, 4, 0],
    ['train-a', 'useful', 5, null, 4, null],
  ]);
  const ended = { startedAt: noon + 5, endedAt: noon + 9, state: 'terminated' } as const;
  const failed = aClusterPod({ name: 'train-a', createdAt: noon, requests, phase: 'Failed' }, ended);
  await clusters.archiveObservation(observed({ job, pods: [failed] }), []);
  await clusters.archiveObservation(observed({ job, pods: [failed] }), []);
  assert.deepEqual((await used()).at(-1), ['train-a', 'lost', 5, 9, 4, null]);
  const [row] = await store.usage({ owners: ['ada'] });
  assert.deepEqual(
    [row?.source, row?.job, row?.location, row?.accelerator, row?.pricesOf],
    ['kubernetes', 'train', 'lab/vision', 'a100', null],
  );
});

testStore('a pod costs the price of its flavor: for each of its GPUs, or for the whole pod', async (store) => {
  const { clusters } = store;
  const requests = { 'nvidia.com/gpu': '4' };
  const pods = [aClusterPod({ name: 'train-a', createdAt: noon, requests, phase: 'Running' }, { startedAt: noon + 5 })];
  const priceWith = async (uid: string, flavorPrice: FlavorPrice | null) => {
    await clusters.archiveObservation(observed({ job: aClusterJob({ uid, name: uid }), pods, flavorPrice }), []);
    return (await store.usage({ jobs: [uid] })).map(({ pricePerHourUsd, pricesOf }) => [pricePerHourUsd, pricesOf]);
  };
  const waiting = [0, null];
  assert.deepEqual(await priceWith('a', { usdPerChipHour: 2.5 }), [waiting, [10, 'settings']]);
  assert.deepEqual(await priceWith('b', { usdPerHour: 7 }), [waiting, [7, 'settings']]);
  assert.deepEqual(await priceWith('c', null), [waiting, [null, null]]);
  assert.deepEqual((await clusters.job('a'))?.flavorPrice, { usdPerChipHour: 2.5 });
});

testStore('usage outlives the archived job, and a job that is archived again replaces its usage', async (store) => {
  const { clusters } = store;
  const pods = [aClusterPod({ name: 'train-a', createdAt: noon, phase: 'Running' }, { startedAt: noon + 5 })];
  await clusters.archiveObservation(observed({ pods }), []);
  const used = await store.usage({});
  assert.equal(used.length, 2);
  await clusters.remove('u1');
  assert.deepEqual(await store.usage({}), used);
  await clusters.archiveObservation(observed({ pods }), []);
  assert.deepEqual(await store.usage({}), used);
});
