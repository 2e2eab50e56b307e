// The sentences about a TPU of a lab, and about changes of its booking.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceHolder } from '../../src/app/lab-job.ts';
import { hour } from '../../src/core/model/time.ts';
import { bookingRefusals, formatBookingNow } from '../../src/lab/booking-changes.ts';
import type { Booking } from '../../src/lab/bookings.ts';
import type { SheetState, UsedTpu, UsingJob } from '../../src/lab/lab-usage.ts';
import {
  differencesOf,
  formatBookedCell,
  formatChange,
  formatHiddenJobs,
  formatIdle,
  formatSheetFailure,
} from '../../src/lab/usage-text.ts';
import { aMember, noon } from '../support/builders.ts';

const now = noon;
const sheet: SheetState = { name: 'the booking table', readAt: now, failure: null, problems: [], late: [] };

function aBooking(kind: 'free' | 'running' | 'reserved' | 'gone', user = '', changes: Partial<Booking> = {}): Booking {
  const texts = { note: '', scriptNote: '', owner: '', zone: '' };
  const names = { tpu: 'lab-v2-32-6', alias: 'v2-32-6' };
  return { ...names, ...texts, status: { kind }, user, changedAt: null, changedBy: null, ...changes };
}

function used(booking: Booking | null, changes: Partial<UsedTpu> = {}): UsedTpu {
  const names = { tpu: 'lab-v2-32-6', alias: 'v2-32-6', aliases: ['v2-32-6'] };
  const facts = { accelerator: 'v2-32', zone: 'europe-west4-a', jobs: [], lastUsedAt: null, use: null };
  return { ...names, ...facts, booking, ...changes };
}

function aUse(user: string, changes: Partial<UsingJob> = {}): UsingJob {
  const use = { job: '000012', name: 'vit', user, sheetName: user, window: 3 };
  return { ...use, phase: 'running', phaseStartedAt: now - hour, ...changes };
}

const program: DeviceHolder = { worker: 0, pid: 71, user: 'eve', command: 'python train.py' };

const cases: readonly (readonly [
  what: string,
  one: UsedTpu,
  programs: readonly DeviceHolder[] | null,
  expected: readonly string[],
])[] = [
  ['free and unused', used(aBooking('free')), null, []],
  ['its own job', used(aBooking('running', 'ada'), { jobs: [aUse('ada')] }), [program], []],
  ['reserved and unused', used(aBooking('reserved', 'ada')), [], []],
  [
    'the job of another user',
    used(aBooking('reserved', 'bob'), { jobs: [aUse('ada')] }),
    null,
    ['The sheet says reserved for bob, but window 3 (job 000012) of ada is running here.'],
  ],
  [
    'a job that is not booked',
    used(aBooking('free'), { jobs: [aUse('ada', { window: null, phase: 'setup' })] }),
    null,
    ['The sheet says free, but job 000012 of ada is in setup here.'],
  ],
  [
    'a TPU that the sheet does not have',
    used(null, { jobs: [aUse('ada')] }),
    null,
    ['The sheet has no row for it, but window 3 (job 000012) of ada is running here.'],
  ],
  [
    'no job, although it is running',
    used(aBooking('running', 'ada')),
    null,
    ['The sheet says running for ada, but no job runs here.'],
  ],
  [
    'the same, after a check of the programs',
    used(aBooking('running', 'ada')),
    [],
    ['The sheet says running for ada, but no job runs here, and no program uses its devices.'],
  ],
  ['a program without a job may be the one that is booked', used(aBooking('running', 'ada')), [program], []],
  [
    'a program on a free TPU',
    used(aBooking('free')),
    [program],
    ['The sheet says free, but process 71 on worker 0 (eve) uses the device: python train.py.'],
  ],
];

for (const [what, one, programs, expected] of cases)
  test(`differences: ${what}`, () =>
    assert.deepEqual(differencesOf(one, { sheet, hiddenJobs: 0 }, programs), expected));

test('nothing disagrees with a sheet that is not known', () => {
  const none = { ...sheet, readAt: null, failure: 'no route' };
  const one = used(null, { jobs: [aUse('ada')] });
  assert.deepEqual(differencesOf(one, { sheet: none, hiddenJobs: 0 }, null), []);
  assert.equal(formatBookedCell(one, none), 'not known');
  assert.equal(formatBookedCell(one, sheet), 'not in the sheet');
});

test('a job that the reader may not read may be the one that the sheet means', () => {
  const one = used(aBooking('running', 'ada'));
  assert.deepEqual(differencesOf(one, { sheet, hiddenJobs: 1 }, []), []);
  assert.equal(formatHiddenJobs({ hiddenJobs: 1 }), '1 job that you may not read may be on these TPUs.');
  assert.equal(formatHiddenJobs({ hiddenJobs: 0 }), null);
});

test('the idle time of a booked TPU begins with its last command or its booking, whichever is later', () => {
  const lastUsedAt = now - 5 * hour;
  assert.equal(formatIdle(used(aBooking('reserved', 'ada')), now), 'booked and idle');
  assert.equal(formatIdle(used(aBooking('reserved', 'ada'), { lastUsedAt }), now), 'booked and idle for 5h00m');
  const booking = aBooking('reserved', 'ada', { changedAt: now - 2 * hour });
  assert.equal(formatIdle(used(booking, { lastUsedAt }), now), 'booked and idle for 2h00m');
  assert.equal(formatIdle(used(aBooking('free'), { lastUsedAt }), now), 'no command for 5h00m');
  assert.equal(formatIdle(used(aBooking('free')), now), 'no command in 30 days');
  // A job in setup holds it.
  const held = used(booking, { lastUsedAt, jobs: [aUse('ada', { phase: 'setup' })] });
  assert.equal(formatIdle(held, now), 'no command for 5h00m');
});

test('a question about a booking says what the sheet says now, and who has changed it', () => {
  const booking = aBooking('reserved', 'bob', { note: 'until monday', changedAt: now - 5 * 60_000, changedBy: 'ada' });
  const fact = 'In the booking table, v2-32-6 is reserved for bob (until monday).';
  assert.equal(formatBookingNow(sheet.name, booking, now), `${fact} ada changed it 5m ago.`);
  assert.equal(formatBookingNow(sheet.name, { ...booking, changedBy: null }, now), `${fact} It was changed 5m ago.`);
  assert.equal(formatBookingNow(sheet.name, { ...booking, changedBy: null, changedAt: null }, now), fact);
  assert.equal(formatChange(used(booking), now), 'changed 5m ago by ada');
  assert.equal(formatChange(used(aBooking('reserved', 'bob')), now), null);
});

test('a booking that cannot be changed says why', () => {
  const ada = aMember('ada');
  const booked = used(aBooking('reserved', 'bob'));
  assert.deepEqual(bookingRefusals(ada, sheet, booked), { book: null, release: null });
  const inUse = { ...booked, use: 'Job 000007 of ada is running on lab-v2-32-6' };
  assert.deepEqual(bookingRefusals(ada, sheet, inUse), {
    book: null,
    release: 'Job 000007 of ada is running on lab-v2-32-6. A TPU with a job stays booked.',
  });
  assert.deepEqual(bookingRefusals(ada, sheet, used(aBooking('free'))), {
    book: null,
    release: 'v2-32-6 is free already.',
  });
  const role = 'Your role is viewer, which may not change the lab.';
  assert.deepEqual(bookingRefusals(aMember('ada', { role: 'viewer' }), sheet, booked), { book: role, release: role });
  const late = 'The booking table does not answer, so no booking can be changed now.';
  const silent = { ...sheet, failure: 'The sheet is away (no route)', readAt: now - 2 * hour };
  assert.deepEqual(bookingRefusals(ada, silent, booked), { book: late, release: late });
  assert.match(bookingRefusals(ada, sheet, used(null)).book ?? '', /The booking table has no row for lab-v2-32-6\./);
  assert.deepEqual(formatSheetFailure(silent, now), [
    'The sheet is away (no route).',
    'These are its bookings of 2h00m ago. They cannot be changed until it answers.',
  ]);
  assert.deepEqual(formatSheetFailure({ ...silent, readAt: null }, now), [
    'The sheet is away (no route).',
    'No copy of it exists here, so the bookings are not known.',
  ]);
});
