/** The checkpoint folders that a job may need. An unknown fact counts as a need. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Job } from '../../src/core/model/job.ts';
import type { CommandSpec } from '../../src/core/model/spec.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import {
  checkpointFolders,
  checkpointRows,
  type CheckpointFolder,
  type CheckpointRow,
  type FolderContents,
} from '../../src/reports/checkpoints.ts';
import {
  aJob,
  endedAttempt,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';

const gone = { ...readyAllocation, goneAt: noon + 2 * hour };
const ended = { ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit 0' }) };

const own = (id: string): Partial<CommandSpec> => ({
  checkpointDir: `~/bucket/runs/${id}-abc123`,
  checkpoints: 'own',
  checkpointStorage: `gs://data/runs/${id}-abc123`,
});

type Verdict = NonNullable<Job['finish']>['verdict'];

/** A TPU job that has run; unfinished without a verdict. */
function job(
  id: string,
  verdict: Verdict | null,
  command: Partial<CommandSpec> = own(id),
  more: Partial<Job> = {},
): Job {
  const plain = tpuSpec({ command: { ...tpuSpec().command, ...command } });
  const finish = verdict === null ? null : ({ verdict, at: noon + hour, reason: 'succeeded' } as Job['finish']);
  const attempt = verdict === null ? runningAttempt : ended;
  return withAttempts(aJob(plain, { id, finish, ...more }), [verdict === null ? readyAllocation : gone], [attempt]);
}

const full: FolderContents = { count: { bytes: 1024, objects: 2, newestAt: noon + hour, isPartial: false } };

function rowsOf(
  jobs: readonly Job[],
  contents: (folder: CheckpointFolder) => FolderContents = () => full,
): readonly CheckpointRow[] {
  const { folders } = checkpointFolders(jobs);
  return checkpointRows(folders, new Map(folders.map((one) => [one, contents(one)])), jobs, () => '');
}

/** `yes: reason` by folder. */
function verdicts(...parameters: Parameters<typeof rowsOf>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    rowsOf(...parameters).map(({ folder, needed, message }) => [folder, `${needed ? 'yes' : 'no'}: ${message}`]),
  );
}

const verdictOf = (...parameters: Parameters<typeof rowsOf>): string | undefined =>
  verdicts(...parameters)['gs://data/runs/000001-abc123'];

suite('a folder', () => {
  test('of a job that succeeded or was deleted is not needed, and its command is printed', () => {
    assert.equal(verdictOf([job('000001', 'succeeded')]), 'no: job 000001 succeeded');
    assert.equal(verdictOf([job('000001', 'failed', undefined, { removed: true })]), 'no: job 000001 was deleted');
    const [row] = rowsOf([job('000001', 'succeeded')]);
    assert.equal(row?.removeCommand, 'gcloud storage rm -r gs://data/runs/000001-abc123');
  });

  test('of a job that runs, may be resumed or holds capacity is needed', () => {
    assert.equal(verdictOf([job('000001', null)]), 'yes: job 000001 is running');
    assert.equal(verdictOf([job('000001', 'failed')]), 'yes: job 000001 failed and can be resumed');
    assert.equal(verdictOf([job('000001', 'stopped')]), 'yes: job 000001 was stopped and can be resumed');
    const startRequest = { startMode: 'rerun', at: noon } as Job['startRequest'];
    assert.match(verdictOf([{ ...job('000001', 'succeeded'), startRequest }]) ?? '', /^yes/);
    const removed = { ...job('000001', null), removed: true };
    assert.equal(verdictOf([removed]), 'yes: job 000001 was deleted before it had ended');
    const held = withAttempts(job('000001', 'succeeded'), [readyAllocation], [ended]);
    assert.equal(verdictOf([held]), 'yes: job 000001 still holds capacity');
  });

  test('that was not read completely, or changed long after the end, is needed', () => {
    const done = [job('000001', 'succeeded')];
    const count = { bytes: 1, objects: 1, newestAt: noon + hour, isPartial: false };
    assert.match(
      verdictOf(done, () => ({ unreadable: 'no permission' })) ?? '',
      /^yes: it could not be read: no permission/,
    );
    assert.match(
      verdictOf(done, () => ({ count: { ...count, isPartial: true } })) ?? '',
      /^yes: it was not read completely/,
    );
    const late = { ...count, newestAt: noon + 2 * hour + minute };
    assert.match(verdictOf(done, () => ({ count: late })) ?? '', /^yes: it changed after/);
  });

  test('that the manifest names, or that jobs share, is needed', () => {
    const named = { ...own('000001'), checkpoints: 'named' } as const;
    assert.match(verdictOf([job('000001', 'succeeded', named)]) ?? '', /^yes: the manifest names it/);
    const shared = { ...own('000001'), checkpoints: 'shared' } as const;
    assert.match(verdictOf([job('000001', 'succeeded', shared)]) ?? '', /^yes: jobs share it/);
    const { checkpoints: _absent, ...earlier } = own('000001');
    assert.match(verdictOf([job('000001', 'succeeded', earlier)]) ?? '', /^yes: jobs share it/);
  });

  for (const [what, resumeFrom] of [
    ['by the job', { kind: 'folder', path: '/elsewhere', job: '000001' }],
    ['by a path in another mount', { kind: 'entry', path: '/mnt/data/runs/000001-abc123/step_9' }],
    ['by a folder around it', { kind: 'folder', path: '~/x/runs' }],
  ] as const) {
    test(`from which another job begins, ${what}, is needed until that job is done`, () => {
      const resumes = (verdict: Verdict | null) => job('000002', verdict, { ...own('000002'), resumeFrom });
      const done = job('000001', 'succeeded');
      assert.equal(verdictOf([done, resumes(null)]), 'yes: job 000002 resumes from it (job.resume_from)');
      assert.match(verdictOf([done, resumes('failed')]) ?? '', /^yes: job 000002/, 'a rerun would need it again');
      assert.equal(verdictOf([done, resumes('succeeded')]), 'no: job 000001 succeeded');
    });
  }

  test('around or inside a needed folder is needed', () => {
    const inside = { checkpointDir: 'gs://data/runs/000001-abc123/more', checkpoints: 'own' } as const;
    const found = verdicts([job('000001', 'succeeded'), job('000002', null, inside)]);
    assert.match(
      found['gs://data/runs/000001-abc123'] ?? '',
      /^yes: gs:\/\/data\/runs\/000001-abc123\/more is inside it/,
    );
    const around = { checkpointDir: 'gs://data/runs', checkpoints: 'shared' } as const;
    assert.match(verdictOf([job('000001', 'succeeded'), job('000002', null, around)]) ?? '', /^yes: it is inside/);
    const sibling = { checkpointDir: 'gs://data/runs/000001-abc123-2', checkpoints: 'own' } as const;
    assert.match(verdictOf([job('000001', 'succeeded'), job('000002', null, sibling)]) ?? '', /^no/);
  });
});

test('each start from the beginning has its own folder, each region its bucket, and a local job its path', () => {
  const again = withAttempts(
    job('000001', 'succeeded'),
    [gone, gone],
    [ended, { ...ended, stage: 0, startMode: 'rerun', allocation: 2 }],
  );
  assert.deepEqual(Object.keys(verdicts([again])), ['gs://data/runs/000001-abc123', 'gs://data/runs/000001-abc123-2']);

  const byRegion = {
    ...own('000001'),
    checkpointStorage: 'gs://\uE000bucket us-west4=west europe-west4=eu\uE001/runs/1',
  };
  // The zone of the allocation is us-west4-a.
  assert.deepEqual(Object.keys(verdicts([job('000001', 'succeeded', byRegion)])), ['gs://west/runs/1']);

  const local = localSpec({
    command: { ...localSpec().command, checkpointDir: "/data/it's/000003-abc123", checkpoints: 'own' },
  });
  const finish = { verdict: 'succeeded', at: noon + hour, reason: 'succeeded' } as Job['finish'];
  const [row] = rowsOf([withAttempts(aJob(local, { id: '000003', finish }), [gone], [ended])]);
  assert.equal(row?.removeCommand, `rm -r '/data/it'\\''s/000003-abc123'`);
});

test('a name that a shell or gcloud would expand never becomes a command', () => {
  for (const name of ['a*', 'a?', 'a[1]', 'a#1', 'a\nb']) {
    const command = { checkpointDir: `gs://data/${name}/000001`, checkpoints: 'own' } as const;
    assert.equal(rowsOf([job('000001', 'succeeded', command)])[0]?.removeCommand ?? null, null, name);
  }
});

test('what cannot be listed from here is named: the disk of a TPU, other storage, a record of an earlier version', () => {
  const onDisk = { checkpointDir: '/data/000001-abc123', checkpoints: 'own' } as const;
  const elsewhere = { checkpointDir: 's3://b/000002-abc123', checkpoints: 'own' } as const;
  const jobs = [job('000001', 'succeeded', onDisk), job('000002', 'succeeded', elsewhere)];
  const { folders, unlisted } = checkpointFolders(jobs);
  assert.deepEqual(folders, []);
  assert.deepEqual(unlisted.map(({ id }) => id).toSorted(), ['000001', '000002']);
});
