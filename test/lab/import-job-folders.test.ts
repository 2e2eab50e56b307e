// Job folders of the older TPU manager in both layouts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  readOldJobFolders,
  planJobsImport,
  type FolderReader,
  type JobsImportOptions,
} from '../../src/lab/import-job-folders.ts';
import { noon, tpuSpec } from '../support/builders.ts';

/** Files by path. */
function readerOf(files: Readonly<Record<string, string>>): FolderReader {
  const paths = Object.keys(files);
  return {
    list(folder) {
      const names = paths.filter((path) => path.startsWith(`${folder}/`)).map((path) => path.slice(folder.length + 1));
      return names.length === 0 ? null : [...new Set(names.map((name) => name.split('/')[0] ?? ''))].toSorted();
    },
    readText: (file) => files[file] ?? null,
    modifiedAt: (file) => (files[file] === undefined ? null : noon),
  };
}

const parts: JobsImportOptions = {
  owner: 'ada',
  now: noon,
  readManifest: (config) =>
    config.includes('000004') ? 'its manifest cannot be read' : { spec: tpuSpec(), text: 'job: {}', contents: [] },
  existingId: () => null,
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

function planOf(files: Readonly<Record<string, string>>, changes: Partial<JobsImportOptions> = {}) {
  const folders = readOldJobFolders('/jobs', readerOf(files));
  assert.ok(folders !== null);
  return planJobsImport(folders, { ...parts, ...changes });
}

test('a folder for each user, with meta.json', () => {
  const { lines, imports } = planOf(layouts['users'] ?? {});
  assert.deepEqual(
    lines.map(({ kind, subject, message }) => `${kind} ${subject}: ${message}`),
    [
      'import job 000001 of bob: vit, failed, 1 logs',
      'import job 000002 of bob: vit, stopped, 0 logs',
      'note job 000002 of bob: it was RUNNING; imported as stopped. Its program may still run, and its TPU in us-west4-a may cost money: jobman tpus --all',
      'import job 000003 of bob: vit, succeeded, 1 logs',
      'skip job 000004 of bob: its manifest cannot be read',
    ],
  );
  const [first, second, third] = imports.map(({ job }) => job);
  assert.deepEqual(
    [first?.owner, first?.createdAt, first?.endedAt],
    ['bob', Date.UTC(2025, 7, 20, 10), 1_755_690_000_000],
  );
  assert.deepEqual([first?.verdict, first?.reason, first?.startedAt], ['failed', 'command_failed', first?.createdAt]);
  assert.deepEqual([second?.verdict, second?.startedAt], ['stopped', Date.UTC(2025, 7, 21, 10)]);
  assert.deepEqual([third?.verdict, third?.startedAt, third?.manifest], ['succeeded', null, 'job: {}']);
});

test('one folder for all users, with files next to the manifest', () => {
  const { imports } = planOf(layouts['plain'] ?? {});
  assert.deepEqual(
    imports.map(({ job: { owner, verdict, reason, createdAt } }) => [owner, verdict, reason, createdAt]),
    [
      ['ada', 'cancelled', 'stopped', 1_755_690_000_500],
      ['ada', 'failed', 'preempted', noon],
    ],
  );
});

test('an imported job is not imported again', () => {
  const { lines, imports, existing } = planOf(layouts['users'] ?? {}, {
    existingId: ({ owner, name, createdAt }) =>
      owner === 'bob' && name === 'vit' && createdAt === Date.UTC(2025, 7, 20, 10) ? '000009' : null,
  });
  assert.deepEqual(lines[0], { kind: 'exists', subject: 'job 000001 of bob', message: 'vit' });
  assert.equal(imports.length, 2);
  assert.deepEqual(
    existing.map(({ id, owner, from }) => [id, owner, from.id]),
    [['000009', 'bob', '000001']],
  );
});

test('a truncated meta.json is ignored; other folders are not job folders', () => {
  const files = { ...layouts['users'], '/jobs/.jobman/meta.json': '{"000001": {"job_id"' };
  assert.deepEqual(
    planOf(files).imports.map(({ job }) => job.verdict),
    ['stopped', 'stopped', 'succeeded'],
  );
  const list = { ...layouts['users'], '/jobs/.jobman/meta.json': JSON.stringify({ jobs: Object.values(meta) }) };
  assert.equal(planOf(list).imports[0]?.job.verdict, 'failed');
  assert.equal(readOldJobFolders('/jobs', readerOf({ '/jobs/readme.md': 'x' })), null);
  assert.equal(readOldJobFolders('/nowhere', readerOf({})), null);
  assert.deepEqual(readOldJobFolders('/jobs', readerOf({ '/jobs/.jobman/meta.json': '{}' })), []);
});
