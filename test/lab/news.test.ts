// News: a group for each job, newest last; consecutive refusals on one line; times in the zone of the reader.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { test } from 'node:test';
import { hour, minute } from '../../src/core/model/time.ts';
import { localTimeConverter } from '../../src/lab/local-time.ts';
import { newsTimeFormatter, type NewsEvent, groupNews } from '../../src/lab/news.ts';
import { aLabJob, aWindow, noon } from '../support/lab-builders.ts';

const one = '000001';
const other = '000002';
const labJobs = [aLabJob(one, 'xibo', { baseStage: 1 }), aLabJob(other, 'xibo')];

function newsOf(events: readonly (readonly [string, NewsEvent['event']])[]) {
  return groupNews(
    events.map(([job, event], index) => ({ number: index + 1, job, event })),
    labJobs,
    labJobs.slice(0, 1).map((job) => ({ job, window: aWindow(job, { window: 4 }) })),
  ).map(({ job, lines }) => [job.job, ...lines.map(({ message }) => message)]);
}

const refused = (at: number): NewsEvent['event'] => ({
  kind: 'allocation_refused',
  at,
  allocation: 2,
  error: { kind: 'stockout', message: 'There is no more capacity.', raw: '' },
});

test('events are grouped by job, the job with the newest event last', () => {
  const evidence = { message: 'the cloud took it (PREEMPTED)' };
  assert.deepEqual(
    newsOf([
      [one, { kind: 'created', at: noon, by: 'xibo' }],
      [other, { kind: 'created', at: noon, by: 'lyy' }],
      [other, { kind: 'finished', at: noon, verdict: 'succeeded', reason: 'succeeded' }],
      [one, { kind: 'attempt_started', at: noon, attempt: 1, workers: ['controller'] }],
      [one, { kind: 'attempt_ending', at: noon, attempt: 1, reason: 'preempted', evidence }],
      [one, { kind: 'allocation_released', at: noon, allocation: 1, message: 'the TPU was preempted' }],
      [one, refused(noon)],
      [one, refused(noon + hour)],
      [one, refused(noon + 2 * hour)],
      [
        one,
        {
          kind: 'attempt_created',
          at: noon,
          attempt: 2,
          stage: 1,
          startMode: 'resume',
          startedByOwner: false,
          allocation: 2,
          notBeforeAt: noon,
        },
      ],
      [one, { kind: 'command_received', at: noon, verb: 'cancel', by: 'lyy', desired: 'cancelled' }],
      [one, { kind: 'finished', at: noon, verdict: 'cancelled', reason: 'stopped' }],
      ['000099', { kind: 'removed', at: noon }],
    ]),
    [
      [other, 'created by lyy', 'succeeded'],
      [
        one,
        'created',
        'script started in window 4',
        'preempted: the cloud took it (PREEMPTED)',
        'creating the TPU again: the TPU was preempted',
        'request for the TPU refused, 3 times in 2h00m: There is no more capacity',
        'resumes from its last checkpoint, stage 2',
        'cancel by lyy',
        'killed',
      ],
    ],
  );
});

test('times are in the zone of the reader', () => {
  assert.equal(newsTimeFormatter('us', noon)(noon), '20 Nov 08:00');
  assert.equal(
    newsTimeFormatter('us', noon + 366 * 24 * hour)(noon),
    '20 Nov 2026 08:00',
    'with the year if it is another',
  );
  assert.equal(newsTimeFormatter('cn', noon)(noon + 5 * hour + minute), '21 Nov 01:01');
});

test('us and cn equal the zones of the time zone database', () => {
  // The sign in these names is inverted: https://data.iana.org/time-zones/tzdb/etcetera
  const zones = fc.constantFrom(['us', 'Etc/GMT+4'] as const, ['cn', 'Etc/GMT-8'] as const);
  const times = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2060, 0) });
  fc.assert(
    fc.property(zones, times, ([zone, name], at) =>
      assert.deepEqual(localTimeConverter(zone)(at), localTimeConverter(name)(at)),
    ),
  );
});

test('a named zone has daylight saving time', () => {
  const berlin = localTimeConverter('Europe/Berlin');
  assert.deepEqual(berlin(Date.UTC(2026, 0, 31, 23, 30, 5)), { year: 2026, month: 'Feb', day: 1, time: '00:30:05' });
  assert.deepEqual(berlin(Date.UTC(2026, 8, 1, 10)), { year: 2026, month: 'Sep', day: 1, time: '12:00:00' });
});
