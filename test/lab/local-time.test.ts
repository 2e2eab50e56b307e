/** What clocks of a zone show: the two that are reckoned agree with those of the time zone database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { localTimes } from '../../src/lab/local-time.ts';

test('us and cn, which are reckoned, are what the database says of their zones', () => {
  // In these names the sign is turned round: https://data.iana.org/time-zones/tzdb/etcetera
  const zones = fc.constantFrom(['us', 'Etc/GMT+4'] as const, ['cn', 'Etc/GMT-8'] as const);
  const moments = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2060, 0) });
  fc.assert(
    fc.property(zones, moments, ([zone, name], at) => assert.deepEqual(localTimes(zone)(at), localTimes(name)(at))),
  );
});

test('a named zone has its summer time', () => {
  const berlin = localTimes('Europe/Berlin');
  assert.deepEqual(berlin(Date.UTC(2026, 0, 31, 23, 30, 5)), { year: 2026, month: 'Feb', day: 1, time: '00:30:05' });
  assert.deepEqual(berlin(Date.UTC(2026, 8, 1, 10)), { year: 2026, month: 'Sep', day: 1, time: '12:00:00' });
});
