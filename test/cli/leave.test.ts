import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callAfter } from '../../src/cli/leave.ts';

test('a time that is longer than a timer of Node takes is waited for whole', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const day = 86_400_000;
  let calls = 0;
  callAfter(60 * day, () => (calls += 1));
  t.mock.timers.tick(1);
  assert.equal(calls, 0);
  const rest = 60 * day - 2 * (2 ** 31 - 1);
  for (const part of [2 ** 31 - 2, 2 ** 31 - 1, rest - 1]) {
    t.mock.timers.tick(part);
    assert.equal(calls, 0);
  }
  t.mock.timers.tick(1);
  assert.equal(calls, 1);
  const callOff = callAfter(40 * day, () => (calls += 1));
  t.mock.timers.tick(30 * day);
  callOff();
  t.mock.timers.tick(30 * day);
  callAfter(undefined, () => (calls += 1))();
  assert.equal(calls, 1);
});
