// Progress in a program's output, and the lines that explain its end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  countsOf,
  newestCounts,
  oldestCounts,
  paceOf,
  formatProgress,
  lastOutputLines,
} from '../../src/app/program-output.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';

for (const [line, counts] of [
  ['step  300/300  loss 0.0643', ['step 300/300']],
  ['[12:00:01] Step 40,210 of 90,000 loss 2.1', ['step 40210/90000']],
  ['Epoch [3/10], Step [200/500]: loss 1.2', ['epoch 3/10', 'step 200/500']],
  ['epoch: 3/10 lr=0.1', ['epoch 3/10']],
  ['iter 1_000 out of 2_000', ['iteration 1000/2000']],
  [' 45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]', ['step 450/1000']],
  // None of these is certainly progress.
  ['step 300 loss 0.06', []],
  ['2026/11/20 began', []],
  ['[3/4] Building image', []],
  ['saved 3 of 4 shards', []],
  ['step 12/10', []],
  ['footstep 3/10', []],
  ['step 0/0', []],
] as const) {
  test(`"${line}" has ${counts.length === 0 ? 'no progress' : counts.join(' and ')}`, () => {
    assert.deepEqual(
      countsOf(line).map(({ unit, done, total }) => `${unit} ${done}/${total}`),
      counts,
    );
  });
}

test('the last counting line is used, and the last state of a progress bar', () => {
  assert.equal(newestCounts('step 1/9\nstep 2/9\nsaved\n')[0]?.done, 2);
  assert.equal(newestCounts('step 1/9\rstep 5/9\rdone 5')[0]?.done, 5);
  assert.equal(oldestCounts('hello\nstep 3/9\nstep 4/9')[0]?.done, 3);
  assert.deepEqual(newestCounts('nothing'), []);
});

test('a pace needs one count and enough time', () => {
  const at = (done: number, total = 90_000, unit = 'step') => [{ unit, done, total }];
  assert.deepEqual(paceOf(at(100), at(400), 5 * minute), { done: 300, duration: 5 * minute });
  assert.equal(paceOf(at(100), at(104), 5 * minute), null);
  assert.equal(paceOf(at(100), at(400), 10 * second), null);
  assert.equal(paceOf(at(100, 90_000), at(400, 100), 5 * minute), null);
  assert.equal(paceOf(at(1, 10, 'epoch'), at(8, 10), 5 * minute), null);
  assert.equal(paceOf(at(100), [...at(400), ...at(2, 5, 'epoch')], 5 * minute), null);
  assert.equal(paceOf([], at(400), 5 * minute), null);
});

test('progress is one phrase', () => {
  const counts = [{ unit: 'step', done: 40_210, total: 90_000 }];
  assert.equal(formatProgress({ counts, pace: null }), 'step 40,210 of 90,000 (44%)');
  assert.equal(
    formatProgress({ counts, pace: { done: 8_710, duration: 2 * hour + 5 * minute } }),
    'step 40,210 of 90,000 (44%), 1.16/s in this attempt, 11h54m more at that pace',
  );
  const epochs = [{ unit: 'epoch', done: 8, total: 10 }];
  assert.equal(
    formatProgress({ counts: epochs, pace: { done: 6, duration: 3 * hour } }),
    'epoch 8 of 10 (80%), 2.00/h in this attempt, 1h00m more at that pace',
  );
  assert.equal(
    formatProgress({ counts: [{ unit: 'epoch', done: 3, total: 10 }, ...counts], pace: null }),
    'epoch 3 of 10, step 40,210 of 90,000',
  );
  const all = [{ unit: 'step', done: 300, total: 300 }];
  assert.equal(formatProgress({ counts: all, pace: { done: 290, duration: minute } }), 'step 300 of 300 (100%)');
});

const traceback = [
  'step 40 loss 2.1',
  'Traceback (most recent call last):',
  '  File "train.py", line 80, in <module>',
  '    main()',
  '  File "train.py", line 12, in main',
  '    raise ValueError("no lr")',
  '    ^^^^^^^^^^^^^^^^^^^^^^^^^',
  'ValueError: no lr',
];

test('of a traceback the last frame and the exception are shown, without the markers below the code', () => {
  const lines = ['  File "train.py", line 12, in main', '    raise ValueError("no lr")', 'ValueError: no lr'];
  assert.deepEqual(lastOutputLines(`${traceback.join('\n')}\n`), lines);
  assert.deepEqual(lastOutputLines([...traceback, '', 'srun: error: task 0 exited'].join('\n')), lines);
});

test('the last of two tracebacks is shown: the first caused the second', () => {
  const both = [...traceback, '', 'During handling of the above exception, another exception occurred:', ''];
  const second = ['Traceback (most recent call last):', '  File "train.py", line 90, in run', 'KeyError: 7'];
  assert.deepEqual(lastOutputLines([...both, ...second].join('\n')), second.slice(1));
});

test('a launcher may print a prefix before each line', () => {
  const lines = traceback.map((line) => `[rank0]: ${line}`);
  assert.equal(lastOutputLines(lines.join('\n')).at(-1), '[rank0]: ValueError: no lr');
});

test('a program that continued after a traceback ended for another reason', () => {
  const after = Array.from({ length: 20 }, (_, step) => `step ${step}`);
  assert.deepEqual(lastOutputLines([...traceback, ...after].join('\n')), ['step 17', 'step 18', 'step 19']);
});

test('a truncated traceback is shown by its last lines', () => {
  assert.deepEqual(lastOutputLines(traceback.slice(0, 3).join('\n')), traceback.slice(0, 3));
});

test('without a traceback the last lines are shown, as on a terminal', () => {
  assert.deepEqual(lastOutputLines('a\nb\n\nc\r\n 10%\r 20%\r 30%\nlast'), ['c', ' 30%', 'last']);
  assert.deepEqual(lastOutputLines('one'), ['one']);
  assert.deepEqual(lastOutputLines('\n \n'), []);
  assert.deepEqual(lastOutputLines(''), []);
  assert.equal(lastOutputLines('x'.repeat(5_000))[0]?.length, 300);
});
