// What programs print when they die of something that can be named.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchPattern, patterns } from '../../src/core/log-lines.ts';

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

test('a shell that finds no python is told from one that finds no ipython', () => {
  assert.equal(matchPattern('/a/script: line 1: python: command not found')?.pattern, 'no_python');
  assert.equal(matchPattern('sh: 1: python: not found')?.pattern, 'no_python');
  assert.equal(matchPattern('/a/script: line 1: ipython: command not found'), undefined);
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

test("a text of the job's own comes before every pattern, and its parts must stand in one line", () => {
  const log = 'step 1\nNCCL says\ntimeout\nGRPC error: NCCL watchdog, timeout after 600 s\n';
  const line = 'GRPC error: NCCL watchdog, timeout after 600 s';
  assert.deepEqual(matchPattern(log, ['nothing', 'NCCL*timeout']), { pattern: 'NCCL*timeout', line });
  assert.equal(matchPattern(log, ['NCCL*says*timeout'])?.pattern, 'grpc');
  assert.equal(matchPattern(log, ['*'])?.pattern, 'grpc');
  assert.equal(matchPattern(`${'ab'.repeat(2e6)}\n`, ['a*b*c']), undefined);
});
