// Owner, idle time and cost of TPUs, and the queried locations.

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import {
  forgettable,
  hasAnswered,
  tpuSpecs,
  claimingJobs,
  observeTpus,
  suggestScope,
  tpuScopes,
  tpuRows,
  type ObservedTpu,
  type TpuScope,
  type UncheckedLocation,
} from '../../src/app/tpus.ts';
import { withLifecycle, type Attempt, type Job } from '../../src/core/model/job.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import {
  aJob,
  attemptOf,
  withAttempts,
  noon,
  observedTpu,
  readyAllocation,
  tpuCapacity,
  tpuSpec,
  localSpec,
} from '../support/builders.ts';
import { createOrphanOperations, orphansOf } from '../../src/app/orphans.ts';
import { openStore } from '../../src/store/store.ts';

const seen = (name: string, different: Partial<ObservedTpu> = {}): ObservedTpu =>
  observedTpu(name, { accelerator: 'v5litepod-8', ...different });

const cloud = {
  pricePerHour: ({ accelerator }: ObservedTpu) => (accelerator === null ? null : 2),
  isSimulated: (p: string) => p === 'emulator',
};

const job: Job = {
  ...withAttempts(aJob(), [{ ...readyAllocation, readyAt: noon - 3 * hour }], []),
  id: '000042',
  installation: 'ours00',
};
const label = (ordinal = 1, id = '000042', installation = 'ours00') => ({ installation, job: id, allocation: ordinal });
const rowsOf = (tpus: readonly ObservedTpu[], jobs: readonly Job[] = [job]) =>
  tpuRows(tpus, { installation: 'ours00', jobs, now: noon, cloud });
const only = (tpu: ObservedTpu, jobs?: readonly Job[]) => {
  const [row] = rowsOf([tpu], jobs);
  assert.ok(row);
  return row;
};

/** An attempt on the first allocation that began two hours ago, and ended then or runs. */
function attempt(endedAt: number | null): Attempt {
  const begun = { createdAt: noon - 4 * hour, notBeforeAt: noon - 4 * hour, startedAt: noon - 2 * hour };
  return attemptOf(1, { ...begun, runningAt: noon - 2 * hour, endedAt });
}

suite('a TPU of a job', () => {
  const mine = seen('vit-000042-1', { label: label() });

  test('is idle from its ready time while no command has run on it', () => {
    const row = only(mine);
    assert.deepEqual(row.owner, {
      kind: 'job',
      id: '000042',
      name: job.spec.name,
      jobOwner: job.owner,
      owner: job.owner,
      isFinished: false,
    });
    assert.equal(row.job, '000042');
    assert.equal(row.readyAt, noon - 3 * hour);
    assert.equal(row.idleMs, 3 * hour);
    assert.equal(row.idleCostUsd, 6);
  });

  test('has the owner in its metadata, because several users share a login', () => {
    const { owner } = only({ ...mine, metadataOwner: 'yufeng' });
    assert.deepEqual(owner, {
      kind: 'job',
      id: '000042',
      name: job.spec.name,
      jobOwner: job.owner,
      owner: 'yufeng',
      isFinished: false,
    });
    assert.equal(only({ ...mine, metadataOwner: '' }).owner.kind, 'job');
  });

  test('is not idle while a command runs, and idle again from its end', () => {
    const busy = only(mine, [{ ...job, attempts: [attempt(null)] }]);
    assert.deepEqual([busy.idleMs, busy.idleCostUsd], [null, null]);
    const over = only(mine, [{ ...job, attempts: [attempt(noon - 30 * minute)] }]);
    assert.equal(over.idleMs, 30 * minute);
    assert.equal(over.idleCostUsd, 1);
  });

  test('is neither ready nor idle before the cloud reports READY', () => {
    const row = only({ ...mine, nodeState: null, queuedResourceState: 'WAITING_FOR_RESOURCES' });
    assert.equal(row.state, 'WAITING_FOR_RESOURCES');
    assert.deepEqual([row.readyAt, row.idleMs, row.idleCostUsd], [null, null, null]);
  });
});

suite('a TPU that no job claims', () => {
  const orphan = { kind: 'orphan', id: '000042' };
  test('is an orphan if its job is unknown, was removed, has no such allocation, or observed it gone', () => {
    const mine = seen('vit-000042-1', { label: label() });
    const [allocation] = job.allocations;
    assert.ok(allocation);
    assert.deepEqual(only(mine, []).owner, orphan);
    assert.deepEqual(only(mine, [{ ...job, removed: true }]).owner, orphan);
    assert.deepEqual(only({ ...mine, label: label(2) }).owner, orphan);
    assert.deepEqual(
      only(mine, [{ ...job, allocations: [withLifecycle({ ...allocation, goneAt: noon })] }]).owner,
      orphan,
    );
    assert.equal(only(mine, []).idleMs, 10 * hour);
  });

  test('of another installation is never ours, although we have a job with the same id', () => {
    const row = only(seen('vit-000042-1', { label: label(1, '000042', 'theirs') }));
    assert.deepEqual(row.owner, { kind: 'installation', installation: 'theirs', id: '000042' });
    assert.equal(row.job, null);
    assert.equal(row.idleMs, null, 'what they do on it is not seen from here');
  });

  test('has the owner in its metadata, or none, and no idle time', () => {
    assert.deepEqual(only(seen('dev', { metadataOwner: 'grace' })).owner, { kind: 'user', name: 'grace' });
    assert.equal(only(seen('dev', { metadataOwner: 'grace' })).idleMs, null);
    assert.deepEqual(only(seen('dev', { metadataOwner: '' })).owner, { kind: 'none' });
    assert.deepEqual(only(seen('dev', { sharedByInstallation: 'ours00', metadataOwner: 'ada' })).owner, {
      kind: 'shared',
      name: 'ada',
    });
    assert.deepEqual(only(seen('dev', { sharedByInstallation: 'ours00' })).owner, { kind: 'shared', name: null });
    const theirs = { kind: 'installation', installation: 'theirs', id: null };
    assert.deepEqual(only(seen('dev', { sharedByInstallation: 'theirs', metadataOwner: 'ada' })).owner, theirs);
    assert.equal(only(seen('dev')).idleMs, 10 * hour);
  });
});

test('a persistent TPU belongs to the job that uses it, in its own project and zone', () => {
  const spec = tpuSpec();
  assert.ok(spec.capacity.kind === 'tpu');
  const { project, zone } = spec.capacity;
  const user: Job = {
    ...withAttempts(
      aJob({ ...spec, capacity: { ...spec.capacity, ownership: 'persistent' } }),
      [{ ...readyAllocation, readyAt: noon - 3 * hour, ownership: 'persistent', name: 'shared' }],
      [],
    ),
    installation: 'ours00',
    finish: null,
  };
  const shared = seen('shared', { project, zone, metadataOwner: 'grace' });
  assert.equal(only(shared, [user]).owner.kind, 'job');
  assert.equal(only({ ...shared, zone: 'us-east5-a' }, [user]).owner.kind, 'user');
  const finish = { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const;
  assert.equal(only(shared, [{ ...user, finish }]).owner.kind, 'user');
  // Without a job, a TPU that this installation shares is idle since its last command.
  const ours = { ...shared, sharedByInstallation: 'ours00' };
  assert.equal(only(ours, []).idleMs, null);
  assert.equal(only(ours, [{ ...user, finish, attempts: [attempt(noon - hour)] }]).idleMs, hour);
});

test('the highest idle cost comes first, then the highest price, and simulated TPUs last', () => {
  const rows = rowsOf([
    seen('simulated', { project: 'emulator', createdAt: noon - 99 * hour }),
    seen('b', { createdAt: noon - 2 * hour }),
    seen('theirs', { metadataOwner: 'grace' }),
    seen('unpriced', { accelerator: null, createdAt: noon - 50 * hour }),
    seen('a', { createdAt: noon - 5 * hour }),
  ]);
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['a', 'b', 'unpriced', 'theirs', 'simulated'],
  );
  assert.deepEqual([rows[2]?.idleCostUsd, rows[2]?.pricePerHourUsd], [null, null]);
});

suite('the queried locations', () => {
  const spec = tpuSpec().capacity;
  assert.ok(spec.kind === 'tpu');
  const settings = { project: 'lab', grants: [{ zone: 'us-east5-b' }, { zone: 'us-*' }, {}], forgottenProjects: [] };
  const specs = [
    { ...spec, project: 'lab', zone: 'us-west4-a' },
    { ...spec, project: 'emulator', zone: 'us-central2-b' },
    { ...spec, project: 'lab', zone: 'us-west4-a' },
  ];

  test('are every project and zone of the settings, grants and jobs, once', () => {
    assert.deepEqual(tpuScopes({}, settings, specs), [
      { project: 'emulator', zones: ['us-central2-b'] },
      { project: 'lab', zones: ['us-east5-b', 'us-west4-a'] },
    ]);
  });

  test('are those of the query, and a whole project if no zone is named', () => {
    assert.deepEqual(tpuScopes({ project: 'other' }, settings, specs), [{ project: 'other', zones: null }]);
    assert.deepEqual(tpuScopes({ project: 'lab', zone: 'us-east1-d' }, settings, specs), [
      { project: 'lab', zones: ['us-east1-d'] },
    ]);
    assert.deepEqual(
      tpuScopes({ all: true }, settings, specs).map(({ zones }) => zones),
      [null, null],
    );
  });

  test('include a forgotten project only while it has an unfinished job', () => {
    const over = { ...job, finish: { at: noon, verdict: 'cancelled', reason: 'stopped' } as const, allocations: [] };
    assert.equal(tpuSpecs([job, over], []).length, 2);
    assert.equal(tpuSpecs([job], ['lab']).length, 1);
    assert.equal(tpuSpecs([over], ['lab']).length, 0);
  });

  test('can exclude a project that only finished jobs name', () => {
    const over = { ...job, finish: { at: noon, verdict: 'cancelled', reason: 'stopped' } as const, allocations: [] };
    assert.deepEqual(forgettable([over, over], { project: null }), ['lab']);
    assert.deepEqual(forgettable([over], { project: 'lab' }), []);
    assert.deepEqual(forgettable([over, job], { project: null }), []);
  });

  test('stay known if one project does not answer', () => {
    const miss = (zone: string | null) => ({ project: 'lab', zone, message: 'no', isEmulatorStopped: false });
    const two = { project: 'lab', zones: ['us-west4-a', 'us-east1-d'] };
    assert.equal(hasAnswered({ tpus: [], unchecked: [miss(null)] }, two), false);
    assert.equal(hasAnswered({ tpus: [], unchecked: [miss('us-west4-a')] }, two), true);
    assert.equal(hasAnswered({ tpus: [], unchecked: [miss('us-west4-a'), miss('us-east1-d')] }, two), false);
    assert.equal(hasAnswered({ tpus: [], unchecked: [] }, two), true);
  });

  test('must not be empty', async () => {
    assert.deepEqual(tpuScopes({ zone: 'us-east1-d' }, { project: null, grants: [], forgottenProjects: [] }, []), []);
    const store = {
      list: async () => ({ jobs: [], more: 0 }),
      loadMany: async () => [],
      orphans: async () => [],
    };
    const offline = { ...cloud, list: () => assert.fail('no request is made') };
    await assert.rejects(
      observeTpus(
        {
          store,
          installation: null,
          cloud: offline,
          settings: { project: null, grants: [], forgottenProjects: [] },
          now: () => noon,
        },
        {},
      ),
      (error) => error instanceof JobmanError && error.code === 2,
    );
  });

  test('include the alternatives of a job', () => {
    const other = { ...spec, zone: 'us-east1-d' };
    const [scope] = tpuScopes({}, { project: null, grants: [], forgottenProjects: [] }, [
      { ...spec, alternatives: [other] },
    ]);
    assert.deepEqual(scope?.zones, ['us-east1-d', spec.zone]);
  });
});

test('jobs are read after the query, so that a job created meanwhile claims its TPU', async () => {
  const events: string[] = [];
  const store = {
    list: async () => {
      events.push('list');
      return { jobs: [{ ...job, id: '000001' }], more: 0 };
    },
    loadMany: async (ids: readonly string[]) => {
      events.push(`load ${ids.join()}`);
      return ids.map(() => ({ job, revision: 1, wakeAt: null }));
    },
    orphans: async () => [],
  };
  const partial = {
    ...cloud,
    list: async () => {
      events.push('cloud');
      return { tpus: [seen('vit-000042-1', { label: label() })], unchecked: [] };
    },
  };
  const parts = {
    store,
    installation: 'ours00',
    cloud: partial,
    settings: { project: null, grants: [], forgottenProjects: [] },
    now: () => noon,
  };
  const { rows } = await observeTpus(parts, {});
  assert.deepEqual(events, ['list', 'cloud', 'load 000042']);
  assert.equal(rows[0]?.owner.kind, 'job');
  assert.deepEqual(await claimingJobs(store, [], [], 'ours00'), []);
});

// ------------------------------------------------------------------------------------------ orphans

/** A database with one deleted job that held a TPU in us-west4-a, and a cloud with these TPUs. */
async function openYard(t: TestContext) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { job, revision } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const life = {
    ...withAttempts(aJob(job.spec), [readyAllocation], []),
    id: job.id,
    installation: job.installation,
    removed: true,
  };
  await store.commit({ job: life, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  const [left] = orphansOf(life);
  assert.ok(left);
  await store.recordOrphan(left);

  const { installation } = job;
  const label = { installation, job: job.id, allocation: 1 };
  const ours = {
    accelerator: 'v5litepod-16',
    queuedResourceState: 'ACTIVE',
    resource: left.resource,
    label,
    createdAt: noon,
  };
  const tpu = (different: Partial<ObservedTpu> = {}): ObservedTpu => seen('vit-000001-1', { ...ours, ...different });
  const yard = {
    there: [tpu()] as readonly ObservedTpu[],
    unchecked: [] as readonly UncheckedLocation[],
    asked: [] as string[],
  };
  const parts = {
    store,
    installation: job.installation,
    cloud: {
      async list({ project, zones }: TpuScope) {
        yard.asked.push(`list ${project} ${zones?.join() ?? 'all'}`);
        return { tpus: yard.there, unchecked: yard.unchecked };
      },
      pricePerHour: () => null,
      isSimulated: () => false,
    },
    settings: { project: null, grants: [], forgottenProjects: [] },
    now: () => noon,
  };
  const operations = createOrphanOperations({
    ...parts,
    release({ resource }) {
      yard.asked.push(`release ${resource}`);
      return Promise.resolve({ kind: 'done' });
    },
  });
  return Object.assign(yard, { parts, store, operations, left, label, tpu, life });
}

/** The cloud's names of a job's orphans. */
const leftBy = (job: Job): readonly string[] => orphansOf(job).map(({ resource }) => resource);

test("a local job leaves no orphan; a TPU job leaves one with the cloud's name", () => {
  assert.deepEqual(orphansOf(withAttempts(aJob(localSpec()), [readyAllocation], [])), []);
  assert.deepEqual(leftBy(withAttempts(aJob(), [readyAllocation], [])), [
    'projects/lab/locations/us-west4-a/queuedResources/vit-000042-1',
  ]);
});

test('an orphan of an alternative is in the zone of the alternative', () => {
  const { capacity } = tpuSpec();
  assert.ok(capacity.kind === 'tpu');
  const spec = tpuSpec({}, { alternatives: [{ ...capacity, zone: 'us-east5-b' }] });
  assert.deepEqual(leftBy(withAttempts(aJob(spec), [{ ...readyAllocation, alternative: 1 }], [])), [
    'projects/lab/locations/us-east5-b/queuedResources/vit-000042-1',
  ]);
});

test('an orphan is present (also as a node without its queued resource), gone or unknown', async (t) => {
  const yard = await openYard(t);
  const states = async () =>
    (await yard.operations.observe()).orphans.map(({ presence, message }) => [presence, message]);
  assert.deepEqual(await states(), [['present', 'READY']]);
  const node = 'projects/lab/locations/us-west4-a/nodes/vit';
  yard.there = [yard.tpu({ resource: node, nodeState: 'DELETING', queuedResourceState: null })];
  assert.deepEqual(await states(), [['present', 'DELETING']]);
  yard.there = [];
  assert.deepEqual(await states(), [['gone', 'gone']]);
  yard.unchecked = [{ project: 'lab', zone: 'us-east5-b', message: 'elsewhere', isEmulatorStopped: false }];
  assert.deepEqual(await states(), [['gone', 'gone']], 'another zone that was not asked says nothing of it');
  yard.unchecked = [{ project: 'lab', zone: 'us-west4-a', message: 'code 403.', isEmulatorStopped: false }];
  assert.deepEqual(await states(), [['unknown', 'code 403']]);
  yard.unchecked = [{ project: 'lab', zone: null, message: 'no login', isEmulatorStopped: false }];
  assert.deepEqual(await states(), [['unknown', 'no login']]);
});

test('a TPU with our label that no job claims is an orphan, recorded or not; a job claims its own', async (t) => {
  const yard = await openYard(t);
  const { job, revision } = await yard.store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const alive = { ...withAttempts(aJob(job.spec), [readyAllocation], []), id: job.id, installation: job.installation };
  await yard.store.commit({ job: alive, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  const node = (name: string) => `projects/lab/locations/us-west4-a/nodes/${name}`;
  yard.there = [
    yard.tpu({ name: 'alive', resource: node('alive'), label: { ...yard.label, job: job.id } }),
    yard.tpu({ name: 'late', resource: node('late'), label: { ...yard.label, job: job.id, allocation: 2 } }),
    yard.tpu({ name: 'unheard', resource: node('unheard'), label: { ...yard.label, job: '000077' } }),
  ];
  const { orphans } = await yard.operations.observe();
  assert.deepEqual(
    orphans.map(({ resource, presence }) => [resource, presence]),
    [
      [yard.left.resource, 'gone'],
      [node('late'), 'present'],
      [node('unheard'), 'present'],
    ],
  );
  assert.equal((await yard.store.orphans()).length, 1, 'observing records nothing');

  const release = async (name: string, allocation: number) =>
    (await yard.operations.release({ ...yard.left, resource: node(name), job: job.id, allocation })).kind;
  assert.equal(await release('alive', 1), 'refused', 'whatever a client calls an orphan');
  assert.equal(await release('late', 2), 'done');
});

test('TPUs of other installations or without an owner are not orphans and are listed separately', async (t) => {
  const yard = await openYard(t);
  yard.there = [
    yard.tpu(),
    yard.tpu({ name: 'theirs', label: { ...yard.label, installation: 'theirs' } }),
    yard.tpu({ name: 'nobodys', label: null }),
    yard.tpu({ name: 'graces', label: null, metadataOwner: 'grace' }),
  ];
  const { orphans, others } = await yard.operations.observe();
  assert.deepEqual(
    orphans.map(({ resource }) => resource),
    [yard.left.resource],
  );
  assert.deepEqual(others.map(({ name }) => name).toSorted(), ['nobodys', 'theirs']);
});

test('observing queries each project of jobs and orphans once, and changes nothing', async (t) => {
  const yard = await openYard(t);
  const far = 'projects/lab/locations/us-east5-b/nodes/vit';
  await yard.store.recordOrphan({ ...yard.left, resource: far, allocation: 2 });
  assert.equal((await yard.operations.observe()).orphans.length, 2);
  assert.deepEqual(yard.asked, ['list lab us-east5-b,us-west4-a']);
  assert.equal((await yard.store.orphans()).length, 2);
  await yard.operations.observeAgain([yard.left]);
  assert.deepEqual(yard.asked.slice(1), ['list lab us-west4-a']);
});

test('the list of TPUs has an orphan in a project that only a deleted job names', async (t) => {
  const yard = await openYard(t);
  const { rows, projects } = await observeTpus(yard.parts, {});
  assert.deepEqual([rows.map(({ owner }) => owner.kind), projects], [['orphan'], ['lab']]);
  await observeTpus(yard.parts, { all: true, project: 'lab' });
  assert.deepEqual(yard.asked, ['list lab us-west4-a', 'list lab all']);
  await assert.rejects(observeTpus(yard.parts, { zone: 'us-east5-b' }), /^JobmanError: No project/);
});

test('a release asks the cloud and forgets nothing; only deleted orphans are forgotten', async (t) => {
  const yard = await openYard(t);
  assert.deepEqual(await yard.operations.release(yard.left), { kind: 'done' });
  assert.deepEqual(yard.asked, [`release ${yard.left.resource}`]);
  assert.equal((await yard.store.orphans()).length, 1);
  await yard.operations.forget(yard.left);
  assert.deepEqual(await yard.store.orphans(), []);
});

test('a mistyped project or zone of a query has a suggestion, a known one has none', () => {
  const specs = [tpuCapacity({ project: 'lab', zone: 'us-west4-a' })];
  const settings = { project: 'vision' };
  const suggest = (query: Parameters<typeof suggestScope>[0]) => suggestScope(query, settings, specs);
  assert.equal(suggest({ project: 'visoin' }), '--project vision');
  assert.equal(suggest({ project: 'emulater' }), '--project emulator');
  assert.equal(suggest({ project: 'lab', zone: 'us-est5-b' }), '--zone us-east5-b');
  assert.equal(suggest({ project: 'lab', zone: 'us-west4-a' }), null);
  assert.equal(suggest({ project: 'another-company' }), null);
});
