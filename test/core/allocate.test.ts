// Names of nodes and the pace of requests.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPermanent, nodeName, pace } from '../../src/core/allocate.ts';
import { fraction, minute, second } from '../../src/core/time.ts';
import { local, spec, tpu } from './world.ts';

test('a node is called by the manifest, the job and the allocation', () => {
  assert.equal(nodeName(spec(), '000042', 3), 'iris-000042-3');
});

test('a long name is cut in its first part, so that the number survives', () => {
  const name = nodeName(spec({ capacity: { ...tpu, name: 'a'.repeat(80) } }), '000042', 12);
  assert.equal(name.length, 63);
  assert.ok(name.endsWith('-000042-12'));
});

test('a cut never leaves two dashes', () => {
  const name = nodeName(spec({ capacity: { ...tpu, name: `${'a'.repeat(53)}-bcd` } }), '000042', 1);
  assert.equal(name, `${'a'.repeat(53)}-000042-1`);
});

test('a standing node keeps its own name, whatever the allocation', () => {
  assert.equal(nodeName(spec({ capacity: { ...tpu, ownership: 'standing' } }), '000042', 7), 'iris');
  assert.equal(nodeName(spec({ capacity: local }), '000042', 1), 'this machine');
});

test('permanent errors are those after which asking again is pointless', () => {
  const kinds = [
    'quota',
    'stockout',
    'permission',
    'invalid',
    'rate_limited',
    'not_found',
    'internal',
    'unreachable',
  ] as const;
  assert.deepEqual(kinds.filter(isPermanent), ['permission', 'invalid', 'not_found']);
});

for (const [kind, first, most] of [
  ['stockout', 30 * second, 10 * minute],
  ['quota', minute, 15 * minute],
  ['rate_limited', 2 * second, minute],
  ['internal', 5 * second, 2 * minute],
  ['unreachable', 5 * second, 2 * minute],
] as const) {
  test(`after ${kind} the wait doubles from ${first / second} s to ${most / second} s, spread by a quarter`, () => {
    for (let tries = 1; tries <= 40; tries += 1) {
      const expected = Math.min(most, first * 2 ** (tries - 1));
      const wait = pace(kind, tries, '000001', 1);
      assert.ok(wait >= expected * 0.75 && wait <= expected * 1.25, `${wait} ms after ${tries}`);
    }
  });
}

test('jobs that fail together do not come back together', () => {
  const waits = new Set(
    Array.from({ length: 1000 }, (_, index) => pace('stockout', 1, String(index).padStart(6, '0'), 1)),
  );
  assert.ok(waits.size > 900);
});

test('the hash is even: a thousand similar words fill every tenth', () => {
  const tenths = Array.from({ length: 10 }, () => 0);
  for (let index = 0; index < 1000; index += 1) {
    const place = Math.floor(fraction('job', index) * 10);
    tenths[place] = (tenths[place] ?? 0) + 1;
  }
  assert.ok(
    tenths.every((count) => count > 60 && count < 140),
    tenths.join(' '),
  );
});
