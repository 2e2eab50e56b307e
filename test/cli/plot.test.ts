/** `plot`: the curves of a job's metrics as text, and their points as JSON. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { MetricsView, MetricSeriesView, MetricValue } from '../../src/app/client.ts';
import { noon } from '../support/builders.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { eventually } from '../support/eventually.ts';
import { run as runCommand } from '../support/output-schema.ts';
import { openWorld } from '../support/world.ts';
import { createCliHarness, fakeCluster, jobman, jobView, type CliHarnessOptions } from './support/harness.ts';

const pointOf = (value: MetricValue['value'], step: number | null, attempt = 1, at: number | null = null) => ({
  attempt,
  step,
  at,
  value,
});

function seriesOf(
  name: string,
  points: readonly MetricValue[],
  changes: Partial<MetricSeriesView> = {},
): MetricSeriesView {
  const finite = points.map(({ value }) => value).filter((value) => typeof value === 'number');
  const last = points.at(-1);
  assert.ok(last !== undefined);
  return {
    name,
    unit: name === 'throughput' ? 'steps/s' : null,
    points,
    count: points.length,
    last,
    min: finite.length === 0 ? null : Math.min(...finite),
    max: finite.length === 0 ? null : Math.max(...finite),
    nonFinite: points.length - finite.length,
    firstNonFinite: points.find(({ value }) => typeof value !== 'number') ?? null,
    ...changes,
  };
}

const attempt = (ordinal: number) => ({
  attempt: ordinal,
  stage: ordinal - 1,
  startedAt: noon,
  endedAt: null,
  reason: null,
  worker: 0,
  firstStep: 0,
  lastStep: 100,
  totalSteps: null,
  stepsPerSecond: null,
});

function viewOf(series: readonly MetricSeriesView[], changes: Partial<MetricsView> = {}): MetricsView {
  return {
    id: '000042',
    name: 'vit',
    attempts: [attempt(1)],
    names: series.map(({ name }) => name),
    series,
    throughput: null,
    slowWorker: null,
    leftOut: null,
    dashboards: { wandb: null, tensorboard: null },
    ...changes,
  };
}

const line = Array.from({ length: 11 }, (_, index) => pointOf(10 - index, index * 10));

const run = (args: readonly string[], metrics: MetricsView, options: CliHarnessOptions = {}) =>
  jobman(['plot', '42', ...args], { jobs: [jobView({ name: 'vit' })], metrics, ...options });

test('the loss and the throughput are drawn, with the last value, the range and the attempts below the axis', async () => {
  const loss = seriesOf('loss', [...line, ...line.slice(5).map((one) => ({ ...one, attempt: 2 }))]);
  const pace = seriesOf('throughput', [pointOf(1.5, 0), pointOf(2, 100)]);
  const view = viewOf([seriesOf('acc', line), loss, pace], {
    attempts: [attempt(1), attempt(2)],
    throughput: 'attempt 2 runs at 1.00/s, 50% slower than attempt 1 (2.00/s)',
    slowWorker: 'worker 3 is behind: step 90, the others 100',
    leftOut: '2 reported texts that are not metrics, such as "lr=abc"',
    dashboards: { wandb: 'https://wandb.ai/lab/vit/runs/a', tensorboard: '~/ckpt/my tb' },
  });
  const { code, out } = await run(['--width', '40'], view);
  assert.equal(code, 0);
  assert.deepEqual(out.split('\n').slice(0, 16), [
    'Job 000042 (vit): 2 attempts, metrics of',
    'worker 0',
    '',
    'loss: last 0 at step 100, lowest 0,',
    'highest 10, 17 points',
    '     10 ┤⠉⠒⠤⣀',
    '        │    ⠉⠒⠤⣀',
    '        │        ⠉⠒⠤⣀',
    '      5 ┤            ⠉⠒⠤⣀',
    '        │                ⠉⠢⢄⡀',
    '        │                   ⠈⠑⠢⢄⡀',
    '        │                       ⠈⠑⠢⢄⡀',
    '      0 ┤                           ⠈⠑⠢⢄',
    '        └───────────────────────────────',
    '         0            step           100',
    'attempt  1              2',
  ]);
  assert.match(out, /\nthroughput: last 2 steps\/s at step 100,\nlowest 1\.5, highest 2\n/);
  assert.match(out, /\npace {6}Attempt 2 runs at 1\.00\/s, 50%\n {10}slower than attempt 1/);
  assert.match(out, /\nslow {6}Worker 3 is behind: step 90,\n/);
  assert.match(out, /\nleft out {2}2 reported texts that/);
  assert.match(out, /\nwandb {5}https:\/\/wandb\.ai\/lab\/vit\/runs\/a\n/);
  assert.match(out, /tensorboard --logdir\n +~\/'ckpt\/my tb'\n/);
  assert.match(out, /\nothers {4}acc\n/);
});

test('a falling curve falls from the upper left to the lower right, in Braille and in ASCII', async () => {
  const view = viewOf([seriesOf('loss', line)]);
  const braille = (await run(['loss', '--width', '40'], view)).out.split('\n').slice(5, 19);
  assert.match(braille[0] ?? '', /^ {5}10 ┤[\u2800-\u28ff]+$/);
  assert.match(braille.at(-1) ?? '', /^ {6}0 ┤ {20,}[\u2800-\u28ff]+$/);
  const ascii = (await run(['loss', '--width', '40'], view, { env: { LANG: 'C' } })).out.split('\n');
  assert.match(ascii[5] ?? '', /^ {5}10 \+\*+$/);
  assert.match(ascii[18] ?? '', /^ {6}0 \+ {20,}\*+$/);
  assert.match(ascii[19] ?? '', /^ {8}\+-+$/);
  assert.match(ascii.join(''), /^[ -~]*$/);
});

test('a constant is a flat line in the middle of an axis, and a single step has its name below it', async () => {
  const draw = async (...values: readonly MetricValue[]) =>
    (await run(['--width', '30'], viewOf([seriesOf('lr', values)]))).out;
  const flat = await draw(pointOf(-4, 0), pointOf(-4, 10));
  assert.match(flat, /^ {5}-2 ┤\n/m);
  assert.match(flat, /^ {5}-4 ┤⣀{21}\n/m);
  assert.match(flat, /^ {5}-6 ┤\n/m);
  assert.match(await draw(pointOf(1e12, 7)), /1\.5e\+12 ┤\n[^]*5\.0e\+11 ┤\n[^]*\n {16}step 7\n/);
});

test('every line fits a narrow terminal, and there are no control sequences without one', async () => {
  const view = viewOf([seriesOf('loss', line), seriesOf('throughput', line)]);
  const narrow = await run([], view, { terminal: { columns: 40, rows: 24 } });
  for (const text of narrow.out.split('\n')) assert.ok(text.length <= 40, text);
  const piped = await run([], view);
  // eslint-disable-next-line no-control-regex -- there must be none
  assert.doesNotMatch(piped.out, /\u001b/);
});

test('NaN interrupts the curve and is named with its step', async () => {
  const points = [pointOf(1, 0), pointOf('NaN', 10), pointOf('Infinity', 20), pointOf(2, 30)];
  const { out } = await run([], viewOf([seriesOf('loss', points)]));
  assert.match(
    out,
    /loss: last 2 at step 30, lowest 1, highest 2, 4 points, NaN or infinite 2 times,\nfirst at step 10/,
  );
  const none = await run([], viewOf([seriesOf('loss', [pointOf('NaN', 1)])]));
  assert.match(none.out, /loss: last NaN at step 1, 1 point, NaN at step 1\n/);
});

test('single spikes do not flatten the curve, and a line counts them', async () => {
  const spikes = new Map([
    [5, 1e5],
    [9, 2e4],
    [30, -70],
  ]);
  const points = Array.from({ length: 200 }, (_, step) => pointOf(spikes.get(step) ?? 2 + Math.sin(step / 10), step));
  const { out } = await run([], viewOf([seriesOf('loss', points)]));
  const lines = out.split('\n');
  assert.match(lines[2] ?? '', /^loss: .* highest 100,000/);
  assert.equal(lines[3]?.trim(), '▲ 2 points above, up to 100,000');
  assert.match(lines[4] ?? '', /^ +3\.\d+ ┤/);
  assert.match(out, /\n +▼ 1 point below, down to -70\n +└/);
  const reduced = await run([], viewOf([seriesOf('loss', points, { count: 9_000 })]), { env: { LANG: 'C' } });
  assert.match(reduced.out, /\n +\^ points above, up to 100,000\n[^]*\n +v points below, down to -70\n +\+/);
});

test('all charts of a job have one axis, although a program ends with a line without a step', async () => {
  const timed = Array.from({ length: 11 }, (_, index) => pointOf(10 - index, index * 10, 1, noon + index));
  const loss = seriesOf('loss', [...timed, pointOf(0.5, null, 1, noon + 99)]);
  const axes = (out: string) => out.split('\n').filter((_text, index, all) => all[index - 1]?.includes('└') === true);
  const steps = axes((await run([], viewOf([loss, seriesOf('throughput', timed.slice(4))]))).out);
  assert.match(steps[0] ?? '', /^ +0 +step +100$/);
  assert.deepEqual(steps, [steps[0], steps[0]]);
  const without = seriesOf('acc', [pointOf(1, null, 1, noon + 5_000), pointOf(2, null, 1, noon + 60_000)]);
  const times = axes((await run(['loss', 'acc'], viewOf([loss, without]))).out);
  assert.match(times[0] ?? '', /^ +0s +time since the first point +1m$/);
  assert.deepEqual(times, [times[0], times[0]]);
});

test('of many other metrics five are named', async () => {
  const others = Array.from({ length: 200 }, (_, index) => seriesOf(`grad_norm/layer_${index}`, line));
  const { out } = await run([], viewOf([seriesOf('loss', line), ...others]));
  assert.match(out, /\nothers {4}grad_norm\/layer_0,[^]* and\s+195 more\n$/);
});

test('without steps the axis is the time, and without times the line', async () => {
  const timed = [pointOf(1, null, 1, noon), pointOf(2, null, 1, noon + 3_600_000)];
  assert.match((await run([], viewOf([seriesOf('loss', timed)]))).out, / 0s +time since the first point +1h00m\n/);
  assert.match((await run([], viewOf([seriesOf('loss', [pointOf(1, null), pointOf(1, null)])]))).out, / 0 +line +1\n/);
});

test('without a loss the first metric is drawn', async () => {
  const { out } = await run([], viewOf([seriesOf('reward', line), seriesOf('lr', line)]));
  assert.match(out, /\nreward: last 0 at step 100/);
  assert.match(out, /\nothers {4}lr\n/);
  const other = await run([], viewOf([seriesOf('lr', line), seriesOf('val_loss', line)]));
  assert.match(other.out, /\nval_loss: /);
});

test('JSON is one object for each point', async () => {
  const view = viewOf([seriesOf('loss', [pointOf(1, 0, 1, noon), pointOf('NaN', 1)]), seriesOf('acc', line)]);
  const { out } = await run(['LOSS', '--json'], view);
  const at = '2026-11-20T12:00:00.000Z';
  assert.deepEqual(
    out
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text) as object),
    [
      { job: '000042', metric: 'loss', worker: 0, attempt: 1, step: 0, at, value: 1 },
      { job: '000042', metric: 'loss', worker: 0, attempt: 1, step: 1, at: null, value: 'NaN' },
    ],
  );
  const all = await run(['--json', '--all'], view);
  assert.equal(all.out.trimEnd().split('\n').length, 13);
});

test('what does not exist is named, with the metrics that do', async () => {
  const none = await run([], viewOf([]));
  assert.deepEqual([none.code, none.out], [3, '']);
  assert.match(none.err, /Job 000042 has printed no metrics yet\.\n.*jobman mark step=100 loss=0\.3/s);
  const wrong = await run(['los', 'x'], viewOf([seriesOf('loss', line)]));
  assert.equal(wrong.code, 3);
  assert.match(wrong.err, /has no metric "los" and "x"\. Did you mean loss\?\n.*Its metrics: loss/s);
  for (const args of [['--all'], ['--watch', '--json'], ['--width', '0x'], ['--width', '29']]) {
    assert.equal((await run(args, viewOf([seriesOf('loss', line)]))).code, 2, args.join(' '));
  }
  assert.equal((await jobman(['plot'], {})).code, 2);
});

for (const [name, typed, code] of [
  ['q', 'q', 0],
  ['Ctrl-D', '\u0004', 0],
  ['Ctrl-C', '\u0003', 130],
] as const)
  test(`--watch draws until ${name}`, async () => {
    const harness = createCliHarness({
      jobs: [jobView({ name: 'vit' })],
      metrics: viewOf([seriesOf('loss', line)]),
      terminal: { columns: 60, rows: 30 },
    });
    const ended = runCommand(['plot', '42', '--watch'], harness.services);
    assert.ok(await eventually(() => harness.out().includes('loss: last 0 at step 100')));
    harness.typeKeys(typed);
    assert.equal(await ended, code);
  });

for (const command of ['plot', 'report'])
  test(`${command} shows on a terminal how much of a long log is read, and Ctrl-C ends it`, async (t) => {
    const { folder } = openWorld(t);
    const harness = createCliHarness({
      cwd: folder,
      jobs: [jobView({ name: 'vit' })],
      terminal: { columns: 60, rows: 30 },
      async *readMetrics() {
        yield { kind: 'read', attempt: 2, bytes: 5e6, size: 1e9 };
        assert.ok(await eventually(() => harness.err().includes('Reading attempt 2: 5.0 MB of 1.0 GB')));
        harness.signal();
        yield { kind: 'read', attempt: 2, bytes: 6e6, size: 1e9 };
      },
    });
    assert.equal(await runCommand([command, '42'], harness.services), 130);
    assert.match(harness.err(), /Interrupted while reading the logs\./);
    assert.ok(!existsSync(join(folder, 'jobman-report-000042.html')));
  });

test('hostile names reach no terminal', async () => {
  const evil = 'a\u001b]0;x\u0007loss';
  const { out } = await run([], viewOf([seriesOf(evil, line), seriesOf(`b${evil}`, line)]), {
    terminal: { columns: 80, rows: 24 },
  });
  // eslint-disable-next-line no-control-regex -- there must be none
  assert.doesNotMatch(out.replaceAll(/\u001b\[[\d;?]*[a-zA-Z]/g, ''), /[\u0000-\u0009\u000b-\u001f]/);
});

// ------------------------------------------------------------------------------------------ a job in a cluster

const at = Date.UTC(2026, 10, 20, 12, 0, 0);

/** A job whose pod of number 0 was replaced once; pod 1 prints other values. */
function clusterWith(logs: Readonly<Record<string, string>>) {
  const job = aClusterJob({ uid: 'one', createdAt: at, startedAt: at, active: 1, ready: 1 });
  const pods = Object.keys(logs).map((name, order) =>
    aClusterPod({ name, jobUid: 'one', uid: name, index: name.startsWith('b') ? 1 : 0, createdAt: at + order }),
  );
  const cluster = fakeCluster({
    job: async () => job,
    raw: async () => ({}),
    async *pods() {
      yield pods;
    },
    async *logs(name: string) {
      yield Buffer.from(logs[name] ?? '');
    },
  });
  return (args: readonly string[], command: readonly string[] = ['plot', '-j', 'train']) =>
    jobman([...command, ...args], {
      jobs: [],
      services: { cluster: async () => cluster, isClusterConfigured: async () => true },
    });
}

test('the pods of a job in a cluster are its attempts, and their lines have the time of the cluster', async () => {
  const plot = clusterWith({
    'a-1': '2026-11-20T12:00:01Z step 1 loss 3\n2026-11-20T12:00:02Z step 2 loss 2\n',
    'a-2': '2026-11-20T12:10:01Z step 2 loss 2.5\n2026-11-20T12:10:02.5Z step 3 loss nan\n',
    'b-1': '2026-11-20T12:00:01Z step 1 loss 9\n',
  });
  const { out, code } = await plot(['--width', '70']);
  assert.equal(code, 0);
  assert.match(
    out,
    /^Job train: 2 attempts, metrics of worker 0\n\nloss: last NaN at step 3, lowest 2, highest 3, 4 points, NaN at step 3\n/,
  );
  const rows = async (...args: readonly string[]) =>
    (await plot(['loss', '--json', ...args])).out
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text) as { attempt: number; worker: number; at: string; value: unknown });
  const all = await rows('--all');
  assert.deepEqual(
    all.map(({ attempt: ordinal, at: time, value }) => [ordinal, time.slice(11, 23), value]),
    [
      [1, '12:00:01.000', 3],
      [1, '12:00:02.000', 2],
      [2, '12:10:01.000', 2.5],
      [2, '12:10:02.500', 'NaN'],
    ],
  );
  assert.deepEqual(
    (await rows('-w', '1')).map(({ worker, value }) => [worker, value]),
    [[1, 9]],
  );
  assert.deepEqual(
    (await rows('--attempt', '2')).map(({ value }) => value),
    [2.5, 'NaN'],
  );
  assert.equal((await plot(['--attempt', '3'])).code, 3);
  assert.equal((await plot(['-w', 'controller'])).code, 2);
});

test('diff says so if the logs of a pod have no metrics to compare', async () => {
  const { err } = await clusterWith({ 'a-1': 'no numbers\n' })(['train', 'train'], ['diff']);
  assert.match(err, /note: the metrics of train are not compared: its logs have none/);
});
