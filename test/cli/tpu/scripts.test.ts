// The reports of run_remote.sh: stored once, quick, and never a reason for a training to fail.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { root } from '../../support/root.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { openLabWorld, openSampleLab, type LabWorld } from './lab-world.ts';

const report = ['upd-log', 'xibo:1', '/kmh//logs/1', '/stage/1', 'kmh-tpuvm-v2-32-6', '20250420_011026'];

async function withWindow(): Promise<LabWorld> {
  const world = await openSampleLab();
  await world.job('xibo');
  return world;
}

suite('upd-log', () => {
  test('stores the report unchanged', async () => {
    const { labStore, tpu } = await withWindow();
    const { code, out, err } = await tpu(report);
    assert.deepEqual([code, out, err], [0, '', '']);
    const { at: _, ...stored } = (await labStore.findWindow('xibo', 1))?.window.report ?? { at: 0 };
    assert.deepEqual(stored, {
      logFolder: '/kmh//logs/1',
      stageFolder: '/stage/1',
      tpu: 'kmh-tpuvm-v2-32-6',
      startTime: '20250420_011026',
    });
  });
  test('the same report twice prints nothing; a different one is reported and replaces the first', async () => {
    const { labStore, tpu } = await withWindow();
    await tpu(report);
    assert.equal((await tpu(report)).err, '');
    const { code, err } = await tpu(report.with(2, '/kmh/logs/2'));
    assert.equal(code, 0);
    assert.match(err, /Window 1 of xibo \(job 000001\) changed its log folder from \/kmh\/\/logs\/1 to \/kmh\/logs\/2/);
    assert.equal((await labStore.findWindow('xibo', 1))?.window.report?.logFolder, '/kmh/logs/2');
  });
  const wrong: readonly (readonly [line: readonly string[], sentence: RegExp, code: number])[] = [
    [
      report.with(1, 'xibo:7'),
      /No job of `tpu run` has the window xibo:7\. Nothing was recorded; the script continues/,
      3,
    ],
    [report.with(1, 'bash:1'), /has the window bash:1/, 3],
    [report.with(1, 'xibo'), /`xibo` is not a window such as ada:101/, 2],
    [report.with(1, ''), /`` is not a window/, 2],
    [report.with(2, ''), /upd-log needs five arguments, but argument 2 is empty/, 2],
    [report.slice(0, 4), /needs five arguments, but there are 3/, 2],
    [[...report, 'more'], /needs five arguments, but there are 6/, 2],
  ];
  for (const [line, expected, code] of wrong) {
    test(`refuses ${line.join(' ')}`, async () => {
      const { labStore, tpu } = await withWindow();
      const result = await tpu(line);
      assert.match(result.err, expected);
      assert.equal(result.code, code);
      assert.equal((await labStore.findWindow('xibo', 1))?.window.report, null);
    });
  }
});

test('a script reports only for its own window; a user for any window', async () => {
  const { labStore, tpu } = await withWindow();
  const another = { env: { JOBMAN_WINDOW: 'lyy:1' } };
  for (const line of [report, ['finish-job', 'xibo:1']]) {
    const { code, err } = await tpu(line, another);
    assert.equal(code, 4);
    assert.match(err, /This script belongs to window lyy:1, not to xibo:1\. Nothing was recorded/);
  }
  const untouched = (await labStore.findWindow('xibo', 1))?.window;
  assert.deepEqual([untouched?.report, untouched?.finishedAt], [null, null]);
  for (const env of [{}, { JOBMAN_WINDOW: 'xibo:1' }]) {
    assert.equal((await tpu(report, { env })).code, 0);
    assert.equal((await tpu(['finish-job', 'xibo:01'], { env })).code, 0);
  }
});

test('a database that cannot be written is reported and does not fail the script', async () => {
  const full = (): Promise<never> => Promise.reject(new JobmanError('The disk is full.', exitCode.unreachable));
  const { labStore } = openLabWorld();
  const { tpu } = openLabWorld({ localStore: () => ({ ...labStore, reportWindow: full, finishWindow: full }) });
  for (const line of [report, ['finish-job', 'xibo:1']]) {
    const { code, err } = await tpu(line);
    assert.deepEqual([code, err], [0, 'tpu: The disk is full.\n']);
  }
});

suite('finish-job', () => {
  test('stores the first report', async () => {
    const { labStore, tpu } = await withWindow();
    await tpu(report);
    assert.deepEqual(await tpu(['finish-job', 'xibo:1']), { code: 0, out: '', err: '', commands: [] });
    const first = (await labStore.findWindow('xibo', 1))?.window.finishedAt;
    assert.notEqual(first, null);
    const again = await tpu(['finish-job', 'xibo:1'], { now: () => 1 });
    assert.equal(again.code, 0);
    assert.match(again.err, /has already reported its success/);
    assert.equal((await labStore.findWindow('xibo', 1))?.window.finishedAt, first);
  });
  test('works without upd-log, with a warning', async () => {
    const { labStore, tpu } = await withWindow();
    const { code, err } = await tpu(['finish-job', 'xibo:1']);
    assert.equal(code, 0);
    assert.match(err, /never called upd-log/);
    assert.notEqual((await labStore.findWindow('xibo', 1))?.window.finishedAt, null);
  });
  test('exit code 3 for an unknown window, 2 for wrong arguments', async () => {
    const { tpu } = await withWindow();
    assert.equal((await tpu(['finish-job', 'xibo:9'])).code, 3);
    assert.equal((await tpu(['finish-job'])).code, 2);
    assert.equal((await tpu(['finish-job', 'xibo:1', 'xibo:2'])).code, 2);
    assert.match((await tpu(['finish-job', '-h'])).out, /Usage: tpu finish-job/);
  });
});

test('these commands load neither the command table nor terminal code', () => {
  const loaded = new Set<string>();
  const load = (file: string): void => {
    if (loaded.has(file)) return;
    loaded.add(file);
    const text = readFileSync(join(root, file), 'utf8');
    for (const [, from = ''] of text.matchAll(/^(?:import|export) (?!type )[^;]*? from '(\.[^']*)';/gm)) {
      load(join(dirname(file), from));
    }
  };
  for (const file of ['run-tpu.ts', 'commands/window-reports.ts']) load(join('src/cli/tpu', file));
  assert.deepEqual([...loaded].toSorted(), [
    'src/app/errors.ts',
    'src/cli/tpu/commands/window-reports.ts',
    'src/cli/tpu/run-tpu.ts',
  ]);
});
