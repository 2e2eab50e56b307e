// The lines of a program's output that explain its end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastException, lastOutputLines } from '../../src/app/program-output.ts';

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
  assert.equal(lastException([...traceback, ...after.slice(0, 3)].join('\n')), 'ValueError: no lr');
  assert.equal(lastException([...traceback, ...after].join('\n')), undefined);
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
