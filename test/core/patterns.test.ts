// What programs print when they die of something that can be named.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchPattern, patterns } from '../../src/core/patterns.ts';

for (const { name, anyOf } of patterns) {
  for (const part of anyOf) {
    test(`"${part}" is ${name}`, () => {
      assert.deepEqual(matchPattern(`step 1\nE: ${part} (9)\nbye`), { pattern: name, line: `E: ${part} (9)` });
    });
  }
}

test('what explains most wins, wherever it stands', () => {
  assert.equal(matchPattern('GRPC error\nRESOURCE_EXHAUSTED: out of HBM\n')?.pattern, 'out_of_memory');
});

test('the interpreter is found by what it says, whatever it is called', () => {
  for (const name of ['python', 'python3', '/usr/bin/python3.11']) {
    const line = `${name}: can't open file '/home/a/trian.py': [Errno 2] No such file or directory`;
    assert.equal(matchPattern(line)?.pattern, 'file_missing', line);
  }
});

test('ordinary output matches nothing', () => {
  assert.equal(matchPattern('loss 0.3\naccuracy 0.97\n'), undefined);
  assert.equal(matchPattern(''), undefined);
});

test('a line of ten million characters is cut around what was found', () => {
  const found = matchPattern(`${'x'.repeat(5e6)}DEADLINE_EXCEEDED${'y'.repeat(5e6)}`);
  assert.equal(found?.pattern, 'deadline');
  assert.ok(found.line.includes('DEADLINE_EXCEEDED') && found.line.length <= 400);
});
