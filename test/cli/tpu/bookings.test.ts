// find, book and release, with the booking table of the database and with a spreadsheet.

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { createLocalSheet } from '../../../src/lab/bookings.ts';
import type { LabStore } from '../../../src/lab/lab-store.ts';
import { createSheetOutbox } from '../../../src/lab/sheet-outbox.ts';
import { createGoogleSheet } from '../../../src/sheet/google-sheet.ts';
import { createSheetsApi } from '../../../src/sheet/sheets-api.ts';
import { aSheetCopy, aUser } from '../../support/lab-builders.ts';
import { openSheetServer, sheetId } from '../../sheet/server.ts';
import { labs, aTpu, openLabWorld } from './lab-world.ts';
import { onBoth } from './serve-lab.ts';

const terminal = { columns: 100, rows: 30 };

async function openLabIn(openLabWorld: (typeof labs)[number]['openLabWorld']) {
  const sheets: { of: LabStore | null } = { of: null };
  const world = openLabWorld({ sheet: async () => createLocalSheet(sheets.of as LabStore, () => 7) });
  sheets.of = world.labStore;
  await addUsersAndTpus(world.labStore);
  return world;
}

async function addUsersAndTpus(labStore: LabStore): Promise<void> {
  await labStore.addUser(aUser('xibo', { sheetName: 'Xibo' }));
  await labStore.addUser(aUser('lyy'));
  for (const [alias, changes] of [
    ['v2-32-6', {}],
    ['v3-32-1', { accelerator: 'v3-32' }],
    ['v2-32-p1', { pricing: 'preemptible' as const }],
  ] as const) {
    await labStore.changeTpu(`lab-${alias}`, { kind: 'add', tpu: aTpu(`lab-${alias}`, changes) });
    await labStore.setTpuAlias(alias, `lab-${alias}`);
  }
}

onBoth('bookings in the database', labs, ({ openLabWorld: open }) => {
  const openLab = () => openLabIn(open);

  test('find groups TPUs by status and selects types', async () => {
    const { tpu } = await openLab();
    assert.equal((await tpu(['book', 'v2-32-6', 'xibo', 'ssn=until_monday'])).code, 0);
    const { out } = await tpu(['find', 'v23']);
    assert.equal(out, 'Free:\n  v2-32-p1\n  v3-32-1\n\nReserved:\n  v2-32-6  Xibo  until monday\n');
    assert.equal((await tpu(['find', 'v2', '-p'])).out, 'Free:\n  v2-32-p1\n');
    assert.equal((await tpu(['find', 'v2-32', '-n', 'style=category'])).out, 'Reserved:\n  v2-32-6  Xibo\n');
    const full = await tpu(['find', '-a', 'style=full']);
    assert.match(full.out, /^ALIAS +TPU +STATUS +USER/);
    assert.match(full.out, /v2-32-6 +lab-v2-32-6 +reserved +Xibo +- +until monday +- +europe-west4-a/);
    const [row] = (await tpu(['find', 'v2-32', '-n', '--json'])).out.trim().split('\n');
    const { changedBy, ...booking } = JSON.parse(row ?? '') as { readonly changedBy: string };
    // On a shared login, the user on the line; through a server, the owner of the token.
    assert.match(changedBy, /^(?:xibo|alice)$/);
    assert.deepEqual(booking, {
      tpu: 'lab-v2-32-6',
      alias: 'v2-32-6',
      aliases: ['v2-32-6'],
      status: 'reserved',
      user: 'Xibo',
      note: '',
      scriptNote: 'until monday',
      owner: '',
      zone: 'europe-west4-a',
      accelerator: 'v2-32',
      preemptible: false,
      statusText: null,
      changedAt: '1970-01-01T00:00:00.007Z',
    });
    const none = await tpu(['find', 'v6e']);
    assert.deepEqual([none.code, none.out], [0, '']);
    assert.match(none.err, /The booking table has no such TPU: v6e\./);
  });

  test('release frees a TPU only for the user who booked it', async () => {
    const { tpu } = await openLab();
    await tpu(['book', 'v2-32-6', 'xibo']);
    const refused = await tpu(['rel', 'v2-32-6', 'lyy']);
    assert.equal(refused.code, 4);
    assert.match(
      refused.err,
      /In the booking table, lab-v2-32-6 is reserved for Xibo, not for lyy\. Nothing was changed/,
    );
    const { code, out } = await tpu(['release', 'v2-32-6', 'xibo']);
    assert.deepEqual([code, out], [0, 'lab-v2-32-6 is free in the booking table. It was reserved for Xibo.\n']);
    assert.match((await tpu(['release', 'v2-32-6'])).out, /is free in the booking table\.\n/);
  });

  test('book and release print an object with --json', async () => {
    const { tpu } = await openLab();
    const free = { status: 'free', user: '' };
    const booked = await tpu(['book', 'v2-32-6', 'xibo', '--json']);
    const reserved = { status: 'reserved', user: 'Xibo' };
    assert.deepEqual(JSON.parse(booked.out), { tpu: 'lab-v2-32-6', ...reserved, before: free });
    const released = await tpu(['release', 'v2-32-6', 'xibo', '--json']);
    assert.deepEqual(JSON.parse(released.out), { tpu: 'lab-v2-32-6', ...free, before: reserved });
  });

  test("another user's booking needs a confirmation", async () => {
    const { tpu } = await openLab();
    await tpu(['book', 'v2-32-6', 'lyy']);
    const mine = await tpu(['book', 'v2-32-6', 'xibo']);
    assert.equal(mine.code, 4);
    assert.match(mine.err, /In the booking table, v2-32-6 is reserved for lyy\. .*--yes/);
    const asked = await tpu(['book', 'v2-32-6', 'xibo'], { terminal, input: ['n'] });
    assert.equal(asked.code, 1);
    assert.match(asked.err, /lyy\. \S+ changed it \d+d ago\. Book it for Xibo\s+anyway\? \[y\/N\]/);
    const taken = await tpu(['book', 'v2-32-6', 'xibo', '--yes']);
    assert.match(taken.out, /is reserved for Xibo in the booking table\. It was reserved for lyy\./);
    // A known user releases another user's booking only after a question. On a shared login the user is unknown.
    assert.equal((await tpu(['release', 'v2-32-6', '--user', 'lyy'])).code, 4);
    assert.equal((await tpu(['release', 'v2-32-6'])).code, 0);
  });

  test('-ssn asks for notes, and a running job stays running', async () => {
    const { labStore, tpu } = await openLab();
    const { code, err } = await tpu(['book', 'v2-32-6', 'xibo', '-ssn'], { terminal, input: ['a 🚀 test'] });
    assert.equal(code, 0, err);
    assert.match((await tpu(['find', 'v2-32', '-n'])).out, /Xibo {2}a 🚀 test/);
    assert.match((await tpu(['book', 'v2-32-6', 'xibo', '-ssn'])).err, /ssn=until_monday/);
    await labStore.changeBooking('lab-v2-32-6', { kind: 'begin_attempt', user: 'Xibo' }, 7);
    assert.match((await tpu(['book', 'v2-32-6', 'xibo', 'ssn=x'])).out, /is running for Xibo/);
    assert.match((await tpu(['find', 'v2-32', '-n'])).out, /^Running:\n {2}v2-32-6 {2}Xibo {2}x\n$/);
  });
});

test('a pattern that a shell expanded gets a hint to use quotes', async () => {
  const { tpu } = await openLabIn(openLabWorld);
  for (const files of [['vit'], ['vit', 'v2.txt']]) {
    const { code, err } = await tpu(['find', ...files]);
    assert.equal(code, 2);
    assert.match(err, /Unknown [^]*`vit`[^]*Put a pattern such as v\* in quotes: 'v\*'\./);
  }
});

suite('bookings in a spreadsheet', () => {
  async function openSheet(t: TestContext, rows: readonly (readonly string[])[]) {
    const server = await openSheetServer(rows);
    t.after(() => server.close());
    const labStore: { of: LabStore | null } = { of: null };
    const api = createSheetsApi({ id: sheetId, tab: null, credentials: '', endpoint: server.url }, 2_000);
    const world = openLabWorld({
      sheet: async () => {
        const store = labStore.of as LabStore;
        return createSheetOutbox(
          createGoogleSheet(api, store, { tab: null, prefix: 'lab-' }),
          store,
          () => 7,
          aSheetCopy(),
        );
      },
    });
    labStore.of = world.labStore;
    await addUsersAndTpus(world.labStore);
    return { ...world, server };
  }
  const rows = [
    ['', 'v2-32-6', 'lab', 'running', 'Xibo', '', 'lr 0.1', 'europe'],
    ['', 'v3-32-1', 'lab', '闲的', '闲的'],
    ['', 'v9', '', 'broken', 'Zed'],
  ];

  test('a TPU with two aliases shows both, the alias of the sheet first', async (t) => {
    const { tpu, labStore } = await openSheet(t, rows);
    await labStore.setTpuAlias('big', 'lab-v2-32-6');
    assert.match((await tpu(['find', 'v2'])).out, /^ {2}v2-32-6, big {2}Xibo {2}lr 0\.1$/m);
    assert.match((await tpu(['find', 'v2', 'style=full'])).out, /^v2-32-6, big +lab-v2-32-6 +running/m);
  });

  test('find reads its rows and reports unreadable ones', async (t) => {
    const { tpu } = await openSheet(t, rows);
    const { code, out, err } = await tpu(['find', 'v*']);
    assert.equal(code, 0);
    assert.equal(out, 'Free:\n  v3-32-1\n\nRunning:\n  v2-32-6  Xibo  lr 0.1\n\nOther:\n  v9  broken Zed\n');
    assert.match(err, /note: the spreadsheet, row 3: v9 is not a registered TPU\./);
  });

  test('release writes the labels of the sheet; a TPU without a row is an error', async (t) => {
    const { tpu, server } = await openSheet(t, rows);
    assert.equal((await tpu(['release', 'v2-32-6', 'xibo'])).code, 0);
    assert.deepEqual(server.grid[0], ['', 'v2-32-6', 'lab', '闲的', '闲的', '', '', 'europe']);
    const absent = await tpu(['book', 'v2-32-p1', 'lyy']);
    assert.equal(absent.code, 3);
    assert.match(absent.err, /the spreadsheet has no row for lab-v2-32-p1/i);
  });
});
