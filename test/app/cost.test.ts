// Cost: what a job has spent, from what was ready and for how long.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spentOn } from '../../src/app/cost.ts';
import { hour } from '../../src/core/time.ts';
import { aJob, living, localSpec, noon, ready, tpuSpec } from '../support/builders.ts';

const spec = tpuSpec();
assert.ok(spec.capacity.kind === 'tpu');
const priced = { ...spec, capacity: { ...spec.capacity, pricePerHour: 4 } };
const unpriced = { ...spec, capacity: { ...spec.capacity, pricePerHour: null } };
const readyAtNoon = { ...ready, readyAt: noon };

test('what is held counts until now, what is gone until it was seen gone', () => {
  const held = living(aJob(priced), [readyAtNoon], []);
  assert.equal(spentOn(held, noon + 3 * hour), 12);
  const gone = living(aJob(priced), [{ ...readyAtNoon, releasedAt: noon + hour, goneAt: noon + 2 * hour }], []);
  assert.equal(spentOn(gone, noon + 30 * hour), 8);
});

test('what a forced delete has left behind counts until that word: nobody looks at it for the job any more', () => {
  const left = { ...living(aJob(priced), [readyAtNoon], []), removed: true, desiredAt: noon + hour };
  assert.equal(spentOn(left, noon + 2 * hour), 4);
  assert.equal(spentOn(left, noon + 200 * hour), 4);
});

test('without a price, or where nothing of its own was ready, nobody can tell', () => {
  assert.equal(spentOn(living(aJob(unpriced), [readyAtNoon], []), noon + hour), null);
  assert.equal(spentOn(living(aJob(priced), [{ ...ready, readyAt: null }], []), noon + hour), null);
  assert.equal(spentOn(aJob(localSpec()), noon + hour), null);
});
