// What run_remote.sh tells: noted once, answered quickly, and never in the way of the training.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { root } from '../../support/root.ts';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { openLabWorld, openSampleLab, type LabWorld } from './lab-world.ts';

const args = ['upd-log', 'xibo:1', '/kmh//logs/1', '/stage/1', 'kmh-tpuvm-v2-32-6', '20250420_011026'];

async function withWindow(): Promise<LabWorld> {
  const world = await openSampleLab();
  await world.job('xibo');
  return world;
}

suite('upd-log', () => {
  test('notes down what was told, as it was told', async () => {
    const { record, tpu } = await withWindow();
    const { code, out, err } = await tpu(args);
    assert.deepEqual([code, out, err], [0, '', '']);
    const { at: _, ...report } = (await record.findWindow('xibo', 1))?.window.report ?? { at: 0 };
    assert.deepEqual(report, {
      logFolder: '/kmh//logs/1',
      stageFolder: '/stage/1',
      tpu: 'kmh-tpuvm-v2-32-6',
      startTime: '20250420_011026',
    });
  });
  test('twice alike says nothing; twice differently says so, and the later counts', async () => {
    const { record, tpu } = await withWindow();
    await tpu(args);
    assert.equal((await tpu(args)).err, '');
    const { code, err } = await tpu(args.with(2, '/kmh/logs/2'));
    assert.equal(code, 0);
    assert.match(
      err,
      /Window 1 of xibo \(job 000001\) had told the log folder \/kmh\/\/logs\/1 before; now it is \/kmh\/logs\/2/,
    );
    assert.equal((await record.findWindow('xibo', 1))?.window.report?.logFolder, '/kmh/logs/2');
  });
  const wrong: readonly (readonly [line: readonly string[], sentence: RegExp, code: number])[] = [
    [
      args.with(1, 'xibo:7'),
      /No job of `tpu run` has the window xibo:7, so nothing was noted down; the script goes on/,
      3,
    ],
    [args.with(1, 'bash:1'), /has the window bash:1/, 3],
    [args.with(1, 'xibo'), /`xibo` is no window: a session and a number were expected/, 2],
    [args.with(1, ''), /`` is no window/, 2],
    [args.with(2, ''), /upd-log takes five words and was given an empty one \(number 2\)/, 2],
    [args.slice(0, 4), /takes five words and was given 3 words/, 2],
    [[...args, 'more'], /takes five words and was given 6 words/, 2],
  ];
  for (const [line, sentence, code] of wrong) {
    test(`refused: ${line.join(' ')}`, async () => {
      const { record, tpu } = await withWindow();
      const result = await tpu(line);
      assert.match(result.err, sentence);
      assert.equal(result.code, code);
      assert.equal((await record.findWindow('xibo', 1))?.window.report, null);
    });
  }
});

test('a script tells of its own window only; by hand any window can be put right', async () => {
  const { record, tpu } = await withWindow();
  const another = { env: { JOBMAN_WINDOW: 'lyy:1' } };
  for (const line of [args, ['finish-job', 'xibo:1']]) {
    const { code, err } = await tpu(line, another);
    assert.equal(code, 4);
    assert.match(err, /This is the script of window lyy:1, and it told of xibo:1; nothing was noted down/);
  }
  const untouched = (await record.findWindow('xibo', 1))?.window;
  assert.deepEqual([untouched?.report, untouched?.finishedAt], [null, null]);
  for (const env of [{}, { JOBMAN_WINDOW: 'xibo:1' }]) {
    assert.equal((await tpu(args, { env })).code, 0);
    assert.equal((await tpu(['finish-job', 'xibo:01'], { env })).code, 0);
  }
});

test('a record that cannot be written is said, and neither stops a script nor makes a failure of it', async () => {
  const full = (): Promise<never> => Promise.reject(new JobmanError('The disk is full.', exitCode.unreachable));
  const { record } = openLabWorld();
  const { tpu } = openLabWorld({ store: { ...record, reportWindow: full, finishWindow: full } });
  for (const line of [args, ['finish-job', 'xibo:1']]) {
    const { code, err } = await tpu(line);
    assert.deepEqual([code, err], [0, 'tpu: The disk is full.\n']);
  }
});

suite('finish-job', () => {
  test('is noted down, and twice is once', async () => {
    const { record, tpu } = await withWindow();
    await tpu(args);
    assert.deepEqual(await tpu(['finish-job', 'xibo:1']), { code: 0, out: '', err: '', commands: [] });
    const first = (await record.findWindow('xibo', 1))?.window.finishedAt;
    assert.notEqual(first, null);
    const again = await tpu(['finish-job', 'xibo:1'], { now: () => 1 });
    assert.equal(again.code, 0);
    assert.match(again.err, /had been finished before; nothing has changed/);
    assert.equal((await record.findWindow('xibo', 1))?.window.finishedAt, first);
  });
  test('before upd-log it counts, and says what is missing', async () => {
    const { record, tpu } = await withWindow();
    const { code, err } = await tpu(['finish-job', 'xibo:1']);
    assert.equal(code, 0);
    assert.match(err, /upd-log was never called for it/);
    assert.notEqual((await record.findWindow('xibo', 1))?.window.finishedAt, null);
  });
  test('of an unknown window is code 3, of no window code 2', async () => {
    const { tpu } = await withWindow();
    assert.equal((await tpu(['finish-job', 'xibo:9'])).code, 3);
    assert.equal((await tpu(['finish-job'])).code, 2);
    assert.equal((await tpu(['finish-job', 'xibo:1', 'xibo:2'])).code, 2);
    assert.match((await tpu(['finish-job', '-h'])).out, /Usage: tpu finish-job/);
  });
});

test('their way is short: neither the table of commands nor what draws on a terminal is loaded for them', () => {
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
