/** Bookings in the record's own table. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createRecordSheet } from '../../src/lab/bookings.ts';
import { tpuNamed } from '../../src/lab/tpus.ts';
import { openLabRecord } from '../../src/store/lab.ts';
import { openWorld } from '../support/world.ts';

function openBench(t: TestContext) {
  const world = openWorld(t);
  const { record, close } = openLabRecord({ file: join(world.folder, 'state.db') });
  world.atEnd(() => close());
  return { record, sheet: createRecordSheet(record, () => 7) };
}

const name = 'lab-v4-8-1';

test('every TPU of the registry has a row, free until somebody says more', async (t) => {
  const { record, sheet } = openBench(t);
  await record.changeTpu(name, () => ({ ...tpuNamed(name)!, zone: 'us-central2-b' }));
  await record.setTpuAlias('v4-8-1', name);
  const free = {
    tpu: name,
    alias: 'v4-8-1',
    status: { kind: 'free' },
    user: '',
    note: '',
    scriptNote: '',
    belongs: '',
    zone: 'us-central2-b',
  };
  assert.deepEqual(await sheet.read(), { bookings: [free], problems: [] });
  const taken = await sheet.change(name, { status: 'running', user: 'Xibo', note: 'a sweep' });
  assert.deepEqual(taken, { before: free, refused: null });
  const [row] = (await sheet.read()).bookings;
  assert.deepEqual(row, { ...free, status: { kind: 'running' }, user: 'Xibo', note: 'a sweep' });
});

test('what is refused is left as it stands, and what is not named stays', async (t) => {
  const { sheet } = openBench(t);
  await sheet.change(name, { status: 'reserved', user: 'Lyy', note: 'mine' });
  const asked = await sheet.change(name, { status: 'free', user: '' }, ({ user }) => `it is ${user}'s`);
  assert.equal(asked.refused, "it is Lyy's");
  assert.deepEqual([asked.before?.user, asked.before?.status], ['Lyy', { kind: 'reserved' }]);
  await sheet.change(name, { scriptNote: 'preempted' }, () => null);
  const [row] = (await sheet.read()).bookings;
  assert.deepEqual([row?.user, row?.note, row?.scriptNote], ['Lyy', 'mine', 'preempted']);
});

test('of many who change one booking at once none undoes another’s', async (t) => {
  const { sheet } = openBench(t);
  const firsts = await Promise.all(
    ['A', 'B', 'C', 'D'].map((user) =>
      sheet.change(name, { status: 'running', user }, (now) => (now.user === '' ? null : `taken by ${now.user}`)),
    ),
  );
  assert.equal(firsts.filter(({ refused }) => refused === null).length, 1);
});
