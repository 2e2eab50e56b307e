// What a job's history says about places, and what the next job hears of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answersIn, saidToOthers } from '../../src/core/alternatives.ts';
import type { PlaceAnswered } from '../../src/core/alternatives.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { World, freshJob, spec, t0, tpu, tpuOfPlaces } from './world.ts';

test('a refusal and a gift are told with the place, the moment and the wait', () => {
  const world = new World(spec({ steps: [] }));
  const told: PlaceAnswered[] = [];
  world.onPass = (_before, _observation, { job, events }) => void told.push(...answersIn(job, events));
  world.refusal = {
    kind: 'failed',
    evidence: { detail: 'no' },
    error: { kind: 'stockout', message: 'no', raw: '' },
  };
  world.settleNow();
  world.refusal = null;
  world.live(() => told.length > 1, hour);
  const { project, zone, accelerator, pricing } = tpu;
  assert.deepEqual(
    told.map((one) => ({ ...one, waited: 0, at: 0 })),
    ['stockout', 'ready'].map((answer) => ({
      project,
      zone,
      accelerator,
      pricing,
      answer,
      job: '000001',
      waited: 0,
      at: 0,
    })),
  );
  assert.ok((told[1]?.waited ?? 0) >= 22 * second, 'from the first request on');
});

test('a standing TPU that is made again and refused is an answer of its place, and that it is ready is none', () => {
  const told: string[] = [];
  for (const state of ['refused', 'ready']) {
    const world = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'standing' } }));
    world.settleNow();
    const error = { kind: 'stockout', message: 'no', raw: '' } as const;
    const at = { at: world.now, allocation: 1 };
    const event =
      state === 'refused'
        ? { kind: 'allocation_refused' as const, error, ...at }
        : { kind: 'allocation_seen' as const, state: 'ready' as const, detail: '', ...at };
    told.push(...answersIn(world.job, [event]).map(({ answer }) => answer));
  }
  assert.deepEqual(told, ['stockout']);
});

test('trouble with the API, and capacity that is nobody’s to ask for, say nothing about a place', () => {
  const failed = new World(spec({ steps: [] }));
  const told: PlaceAnswered[] = [];
  failed.onPass = (_before, _observation, { job, events }) => void told.push(...answersIn(job, events));
  failed.refusal = { kind: 'failed', evidence: { detail: 'no' }, error: { kind: 'internal', message: 'no', raw: '' } };
  failed.live(() => failed.job.allocations[0]?.requestFailures === 3, hour);
  const standing = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'standing' } }));
  standing.onPass = failed.onPass;
  standing.settleNow();
  assert.deepEqual(told, []);
});

test('another job hears the newest answer of each of its places, and nothing of its own', () => {
  const { job } = freshJob(spec({ capacity: tpuOfPlaces }));
  const own = { project: tpu.project, zone: tpu.zone, accelerator: tpu.accelerator, pricing: tpu.pricing };
  const at = (answer: PlaceAnswered['answer'], ago: number, by: string, place = own): PlaceAnswered => ({
    ...place,
    answer,
    at: t0 - ago,
    waited: 0,
    job: by,
  });
  const answers = [
    at('stockout', minute, '000007'),
    at('ready', hour, '000007'),
    at('quota', second, '000001'),
    at('stockout', second, '000007', { ...own, zone: 'us-east5-b' }),
    at('ready', second, '000009', { ...own, pricing: 'ondemand' }),
  ];
  assert.deepEqual(saidToOthers(job, answers), [
    { place: 0, answer: 'stockout', at: t0 - minute },
    { place: 2, answer: 'ready', at: t0 - second },
  ]);
});
