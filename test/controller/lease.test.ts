import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLease, sharedLease } from '../../src/controller/lease.ts';
import { hour } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { noon } from '../support/builders.ts';

test('a lease that cannot be renewed ends in time, although the clock was set back or the machine slept', async (t) => {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  const time = { wall: noon, monotonic: 0 };
  const lease = createLease({
    store,
    clock: { now: () => time.wall, at: () => () => undefined },
    monotonicNow: () => time.monotonic,
    log: { info: () => undefined, warn: () => undefined },
    holder: 'one',
    version: '1',
    holdsLock: false,
    leaseTimes: sharedLease,
  });
  const pass = (wall: number, monotonic: number): boolean => {
    time.wall += wall;
    time.monotonic += monotonic;
    return lease.isHeld;
  };
  const { ttl } = sharedLease;
  assert.ok(await lease.renew());
  assert.equal(pass(ttl - 1, ttl - 1), true);
  assert.equal(pass(-hour, 1), false, 'the clock was set back');
  assert.ok(await lease.renew());
  assert.equal(pass(ttl, 1), false, 'the machine slept');
});
