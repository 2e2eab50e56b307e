// Usage of all TPUs of a lab: the booking sheet, its copy, and the jobs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientFor } from '../../src/app/store-client.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { hour, minute, type Instant } from '../../src/core/model/time.ts';
import { createLocalSheet, type BookingSheet } from '../../src/lab/bookings.ts';
import { labClientFor } from '../../src/lab/lab-client.ts';
import { createSheetOutbox } from '../../src/lab/sheet-outbox.ts';
import { openStore, type JobmanStore } from '../../src/store/store.ts';
import { createGoogleSheet } from '../../src/sheet/google-sheet.ts';
import { createSheetsApi } from '../../src/sheet/sheets-api.ts';
import { aLab } from '../cli/tpu/lab-world.ts';
import { openSheetServer, sheetId } from '../sheet/server.ts';
import {
  aMember,
  endedAttempt,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { aSheetCopy, aTpu, aUser } from '../support/lab-builders.ts';

async function openLab() {
  const store = openStore({ file: ':memory:' });
  for (const name of ['ada', 'bob']) await store.lab.addUser(aUser(name, { sheetName: name === 'ada' ? 'Ada' : name }));
  for (const number of [1, 2, 10]) {
    const name = `lab-v2-8-${number}`;
    await store.lab.changeTpu(name, { kind: 'add', tpu: aTpu(name, { accelerator: 'v2-8' }) });
    await store.lab.setTpuAlias(`v2-8-${number}`, name);
  }
  const time = { now: noon };
  const world = { sheet: createLocalSheet(store.lab, () => time.now) };
  const lab = aLab(store.lab, { sheet: async (): Promise<BookingSheet> => world.sheet });
  const parts = clientParts('/nowhere', store, { now: () => time.now });
  const of = (user: string, changes: Partial<Actor> = {}) => {
    const client = clientFor(async () => aMember(user, changes), parts);
    return labClientFor(client, lab, parts);
  };
  return { store, of, time, world };
}

/** A job of the user on the TPU. It runs, or its command has ended at that time. */
async function addJob(store: JobmanStore, owner: string, tpu: string, endedAt: Instant | null = null): Promise<string> {
  const spec = tpuSpec({}, { ownership: 'persistent', name: tpu });
  const { job } = await store.insert({ owner, spec, manifest: '', at: noon });
  const ended = endedAt === null ? {} : endedAttempt('succeeded', { message: '' }, endedAt);
  const started = withAttempts(job, [{ ...readyAllocation, name: tpu }], [{ ...runningAttempt, ...ended }]);
  const finish = endedAt === null ? null : ({ verdict: 'succeeded', reason: 'succeeded', at: endedAt } as const);
  const { revision = 0 } = (await store.load(job.id)) ?? {};
  // The ledger is written with an event.
  const events: readonly Event[] = finish === null ? [] : [{ kind: 'finished', ...finish }];
  const written = { job: { ...started, finish }, revision, events, foldedOutcomes: [], wakeAt: null, epoch: null };
  assert.equal(await store.commit(written), 'committed');
  return job.id;
}

test('free TPUs are first, then those that are booked and idle; jobs of manifests count too', async () => {
  const { store, of, time } = await openLab();
  const ada = of('ada');
  await ada.changeBooking('lab-v2-8-1', { kind: 'book', user: 'Ada', scriptNote: 'until monday' });
  const id = await addJob(store, 'bob', 'lab-v2-8-10');
  time.now += hour;
  const { tpus, sheet, hiddenJobs } = await ada.usage();
  assert.equal(hiddenJobs, 0);
  assert.deepEqual(
    tpus.map(({ alias, booking, jobs }) => [alias, booking?.status.kind, booking?.user, booking?.changedBy, jobs]),
    [
      ['v2-8-2', 'free', '', null, []],
      ['v2-8-1', 'reserved', 'Ada', 'ada', []],
      [
        'v2-8-10',
        'free',
        '',
        null,
        [
          {
            job: id,
            name: 'vit',
            user: 'bob',
            sheetName: 'bob',
            window: null,
            phase: 'running',
            phaseStartedAt: tpus[2]?.jobs[0]?.phaseStartedAt,
          },
        ],
      ],
    ],
  );
  assert.deepEqual(sheet, { name: 'the booking table', readAt: time.now, failure: null, problems: [], late: [] });
  // A viewer may not read whose job it is.
  const seen = await of('eve', { role: 'viewer' }).usage();
  assert.deepEqual([seen.tpus[2]?.jobs, seen.hiddenJobs], [[], 1]);
});

test('a booking is released by no front end while a job runs on the TPU', async () => {
  const { store, of } = await openLab();
  const bob = of('bob');
  await bob.changeBooking('lab-v2-8-1', { kind: 'book', user: 'bob' });
  const id = await addJob(store, 'bob', 'lab-v2-8-1');
  await assert.rejects(bob.changeBooking('lab-v2-8-1', { kind: 'release' }), {
    code: 4,
    message: new RegExp(`^Job ${id} \\(vit\\) of bob is running on lab-v2-8-1\\. Its booking was not changed\\.$`),
  });
  const [first] = (await bob.usage()).tpus.filter(({ tpu }) => tpu === 'lab-v2-8-1');
  assert.match(first?.use ?? '', /^Job \d+ \(vit\) of bob is running on lab-v2-8-1$/);
});

test('who changes a booking is the actor, whatever the request says; a job leaves no name', async () => {
  const { store, of } = await openLab();
  const change = { kind: 'book', user: 'bob', by: 'root' } as const;
  const changed = await of('ada').changeBooking('lab-v2-8-1', change);
  assert.equal(changed?.after.changedBy, 'ada');
  await store.lab.changeBooking('lab-v2-8-1', { kind: 'begin_attempt', user: 'bob' }, noon + minute);
  const [booking] = await store.lab.bookings();
  assert.deepEqual([booking?.status, booking?.by, booking?.at], ['running', null, noon + minute]);
});

test('a spreadsheet that does not answer leaves its last contents with their age', async (t) => {
  const { store, of, time, world } = await openLab();
  const server = await openSheetServer([
    ['', 'v2-8-1', 'lab', 'reserved', 'bob', '', '', ''],
    ['', 'v2-8-2', 'lab', 'free'],
  ]);
  t.after(() => server.close());
  const api = createSheetsApi({ id: sheetId, tab: null, credentials: '', endpoint: server.url }, 2_000);
  const sheet = createGoogleSheet(api, store.lab, { tab: null, prefix: 'lab-' });
  world.sheet = createSheetOutbox(sheet, store.lab, () => time.now, aSheetCopy());
  const ada = of('ada');

  server.fault = 503;
  const unknown = (await ada.usage()).sheet;
  assert.equal(unknown.readAt, null);
  assert.match(unknown.failure ?? '', /\S/);
  server.fault = null;

  const booked = async () => {
    const { tpus } = await ada.usage();
    return Object.fromEntries(tpus.map(({ alias, booking }) => [alias, booking?.user ?? null]));
  };
  assert.deepEqual(await booked(), { 'v2-8-1': 'bob', 'v2-8-2': '', 'v2-8-10': null });
  // Within a few seconds the spreadsheet is not read again, and the copy has the changes of this installation.
  await ada.changeBooking('lab-v2-8-2', { kind: 'book', user: 'Ada' });
  const count = server.requests.length;
  assert.deepEqual(await booked(), { 'v2-8-1': 'bob', 'v2-8-2': 'Ada', 'v2-8-10': null });
  assert.equal(server.requests.length, count);

  const readAt = time.now;
  time.now += hour;
  server.fault = 503;
  const { sheet: silent } = await ada.usage();
  assert.equal(silent.readAt, readAt);
  assert.match(silent.failure ?? '', /\S/);
  assert.deepEqual(await booked(), { 'v2-8-1': 'bob', 'v2-8-2': 'Ada', 'v2-8-10': null });
  await assert.rejects(ada.changeBooking('lab-v2-8-2', { kind: 'release' }), { code: 5 });
  server.fault = null;
  assert.equal((await ada.usage()).sheet.failure, null);
});

test('the last use of a TPU is the end of the last command there', async () => {
  const { store, of, time } = await openLab();
  await addJob(store, 'ada', 'lab-v2-8-1', noon + 10 * minute);
  time.now += hour;
  const { tpus } = await of('ada').usage();
  assert.deepEqual(
    tpus.map(({ alias, lastUsedAt }) => [alias, lastUsedAt]),
    [
      ['v2-8-1', noon + 10 * minute],
      ['v2-8-2', null],
      ['v2-8-10', null],
    ],
  );
});
