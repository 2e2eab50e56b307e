// Bookings in a Google spreadsheet: Google's client library and a small server that follows the Sheets API.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { type LabTpu, tpuFromName } from '../../src/lab/tpus.ts';
import { createGoogleSheet } from '../../src/sheet/google-sheet.ts';
import { readGrid } from '../../src/sheet/layout.ts';
import { createSheetsApi } from '../../src/sheet/sheets-api.ts';
import { openWorld } from '../support/world.ts';
import { openSheetServer, sheetId, sheetTab, type SheetServer } from './server.ts';

const rows = [
  ['', 'TPU', 'belongs', 'status', 'user', 'note', 'script', 'zone'],
  ['', 'v2-32', 'all of them below', '', ''],
  ['', 'v2-32-1', 'lab', 'running', 'Xibo', 'a test', 'lr 0.1', 'europe-west4-a'],
  [],
  ['x', 'v2-32-p1', '', '闲的', '闲的'],
  ['', 'v4-8-1', 'lab', 'reserved', 'Lyy', '', '', 'us-central2-b', 'far to the right'],
  ['', 'v9-9-9', 'missing', 'maybe', 'Zed'],
  ['', 'notes of ours', '', 'running', 'not a row'],
  ['', 'v4-8-1', '', 'running', 'grace'],
  ['', 'v3-8-1', '', '没了！', ''],
];
const names: Readonly<Record<string, string>> = {
  'v2-32-1': 'lab-tpuvm-v2-32-1',
  'v2-32-p1': 'lab-tpuvm-v2-32-preemptible-1',
  'v4-8-1': 'lab-tpuvm-v4-8-1',
};

async function openBench(t: TestContext, options: { readonly tab?: string; readonly id?: string } = {}) {
  const server: SheetServer = await openSheetServer(rows);
  t.after(() => server.close());
  const tpus = [...Object.values(names), 'lab-tpuvm-v3-8-1'].map((name) => tpuFromName(name) as LabTpu);
  const record = { tpus: async () => tpus, tpuAliases: async () => new Map(Object.entries(names)) };
  const tab = options.tab ?? null;
  const spreadsheet = { id: options.id ?? sheetId, tab, credentials: '/no/such/key.json', endpoint: server.url };
  const sheet = createGoogleSheet(createSheetsApi(spreadsheet, 1_000), record, { tab, prefix: 'lab-tpuvm-' });
  return { server, sheet };
}

test('rows of TPUs are read anywhere in the sheet; unreadable rows are reported', async (t) => {
  const { sheet } = await openBench(t);
  const { bookings, problems } = await sheet.read();
  assert.deepEqual(
    bookings.map(({ tpu, alias, status, user }) => [tpu, alias, status, user]),
    [
      ['lab-tpuvm-v2-32-1', 'v2-32-1', { kind: 'running' }, 'Xibo'],
      ['lab-tpuvm-v2-32-preemptible-1', 'v2-32-p1', { kind: 'free' }, ''],
      ['lab-tpuvm-v4-8-1', 'v4-8-1', { kind: 'reserved' }, 'Lyy'],
      ['v9-9-9', 'v9-9-9', { kind: 'unknown', text: 'maybe' }, 'Zed'],
      ['lab-tpuvm-v3-8-1', 'v3-8-1', { kind: 'gone' }, ''],
    ],
  );
  assert.deepEqual(bookings[0], {
    tpu: 'lab-tpuvm-v2-32-1',
    alias: 'v2-32-1',
    status: { kind: 'running' },
    user: 'Xibo',
    note: 'a test',
    scriptNote: 'lr 0.1',
    owner: 'lab',
    zone: 'europe-west4-a',
    changedAt: null,
    changedBy: null,
  });
  assert.deepEqual(problems, [
    'row 7: v9-9-9 is not a registered TPU',
    'row 7: v9-9-9 has the unknown status "maybe"',
    'row 9: ignored, because row 6 has v4-8-1 too',
  ]);
});

test('a change writes only the changed cells', async (t) => {
  const { server, sheet } = await openBench(t, { tab: sheetTab });
  const run = { kind: 'run', user: 'Lyy', seenUser: 'Lyy', scriptNote: '=1+1' } as const;
  const changed = await sheet.change('lab-tpuvm-v4-8-1', run);
  assert.deepEqual([changed?.before.scriptNote, changed?.after.scriptNote], ['', '=1+1']);
  const expected = rows.map((row) => [...row]);
  expected[5] = ['', 'v4-8-1', 'lab', 'running', 'Lyy', '', '=1+1', 'us-central2-b', 'far to the right'];
  assert.deepEqual(server.grid, expected);
});

test('the label for free is the one that the sheet uses, also as the user', async (t) => {
  const { server, sheet } = await openBench(t);
  await sheet.change('lab-tpuvm-v2-32-1', { kind: 'release' });
  assert.deepEqual(server.grid[2], ['', 'v2-32-1', 'lab', '闲的', '闲的', '', '', 'europe-west4-a']);
  server.grid[4] = ['', 'v2-32-p1', '', 'Free', ''];
  server.grid[2] = [...(rows[2] ?? [])];
  await sheet.change('lab-tpuvm-v2-32-1', { kind: 'release' });
  assert.deepEqual(server.grid[2]?.slice(3, 5), ['Free', 'Free']);
});

test('a moved row is found by its alias, and read again before it is written', async (t) => {
  const { server, sheet } = await openBench(t);
  await sheet.read();
  server.grid.splice(0, 0, ['', 'a new heading'], ['']);
  const run = { kind: 'run', user: 'Ada', seenUser: 'Xibo' } as const;
  await sheet.change('lab-tpuvm-v2-32-1', run);
  assert.deepEqual(server.grid[4], ['', 'v2-32-1', 'lab', 'running', 'Ada', 'a test', 'lr 0.1', 'europe-west4-a']);
  const grid = structuredClone(server.grid);
  await assert.rejects(sheet.change('lab-tpuvm-v2-32-1', { ...run, user: 'Lyy' }), /Ada has just booked/);
  await sheet.change('lab-tpuvm-v2-32-1', { kind: 'end_attempt', user: 'Lyy' });
  assert.deepEqual(server.grid, grid);
});

test('a row that moves between reading and writing is an error', async (t) => {
  const { server, sheet } = await openBench(t);
  server.onRead = () => {
    server.onRead = () => undefined;
    server.grid.splice(0, 0, ['']);
  };
  await assert.rejects(sheet.change('lab-tpuvm-v2-32-1', { kind: 'book', user: 'Ada' }), (error: unknown) => {
    assert.ok(error instanceof JobmanError);
    assert.match(error.message, /moved rows .* Check row 3/);
    assert.deepEqual([error.code, error.lines], [4, ['v2-32-1 is in row 4 now.']]);
    return true;
  });
});

test('a TPU without a row has no booking, and nothing is written', async (t) => {
  const { server, sheet } = await openBench(t);
  const grid = structuredClone(server.grid);
  assert.equal(await sheet.change('lab-tpuvm-v6e-8-1', { kind: 'release' }), null);
  assert.deepEqual(server.grid, grid);
});

const troubles: readonly (readonly [trouble: SheetServer['fault'], message: RegExp, hint: RegExp])[] = [
  [401, /returned an error \(401\)/, /login was refused/],
  [403, /returned an error \(403\)/, /Share the spreadsheet with the service account/],
  [429, /returned an error \(429\)/, /Too many requests/],
  [503, /returned an error \(503\)/, /./],
  ['unreachable', /does not answer/, /no answer within 1 s/],
];
for (const [trouble, message, hint] of troubles) {
  test(`a sheet that answers ${trouble} fails without a retry`, async (t) => {
    const { server, sheet } = await openBench(t);
    server.fault = trouble;
    await assert.rejects(sheet.read(), (error: unknown) => {
      assert.ok(error instanceof JobmanError, String(error));
      assert.match(error.message, message);
      assert.match(error.lines.join('\n'), hint);
      assert.equal(error.code, 5);
      return true;
    });
    assert.equal(server.requests.length, 1, server.requests.join());
    server.fault = null;
    // A command waits only once for a silent sheet.
    if (trouble === 'unreachable') await assert.rejects(sheet.change('lab-tpuvm-v4-8-1', { kind: 'release' }), message);
    else assert.equal((await sheet.read()).bookings.length, 5, 'and answers again when it can');
    if (trouble === 'unreachable') assert.equal(server.requests.length, 1);
  });
}

test('a wrong id and an unknown tab have different hints', async (t) => {
  const wrongId = await openBench(t, { id: 'other' });
  await assert.rejects(wrongId.sheet.read(), (error: JobmanError) =>
    /Check `id` of the setting/.test(error.lines.join()),
  );
  const wrongTab = await openBench(t, { tab: 'Other' });
  await assert.rejects(wrongTab.sheet.read(), (error: JobmanError) =>
    /Check `tab` of the setting/.test(error.lines.join()),
  );
});

test('an invalid key file is an error without a request', async (t) => {
  const { folder } = openWorld(t);
  const credentials = join(folder, 'key.json');
  for (const text of [undefined, 'no JSON', '{ "type": "authorized_user" }']) {
    if (text !== undefined) writeFileSync(credentials, text);
    const api = createSheetsApi({ id: sheetId, tab: null, credentials, endpoint: null });
    await assert.rejects(api.read(), (error: JobmanError) => {
      assert.ok(error.lines.includes(`Cannot use the key file of the service account: ${credentials}`));
      return error.code === 5;
    });
  }
});

test('the page of a proxy is an error, not an empty sheet', async (t) => {
  const { server, sheet } = await openBench(t);
  const json = 'application/json';
  for (const [type, text] of [
    ['text/html', '<html>Log in to the network</html>'],
    [json, '{}'],
    [json, 'null'],
    [json, '"x"'],
    [json, '[]'],
    [json, '{"range":5}'],
    [json, '{"range":"A:H","values":"abc"}'],
    [json, '{"range":"A:H","values":{}}'],
    [json, '{"range":"A:H","values":[null]}'],
    [json, '{"range":"A:H","values":["v4-8-1"]}'],
  ] as const) {
    server.proxyPage = { type, text };
    await assert.rejects(
      sheet.read(),
      (error) =>
        error instanceof JobmanError && error.code === 5 && /not from the Sheets API/.test(error.lines[0] ?? ''),
      text,
    );
    await assert.rejects(sheet.change('lab-tpuvm-v4-8-1', { kind: 'release' }), JobmanError, text);
  }
});

test('cells of other types, and a sheet of 100,000 rows', { timeout: 20_000 }, () => {
  const strange = ['', 'v4-8-1', null, {}, [], Number.NaN, true, 1e300];
  const many = Array.from({ length: 100_000 }, (_, row) => ['', `v4-${row}`, '', 'running']);
  const { rows: read } = readGrid([strange, ...many], (alias) => alias);
  assert.deepEqual([read.length, read[0]?.booking.status, read[0]?.booking.note], [100_001, { kind: 'free' }, 'NaN']);
});
