// The length of a worker's silence: as long as closely following observations have failed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSilences, type Silences } from '../../src/controller/observe.ts';
import { known, unknown, type WorkerObservation } from '../../src/core/model/observation.ts';
import { hour, minute, second, type Instant } from '../../src/core/model/time.ts';

const begin: Instant = 1_700_000_000_000;

/** The `since` of a failed observation of that worker that lasted eight seconds until `now`. */
function silent(silences: Silences, now: Instant, worker = 0, began = now - 8 * second): Instant | undefined {
  const fact: WorkerObservation = { allocation: 1, worker, observed: unknown('no answer', now) };
  const heard = silences.withSilence('000001', fact, began, now);
  return heard.observed.kind === 'unknown' ? heard.observed.since : undefined;
}

test('failed observations in a row are one silence, however many there are', () => {
  const silences = createSilences();
  for (let at = 0; at <= 10 * minute; at += 38 * second) assert.equal(silent(silences, begin + at), begin);
});

test('a worker that answered in between starts a new silence, and the others do not', () => {
  const silences = createSilences();
  silent(silences, begin, 0);
  silent(silences, begin, 1);
  const answer = known({ bootId: 'b', proofs: [], runs: [] }, begin + 20 * second);
  const fact: WorkerObservation = { allocation: 1, worker: 0, observed: answer };
  assert.equal(silences.withSilence('000001', fact, begin + 19 * second, begin + 20 * second), fact);
  assert.equal(silent(silences, begin + 40 * second, 0), begin + 40 * second);
  assert.equal(silent(silences, begin + 40 * second, 1), begin);
});

test('time without an observation does not count as silence', () => {
  const silences = createSilences();
  silent(silences, begin);
  assert.equal(silent(silences, begin + hour), begin + hour);
  const inTheMiddle = begin + 2 * hour;
  assert.equal(silent(silences, inTheMiddle, 0, begin + hour + 10 * second), inTheMiddle);
  assert.equal(silent(silences, begin), begin);
});

test('a job without observations is forgotten', () => {
  const silences = createSilences();
  silent(silences, begin);
  silences.forget('000001');
  assert.equal(silent(silences, begin + 20 * second), begin + 20 * second);
});
