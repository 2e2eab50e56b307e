/** The answer of an observation is read completely or not at all. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseObservation } from '../../src/remote/attempt.ts';
import { quote } from '../../src/catalogue/shell.ts';

const whole = `jobman-observation 1
boot 1a2b
now 5000
proof abc
proof d.e_f-1
run 10 running 1000 4000
run 2 exited 143 3000
run 1 vanished the machine was restarted
run 11 starting 4500
end
`;

test('an answer becomes what was seen, attempts in their order', () => {
  assert.deepEqual(parseObservation(whole, 5_900), {
    bootId: '1a2b',
    proofs: ['abc', 'd.e_f-1'],
    runs: [
      { attempt: 1, state: 'vanished', detail: 'the machine was restarted' },
      { attempt: 2, state: 'exited', exitCode: 143, signal: 'TERM', endedAt: 3_000 },
      { attempt: 10, state: 'running', startedAt: 1_000, outputAt: 4_000 },
      { attempt: 11, state: 'starting', since: 4_500 },
    ],
  });
});

test('times of a host whose clock is wrong are shifted to our clock', () => {
  const seen = parseObservation(whole, 105_000);
  assert.deepEqual(seen?.runs[2], { attempt: 10, state: 'running', startedAt: 101_000, outputAt: 104_000 });
});

test('an answer that was cut anywhere is not an answer', () => {
  for (let length = 0; length < whole.length; length += 1)
    assert.equal(parseObservation(whole.slice(0, length), 5_000), undefined);
});

test('an answer with an unknown line is not an answer', () => {
  const lines = [
    'run 3 sleeping 1000',
    'run x running 1000 1000',
    'run 3 running soon 1000',
    'run 3 exited 0',
    'bash: warning: setlocale',
    '',
  ];
  for (const line of lines)
    assert.equal(parseObservation(whole.replace('end\n', `${line}\nend\n`), 5_000), undefined, line);
  assert.equal(parseObservation(`Welcome\n${whole}`, 5_000), undefined);
  assert.equal(parseObservation(whole.replace('boot 1a2b\n', ''), 5_000), undefined);
  assert.notEqual(parseObservation(whole, 5_000), undefined, 'the control');
});

test('an exit code beyond the signals is a plain number', () => {
  const [run] = parseObservation('jobman-observation 1\nboot b\nnow 1\nrun 1 exited 255 1\nend\n', 1)?.runs ?? [];
  assert.deepEqual(run, { attempt: 1, state: 'exited', exitCode: 255, endedAt: 1 });
});

test('a shell returns every quoted argument unchanged', () => {
  const samples = fc.sample(fc.string({ unit: 'binary', maxLength: 20 }), { numRuns: 200, seed: 1 });
  const plain = ["it's", '$HOME `id` \\', '', '-n', 'two\nlines', '*', '!x']
    .concat(samples)
    .filter((sample) => !sample.includes('\0'));
  const printed = execFileSync('/bin/sh', ['-s'], { input: `printf '%s\\0' ${plain.map(quote).join(' ')}` }).toString();
  assert.deepEqual(printed.split('\0').slice(0, -1), plain);
});

test('an argument with a NUL is refused', () => {
  assert.throws(() => quote('a\0b'), /NUL/u);
});
