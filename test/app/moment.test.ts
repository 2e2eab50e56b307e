// The moments of `--json` are written by hand, for speed; they must be what a Date writes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { moment } from '../../src/app/moment.ts';

test('every moment is written as a Date writes it, whichever was written before', () => {
  const day = 86_400_000;
  const edges = [0, 1, 999, day - 1, day, Date.UTC(2000, 1, 29), Date.UTC(1999, 11, 31, 23, 59, 59, 999), -1];
  for (const at of [...edges, ...edges.toReversed()]) assert.equal(moment(at), new Date(at).toISOString());
  fc.assert(
    fc.property(fc.integer({ min: -4e12, max: 8e12 }), (at) => {
      assert.equal(moment(at), new Date(at).toISOString());
    }),
  );
  assert.equal(moment(null), null);
});
