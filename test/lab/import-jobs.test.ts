// The folders of the older TPU manager, in both layouts and as they are found.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { oldJobFolders, planJobsImport, type FolderDoor, type JobsImport } from '../../src/lab/import-jobs.ts';
import { noon, tpuSpec } from '../support/builders.ts';

/** Files by their paths; folders are what is above them. */
function doorOf(files: Readonly<Record<string, string>>): FolderDoor {
  const paths = Object.keys(files);
  return {
    names(folder) {
      const names = paths.filter((path) => path.startsWith(`${folder}/`)).map((path) => path.slice(folder.length + 1));
      return names.length === 0 ? null : [...new Set(names.map((name) => name.split('/')[0] ?? ''))].toSorted();
    },
    text: (file) => files[file] ?? null,
    changedAt: (file) => (files[file] === undefined ? null : noon),
  };
}

const parts: JobsImport = {
  owner: 'ada',
  now: noon,
  read: (config) => (config.includes('000004') ? 'its manifest cannot be read' : { spec: tpuSpec(), text: 'job: {}' }),
  idHere: () => null,
};

const meta = {
  '000001': {
    job_id: '000001',
    user: 'bob',
    status: 'FAILED',
    created_at: '2025-08-20T10:00:00Z',
    ended_at: 1_755_690_000,
  },
  '2': { job_id: 2, user: 'bob', status: 'RUNNING', started_at: '2025-08-21T10:00:00Z' },
  '000003': { user: 'bob', status: 'DEAD' },
};

const layouts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  users: {
    '/jobs/.jobman/meta.json': JSON.stringify(meta),
    '/jobs/.jobman/next_job_id.txt': '5',
    '/jobs/bob/000001/config.yaml': 'x',
    '/jobs/bob/000001/logs/command_worker_0.log': 'x',
    '/jobs/bob/000001/logs/notes.txt': 'x',
    '/jobs/bob/000002/config.yaml': 'x',
    '/jobs/bob/000003/config.yaml': 'x',
    '/jobs/bob/000003/logs/job.log': 'setup\nMain command completed successfully\n',
    '/jobs/bob/000004/config.yaml': 'x',
    '/jobs/bob/readme.md': 'x',
  },
  plain: {
    '/jobs/.state/next_job_id.txt': '3',
    '/jobs/000001/config.yaml': 'x',
    '/jobs/000001/status.txt': 'CANCELLED\n',
    '/jobs/000001/start_time.txt': '1755690000.5',
    '/jobs/000001/logs/main_command_worker_0.log': 'x',
    '/jobs/000002/config.yaml': 'x',
    '/jobs/000002/status.txt': 'PREEMPTED',
  },
};

function planOf(files: Readonly<Record<string, string>>, changes: Partial<JobsImport> = {}) {
  const folders = oldJobFolders('/jobs', doorOf(files));
  assert.ok(folders !== null);
  return planJobsImport(folders, { ...parts, ...changes });
}

test('a folder for each user, with meta.json beside them', () => {
  const { lines, taken } = planOf(layouts['users'] ?? {});
  assert.deepEqual(
    lines.map(({ kind, what, says }) => `${kind} ${what}: ${says}`),
    [
      'take job 000001 of bob: vit, failed, 1 logs',
      'take job 000002 of bob: vit, stopped, 0 logs',
      'note job 000002 of bob: it was RUNNING there: taken as stopped; what goes on there goes on and its TPU in us-west4-a may cost: jobman tpus --all',
      'take job 000003 of bob: vit, succeeded, 1 logs',
      'leave job 000004 of bob: its manifest cannot be read',
    ],
  );
  const [first, second, third] = taken.map(({ past }) => past);
  assert.deepEqual(
    [first?.owner, first?.createdAt, first?.endedAt],
    ['bob', Date.UTC(2025, 7, 20, 10), 1_755_690_000_000],
  );
  assert.deepEqual([first?.verdict, first?.reason, first?.startedAt], ['failed', 'command_failed', first?.createdAt]);
  assert.deepEqual([second?.verdict, second?.startedAt], ['stopped', Date.UTC(2025, 7, 21, 10)]);
  assert.deepEqual([third?.verdict, third?.startedAt, third?.manifest], ['succeeded', null, 'job: {}']);
});

test('one folder for all, with its files beside the manifest', () => {
  const { taken } = planOf(layouts['plain'] ?? {});
  assert.deepEqual(
    taken.map(({ past: { owner, verdict, reason, createdAt } }) => [owner, verdict, reason, createdAt]),
    [
      ['ada', 'cancelled', 'stopped', 1_755_690_000_500],
      ['ada', 'failed', 'preempted', noon],
    ],
  );
});

test('what was taken over before is not taken twice', () => {
  const { lines, taken, known } = planOf(layouts['users'] ?? {}, {
    idHere: ({ owner, name, createdAt }) =>
      owner === 'bob' && name === 'vit' && createdAt === Date.UTC(2025, 7, 20, 10) ? '000009' : null,
  });
  assert.deepEqual(lines[0], { kind: 'have', what: 'job 000001 of bob', says: 'vit' });
  assert.equal(taken.length, 2);
  assert.deepEqual(
    known.map(({ id, owner, from }) => [id, owner, from.id]),
    [['000009', 'bob', '000001']],
  );
});

test('a cut meta.json leaves what the folders tell; what is no such folder is told apart', () => {
  const files = { ...layouts['users'], '/jobs/.jobman/meta.json': '{"000001": {"job_id"' };
  assert.deepEqual(
    planOf(files).taken.map(({ past }) => past.verdict),
    ['stopped', 'stopped', 'succeeded'],
  );
  const list = { ...layouts['users'], '/jobs/.jobman/meta.json': JSON.stringify({ jobs: Object.values(meta) }) };
  assert.equal(planOf(list).taken[0]?.past.verdict, 'failed');
  assert.equal(oldJobFolders('/jobs', doorOf({ '/jobs/readme.md': 'x' })), null);
  assert.equal(oldJobFolders('/nowhere', doorOf({})), null);
  assert.deepEqual(oldJobFolders('/jobs', doorOf({ '/jobs/.jobman/meta.json': '{}' })), []);
});
