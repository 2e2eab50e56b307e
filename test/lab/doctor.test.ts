// Each check finds its problem and a remedy, and nothing in a healthy lab.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRow } from '../../src/app/client.ts';
import { jobRow } from '../../src/app/views.ts';
import { newJob } from '../../src/core/model/job.ts';
import { checkCount, runChecks, type LabState } from '../../src/lab/doctor.ts';
import type { WindowWithJob, LabJob, LabWindow } from '../../src/lab/lab-store.ts';
import { localSpec } from '../support/builders.ts';
import { aLabJob, aReport, aTpu, aUser, aWindow, noon } from '../support/lab-builders.ts';

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

const healthy: LabState = {
  users: [xibo, lyy],
  tpus: [tpu],
  tpuAliases: new Map([['v2-1', tpu.name]]),
  jobs: [job],
  windows: [shown(job)],
  rows: rowsOf(['000001'], 'running'),
  tmux: new Map([['xibo', [1]]]),
  bookings: [{ tpu: tpu.name, status: 'running', user: 'xibo', note: '', scriptNote: '', at: noon, by: null }],
  lateBookings: [],
  zones: ['europe-west4-a'],
  wrongModes: [],
  isControllerRunning: true,
  reserved: { verbs: new Set(['run']), keys: new Set(['tag']) },
  isGone: () => false,
};

const second = aLabJob('000002', 'lyy');

const unhealthy: readonly (readonly [check: string, changes: Partial<LabState>, message: RegExp])[] = [
  [
    'stopped_controller',
    { isControllerRunning: false, rows: rowsOf(['000001'], 'running') },
    /No controller runs, so nothing recovers 1 unfinished job/,
  ],
  [
    'unregistered_alias',
    { tpuAliases: new Map([['v2-1', 'away']]) },
    /The TPU away of the alias v2-1 is not registered/,
  ],
  ['ambiguous_name', { users: [xibo, { ...lyy, name: 'run' }] }, /"run" is not allowed .*command/],
  ['ambiguous_name', { users: [xibo, { ...lyy, name: 'XIBO' }] }, /too similar to the user/],
  ['ambiguous_name', { tpuAliases: new Map([['xibo', tpu.name]]) }, /a user has this name/],
  [
    'ambiguous_name',
    { users: [xibo, { ...lyy, aliases: { tag: 'config.tag' } }] },
    /"tag" is not allowed as a config alias/,
  ],
  ['tpu_without_zone', { tpus: [{ ...tpu, zone: null }] }, /The zone of kmh-tpuvm-v2-32-1 is unknown/],
  ['tpu_in_other_zone', { zones: ['us-central1-a'] }, /in europe-west4-a, which is not in/],
  [
    'missing_directory',
    { isGone: (folder) => folder === '/srv/code' },
    /directory 1 of xibo does not exist: \/srv\/code/,
  ],
  [
    'unresumable_window',
    { isGone: (folder) => folder === '/srv/stage/1' },
    /Window 1 of xibo cannot be resumed: .*\/srv\/stage\/1/,
  ],
  ['zombie_window', { tmux: new Map([['xibo', [1, 7]]]) }, /session "xibo" has window 7 without a job/],
  ['zombie_window', { tmux: new Map([['xibo', [1, 7, 8]]]) }, /session "xibo" has windows 7, 8 without a job/],
  [
    'duplicate_booking_name',
    { users: [xibo, { ...lyy, sheetName: 'xibo' }] },
    /xibo and lyy are both "xibo" in the booking sheet/,
  ],
  [
    'zombie_job',
    { rows: new Map(), bookings: [], jobs: [job] },
    /Window 1 of xibo is on the list, but its job was deleted/,
  ],
  [
    'zombie_job',
    { users: [lyy], tmux: new Map() },
    /Job 000001 of xibo is not finished, but the user xibo was removed/,
  ],
  [
    'zombie_job',
    {
      users: [lyy],
      tmux: new Map(),
      bookings: [],
      rows: rowsOf(['000001'], 'failed'),
      isGone: () => true,
    },
    /^The list has 1 job of xibo, but the user was removed\.$/,
  ],
  [
    'tpu_with_two_jobs',
    {
      jobs: [job, second],
      windows: [shown(job), shown(second)],
      rows: rowsOf(['000001', '000002'], 'running'),
    },
    /2 jobs run on kmh-tpuvm-v2-32-1: 000001 of xibo, 000002 of lyy/,
  ],
  [
    'late_booking',
    { lateBookings: [{ tpu: tpu.name, message: 'The booking sheet was not changed: lyy has just booked it.' }] },
    /was not changed: lyy has just booked it/,
  ],
  ['booked_without_job', { rows: rowsOf(['000001'], 'failed') }, /booked as running for xibo/],
  [
    'wrong_file_modes',
    {
      wrongModes: [
        { path: '/lab/state.db', message: '0600, should be 0660' },
        { path: '/lab/jobs', message: '0700, should be 2770' },
      ],
    },
    /state\.db has a wrong mode \(0600, should be 0660\), and 1 other file too/,
  ],
];

test('a healthy lab has no findings', () => {
  assert.deepEqual(runChecks(healthy), []);
  assert.deepEqual(runChecks({ ...healthy, wrongModes: null }), []);
});

for (const [check, changes, expected] of unhealthy) {
  test(`${check}: ${String(expected)}`, () => {
    const found = runChecks({ ...healthy, ...changes });
    // An ambiguous name may be reported for both entries.
    assert.deepEqual([...new Set(found.map((one) => one.check))], [check], JSON.stringify(found));
    assert.match(found.map((one) => one.message).join('\n'), expected);
    for (const { remedy } of found) assert.notEqual(remedy, '');
  });
}

test('every check has a case', () => {
  assert.equal(new Set(unhealthy.map(([check]) => check)).size, checkCount);
});

test('succeeded, continued and cleared jobs have no findings', () => {
  const isGone = (folder: string): boolean => folder === '/srv/stage/1';
  const rows = rowsOf(['000001'], 'succeeded');
  assert.deepEqual(runChecks({ ...healthy, isGone, rows, bookings: [] }), []);
  const child = { ...job, job: '000003', parent: { job: '000001', attempt: 1, startMode: 'resume' as const } };
  assert.deepEqual(runChecks({ ...healthy, isGone, jobs: [job, child] }), []);
  const cleared = { windows: [shown(job, { clearedAt: noon })], tmux: new Map() };
  assert.deepEqual(runChecks({ ...healthy, ...cleared, isGone }), []);
});
