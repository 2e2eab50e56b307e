import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { quote } from '../../src/remote/run-folder.ts';

test('a shell gives back every quoted word as it was', () => {
  const words = fc.sample(fc.string({ unit: 'binary', maxLength: 20 }), { numRuns: 200, seed: 1 });
  const plain = ["it's", '$HOME `id` \\', '', '-n', 'two\nlines', '*', '!x']
    .concat(words)
    .filter((word) => !word.includes('\0'));
  const printed = execFileSync('/bin/sh', ['-s'], { input: `printf '%s\\0' ${plain.map(quote).join(' ')}` }).toString();
  assert.deepEqual(printed.split('\0').slice(0, -1), plain);
});

test('a word with a NUL is refused', () => {
  assert.throws(() => quote('a\0b'), /NUL/u);
});
