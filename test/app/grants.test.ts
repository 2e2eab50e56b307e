// What needs no question: by zone, type, pricing, day and the chips that this record has already.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Grant } from '../../src/app/grant-parts.ts';
import { beyondGrants, whyBeyond } from '../../src/app/grants.ts';
import type { Job } from '../../src/core/job.ts';
import type { JobSpec, TpuSpec } from '../../src/core/spec.ts';
import { aJob, living, localSpec, noon, ready, tpuSpec } from '../support/builders.ts';

const capacity = tpuSpec().capacity;
assert.ok(capacity.kind === 'tpu');
/** 16 chips: four workers. */
const asked: TpuSpec = {
  ...capacity,
  project: 'lab',
  accelerator: 'v5litepod-16',
  zone: 'us-west4-a',
  pricing: 'spot',
  ownership: 'owned',
};
const jobOf = (different: Partial<TpuSpec>, changes: Partial<Job> = {}): Job =>
  aJob({ ...tpuSpec(), capacity: { ...asked, ...different } }, changes);
const why = (grants: readonly Grant[], different: Partial<TpuSpec> = {}, others: readonly Job[] = []) =>
  whyBeyond(grants, { ...asked, ...different }, others, noon);

suite('within the grants', () => {
  const inside: readonly (readonly [string, readonly Grant[], Partial<TpuSpec>?])[] = [
    ['without any grant nothing is limited', []],
    ['an empty grant limits nothing', [{}]],
    ['by the very type', [{ accelerator: 'v5litepod-16' }]],
    ['by the generation', [{ accelerator: 'v5e' }]],
    ['by a star', [{ accelerator: 'v5litepod-*', zone: 'us-*' }]],
    ['by the second of two', [{ accelerator: 'v4' }, { accelerator: 'v5e' }]],
    ['with as many chips as are granted', [{ chips: 16 }]],
    ['on the last day', [{ until: new Date(noon).toISOString().slice(0, 10) }]],
    ['on the built-in cloud, whatever is granted', [{ accelerator: 'v4' }], { project: 'emulator' }],
    ['with a standing TPU, for which nothing is asked', [{ accelerator: 'v4' }], { ownership: 'standing' }],
  ];
  for (const [name, grants, different] of inside) test(name, () => assert.equal(why(grants, different), null));
});

suite('outside of them', () => {
  const outside: readonly (readonly [string, readonly Grant[], string, Partial<TpuSpec>?])[] = [
    [
      'another type',
      [{ accelerator: 'v4' }],
      'v5litepod-16 spot in us-west4-a is in none of the grants of the settings',
    ],
    [
      'another zone',
      [{ zone: 'us-east5-b' }],
      'v5litepod-16 spot in us-west4-a is in none of the grants of the settings',
    ],
    [
      'a part of a name is not the name',
      [{ zone: 'us-west4' }],
      'v5litepod-16 spot in us-west4-a is in none of the grants of the settings',
    ],
    [
      'another pricing',
      [{ pricing: 'spot' }],
      'v5litepod-16 ondemand in us-west4-a is in none of the grants of the settings',
      { pricing: 'ondemand' },
    ],
    ['too late', [{ until: '2001-02-03' }], 'v5litepod-16 spot in us-west4-a: its grant was until 2001-02-03'],
    ['too large', [{ chips: 8 }], 'v5litepod-16 spot in us-west4-a: it has 16 chips where 8 are granted'],
    [
      'several slices count each',
      [{ chips: 31 }],
      'v5litepod-16 spot in us-west4-a: it has 32 chips where 31 are granted',
      { nodeCount: 2 },
    ],
    [
      'of a type that nobody knows',
      [{ chips: 8 }],
      'v99-8 spot in us-west4-a: nobody here knows how many chips it has, and 8 are granted',
      { accelerator: 'v99-8' },
    ],
  ];
  for (const [name, grants, says, different] of outside) test(name, () => assert.equal(why(grants, different), says));

  test('with one of the places that it may come to', () => {
    const place = { ...asked, zone: 'europe-west4-b', accelerator: 'v5litepod-8' };
    assert.equal(
      why([{ zone: 'us-*' }], { alternatives: [place] }),
      'v5litepod-8 spot in europe-west4-b is in none of the grants of the settings',
    );
    assert.equal(why([{ accelerator: 'v5e' }], { alternatives: [place] }), null);
  });
});

suite('what is held already counts', () => {
  const settled = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;
  const grants = [{ accelerator: 'v5e', chips: 32 }];
  const full =
    'v5litepod-16 spot in us-west4-a: it has 16 chips where 32 are granted, and 32 are taken by 000001, 000002';
  const holding = living(jobOf({}, { id: '000001' }), [ready], []);

  test('what runs, what a stopped job has kept, and what was created a moment ago', () => {
    const kept = { ...living(jobOf({}, { id: '000002' }), [ready], []), settled, desired: 'hold' } as const;
    assert.equal(why(grants, {}, [holding]), null);
    assert.equal(why(grants, {}, [holding, kept]), full);
    assert.equal(why(grants, {}, [holding, jobOf({}, { id: '000002' })]), full);
  });

  test('at the place where it is held, not where it was asked for first', () => {
    const other = { ...asked, accelerator: 'v4-16', zone: 'us-central2-b' };
    const moved = living(jobOf({ alternatives: [other] }, { id: '000002' }), [{ ...ready, place: 1 }], []);
    assert.equal(why(grants, {}, [holding, moved]), null);
  });

  test('and not what is over, pretended, standing or on this machine', () => {
    const others = [
      { ...living(jobOf({}, { id: '000002' }), [{ ...ready, goneAt: noon }], []), settled },
      jobOf({ project: 'emulator' }, { id: '000003' }),
      jobOf({ ownership: 'standing' }, { id: '000004' }),
      aJob(localSpec(), { id: '000005' }),
    ];
    assert.equal(why(grants, {}, [holding, ...others]), null);
  });
});

suite('before something is asked for', () => {
  const spec: JobSpec = { ...tpuSpec(), capacity: asked };
  const parts = (jobs: readonly Job[], price: number | null = 4) => ({
    store: { list: async () => ({ jobs, more: 0 }) },
    now: () => noon,
    grants: async () => [{ accelerator: 'v5e', chips: 16 }],
    pricePerHour: () => price,
  });
  const first = living(jobOf({}, { id: '000001' }), [ready], []);
  const settled = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;

  test('the price is told where it is known', async () => {
    assert.equal(await beyondGrants(parts([]), spec, null), null);
    assert.equal((await beyondGrants(parts([first]), spec, null))?.cost, 'about $4.00/h');
    assert.equal((await beyondGrants(parts([first], null), spec, null))?.cost, null);
  });

  test('without any grant a new job is asked about and may continue; one that is wanted again, or costs nothing, is not', async () => {
    const free = { ...parts([]), grants: async () => [] };
    const question = await beyondGrants(free, spec, null);
    assert.deepEqual(
      [question?.sentence, question?.cost, question?.mayContinue],
      ['The job requests v5litepod-16 spot in us-west4-a', 'about $4.00/h', true],
    );
    const stopped = { ...jobOf({}, { id: '000002' }), settled, desired: 'end' } as const;
    assert.equal(await beyondGrants(free, spec, stopped), null);
    const simulated = { ...spec, capacity: { ...asked, project: 'emulator' } };
    assert.equal(await beyondGrants(free, simulated, null), null);
  });

  test('a job that is wanted again is not in its own way, and what it has kept needs no question', async () => {
    const stopped = { ...jobOf({}, { id: '000002' }), settled, desired: 'end' } as const;
    assert.equal(await beyondGrants(parts([stopped]), spec, stopped), null);
    assert.notEqual(await beyondGrants(parts([first, stopped]), spec, stopped), null);
    const kept = { ...living(jobOf({}, { id: '000002' }), [ready], []), settled, desired: 'hold' } as const;
    assert.equal(await beyondGrants(parts([first, kept]), spec, kept), null);
    const under = jobOf({}, { id: '000002' });
    assert.equal(await beyondGrants(parts([first, under]), spec, under), null);
  });
});
