// Selection of TPUs for `tpu find`, and bookings in the table of the database.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { type Booking, createLocalSheet } from '../../src/lab/bookings.ts';
import type { BookingCommand } from '../../src/lab/service.ts';
import { findTpus, groupByStatus } from '../../src/lab/find-tpus.ts';
import { type LabTpu, tpuFromName } from '../../src/lab/tpus.ts';
import { openLabStore } from '../../src/store/lab.ts';
import { openWorld } from '../support/world.ts';

const booking = (tpu: string, alias: string, kind: 'free' | 'running' | 'reserved' = 'free'): Booking => ({
  tpu,
  alias,
  status: { kind },
  user: '',
  note: '',
  scriptNote: '',
  owner: '',
  zone: '',
  changedAt: null,
  changedBy: null,
});
const bookings = [
  booking('lab-v2-32-1', 'v2-32-1', 'running'),
  booking('lab-v2-32-preemptible-2', 'v2-32-p2'),
  booking('lab-v3-32-1', 'v3-32-1', 'reserved'),
  booking('lab-v4-8-1', 'v4-8-1'),
  booking('lab-v5litepod-8-1', 'v5e-8-1'),
  booking('lab-v6e-8-spot-1', 'v6e-8-1'),
  // Unregistered rows of a spreadsheet: only the alias is known.
  booking('v4-32-py2', 'v4-32-py2'),
  booking('vault', 'vault'),
];
const registered = {
  tpus: bookings.slice(0, 6).map(({ tpu }) => tpuFromName(tpu) as LabTpu),
  aliases: new Map([
    ['big', 'lab-v4-8-1'],
    ['v4-8-1', 'lab-v4-8-1'],
  ]),
};

const cases: readonly (readonly [types: string, only: 'preemptible' | 'normal' | null, aliases: string])[] = [
  ['', null, 'v2-32-1 v2-32-p2 v3-32-1 v4-8-1 v5e-8-1 v6e-8-1 v4-32-py2 vault'],
  ['v*', null, 'v2-32-1 v2-32-p2 v3-32-1 v4-8-1 v5e-8-1 v6e-8-1 v4-32-py2 vault'],
  ['v2', null, 'v2-32-1 v2-32-p2'],
  ['v2', 'normal', 'v2-32-1'],
  ['v2', 'preemptible', 'v2-32-p2'],
  ['v34', null, 'v3-32-1 v4-8-1 v4-32-py2'],
  ['v34', 'normal', 'v3-32-1 v4-8-1'],
  ['v234', 'preemptible', 'v2-32-p2 v4-32-py2'],
  ['v2-32', null, 'v2-32-1 v2-32-p2'],
  ['v2-32', 'preemptible', 'v2-32-p2'],
  ['v34-32', null, 'v3-32-1 v4-32-py2'],
  ['v*-8', null, 'v4-8-1 v5e-8-1 v6e-8-1'],
  ['v5e', null, 'v5e-8-1'],
  ['v5', null, 'v5e-8-1'],
  ['v5p', null, ''],
  ['v5e-8', null, 'v5e-8-1'],
  ['v5litepod-8', null, 'v5e-8-1'],
  ['v6e', 'preemptible', 'v6e-8-1'],
  ['v4+', null, 'v4-8-1 v5e-8-1 v6e-8-1 v4-32-py2'],
  ['v2 v4-8', null, 'v2-32-1 v2-32-p2 v4-8-1'],
];
for (const [types, only, aliases] of cases) {
  test(`find ${types} ${only ?? ''} is ${aliases === '' ? 'nothing' : aliases}`, () => {
    const found = findTpus(bookings, registered, { types: types.split(' ').filter(Boolean), only });
    assert.equal(found.map((one) => one.booking.alias).join(' '), aliases);
  });
}

test('free TPUs come first, and empty groups are omitted', () => {
  const groups = groupByStatus(findTpus(bookings, registered, { types: ['v23'], only: null }));
  assert.deepEqual(
    groups.map(({ heading, found }) => `${heading} ${found.map((one) => one.booking.alias).join()}`),
    ['Free v2-32-p2', 'Reserved v3-32-1', 'Running v2-32-1'],
  );
});

test('a TPU has all its aliases, the alias of the sheet first', () => {
  const found = findTpus(bookings, registered, { types: ['v4-8', 'v2'], only: 'normal' });
  assert.deepEqual(
    found.map(({ aliases }) => aliases),
    [['v2-32-1'], ['v4-8-1', 'big']],
  );
});

function openBench(t: TestContext) {
  const world = openWorld(t);
  const { store, close } = openLabStore({ file: join(world.folder, 'state.db') });
  world.atEnd(() => close());
  return { store, sheet: createLocalSheet(store, () => 7) };
}

const name = 'lab-v4-8-1';

test('every registered TPU has a row; the default is free', async (t) => {
  const { store, sheet } = openBench(t);
  await store.changeTpu(name, { kind: 'add', tpu: { ...tpuFromName(name)!, zone: 'us-central2-b' } });
  await store.setTpuAlias('v4-8-1', name);
  const free = {
    tpu: name,
    alias: 'v4-8-1',
    status: { kind: 'free' },
    user: '',
    note: '',
    scriptNote: '',
    owner: '',
    zone: 'us-central2-b',
    changedAt: null,
    changedBy: null,
  };
  assert.deepEqual(await sheet.read(), { bookings: [free], problems: [], late: [] });
  const taken = await sheet.change(name, { kind: 'run', user: 'Xibo', seenUser: null, scriptNote: 'a test' });
  assert.deepEqual(taken?.before, { ...free, zone: '' });
  const [row] = (await sheet.read()).bookings;
  assert.deepEqual(row, {
    ...free,
    status: { kind: 'running' },
    user: 'Xibo',
    scriptNote: 'a test',
    changedAt: row?.changedAt,
  });
});

const lyys = { user: 'Lyy', scriptNote: 'mine' };
const commands: readonly (readonly [
  before: 'running' | 'reserved' | 'gone' | 'free',
  BookingCommand,
  after: string,
])[] = [
  ['reserved', { kind: 'run', user: 'Ada', seenUser: 'Lyy' }, 'running Ada mine'],
  ['reserved', { kind: 'run', user: 'Ada', seenUser: null }, 'Lyy has just booked lab-v4-8-1.'],
  ['gone', { kind: 'run', user: 'Ada', seenUser: null, scriptNote: '' }, 'running Ada'],
  ['reserved', { kind: 'begin_attempt', user: 'Lyy' }, 'running Lyy mine'],
  ['running', { kind: 'end_attempt', user: 'Lyy' }, 'reserved Lyy mine'],
  ['running', { kind: 'end_attempt', user: 'Ada' }, 'running Lyy mine'],
  ['free', { kind: 'end_attempt', user: 'Ada' }, 'free'],
  ['running', { kind: 'book', user: 'Lyy', scriptNote: 'x' }, 'running Lyy x'],
  ['running', { kind: 'book', user: 'Ada' }, 'reserved Ada mine'],
  [
    'running',
    { kind: 'release', seen: null },
    'The booking of lab-v4-8-1 has just changed: running for Lyy (mine). Nothing was changed.',
  ],
  ['running', { kind: 'release' }, 'free'],
  ['running', { kind: 'observe', exists: false }, 'gone'],
  ['running', { kind: 'observe', exists: true }, 'running Lyy mine'],
  ['gone', { kind: 'observe', exists: true }, 'free'],
];

test('a command changes the booking as it is now, or refuses', async (t) => {
  const { sheet } = openBench(t);
  for (const [before, command, expected] of commands) {
    await sheet.change(name, { kind: 'release' });
    if (before === 'gone') await sheet.change(name, { kind: 'observe', exists: false });
    else if (before !== 'free') await sheet.change(name, { kind: 'run', ...lyys, seenUser: null });
    if (before === 'reserved') await sheet.change(name, { kind: 'end_attempt', user: 'Lyy' });
    const refused = await sheet.change(name, command).then(
      () => null,
      ({ message }: Error) => message,
    );
    const [row] = (await sheet.read()).bookings;
    const after = row === undefined ? 'free' : [row.status.kind, row.user, row.scriptNote].join(' ').trim();
    assert.equal(refused ?? after, expected, `${before} ${JSON.stringify(command)}`);
  }
});

test('concurrent changes of one booking do not overwrite each other', async (t) => {
  const { sheet } = openBench(t);
  await sheet.change(name, { kind: 'book', user: 'Z' });
  const [seen = null] = (await sheet.read()).bookings;
  const firsts = await Promise.allSettled(
    ['A', 'B', 'C', 'D'].map((user) => sheet.change(name, { kind: 'book', user, seen })),
  );
  assert.equal(firsts.filter(({ status }) => status === 'fulfilled').length, 1);
});
