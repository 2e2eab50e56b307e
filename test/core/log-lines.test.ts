// The progress that a log shows, read in parts.

import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, openSync, closeSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { readLog } from '../../src/lab/log-reading.ts';
import {
  emptyLogScan,
  phaseOfLine,
  formatLogPhase,
  continueScan,
  type LogScan,
  matchPattern,
  failurePatterns,
} from '../../src/core/model/log-lines.ts';

/** Lines as programs and the lab's scripts print them, with their phases. */
const lines: readonly (readonly [line: string, phase: string | null])[] = [
  ['Staging files...', 'Staging'],
  ['Done staging.', 'Staging'],
  ['Staging dir: /kmh-nfs/staging/alice/250420-ab12cd-code', 'Staging'],
  ['Current dir: /kmh-nfs/staging/alice/250420-ab12cd-code', null],
  ['I0420 01:10:26.123456 139 train.py:41] Initializing model', 'Initializing'],
  ['I0420 01:10:26 train.py:300] Initial compilation, this might take some minutes...', 'Compiling'],
  ['compiling p_train_step', 'Compiling'],
  ['compile: 32.1 s', 'Compiling'],
  ['ep=3.2, loss=0.41, lr=0.0100', 'Running(ep 3.2)'],
  ['[139] ep: 12 step: 400', 'Running(ep 12)'],
  ['Epoch 3/100 |####    |', 'Running(ep 3)'],
  ['train epoch: 7, lr 0.1', 'Running(ep 7)'],
  ['epoch [4/90]  loss 0.3', 'Running(ep 4)'],
  ['Sampling 50000 images', 'Sampling'],
  ['Sampling...', 'Sampling'],
  ['--config.compile=False --config.training.num_epochs=100', null],
  ['num_epochs: 100', null],
  ['checkpoint_per_epoch: 20', null],
  ['epochs: 100', null],
  ['sampling_rate = 3', null],
  ['File "/kmh-nfs/staging/a/code/train.py", line 3, in <module>', null],
  ['JOBNAME=run_lr0.1_ep100_eval', null],
  ['Running command: cd /s/staging ; python main.py --config=compile epoch 3', null],
  ['the error of the fit is 0.3; no FAIL', null],
  ['keep=3', null],
  ['', null],
];

test('a phase counts only as a whole word', () => {
  for (const [line, wanted] of lines) {
    const phase = phaseOfLine(line);
    assert.equal(phase === undefined ? null : formatLogPhase(phase), wanted, line);
  }
});

function readAll(...pieces: readonly string[]): LogScan {
  let soFar = emptyLogScan;
  for (const piece of pieces) soFar = continueScan(soFar, piece, soFar.offset + Buffer.byteLength(piece), 200);
  return soFar;
}

test('the newest line counts, and a working program does not return to its beginning', () => {
  assert.equal(formatLogPhase(readAll('Staging files...\n').phase), 'Staging');
  assert.equal(formatLogPhase(readAll('Staging files...\nInitializing\n').phase), 'Initializing');
  assert.equal(formatLogPhase(readAll('ep=1\nSampling 10\n').phase), 'Sampling');
  assert.equal(formatLogPhase(readAll('ep=1\nSampling 10\nep=2.5\n').phase), 'Running(ep 2.5)');
  assert.equal(formatLogPhase(readAll('ep=1\n', 'Initializing the evaluation\n').phase), 'Running(ep 1)');
  assert.equal(formatLogPhase(readAll('ep=1\nInitializing the evaluation\n').phase), 'Running(ep 1)');
  assert.equal(formatLogPhase(readAll('nothing', ' of that kind\n').phase), 'Unknown');
});

test('a known failure is reported until a line of progress, and the plain text "error" is none', () => {
  assert.equal(readAll('ep=1\nan error of 0.3 remains, Error bars are wide, FAIL\n').pattern, null);
  assert.equal(readAll('ep=1\nE: GRPC error: unavailable\n').pattern, 'grpc');
  assert.equal(readAll('ep=1\n', 'E: GRPC error\n', 'some text\n').pattern, 'grpc');
  assert.equal(readAll('ep=1\n', 'E: GRPC error\n', 'ep=1.5\n').pattern, null);
  assert.equal(readAll('ep=1\nE: GRPC error\nep=1.5\n').pattern, null);
  assert.equal(readAll('RESOURCE_EXHAUSTED: GRPC error\n').pattern, 'out_of_memory');
});

test('any division of a log into parts gives the same result', () => {
  const text = [
    'Staging files...',
    'Initializing',
    'compiling a step\r',
    'ep=1.25 loss 0.3',
    'x: GRPC error',
    'ünd so weiter',
    'ep=13.75',
  ];
  fc.assert(
    fc.property(fc.shuffledSubarray(text), fc.array(fc.nat(200), { maxLength: 6 }), (some, cuts) => {
      const whole = `${some.join('\n')}\n`;
      const offsets = [...new Set(cuts.map((cut) => cut % whole.length))].toSorted((a, b) => a - b);
      const pieces = [0, ...offsets].map((from, index) => whole.slice(from, offsets[index] ?? whole.length));
      const [one, other] = [readAll(whole), readAll(...pieces)];
      assert.deepEqual({ ...one }, { ...other });
    }),
  );
});

test('a file is read from the last offset, and only its end at first', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-phases-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const bounds = { first: 40, tail: 10 };
  assert.deepEqual(readLog(path, null, bounds), emptyLogScan);

  writeFileSync(path, `ep=1 long ago\n${'.'.repeat(400)}\n`);
  const first = readLog(path, null, bounds);
  assert.equal(first.phase.kind, 'unknown');
  assert.equal(first.offset, 415);
  assert.equal(first.tail, `${'.'.repeat(9)}\n`);
  assert.equal(readLog(path, first, bounds), first);

  // An incomplete character waits for its rest.
  const euro = Buffer.from('€');
  appendFileSync(path, 'ep=2 ');
  appendFileSync(path, euro.subarray(0, 2));
  const second = readLog(path, first, bounds);
  assert.equal(formatLogPhase(second.phase), 'Running(ep 2)');
  assert.equal(second.offset, 420);
  appendFileSync(path, euro.subarray(2));
  const third = readLog(path, second, bounds);
  assert.equal(third.offset, 423);
  assert.ok(third.tail.endsWith('ep=2 €'));

  // Another log of that name starts from its beginning.
  writeFileSync(path, 'Staging files...\n');
  assert.equal(formatLogPhase(readLog(path, third, bounds).phase), 'Staging');
});

test('of five gigabytes only the end is read, and later output up to a limit', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-phases-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const file = openSync(path, 'w');
  // Holes take no space on the disk, and reading them would take seconds and as much memory.
  writeSync(file, 'ep=7\n', 5 * 1024 ** 3);
  const first = readLog(path, null, { first: 800, tail: 200 });
  assert.equal(formatLogPhase(first.phase), 'Running(ep 7)');
  writeSync(file, 'ep=8\n', 8 * 1024 ** 3);
  closeSync(file);
  const second = readLog(path, first, { first: 800, tail: 200 });
  assert.equal(formatLogPhase(second.phase), 'Running(ep 8)');
  assert.equal(second.offset, 8 * 1024 ** 3 + 5);
});

for (const { name, anyOf } of failurePatterns) {
  for (const part of anyOf) {
    test(`"${part}" is ${name}`, () => {
      assert.deepEqual(matchPattern(`step 1\nE: ${part} (9)\nbye`), { pattern: name, line: `E: ${part} (9)` });
    });
  }
}

test('the most specific pattern wins, wherever it is', () => {
  assert.equal(matchPattern('GRPC error\nRESOURCE_EXHAUSTED: out of HBM\n')?.pattern, 'out_of_memory');
});

test('the interpreter is found by its message, whatever its name', () => {
  for (const name of ['python', 'python3', '/usr/bin/python3.11']) {
    const line = `${name}: can't open file '/home/a/trian.py': [Errno 2] No such file or directory`;
    assert.equal(matchPattern(line)?.pattern, 'file_missing', line);
  }
});

test('a shell without python differs from one without ipython', () => {
  assert.equal(matchPattern('/a/script: line 1: python: command not found')?.pattern, 'no_python');
  assert.equal(matchPattern('sh: 1: python: not found')?.pattern, 'no_python');
  assert.equal(matchPattern('/a/script: line 1: ipython: command not found'), undefined);
});

test('normal output matches nothing', () => {
  assert.equal(matchPattern('loss 0.3\naccuracy 0.97\n'), undefined);
  assert.equal(matchPattern(''), undefined);
});

test('a line of ten million characters is cut around the match', () => {
  const found = matchPattern(`${'x'.repeat(5e6)}DEADLINE_EXCEEDED${'y'.repeat(5e6)}`);
  assert.equal(found?.pattern, 'deadline');
  assert.ok(found.line.includes('DEADLINE_EXCEEDED') && found.line.length <= 400);
});

test("the job's own text comes before every pattern, and its parts must be in one line", () => {
  const log = 'step 1\nNCCL says\ntimeout\nGRPC error: NCCL watchdog, timeout after 600 s\n';
  const line = 'GRPC error: NCCL watchdog, timeout after 600 s';
  assert.deepEqual(matchPattern(log, ['nothing', 'NCCL*timeout']), { pattern: 'NCCL*timeout', line });
  assert.equal(matchPattern(log, ['NCCL*says*timeout'])?.pattern, 'grpc');
  assert.equal(matchPattern(log, ['*'])?.pattern, 'grpc');
  assert.equal(matchPattern(`${'ab'.repeat(2e6)}\n`, ['a*b*c']), undefined);
});
