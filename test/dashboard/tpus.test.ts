// The rows of the page of TPUs: filters, counts and order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { knownTpus, nextCheck } from '../../src/app/known-tpus.ts';
import type { TpuRow } from '../../src/app/tpus.ts';
import { hour } from '../../src/core/model/time.ts';
import { inOrderOf, readChoice, selectTpus } from '../../src/dashboard/tpus/select-tpus.ts';
import { now, tpuRow } from '../cli/support/harness.ts';

const foreign = (name: string, changes: Partial<TpuRow> = {}) =>
  tpuRow({ name, owner: { kind: 'none' }, job: null, ...changes });
const rows = [
  foreign('cheap', { idleMs: hour }),
  foreign('dear'),
  foreign('east', { zone: 'us-east5-b', accelerator: 'v4-8', owner: { kind: 'user', name: 'grace' }, idleMs: null }),
  foreign('lost', { owner: { kind: 'orphan', id: '000007' }, job: '000007', idleMs: 2 * hour }),
  foreign('dead', { state: 'PREEMPTED', nodeState: 'PREEMPTED' }),
];
const list = { rows, unchecked: [], anyAnswered: true, forgettable: [], projects: ['lab'], suggestion: null };
const known = knownTpus([], nextCheck({ list: null, at: now, message: null }, list, now));

function select(query: string) {
  const choice = readChoice(new URLSearchParams(query));
  const found = selectTpus(known, choice, (name) => (name === 'dear' ? ['nickname'] : []), now);
  return { names: found.rows.map(({ name }) => name), counts: Object.fromEntries(found.counts) };
}

test('the TPU whose idle time has cost most is first, and an orphan is idle too', () => {
  assert.deepEqual(select(''), {
    names: ['dear', 'lost', 'cheap', 'dead', 'east'],
    counts: { idle: 3, orphan: 1, held: 1, ended: 1 },
  });
});

test('the address selects by zone, type, state and text; the counts ignore the state', () => {
  assert.deepEqual(select('zone=us-east5-b'), { names: ['east'], counts: { held: 1 } });
  assert.deepEqual(select('type=v4-8').names, ['east']);
  assert.deepEqual(select('state=orphan').names, ['lost']);
  assert.deepEqual(select('state=ended').counts, select('').counts);
  assert.deepEqual(select('filter=GRACE east').names, ['east']);
  assert.deepEqual(select('filter=preempted').names, ['dead'], "Google's state");
  assert.deepEqual(select('filter=nickname').names, ['dear'], 'an alias');
  assert.deepEqual(select('state=nonsense').names, select('').names);
});

test('rows keep their order while a person uses the table, and new rows come last', () => {
  const before = known.filter(({ name }) => name !== 'lost').map(({ name }) => `lab/us-west4-a/${name}`);
  const names = inOrderOf(before.toReversed(), known).map(({ name }) => name);
  assert.deepEqual(names, ['dead', 'dear', 'cheap', 'east', 'lost']);
});
