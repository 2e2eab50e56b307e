// Which lines of a log tell how it ended.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastWordsOf } from '../../src/app/last-words.ts';

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

test('of a traceback its last place and its exception are told, without the marks under the code', () => {
  const told = ['  File "train.py", line 12, in main', '    raise ValueError("no lr")', 'ValueError: no lr'];
  assert.deepEqual(lastWordsOf(`${traceback.join('\n')}\n`), told);
  assert.deepEqual(lastWordsOf([...traceback, '', 'srun: error: task 0 exited'].join('\n')), told);
});

test('of two tracebacks the last counts: the first was what the second came of', () => {
  const both = [...traceback, '', 'During handling of the above exception, another exception occurred:', ''];
  const second = ['Traceback (most recent call last):', '  File "train.py", line 90, in run', 'KeyError: 7'];
  assert.deepEqual(lastWordsOf([...both, ...second].join('\n')), second.slice(1));
});

test('a launcher may print a prefix before each line', () => {
  const lines = traceback.map((line) => `[rank0]: ${line}`);
  assert.equal(lastWordsOf(lines.join('\n')).at(-1), '[rank0]: ValueError: no lr');
});

test('a program that went on after a traceback ended of something else', () => {
  const after = Array.from({ length: 20 }, (_, step) => `step ${step}`);
  assert.deepEqual(lastWordsOf([...traceback, ...after].join('\n')), ['step 17', 'step 18', 'step 19']);
});

test('a traceback that was cut off in the middle is told by its last lines', () => {
  assert.deepEqual(lastWordsOf(traceback.slice(0, 3).join('\n')), traceback.slice(0, 3));
});

test('without a traceback the last lines are told, as a terminal would show them', () => {
  assert.deepEqual(lastWordsOf('a\nb\n\nc\r\n 10%\r 20%\r 30%\nlast'), ['c', ' 30%', 'last']);
  assert.deepEqual(lastWordsOf('one'), ['one']);
  assert.deepEqual(lastWordsOf('\n \n'), []);
  assert.deepEqual(lastWordsOf(''), []);
  assert.equal(lastWordsOf('x'.repeat(5_000))[0]?.length, 300);
});
