// The rows of `zones`: last answer, last grant, holders and waiting jobs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zonesOf } from '../../src/app/zones.ts';
import type { Event } from '../../src/core/model/event.ts';
import { withLifecycle } from '../../src/core/model/job.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { withAttempts, noon, tpuSpec } from '../support/builders.ts';

const elsewhere = {
  zone: 'us-east5-b',
  accelerator: 'v6e-16',
  pricing: 'ondemand' as const,
  runtimeVersion: 'v2-alpha-tpuv6e',
  pricePerHourUsd: 43,
};

test('answers of locations are stored with the commits of jobs, and shown with the holders', async (t) => {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const spec = tpuSpec({}, { alternatives: [elsewhere] });
  const { job: fresh, revision } = await store.insert({ owner: 'ada', spec, manifest: '', at: noon });
  const job = {
    ...withAttempts(
      fresh,
      [{ superseded: { at: noon + minute, answer: 'stockout' }, goneAt: noon + minute }, { alternative: 1 }],
      [{ allocation: 2 }],
    ),
    spec,
  };
  const ready = {
    ...job,
    allocations: job.allocations.map((one) =>
      one.ordinal === 2 ? withLifecycle({ ...one, readyAt: noon + 41 * minute }) : one,
    ),
  };
  const events: readonly Event[] = [
    { kind: 'alternative_exhausted', at: noon + minute, allocation: 1, alternative: 0, answer: 'stockout', next: 1 },
    { kind: 'allocation_seen', at: noon + 41 * minute, allocation: 2, state: 'ready', message: 'READY', workers: 4 },
  ];
  const commit = { job: ready, revision, events, foldedOutcomes: [], wakeAt: null, epoch: null };
  assert.equal(await store.commit(commit), 'committed');

  const rows = await zonesOf(store, {}, noon + hour);
  assert.deepEqual(rows, [
    {
      project: 'lab',
      zone: 'us-east5-b',
      accelerator: 'v6e-16',
      pricing: 'ondemand',
      lastAnswer: { answer: 'ready', answeredAt: noon + 41 * minute, job: fresh.id },
      lastGrant: { grantedAt: noon + 41 * minute, waitedMs: 41 * minute },
      heldBy: [fresh.id],
      awaitedBy: [],
      simulated: false,
    },
    {
      project: 'lab',
      zone: 'us-west4-a',
      accelerator: 'v5litepod-16',
      pricing: 'spot',
      lastAnswer: { answer: 'stockout', answeredAt: noon + minute, job: fresh.id },
      lastGrant: null,
      heldBy: [],
      awaitedBy: [],
      simulated: false,
    },
  ]);
  assert.deepEqual(
    (await zonesOf(store, { accelerator: 'v6e' }, noon + hour)).map(({ zone }) => zone),
    ['us-east5-b'],
  );
  assert.deepEqual(
    (await zonesOf(store, { accelerator: 'v5litepod-16' }, noon + hour)).map(({ zone }) => zone),
    ['us-west4-a'],
  );
  assert.deepEqual(await zonesOf(store, { project: 'other' }, noon + hour), []);

  // Orphan collection covers every requested location once.
  const { refs } = await store.locationsToCollect(noon + 42 * minute);
  assert.deepEqual(
    refs.map(({ allocation }) => allocation.ordinal).toSorted((one, other) => one - other),
    [1, 2],
  );

  // An older answer does not replace a newer one.
  const old: Event = {
    kind: 'alternative_exhausted',
    at: noon,
    allocation: 1,
    alternative: 0,
    answer: 'stockout',
    next: 1,
  };
  await store.commit({ ...commit, revision: revision + 1, events: [old] });
  assert.equal((await zonesOf(store, { accelerator: 'v5e' }, noon + hour))[0]?.lastAnswer?.answeredAt, noon + minute);
});

test('a queue that keeps a job waiting has no capacity, also after an earlier grant', async (t) => {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const { job: fresh, revision } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
  const waiting = { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + minute } as const;
  const job = { ...withAttempts(fresh, [{ confirmedAt: noon, lastObserved: waiting }], [{}]), spec: fresh.spec };
  await store.commit({ job, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  const last = async (now: number) => (await zonesOf(store, {}, now))[0]?.lastAnswer ?? null;
  assert.equal(await last(noon + minute + 5 * second), null, 'a queue takes some seconds to pass a request on');
  assert.deepEqual(await last(noon + 2 * minute), { answer: 'stockout', answeredAt: noon + minute, job: fresh.id });
});
