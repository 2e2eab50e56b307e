import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRow } from '../../src/app/client.ts';
import { parseTerms } from '../../src/app/filter-terms.ts';
import { day, hour, minute } from '../../src/core/model/time.ts';
import { holdRows, lastVisit, selectRows, type RowChoice } from '../../src/dashboard/jobs/select-rows.ts';
import { jobView } from '../cli/support/harness.ts';

const now = Date.UTC(2026, 10, 20);

function aRow(id: string, own: Partial<JobRow> = {}): JobRow {
  const row = { owner: 'ada', createdAt: now - hour + Number(id), phaseStartedAt: now - minute, ...own };
  return { ...jobView(), id, ...row };
}

const rows = [
  aRow('6', { phase: 'succeeded' }),
  aRow('5', { owner: 'bob' }),
  aRow('4'),
  aRow('3', { phase: 'failed', attention: 'failed' }),
  aRow('2', { attention: 'silent', phase: 'recovering' }),
  aRow('1', { phase: 'cancelled', phaseStartedAt: now - 2 * day }),
];

function select(own: Partial<Omit<RowChoice, 'terms'>> = {}, text = '') {
  const terms = parseTerms(text, now);
  const choice = { terms, owners: ['ada'], all: false, onlyAttention: false, seenAt: now - day, ...own };
  const { rows: found, ...rest } = selectRows(rows, choice, now);
  return { ids: found.map(({ id }) => id), ...rest };
}

test('own jobs come first unfinished, then finished of the last day, and the others are counted', () => {
  const { ids, ofOthers, older, attention, counts } = select();
  assert.deepEqual(ids, ['4', '2', '6', '3']);
  assert.deepEqual([ofOthers, older, attention], [1, 1, 2]);
  assert.deepEqual(Object.fromEntries(counts), { succeeded: 1, running: 1, failed: 1, recovering: 1 });
  assert.deepEqual(select({ owners: null, all: true }).ids, ['5', '4', '2', '6', '3', '1']);
});

test('a stored time of the last visit that no visit has hides no failure', () => {
  for (const at of [now - hour, now + 10 * minute]) assert.equal(lastVisit(String(at), now), at);
  for (const stored of [null, 'x', 'NaN', String(now + 2 * day)])
    assert.equal(lastVisit(stored, now), now - day, stored ?? '');
});

test('a phase filters the rows and not the counts', () => {
  const { ids, counts } = select({}, 'phase:failed');
  assert.deepEqual(ids, ['3']);
  assert.equal(counts.get('running'), 1);
});

test('a failure needs attention until the person has seen it', () => {
  assert.deepEqual(select({ onlyAttention: true }).ids, ['2', '3']);
  assert.deepEqual(select({ onlyAttention: true, seenAt: now }).ids, ['2']);
});

test('held rows keep their order, show their newest contents, and count what waits', () => {
  const before = [aRow('3'), aRow('2'), aRow('1')];
  const finished = aRow('2', { phase: 'succeeded' });
  const current = new Map([aRow('4'), aRow('3'), finished].map((row) => [row.id, row]));
  const held = holdRows(
    before,
    (key) => current.get(key),
    [...current.values()],
    ({ id }) => id,
  );
  assert.deepEqual(
    held.rows.map(({ id, phase, message }) => [id, phase, id === '1' ? message : '']),
    [
      ['3', 'running', ''],
      ['2', 'succeeded', ''],
      ['1', 'running', 'deleted'],
    ],
  );
  assert.equal(held.waiting, 1);
});
