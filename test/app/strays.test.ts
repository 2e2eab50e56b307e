// What may have been left behind: noted at a forced delete, looked for in its place, let go, forgotten when seen gone; what
// nobody noted and carries our label; and what is not ours.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createStrayKeeper, straysOf } from '../../src/app/strays.ts';
import type { TpuMissed, TpuSeen } from '../../src/app/tpus.ts';
import type { Job } from '../../src/core/job.ts';
import { openStore } from '../../src/store/store.ts';
import { aJob, living, localSpec, noon, ready, tpuSpec } from '../support/builders.ts';

/** A record with one deleted job that held a TPU in us-west4-a, and a cloud that holds these TPUs. */
async function openYard(t: TestContext) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { job, revision } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const life = { ...living(aJob(job.spec), [ready], []), id: job.id, installation: job.installation, removed: true };
  await store.commit({ job: life, revision, events: [], folded: [], wakeAt: null, epoch: null });
  const [left] = straysOf(life);
  assert.ok(left);
  await store.recordStray(left);

  const { installation } = job;
  const label = { installation, job: job.id, allocation: 1 };
  const tpu = (different: Partial<TpuSeen> = {}): TpuSeen => ({
    project: 'lab',
    zone: 'us-west4-a',
    name: 'vit-000001-1',
    resource: left.resource,
    node: 'READY',
    queued: 'ACTIVE',
    type: 'v5litepod-16',
    pricing: 'spot',
    label,
    sharedBy: null,
    owner: null,
    createdAt: noon,
    ...different,
  });
  const yard = { there: [tpu()] as readonly TpuSeen[], missed: [] as readonly TpuMissed[], asked: [] as string[] };
  const keeper = createStrayKeeper({
    store,
    installation: job.installation,
    cloud: {
      async list({ project, zones }) {
        yard.asked.push(`list ${project} ${zones?.join() ?? 'all'}`);
        return { tpus: yard.there, missed: yard.missed };
      },
      pricePerHour: () => null,
      isPretended: () => false,
    },
    settings: { project: null, grants: [], forgottenProjects: [] },
    release({ resource }) {
      yard.asked.push(`release ${resource}`);
      return Promise.resolve({ kind: 'done' });
    },
    now: () => noon,
    end: () => Promise.resolve(),
  });
  return Object.assign(yard, { store, keeper, left, label, tpu, life });
}

/** What the cloud calls what a job may leave behind. */
const leftBy = (job: Job): readonly string[] => straysOf(job).map(({ resource }) => resource);

test('a job on this machine leaves no stray; one with a TPU leaves it by the name that the cloud knows', () => {
  assert.deepEqual(straysOf(living(aJob(localSpec()), [ready], [])), []);
  assert.deepEqual(leftBy(living(aJob(), [ready], [])), [
    'projects/lab/locations/us-west4-a/queuedResources/vit-000042-1',
  ]);
});

test('what an alternative gave is left behind where it was given', () => {
  const { capacity } = tpuSpec();
  assert.ok(capacity.kind === 'tpu');
  const spec = tpuSpec({}, { alternatives: [{ ...capacity, zone: 'us-east5-b' }] });
  assert.deepEqual(leftBy(living(aJob(spec), [{ ...ready, place: 1 }], [])), [
    'projects/lab/locations/us-east5-b/queuedResources/vit-000042-1',
  ]);
});

test('a stray is there, also as the node that outlived its queued resource, or gone, or not known', async (t) => {
  const yard = await openYard(t);
  const seen = async () => (await yard.keeper.look()).strays.map((stray) => [stray.seen, stray.says]);
  assert.deepEqual(await seen(), [['there', 'READY']]);
  const node = 'projects/lab/locations/us-west4-a/nodes/vit';
  yard.there = [yard.tpu({ resource: node, node: 'DELETING', queued: null })];
  assert.deepEqual(await seen(), [['there', 'DELETING']]);
  yard.there = [];
  assert.deepEqual(await seen(), [['gone', 'gone']]);
  yard.missed = [{ project: 'lab', zone: 'us-east5-b', says: 'elsewhere', asleep: false }];
  assert.deepEqual(await seen(), [['gone', 'gone']], 'another zone that was not asked says nothing of it');
  yard.missed = [{ project: 'lab', zone: 'us-west4-a', says: 'code 403.', asleep: false }];
  assert.deepEqual(await seen(), [['unknown', 'code 403']]);
  yard.missed = [{ project: 'lab', zone: null, says: 'no login', asleep: false }];
  assert.deepEqual(await seen(), [['unknown', 'no login']]);
});

test('what carries our label and no job claims is a stray too, noted or not; a job that is there claims its own', async (t) => {
  const yard = await openYard(t);
  const { job, revision } = await yard.store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const alive = { ...living(aJob(job.spec), [ready], []), id: job.id, installation: job.installation };
  await yard.store.commit({ job: alive, revision, events: [], folded: [], wakeAt: null, epoch: null });
  const node = (name: string) => `projects/lab/locations/us-west4-a/nodes/${name}`;
  yard.there = [
    yard.tpu({ name: 'alive', resource: node('alive'), label: { ...yard.label, job: job.id } }),
    yard.tpu({ name: 'late', resource: node('late'), label: { ...yard.label, job: job.id, allocation: 2 } }),
    yard.tpu({ name: 'unheard', resource: node('unheard'), label: { ...yard.label, job: '000077' } }),
  ];
  const { strays } = await yard.keeper.look();
  assert.deepEqual(
    strays.map(({ resource, seen }) => [resource, seen]),
    [
      [yard.left.resource, 'gone'],
      [node('late'), 'there'],
      [node('unheard'), 'there'],
    ],
  );
  assert.equal((await yard.store.strays()).length, 1, 'a look notes nothing');
});

test("another jobman's and nobody's are shown apart and never as strays; a person's are left to that person", async (t) => {
  const yard = await openYard(t);
  yard.there = [
    yard.tpu(),
    yard.tpu({ name: 'theirs', label: { ...yard.label, installation: 'theirs' } }),
    yard.tpu({ name: 'nobodys', label: null }),
    yard.tpu({ name: 'graces', label: null, owner: 'grace' }),
  ];
  const { strays, others } = await yard.keeper.look();
  assert.deepEqual(
    strays.map(({ resource }) => resource),
    [yard.left.resource],
  );
  assert.deepEqual(others.map(({ name }) => name).toSorted(), ['nobodys', 'theirs']);
});

test('a look asks each project once, where the jobs and the notes are, and changes nothing', async (t) => {
  const yard = await openYard(t);
  const far = 'projects/lab/locations/us-east5-b/nodes/vit';
  await yard.store.recordStray({ ...yard.left, resource: far, allocation: 2 });
  assert.equal((await yard.keeper.look()).strays.length, 2);
  assert.deepEqual(yard.asked, ['list lab us-east5-b,us-west4-a']);
  assert.equal((await yard.store.strays()).length, 2);
  await yard.keeper.lookAt([yard.left]);
  assert.deepEqual(yard.asked.slice(1), ['list lab us-west4-a']);
});

test('letting go asks the cloud and forgets nothing; forgetting is for what was seen gone', async (t) => {
  const yard = await openYard(t);
  assert.deepEqual(await yard.keeper.letGo(yard.left), { kind: 'done' });
  assert.deepEqual(yard.asked, [`release ${yard.left.resource}`]);
  assert.equal((await yard.store.strays()).length, 1);
  await yard.keeper.forget(yard.left);
  assert.deepEqual(await yard.store.strays(), []);
});
