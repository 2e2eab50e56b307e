// Each check finds what it is about, with a remedy; and of a lab in order none finds anything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRow } from '../../src/app/client.ts';
import { jobRow } from '../../src/app/views.ts';
import { newJob } from '../../src/core/model/job.ts';
import { checkCount, runChecks, type LabState } from '../../src/lab/doctor.ts';
import type { WindowWithJob, LabJob, LabWindow } from '../../src/lab/lab-store.ts';
import { localSpec } from '../support/builders.ts';
import { aLabJob, aReport, aTpu, aUser, aWindow, noon } from './sample.ts';

const tpu = aTpu('kmh-tpuvm-v2-32-1');
const xibo = { ...aUser('xibo', { directories: { 1: '/srv/code' } }), id: 0 };
const lyy = { ...aUser('lyy'), id: 1 };
const report = aReport('/srv/logs/1', '/srv/stage/1');

function rowsOf(ids: readonly string[], phase: JobRow['phase']): ReadonlyMap<string, JobRow> {
  const spec = localSpec();
  const jobs = ids.map((id) => newJob({ id, installation: 'abc123', owner: 'xibo', spec, at: noon }).job);
  return new Map(jobs.map((made) => [made.id, { ...jobRow(made, noon), phase }]));
}

function shown(job: LabJob, changes: Partial<LabWindow> = {}): WindowWithJob {
  return { job, window: aWindow(job, { report, ...changes }) };
}

const job = aLabJob('000001', 'xibo');

/** A lab in which everything fits. */
const healthy: LabState = {
  users: [xibo, lyy],
  tpus: [tpu],
  tpuAliases: new Map([['v2-1', tpu.name]]),
  jobs: [job],
  windows: [shown(job)],
  rows: rowsOf(['000001'], 'running'),
  tmux: new Map([['xibo', [1]]]),
  bookings: [{ tpu: tpu.name, status: 'running', user: 'xibo', note: '', scriptNote: '', at: noon }],
  zones: ['europe-west4-a'],
  wrongModes: [],
  isControllerRunning: true,
  reserved: { verbs: new Set(['run']), keys: new Set(['tag']) },
  isGone: () => false,
};

const second = aLabJob('000002', 'lyy');

const ill: readonly (readonly [check: string, changes: Partial<LabState>, message: RegExp])[] = [
  [
    'controller that is stopped',
    { isControllerRunning: false, rows: rowsOf(['000001'], 'running') },
    /No controller runs, so no rule acts on 1 job under way/,
  ],
  [
    'alias that points nowhere',
    { tpuAliases: new Map([['v2-1', 'away']]) },
    /v2-1 means away, which is not registered/,
  ],
  ['name that means something else', { users: [xibo, { ...lyy, name: 'run' }] }, /"run" cannot be .*command/],
  ['name that means something else', { users: [xibo, { ...lyy, name: 'XIBO' }] }, /taken for the user/],
  ['name that means something else', { tpuAliases: new Map([['xibo', tpu.name]]) }, /a user is called that/],
  [
    'name that means something else',
    { users: [xibo, { ...lyy, aliases: { tag: 'config.tag' } }] },
    /"tag" cannot be the name of a config alias/,
  ],
  ['TPU without a zone', { tpus: [{ ...tpu, zone: null }] }, /in which zone kmh-tpuvm-v2-32-1 is/],
  ['TPU outside of the site', { zones: ['us-central1-a'] }, /in europe-west4-a, which is none/],
  ['TPU of no known type', { tpus: [{ ...tpu, accelerator: 'v2-33' }] }, /a v2-33, which is no type/],
  ['directory that is gone', { isGone: (folder) => folder === '/srv/code' }, /Directory 1 of xibo is \/srv\/code/],
  [
    'window that cannot be resumed',
    { isGone: (folder) => folder === '/srv/stage/1' },
    /Window 1 of xibo ran the code in \/srv\/stage\/1/,
  ],
  [
    'duplicate window',
    {
      jobs: [job, aLabJob('000002', 'xibo', { tpu: 'other' })],
      windows: [shown(job), shown(aLabJob('000002', 'xibo', { tpu: 'other' }))],
      rows: rowsOf(['000001', '000002'], 'running'),
    },
    /Two windows of xibo have the number 1/,
  ],
  ['zombie window', { tmux: new Map([['xibo', [1, 7]]]) }, /window 7 in the session "xibo", which is none/],
  ['zombie window', { tmux: new Map([['xibo', [1, 7, 8]]]) }, /windows 7, 8 in the session "xibo", which are none/],
  [
    'one name for two in the booking sheet',
    { users: [xibo, { ...lyy, sheetName: 'xibo' }] },
    /xibo and lyy are both "xibo" in the booking sheet/,
  ],
  [
    'zombie job',
    { rows: new Map(), bookings: [], jobs: [job] },
    /Window 1 of xibo stands on the list, and its job was deleted/,
  ],
  ['zombie job', { users: [lyy], tmux: new Map() }, /Job 000001 of xibo goes on, and there is no user xibo/],
  [
    'zombie job',
    {
      users: [lyy],
      tmux: new Map(),
      bookings: [],
      rows: rowsOf(['000001'], 'failed'),
      isGone: () => true,
    },
    /^The list still has 1 job of xibo, who is no user any more\.$/,
  ],
  [
    'resumed without a parent',
    { jobs: [{ ...job, parent: { job: '000077', attempt: 1, startMode: 'resume' } }] },
    /Window 1 of xibo goes back to job 000077/,
  ],
  [
    'two jobs on one TPU',
    {
      jobs: [job, second],
      windows: [shown(job), shown(second)],
      rows: rowsOf(['000001', '000002'], 'running'),
    },
    /2 jobs run on kmh-tpuvm-v2-32-1: 000001 of xibo, 000002 of lyy/,
  ],
  ['booked and idle', { rows: rowsOf(['000001'], 'failed') }, /booked as running by xibo/],
  [
    'home with wrong modes',
    {
      wrongModes: [
        { path: '/lab/state.db', message: '0600, should be 0660' },
        { path: '/lab/jobs', message: '0700, should be 2770' },
      ],
    },
    /state\.db is 0600, should be 0660, and 1 thing more/,
  ],
];

test('of a lab in order nothing is said', () => {
  assert.deepEqual(runChecks(healthy), []);
  assert.deepEqual(runChecks({ ...healthy, wrongModes: null }), []);
});

for (const [check, changes, message] of ill) {
  test(`${check}: ${String(message)}`, () => {
    const found = runChecks({ ...healthy, ...changes });
    // Of two names for two things both are told.
    assert.deepEqual([...new Set(found.map((one) => one.check))], [check], JSON.stringify(found));
    assert.match(found.map((one) => one.message).join('\n'), message);
    for (const { remedy } of found) assert.notEqual(remedy, '');
  });
}

test('every check has its illness here', () => {
  assert.equal(new Set(ill.map(([check]) => check)).size, checkCount);
});

test('what ended well, and what was cleared, is nobody’s trouble', () => {
  const isGone = (folder: string): boolean => folder === '/srv/stage/1';
  const rows = rowsOf(['000001'], 'succeeded');
  assert.deepEqual(runChecks({ ...healthy, isGone, rows, bookings: [] }), []);
  const child = { ...job, job: '000003', parent: { job: '000001', attempt: 1, startMode: 'resume' as const } };
  assert.deepEqual(runChecks({ ...healthy, isGone, jobs: [job, child] }), []);
  const cleared = { windows: [shown(job, { clearedAt: noon })], tmux: new Map() };
  assert.deepEqual(runChecks({ ...healthy, ...cleared, isGone }), []);
});
