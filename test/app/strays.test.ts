// What may have been left behind: noted at a forced delete, looked for in its place, let go, forgotten when seen gone.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { CapacityPort, Stray } from '../../src/app/ports.ts';
import { createStrayKeeper, straysOf } from '../../src/app/strays.ts';
import { known, unknown } from '../../src/core/observation.ts';
import { openStore } from '../../src/store/store.ts';
import { aJob, living, localSpec, noon, ready, tpuSpec } from './sample-life.ts';

/** A record with one deleted job that held a TPU in us-west4-a, and a cloud that holds these strays. */
async function openYard(t: TestContext) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { job, revision } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const life = { ...living(aJob(job.spec), [ready], []), id: job.id, installation: job.installation, removed: true };
  await store.commit({ job: life, revision, events: [], folded: [], wakeAt: null, epoch: null });
  const [left] = straysOf(life);
  assert.ok(left);
  await store.recordStray(left);

  const yard = { there: [left] as readonly Stray[] | null, asked: [] as string[] };
  const capacity: Partial<CapacityPort> = {
    sweep(refs) {
      yard.asked.push(`sweep near ${refs.map((ref) => ref.job.id).join()}`);
      return Promise.resolve(yard.there === null ? unknown('code 403.', noon) : known(yard.there, noon));
    },
    releaseStray({ resource }) {
      yard.asked.push(`release ${resource}`);
      return Promise.resolve({ kind: 'done' });
    },
  };
  const end = () => Promise.resolve();
  const keeper = createStrayKeeper({ store, capacityOf: () => capacity as CapacityPort, end });
  return Object.assign(yard, { store, keeper, left });
}

test('a job on this machine leaves no stray; one with a TPU leaves it by the name that the cloud knows', () => {
  assert.deepEqual(straysOf(living(aJob(localSpec()), [ready], [])), []);
  assert.deepEqual(
    straysOf(living(aJob(), [ready], [])).map(({ resource }) => resource),
    ['projects/lab/locations/us-west4-a/queuedResources/vit-000042-1'],
  );
});

test('a stray is there, also as the node that outlived its queued resource, or gone, or not known', async (t) => {
  const yard = await openYard(t);
  const seen = async () => (await yard.keeper.look()).map((stray) => [stray.seen, stray.says]);
  assert.deepEqual(await seen(), [['there', 'READY']]);
  yard.there = [{ ...yard.left, resource: 'projects/lab/locations/us-west4-a/nodes/vit', state: 'DELETING' }];
  assert.deepEqual(await seen(), [['there', 'DELETING']]);
  yard.there = [{ ...yard.left, allocation: 2 }];
  assert.deepEqual(await seen(), [['gone', 'gone']]);
  yard.there = null;
  assert.deepEqual(await seen(), [['unknown', 'code 403']]);
});

test('a look asks each place once and changes nothing', async (t) => {
  const yard = await openYard(t);
  await yard.store.recordStray({ ...yard.left, resource: `${yard.left.resource}0`, allocation: 2 });
  assert.equal((await yard.keeper.look()).length, 2);
  assert.deepEqual(yard.asked, ['sweep near 000001']);
  assert.equal((await yard.store.strays()).length, 2);
});

test('what lies in a place that no job on record was in can be neither seen nor let go', async (t) => {
  const yard = await openYard(t);
  const far = { ...yard.left, resource: 'projects/lab/locations/us-east5-b/nodes/vit' };
  await yard.store.forgetStray(yard.left);
  await yard.store.recordStray(far);
  const [stray] = await yard.keeper.look();
  assert.equal(stray?.seen, 'unknown');
  assert.equal((await yard.keeper.letGo(far)).kind, 'refused');
  assert.deepEqual(yard.asked, []);
});

test('letting go asks the cloud and forgets nothing; forgetting is for what was seen gone', async (t) => {
  const yard = await openYard(t);
  assert.deepEqual(await yard.keeper.letGo(yard.left), { kind: 'done' });
  assert.deepEqual(yard.asked, [`release ${yard.left.resource}`]);
  assert.equal((await yard.store.strays()).length, 1);
  await yard.keeper.forget(yard.left);
  assert.deepEqual(await yard.store.strays(), []);
});
