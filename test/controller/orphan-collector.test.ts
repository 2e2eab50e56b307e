// Orphan collection: resources that no job claims any more are released, location by location, and nothing else is
// touched.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AllocationRef, Backend, CapacityPort, Store, Orphan } from '../../src/app/ports.ts';
import { createOrphanCollector } from '../../src/controller/orphan-collector.ts';
import { capacityOf, type Job } from '../../src/core/model/job.ts';
import type { TpuSpec } from '../../src/core/model/spec.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import { hour, minute, type Instant } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { aJob, withAttempts, noon, readyAllocation, tpuSpec } from '../support/builders.ts';

/** A cloud of several zones with their resources; a zone may not answer. */
interface Cloud {
  readonly capacity: CapacityPort;
  readonly silent: Set<string>;
  readonly broken: Set<string>;
  readonly there: Map<string, Orphan>;
  /** The zones of each request. */
  readonly asked: string[][];
}

function zoneOf({ job, allocation }: AllocationRef): string {
  const capacity = capacityOf(job, allocation);
  return capacity.kind === 'tpu' ? capacity.zone : '';
}

function createCloud(): Cloud {
  const silent = new Set<string>();
  const broken = new Set<string>();
  const there = new Map<string, Orphan>();
  const asked: string[][] = [];
  const none = (): never => assert.fail('the collection requests nothing else');
  const capacity: CapacityPort = {
    backend: 'tpu',
    observe: none,
    request: none,
    release: none,
    pricePerHour: none,
    async listLabelled(refs) {
      const zones = [...new Set(refs.map(zoneOf))];
      asked.push(zones);
      if (zones.some((zone) => broken.has(zone))) throw new Error('a bug of our own');
      if (zones.some((zone) => silent.has(zone))) return unknown('the project has been deleted', noon);
      return known(
        [...there.values()].filter(({ resource }) => zones.some((zone) => resource.includes(zone))),
        noon,
      );
    },
    async releaseOrphan({ resource }) {
      there.delete(resource);
      return { kind: 'done' };
    },
  };
  return { capacity, silent, broken, there, asked };
}

/** A finished job in that zone, whose only allocation was observed as deleted. */
async function endedJob(store: Store, zone: string, goneAt: Instant | null = noon): Promise<Job> {
  const base = tpuSpec();
  const spec = base.capacity.kind === 'tpu' ? { ...base, capacity: { ...base.capacity, zone } } : base;
  const { job, revision } = await store.insert({ owner: 'ada', spec, manifest: '', at: noon });
  const lived = withAttempts(
    { ...aJob(spec), id: job.id, installation: job.installation },
    [{ ...readyAllocation, goneAt }],
    [],
  );
  const over: Job = { ...lived, finish: { at: noon, verdict: 'succeeded', reason: 'succeeded' } };
  await store.commit({ job: over, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  return over;
}

function late(job: Job, zone: string): Orphan {
  const resource = `projects/lab/locations/${zone}/nodes/vit-${job.id}-1`;
  return { backend: 'tpu', resource, installation: job.installation, job: job.id, allocation: 1, state: 'READY' };
}

async function open(t: TestContext) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const cloud = createCloud();
  const backend: Backend = { capacity: cloud.capacity, machines: {} as Backend['machines'] };
  const lines: string[] = [];
  const clock = { now: noon, mayAct: true };
  const collector = createOrphanCollector({
    store,
    backendOf: () => backend,
    clock: { now: () => clock.now, at: () => () => undefined },
    mayAct: () => clock.mayAct,
    report: (line) => void lines.push(line),
    epoch: () => null,
  });
  return { store, cloud, collector, lines, clock };
}

test('a zone that does not answer, or whose answer is unreadable, hides nothing in the others', async (t) => {
  const { store, cloud, collector } = await open(t);
  for (const zone of ['dead-a', 'odd-a', 'good-a', 'good-b']) {
    const orphan = late(await endedJob(store, zone), zone);
    cloud.there.set(orphan.resource, orphan);
  }
  cloud.silent.add('dead-a');
  cloud.broken.add('odd-a');
  await collector.collect();
  assert.deepEqual(
    [...cloud.there.keys()].map((resource) => resource.split('/')[3]),
    ['dead-a', 'odd-a'],
  );
  cloud.silent.clear();
  cloud.broken.clear();
  await collector.collect();
  assert.equal(cloud.there.size, 0);
});

test('before the controller exits, it repeats a collection that was not allowed to release an orphan', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  const job = await endedJob(store, 'us-central2-b');
  const orphan = late(job, 'us-central2-b');
  cloud.there.set(orphan.resource, orphan);
  // Without its lease, as on a full disk, at a time when no late message can arrive any more.
  clock.mayAct = false;
  clock.now = noon + 5 * minute + 10_000;
  await collector.collect();
  assert.equal(collector.expectsLateRequests, true);
  // The disk may be full for any time.
  while (clock.now < noon + hour) {
    assert.ok(collector.dueAt <= clock.now + minute);
    clock.now = collector.dueAt;
    await collector.collect();
    assert.equal(collector.expectsLateRequests, true);
  }
  clock.mayAct = true;
  clock.now = collector.dueAt;
  await collector.collect();
  assert.equal(cloud.there.size, 0);
});

test('after a jump of the clock, an incomplete collection is repeated a few times before the controller exits', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  await endedJob(store, 'us-central2-b');
  await collector.collect();
  cloud.silent.add('us-central2-b');
  clock.now += 24 * hour;
  let tries = 0;
  for (; collector.expectsLateRequests && tries < 10; tries += 1) {
    await collector.collect();
    clock.now = collector.dueAt;
  }
  assert.equal(tries, 5);
});

test('all jobs of one location share one request', async (t) => {
  const { store, cloud, collector } = await open(t);
  for (const zone of ['good-a', 'good-b', 'good-a', 'good-a']) await endedJob(store, zone);
  await collector.collect();
  assert.deepEqual(cloud.asked.flat().toSorted(), ['good-a', 'good-b']);
});

test('orphan collection checks a zone for a week after its last job, and longer if a TPU there was never observed as deleted', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  await endedJob(store, 'unsure-a', null);
  await endedJob(store, 'early-a');
  for (let count = 0; count < 250; count += 1) await endedJob(store, 'busy-a');
  await collector.collect();
  assert.deepEqual(cloud.asked.flat().toSorted(), ['busy-a', 'early-a', 'unsure-a']);
  cloud.asked.length = 0;
  clock.now = noon + 8 * 24 * hour;
  await collector.collect();
  assert.deepEqual(cloud.asked.flat(), ['unsure-a']);
});

test('the usage ledger has the time in which an orphan is ready', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  const charged = async () =>
    (await store.usage({})).flatMap(({ use, from, until }) =>
      use === 'idle' ? [[from - noon, until && until - noon]] : [],
    );
  const job = await endedJob(store, 'good-a');
  const orphan = { ...late(job, 'good-a'), slices: ['ready'] as const };
  cloud.there.set(orphan.resource, orphan);
  clock.now = noon + 10 * minute;
  await collector.collect();
  assert.deepEqual(await charged(), [[10 * minute, null]]);
  clock.now = noon + 11 * minute;
  await collector.collect();
  assert.deepEqual(await charged(), [[10 * minute, null]], 'one list may be partial');
  clock.now = noon + 12 * minute;
  await collector.collect();
  assert.deepEqual(await charged(), [[10 * minute, 11 * minute]]);
  clock.now = noon + 13 * minute;
  await collector.collect();
  assert.deepEqual(await charged(), [[10 * minute, 11 * minute]]);
});

test('a TPU that appears in an alternative that its job has left is in the ledger with the price of that alternative', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  const other = { runtimeVersion: 'v2', accelerator: 'v5litepod-16' } as const;
  const spec = tpuSpec(
    {},
    {
      zone: 'good-a',
      pricePerHourUsd: 4,
      alternatives: [
        { ...other, zone: 'good-a', pricing: 'ondemand', pricePerHourUsd: 12 },
        { ...other, zone: 'good-b', pricing: 'spot', pricePerHourUsd: 5 },
        { ...other, zone: 'good-c', pricing: 'ondemand', pricePerHourUsd: 7 },
      ],
    },
  );
  const { job, revision } = await store.insert({ owner: 'ada', spec, manifest: '', at: noon });
  // The requests in good-a and good-c were refused, so the same allocation was requested in good-b.
  const tried = [0, 1, 3].map((alternative) => ({
    alternative,
    failedRequests: 1,
    answer: 'stockout' as const,
    at: noon,
  }));
  const moved = withAttempts(
    { ...aJob(spec), id: job.id, installation: job.installation },
    [{ alternative: 2 }],
    [{ alternativesTried: tried }],
  );
  await store.commit({ job: moved, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  const charged = async () =>
    (await store.usage({})).flatMap(({ location, use, from, until, pricePerHourUsd }) =>
      use === 'waiting' ? [] : [[location, use, from - noon, until && until - noon, pricePerHourUsd]],
    );
  const shown = { slices: ['ready'], accelerator: 'v5litepod-16', pricing: 'ondemand' } as const;
  for (const zone of ['good-a', 'good-c']) {
    const orphan = { ...late(moved, zone), ...shown };
    cloud.there.set(orphan.resource, orphan);
  }
  clock.now = noon + 10 * minute;
  await collector.collect();
  assert.equal(cloud.there.size, 0, 'it is released');
  // The two locations are collected in parallel, and both change the job.
  assert.deepEqual(await charged(), [
    ['good-a', 'idle', 10 * minute, null, 12],
    ['good-c', 'idle', 10 * minute, null, 7],
  ]);
  for (const minutes of [11, 12]) {
    clock.now = noon + minutes * minute;
    await collector.collect();
  }
  assert.deepEqual(await charged(), [
    ['good-a', 'idle', 10 * minute, 11 * minute, 12],
    ['good-c', 'idle', 10 * minute, 11 * minute, 7],
  ]);
});

test('a late TPU in the zone of the current alternative has its own price, and is released', async (t) => {
  const { store, cloud, collector } = await open(t);
  const other = { runtimeVersion: 'v2', accelerator: 'v5litepod-8', pricing: 'spot', pricePerHourUsd: 2 } as const;
  const spec = tpuSpec({}, { zone: 'good-a', pricePerHourUsd: 4, alternatives: [{ ...other, zone: 'good-a' }] });
  const { job, revision } = await store.insert({ owner: 'ada', spec, manifest: '', at: noon });
  const waiting = withAttempts({ ...aJob(spec), id: job.id, installation: job.installation }, [{}], [{}]);
  await store.commit({ job: waiting, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  // Writes the usage of all jobs.
  await store.takeLease('controller', '1.0.0', noon, minute, false);
  assert.equal((await store.usage({})).at(-1)?.use, 'waiting');
  await collector.collect();
  assert.equal(collector.expectsLateRequests, false, 'a TPU that is still awaited is not missing');
  const { accelerator, pricing } = capacityOf(waiting, undefined) as TpuSpec;
  const own = { ...late(waiting, 'good-a'), slices: ['ready'], accelerator, pricing } as const;
  cloud.there.set(own.resource, own);
  await collector.collect();
  assert.equal(cloud.there.size, 1, 'the pass of the job adopts it');
  cloud.there.set(own.resource, { ...own, accelerator: other.accelerator });
  await collector.collect();
  assert.equal(cloud.there.size, 0);
  assert.deepEqual(
    (await store.usage({})).flatMap(({ use, accelerator: type, pricePerHourUsd }) =>
      use === 'waiting' ? [] : [[use, type, pricePerHourUsd]],
    ),
    [['idle', 'v5litepod-8', 2]],
  );
});

test('the TPU of a job that was removed by force is in the ledger until two collections have missed it', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  const { id } = await endedJob(store, 'good-a', null);
  const stored = await store.load(id);
  assert.ok(stored !== undefined);
  const removed: Job = { ...stored.job, desired: 'deleted', desiredAt: noon + minute, removed: true };
  await store.commit({ ...stored, job: removed, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  // Writes the usage of all jobs.
  await store.takeLease('controller', '1.0.0', noon, minute, false);
  const orphan = { ...late(removed, 'good-a'), slices: ['ready'] as const };
  cloud.there.set(orphan.resource, orphan);
  const last = async () => (await store.usage({})).at(-1);
  clock.now = noon + 10 * minute;
  await collector.collect();
  assert.equal(cloud.there.size, 1, 'only `gc` releases it');
  assert.deepEqual([(await last())?.use, (await last())?.until], ['idle', null]);
  assert.equal(collector.expectsLateRequests, false);
  cloud.there.clear();
  clock.now = noon + 20 * minute;
  await collector.collect();
  // Otherwise the controller could exit before the second collection, and the TPU would be charged until the next one.
  assert.equal(collector.expectsLateRequests, true);
  assert.ok(collector.dueAt <= clock.now + minute);
  clock.now = collector.dueAt;
  await collector.collect();
  assert.deepEqual([(await last())?.use, (await last())?.until], ['idle', noon + 20 * minute]);
  assert.equal(collector.expectsLateRequests, false);
});

test('the usage of a job that observes its own TPU is not changed by orphan collection', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  const job = await endedJob(store, 'good-a', null);
  cloud.there.set('a', { ...late(job, 'good-a'), slices: ['other'] });
  clock.now = noon + 10 * minute;
  await collector.collect();
  assert.deepEqual((await store.load(job.id))?.job.allocations, job.allocations);
});

test('an orphan is forgotten after two collections without it; a location without an answer does not count', async (t) => {
  const { store, cloud, collector, clock } = await open(t);
  await endedJob(store, 'good-a');
  await endedJob(store, 'dead-a');
  const there = { ...late(await endedJob(store, 'good-a'), 'good-a'), job: '999999', resource: orphanIn('good-a', 1) };
  const gone = { ...there, job: '999998', resource: orphanIn('good-a', 2) };
  const unseen = { ...there, job: '999997', resource: orphanIn('dead-a', 3) };
  cloud.there.set(there.resource, there);
  cloud.silent.add('dead-a');
  for (const orphan of [there, gone, unseen]) await store.recordOrphan(orphan);
  await collector.collect();
  assert.equal((await store.orphans()).length, 3, 'one list may be partial');
  clock.now += 5 * minute;
  await collector.collect();
  const left = (await store.orphans()).map(({ resource }) => resource);
  assert.deepEqual(left.toSorted(), [there.resource, unseen.resource].toSorted());
});

function orphanIn(zone: string, number: number): string {
  return `projects/lab/locations/${zone}/nodes/somebody-${number}`;
}
