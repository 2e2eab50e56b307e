/** What is kept of clusters' jobs: the same thing written twice is there once, and what was submitted is never lost by a look. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KeptJob, KeptPlace } from '../../src/app/cluster/kept.ts';
import { openStore } from '../../src/store/store.ts';
import { aClusterJob, noon } from '../app/cluster/sample.ts';

const place: KeptPlace = {
  server: 'https://lab',
  namespace: 'vision',
  context: 'lab',
  setting: { type: 'default', file: null },
  kubeconfig: '/home/ada/kubeconfig',
  flavorKey: 'jobman/flavor',
  wantedAt: noon,
};
const seen = (changes: Partial<KeptJob> = {}) => ({
  server: 'https://lab',
  context: 'lab',
  seenAt: noon,
  goneAt: null,
  job: aClusterJob({ uid: 'u1', name: 'train' }),
  pods: [],
  events: [],
  ...changes,
});

test('a place is looked after until nothing is left there, unless somebody submits in that moment', async (t) => {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { clusters } = store;
  await clusters.wantPlace(place);
  assert.deepEqual(await clusters.places(), [place]);
  await clusters.wantPlace({ ...place, wantedAt: noon + 1 });
  await clusters.leavePlace(place);
  assert.equal((await clusters.places()).length, 1);
  await clusters.leavePlace({ ...place, wantedAt: noon + 1 });
  assert.deepEqual(await clusters.places(), []);
});

test('a job keeps what was submitted, its moments once each, and its logs', async (t) => {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { clusters } = store;
  await clusters.keepLog('u1', { pod: 'train-a', container: 'main', state: 'open' });
  await clusters.keepObject(seen(), '{"spec":1}');
  const moment = { key: 'began', at: noon, sentence: 'it began' };
  await clusters.keepSight(seen({ job: aClusterJob({ uid: 'u1', name: 'train', ready: 1 }) }), [moment]);
  await clusters.keepSight(seen({ goneAt: noon + 5 }), [
    moment,
    { ...moment, key: 'BackOff', sentence: 'again (2 times)' },
  ]);
  await clusters.keepSight(seen({ goneAt: noon + 5 }), [{ ...moment, key: 'BackOff', sentence: 'again (3 times)' }]);
  await clusters.keepLog('u1', { pod: 'train-a', container: 'main', state: 'open' });
  await clusters.keepLog('u1', { pod: 'train-a', container: 'main', state: 'whole' });
  await clusters.hide('u1');
  const [kept, ...others] = await clusters.jobs({ name: 'train', namespace: 'vision' });
  assert.equal(others.length, 0);
  assert.deepEqual([kept?.object, kept?.goneAt, kept?.hidden], ['{"spec":1}', noon + 5, true]);
  assert.deepEqual(kept?.logs, [{ pod: 'train-a', container: 'main', state: 'whole' }]);
  assert.deepEqual(
    (await clusters.moments('u1')).map(({ sentence }) => sentence),
    // Of one second, in the order in which they were told.
    ['it began', 'again (3 times)'],
  );
  assert.deepEqual(await clusters.jobs({ server: 'https://other' }), []);
  await clusters.drop('u1');
  assert.deepEqual([await clusters.jobs({}), await clusters.moments('u1')], [[], []]);
});
