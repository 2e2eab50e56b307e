// The plan and the result of an attempt.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  earlierRunFolders,
  ownRunFolders,
  planAttempt,
  runFolders,
  findLastError,
  unconfirmedReason,
} from '../../src/lab/attempt-plan.ts';
import { type Lineages, attemptKey, type JobAttempts } from '../../src/lab/lineage.ts';
import type { LabJob, LabWindow, WindowReport } from '../../src/lab/lab-store.ts';
import { aLabJob, aReport, aWindow, noon } from '../support/lab-builders.ts';

type Try = Partial<JobAttempts['attempts'][number]> & { readonly reported?: boolean };

const report = (name: string): WindowReport => aReport(`/log/${name}`, `/stage/${name}`);

/** Jobs with attempts. The attempts in `reported` have log folders such as `/log/000001/2`. */
function lineageWith(...jobs: readonly (readonly [LabJob, readonly Try[]])[]) {
  const attemptsByJob = new Map<string, JobAttempts>();
  const windows = new Map<string, LabWindow>();
  for (const [job, attempts] of jobs) {
    attemptsByJob.set(job.job, {
      attempts: attempts.map(({ reported: _reported, ...one }, index) => ({
        startMode: index === 0 ? 'fresh' : 'resume',
        stage: index,
        startedByOwner: index === 0,
        startedAt: noon,
        ...one,
      })),
    });
    for (const [index, { reported }] of attempts.entries()) {
      const name = { job: job.job, attempt: index + 1 };
      const ownReport = reported === true ? report(attemptKey(name)) : null;
      windows.set(attemptKey(name), aWindow(job, { window: index + 1, ...name, report: ownReport }));
    }
  }
  const lineages: Lineages = { jobs: new Map(jobs.map(([job]) => [job.job, job])), windows };
  return { lineages, jobOf: (job: string) => attemptsByJob.get(job) ?? null };
}

const one = aLabJob('000001', 'xibo', { directory: '/code', configs: ['--config.a=1'], logStage: true });
const given = { job: one, hasCheckpoints: () => true };

test('the first attempt runs the directory with the given arguments', () => {
  const plan = planAttempt({ ...given, attempt: 1, ...lineageWith([one, [{}]]) });
  assert.deepEqual([plan.folder, plan.isFrozen, plan.loadFrom], ['/code', false, null]);
  assert.deepEqual(plan.args, ['ka=kmh-tpuvm-v2-32-1', '--config.a=1', '--config.stage=0']);
});

test('a resume runs the copied code and loads the newest log folder with a checkpoint', () => {
  const { lineages, jobOf } = lineageWith([one, [{ reported: true }, { reported: true }, {}, {}]]);
  const plan = (saved: readonly string[]) =>
    planAttempt({
      job: one,
      attempt: 4,
      lineages,
      jobOf,
      hasCheckpoints: (folder) => saved.includes(folder),
    });
  assert.equal(plan(['/log/000001/1', '/log/000001/2']).loadFrom?.logFolder, '/log/000001/2');
  assert.equal(
    plan(['/log/000001/1']).loadFrom?.logFolder,
    '/log/000001/1',
    'the second died before its first checkpoint',
  );
  assert.equal(plan([]).loadFrom?.logFolder, '/log/000001/2', 'without a checkpoint the newest');
  assert.deepEqual(plan([]).args.slice(-2), ['--config.load_from=/log/000001/2', '--config.stage=3']);
  assert.equal(plan([]).folder, '/stage/000001/2');
});

test('a rerun runs the copied code and loads nothing; later resumes continue only the rerun', () => {
  const tries: readonly Try[] = [{ reported: true }, { startMode: 'rerun', stage: 0, reported: true }, { stage: 1 }];
  const { lineages, jobOf } = lineageWith([one, tries]);
  const second = planAttempt({ ...given, attempt: 2, lineages, jobOf });
  assert.deepEqual([second.folder, second.loadFrom, second.stage], ['/stage/000001/1', null, 0]);
  const third = planAttempt({ ...given, attempt: 3, lineages, jobOf });
  assert.deepEqual([third.folder, third.loadFrom?.logFolder, third.stage], ['/stage/000001/2', '/log/000001/2', 1]);
});

test('a start after a stop runs the current directory', () => {
  const { lineages, jobOf } = lineageWith([
    one,
    [{ reported: true }, { startMode: 'fresh', stage: 0, startedByOwner: true }],
  ]);
  const plan = planAttempt({ ...given, attempt: 2, lineages, jobOf });
  assert.deepEqual([plan.folder, plan.loadFrom], ['/code', null]);
});

test('on another TPU a job continues its parent, even if its first attempt never started', () => {
  for (const startMode of ['resume', 'rerun'] as const) {
    const child = aLabJob('000002', 'xibo', {
      tpu: 'kmh-tpuvm-v2-32-2',
      parent: { job: '000001', attempt: 1, startMode },
      baseStage: startMode === 'resume' ? 1 : 0,
    });
    const second: Try = { startMode: 'fresh', stage: 0, startedByOwner: false };
    const { lineages, jobOf } = lineageWith([one, [{ reported: true }]], [child, [{ startedAt: null }, second]]);
    for (const attempt of [1, 2]) {
      const plan = planAttempt({ job: child, attempt, lineages, jobOf, hasCheckpoints: () => true });
      const from = startMode === 'resume' ? '/log/000001/1' : undefined;
      assert.deepEqual([plan.folder, plan.loadFrom?.logFolder], ['/stage/000001/1', from], `${startMode} ${attempt}`);
      assert.equal(plan.stage, startMode === 'resume' ? 1 : 0);
    }
  }
});

test('runFolders has the reported folders of attempts on the TPU', () => {
  const { lineages } = lineageWith([one, [{ reported: true }, { reported: true }, {}]]);
  const windows = [...lineages.windows.values()].map((window) => ({ window, job: one }));
  assert.deepEqual(runFolders(windows, one.tpu), [
    '/log/000001/1',
    '/stage/000001/1',
    '/log/000001/2',
    '/stage/000001/2',
  ]);
  assert.deepEqual(runFolders(windows, 'another'), []);
});

test('an attempt ends the programs of earlier ones and of replaced jobs on its TPU, and its own unless it succeeded', () => {
  const { lineages } = lineageWith([one, [{ reported: true }, { reported: true }]]);
  const other = aLabJob('000002', 'lyy');
  const replaced = { job: other, window: aWindow(other, { report: report('other') }) };
  assert.deepEqual(earlierRunFolders(one, 2, lineages, [replaced]), [
    '/log/000001/1',
    '/stage/000001/1',
    '/log/other',
    '/stage/other',
  ]);
  const elsewhere = { ...replaced, job: { ...other, tpu: 'elsewhere' } };
  assert.deepEqual(earlierRunFolders(one, 1, lineages, [elsewhere]), ['/log/000001/2', '/stage/000001/2']);
  const succeeded = { isStopped: false, code: 0, reason: null };
  assert.deepEqual(ownRunFolders(replaced, succeeded), []);
  for (const end of [{ isStopped: true }, { code: 1 }, { reason: 'no success' }])
    assert.equal(ownRunFolders(replaced, { ...succeeded, ...end }).length, 2);
  assert.deepEqual(ownRunFolders(undefined, { ...succeeded, code: 1 }), []);
});

test('exit code 0 needs a confirmed success; the reason names the missing commands', () => {
  const reported = report('x');
  const reason = (
    code: number,
    of: { report?: WindowReport; isFinished?: boolean; hasHistory?: boolean; lastError?: string },
  ): string | null =>
    unconfirmedReason({ code, report: null, isFinished: false, hasHistory: false, lastError: null, ...of });
  assert.equal(
    reason(0, { lastError: 'ValueError: bad shape' }),
    'exit code 0, but the script called neither `tpu upd-log` nor `tpu finish-job`, and its log has no line "wandb: Run history:"; last error in its log: ValueError: bad shape',
  );
  assert.match(reason(0, { report: reported }) ?? '', /did not call `tpu finish-job`, and its log has no line/);
  for (const done of [{ isFinished: true }, { hasHistory: true }, { report: reported, isFinished: true }])
    assert.equal(reason(0, done), null);
  assert.equal(reason(3, { report: reported }), null, 'the exit code is the verdict');
});

test('findLastError prefers an error to `Job failed`', () => {
  const log = 'ep=1 loss=3\nTraceback (most recent call last):\nValueError: bad shape\nwandb: done\nJob failed\n';
  assert.equal(findLastError(log), 'ValueError: bad shape');
  assert.equal(findLastError('ep=1\njax.errors.JaxRuntimeError: INTERNAL\n'), 'jax.errors.JaxRuntimeError: INTERNAL');
  assert.equal(findLastError('ep=1\nJob failed\n'), 'Job failed');
  assert.equal(findLastError('E0000 GRPC error: unavailable\n'), 'E0000 GRPC error: unavailable');
  assert.equal(findLastError('relative_error 0.1\nall done\n'), null);
});
