// The metrics of a job, from the copies of its output and of what it reported.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, closeSync, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { logsOf } from '../../src/app/logs.ts';
import { createEndReader } from '../../src/app/file-ends.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { localFolders } from '../../src/files/local-folders.ts';
import { metricsResult } from '../../src/app/job-source.ts';
import { metricPointsOfJob, metricsOfJob, metricsOfPods } from '../../src/app/metrics.ts';
import { progressOf } from '../../src/app/progress.ts';
import type { MetricsQuery } from '../../src/app/client.ts';
import type { Job } from '../../src/core/model/job.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { openWorld } from '../support/world.ts';
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

const ended = { ...runningAttempt, ...endedAttempt('preempted', { message: 'gone' }) };
const secondRun = { startedAt: noon + 90 * minute, runningAt: noon + 90 * minute };

/** A job on four workers whose second attempt runs. */
const job = withAttempts(aJob(), [readyAllocation, readyAllocation], [ended, secondRun]);

function copiesIn(t: TestContext, of: Job = job) {
  const { home } = openWorld(t);
  const path = (name: string) => join(home, 'jobs/ada/000042/logs', name);
  const files = createJobFiles(home);
  return {
    home,
    files,
    progressAt: (now: number, one = of) => progressOf(one, now, createEndReader(files, one), localFolders),
    path,
    write: (name: string, text: string): void => {
      mkdirSync(dirname(path(name)), { recursive: true });
      appendFileSync(path(name), text);
    },
    read: (query: MetricsQuery = {}) =>
      metricsResult(metricsOfJob({ files, folders: localFolders }, of, noon + 120 * minute, query)),
  };
}

const lines = (from: number, count: number, loss = 1) =>
  Array.from({ length: count }, (_, index) => `step ${from + index} of 9000 loss ${loss}\n`).join('');

test('the points of all attempts are one series, of the first worker that prints metrics', async (t) => {
  const { write, read } = copiesIn(t);
  write('attempt_1/command_worker_0.log', 'nothing here\n');
  write('attempt_1/command_worker_1.log', lines(1, 3));
  write('attempt_2/command_worker_0.log', lines(3, 2, 0.5));
  const view = await read();
  assert.deepEqual(
    view.attempts.map(({ attempt, worker, firstStep, lastStep, totalSteps, reason }) => [
      attempt,
      worker,
      firstStep,
      lastStep,
      totalSteps,
      reason,
    ]),
    [
      [1, 1, 1, 3, 9000, 'preempted'],
      [2, 0, 3, 4, 9000, null],
    ],
  );
  assert.deepEqual(view.names, ['loss']);
  const [loss] = view.series;
  assert.deepEqual(
    loss?.points.map(({ attempt, step, value }) => [attempt, step, value]),
    [
      [1, 1, 1],
      [1, 2, 1],
      [1, 3, 1],
      [2, 3, 0.5],
      [2, 4, 0.5],
    ],
  );
});

test('times come from the reported line, otherwise from the arrival of the bytes', async (t) => {
  const { write, read } = copiesIn(t);
  write('attempt_2/command_worker_0.log', 'step 1 acc 1\nstep 2 acc 1\n');
  write(
    'attempt_2/command_worker_0.times',
    `+13 ${secondRun.startedAt + second}\n+26 ${secondRun.startedAt + 11 * second}\n`,
  );
  write('attempt_2/metrics_worker_0.log', '1764326052123 step=5 loss=nan\nstep=6 loss=0.5\nhalf a li');
  const { series } = await read({ attempt: 2 });
  const timesOf = (name: string) => series.find((one) => one.name === name)?.points.map(({ at }) => at);
  assert.deepEqual(timesOf('acc'), [secondRun.startedAt + second, secondRun.startedAt + 11 * second]);
  assert.deepEqual(timesOf('loss'), [1764326052123, null]);
  assert.deepEqual(series.find(({ name }) => name === 'loss')?.points[0]?.value, 'NaN');
});

test('a query selects attempt, worker, metrics and time, and refuses what the job lacks', async (t) => {
  const { files, write, read } = copiesIn(t);
  write('attempt_1/command_worker_0.log', lines(1, 2));
  write('attempt_1/command_worker_2.log', lines(100, 2));
  write('attempt_2/metrics_worker_0.log', '1764326052123 step=5 loss=1\n1764326062123 step=6 loss=1\n');
  const steps = async (query: MetricsQuery) =>
    (await read(query)).series.flatMap(({ points }) => points.map(({ step }) => step));
  assert.deepEqual(await steps({ metrics: ['LOSS'], attempt: 1 }), [1, 2]);
  assert.deepEqual(await steps({ metrics: ['loss'], attempt: 1, worker: 2 }), [100, 101]);
  assert.deepEqual(await steps({ metrics: ['loss'], since: 1764326060000 }), [6]);
  await assert.rejects(read({ attempt: 9 }), /has no attempt 9; it has 2 attempts/);
  await assert.rejects(read({ worker: 7 }), /does not run on worker 7/);
  const points = await Array.fromAsync(metricPointsOfJob(files, job, { metrics: ['loss'] }));
  assert.deepEqual(
    points.map(({ job: id, worker, step }) => [id, worker, step]),
    [
      ['000042', 0, 1],
      ['000042', 0, 2],
      ['000042', 0, 5],
      ['000042', 0, 6],
    ],
  );
});

test('lines of ten million characters and a million points need little memory', async (t) => {
  const { path, write, read } = copiesIn(t);
  write('attempt_2/command_worker_0.log', `step 1 loss 1 ${'x'.repeat(10_000_000)}\n`);
  const file = openSync(path('attempt_2/command_worker_0.log'), 'a');
  for (let block = 0; block < 100; block += 1) writeSync(file, lines(block * 2_000 + 2, 2_000));
  closeSync(file);
  const before = process.memoryUsage.rss();
  const { series } = await read({ maxPoints: 100 });
  assert.equal(series[0]?.count, 200_001);
  assert.ok((series[0]?.points.length ?? 0) < 500);
  assert.ok(process.memoryUsage.rss() - before < 200_000_000);
});

test('plot and show count the reported texts that are not metrics, and plot the points of too many names', async (t) => {
  const { progressAt, write, read } = copiesIn(t);
  const names = Array.from({ length: 300 }, (_, index) => `${'layer'.repeat(4)}${index}=1`).join(' ');
  write('attempt_2/metrics_worker_0.log', `step=1 lr=abc ${names}\n{"step": 2, "loss": }\nstep=2 loss=1\n`);
  const reported = '2 reported texts that are not metrics, such as "lr=abc"';
  assert.equal((await read()).leftOut, `${reported}; 45 points of metrics beyond the first 256 names`);
  assert.equal(progressAt(noon).leftOut, reported);
});

test('what is not a regular file is left out, and nothing waits for it', async (t) => {
  const { files, progressAt, path, write, read } = copiesIn(t);
  write('attempt_1/command_worker_0.log', lines(1, 3));
  execFileSync('mkfifo', [path('attempt_1/metrics_worker_0.log'), path('attempt_1/command_worker_0.times')]);
  mkdirSync(path('attempt_2/metrics_worker_0.log'), { recursive: true });
  symlinkSync('/dev/zero', path('attempt_2/command_worker_0.log'));
  assert.equal((await read()).series[0]?.count, 3);
  assert.equal(progressAt(noon).progress, null);
  assert.deepEqual(logsOf(files, job, {}, noon), []);
});

test('a job without output has no metrics', async (t) => {
  const { read } = copiesIn(t);
  const view = await read();
  assert.deepEqual([view.names, view.series, view.attempts.length], [[], [], 2]);
});

test('the lines of a pod begin with the time of the cluster', async () => {
  async function* pieces() {
    yield Buffer.from('2026-11-20T12:00:01.5Z step 1 loss 2\n2026-11-20T12:00:02Z 10%|# | 1/9');
    yield Buffer.from(' [00:01<00:09]\r20%|# | 2/9 [00:01<00:09]\n');
  }
  async function* pods() {
    yield { attempt: 1, worker: 0, pieces: pieces() };
  }
  const view = await metricsResult(metricsOfPods('bert', pods(), {}));
  assert.deepEqual(view.series[0]?.points, [{ attempt: 1, step: 1, at: noon + 1_500, value: 2 }]);
  assert.deepEqual(
    view.attempts.map(({ lastStep }) => lastStep),
    [2],
  );
});

// ------------------------------------------------------------------------------------------ show

test('show names the progress of the slowest worker, its pace, and the change since the attempt before', (t) => {
  const { progressAt, write } = copiesIn(t);
  const times = (attempt: number, from: number, rate: number, worker = 0) => {
    const text = Array.from({ length: 601 }, (_, index) => `step ${index * rate}/90000 loss 1\n`).join('');
    const file = `attempt_${attempt}/command_worker_${worker}`;
    write(`${file}.log`, text);
    write(`${file}.times`, `+1 ${from}\n+${text.length} ${from + 600 * second}\n`);
  };
  times(1, noon, 8);
  times(1, noon, 2, 1);
  times(2, noon + 90 * minute, 1);
  const { progress, throughput, slowWorker } = progressAt(noon + 100 * minute);
  assert.equal(progress, 'step 600 of 90,000 (0%), 1.00/s, 1d more at this pace');
  assert.equal(throughput, 'attempt 2 runs at 1.00/s, 50% slower than attempt 1 (2.00/s)');
  assert.equal(slowWorker, null);
});

test('reported steps are preferred, and need no total', (t) => {
  const { progressAt, write } = copiesIn(t);
  write('attempt_2/command_worker_0.log', 'step 1/10\n');
  write('attempt_2/metrics_worker_0.log', '1764326000000 step=100 loss=1\n1764326100000 step=300 loss=1\n');
  assert.equal(progressAt(noon).progress, 'step 300, 2.00/s');
  write('attempt_2/metrics_worker_0.log', '1764326100000 step=400 total_steps=1000\n');
  assert.match(progressAt(noon).progress ?? '', /^step 400 of 1,000 \(40%\)/);
  const steps = ['1764326000000 step=100', '1764326100000 step=300', ''].join('\n');
  for (const once of [`1764325999000 total_steps=1000\n${steps}`, steps.replace('100', '100 total_steps=1000')]) {
    write('attempt_2/metrics_worker_0.log', once);
    assert.equal(progressAt(noon).progress, 'step 300 of 1,000 (30%), 2.00/s, 5m50s more at this pace');
  }
});

test('without stored times the first line is as old as the attempt, and the last as the file', (t) => {
  const spec = tpuSpec();
  const running = withAttempts(aJob(spec), [readyAllocation], [{ startedAt: noon, runningAt: noon }]);
  const { progressAt, write } = copiesIn(t, running);
  write('attempt_1/command_worker_0.log', 'step 1/10\nstep 2/10\n');
  assert.equal(progressAt(noon).progress, 'step 2 of 10 (20%)');
  write('attempt_1/command_worker_1.log', 'Epoch 3/10, step 40/90\n');
  write('attempt_1/command_worker_0.log', 'Epoch 4/10, step 41/90\n');
  assert.equal(progressAt(noon).progress, 'epoch 3 of 10, step 40 of 90');
});

test('a worker that is behind is named while the attempt runs', (t) => {
  const { progressAt, write } = copiesIn(t);
  for (const worker of [0, 1, 2, 3])
    write(`attempt_2/command_worker_${worker}.log`, lines(100, worker === 2 ? 10 : 50));
  assert.equal(progressAt(noon).slowWorker, 'worker 2 is behind by 40 steps: step 109, the others 149');
  const over = withAttempts(
    aJob(),
    [readyAllocation, readyAllocation],
    [ended, { ...secondRun, ...endedAttempt('succeeded', { message: '' }) }],
  );
  assert.equal(progressAt(noon, over).slowWorker, null);
});

test('dashboards are those that the log names, or event files in the checkpoint folder of this machine', (t) => {
  const { home, progressAt, write } = copiesIn(t);
  const text = 'wandb: 🚀 View run a at: https://wandb.ai/lab/vit/runs/a\ntensorboard --logdir gs://lab/tb\n';
  write('attempt_2/command_worker_0.log', `${text}${lines(1, 20_000)}`);
  assert.deepEqual(progressAt(noon).dashboards, {
    wandb: 'https://wandb.ai/lab/vit/runs/a',
    tensorboard: 'gs://lab/tb',
  });
  const folder = join(home, 'checkpoints');
  mkdirSync(join(folder, 'tb'), { recursive: true });
  writeFileSync(join(folder, 'tb/events.out.tfevents.1.host'), '');
  const spec = localSpec();
  const local = withAttempts(
    aJob({ ...spec, command: { ...spec.command, checkpointDir: folder } }),
    [{ ...readyAllocation, workers: 1 }],
    [{ startedAt: noon, runningAt: noon }],
  );
  assert.equal(progressAt(noon, local).dashboards.tensorboard, join(folder, 'tb'));
});
