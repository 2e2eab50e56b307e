/** Which TPUs the words of `tpu find` mean. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findTpus, groupsOf } from '../../src/lab/find.ts';
import { type LabTpu, tpuNamed } from '../../src/lab/tpus.ts';
import { type Booking } from '../../src/lab/bookings.ts';

const booking = (tpu: string, alias: string, kind: 'free' | 'running' | 'reserved' = 'free'): Booking => ({
  tpu,
  alias,
  status: { kind },
  user: '',
  note: '',
  scriptNote: '',
  belongs: '',
  zone: '',
});
const bookings = [
  booking('lab-v2-32-1', 'v2-32-1', 'running'),
  booking('lab-v2-32-preemptible-2', 'v2-32-p2'),
  booking('lab-v3-32-1', 'v3-32-1', 'reserved'),
  booking('lab-v4-8-1', 'v4-8-1'),
  booking('lab-v5litepod-8-1', 'v5e-8-1'),
  booking('lab-v6e-8-spot-1', 'v6e-8-1'),
  // Rows of a spreadsheet that nobody has registered: the alias is all that is known.
  booking('v4-32-py2', 'v4-32-py2'),
  booking('vault', 'vault'),
];
const registered = {
  tpus: bookings.slice(0, 6).map(({ tpu }) => tpuNamed(tpu) as LabTpu),
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

test('what is free comes first, and groups without a row are left out', () => {
  const groups = groupsOf(findTpus(bookings, registered, { types: ['v23'], only: null }));
  assert.deepEqual(
    groups.map(({ heading, found }) => `${heading} ${found.map((one) => one.booking.alias).join()}`),
    ['Free v2-32-p2', 'Reserved v3-32-1', 'Running v2-32-1'],
  );
});

test('a TPU has every alias of the registry, the word of the sheet first', () => {
  const found = findTpus(bookings, registered, { types: ['v4-8', 'v2'], only: 'normal' });
  assert.deepEqual(
    found.map(({ aliases }) => aliases),
    [['v2-32-1'], ['v4-8-1', 'big']],
  );
});
