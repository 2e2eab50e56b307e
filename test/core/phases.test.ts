// What a log says of how far its program has come, read on piece by piece.

import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, openSync, closeSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { readLog } from '../../src/lab/log-reading.ts';
import { nothingRead, phaseOfLine, phaseText, readOn, type LogSoFar } from '../../src/core/log-lines.ts';

/** Lines as programs and S3's scripts print them, and what each says of the phase. */
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

test('a line says a phase only in words that stand by themselves', () => {
  for (const [line, wanted] of lines) {
    const phase = phaseOfLine(line);
    assert.equal(phase === undefined ? null : phaseText(phase), wanted, line);
  }
});

function readAll(...pieces: readonly string[]): LogSoFar {
  let soFar = nothingRead;
  for (const piece of pieces) soFar = readOn(soFar, piece, soFar.offset + Buffer.byteLength(piece), 200);
  return soFar;
}

test('the newest line counts, and a program at work does not go back to its beginning', () => {
  assert.equal(phaseText(readAll('Staging files...\n').phase), 'Staging');
  assert.equal(phaseText(readAll('Staging files...\nInitializing\n').phase), 'Initializing');
  assert.equal(phaseText(readAll('ep=1\nSampling 10\n').phase), 'Sampling');
  assert.equal(phaseText(readAll('ep=1\nSampling 10\nep=2.5\n').phase), 'Running(ep 2.5)');
  assert.equal(phaseText(readAll('ep=1\n', 'Initializing the evaluation\n').phase), 'Running(ep 1)');
  assert.equal(phaseText(readAll('ep=1\nInitializing the evaluation\n').phase), 'Running(ep 1)');
  assert.equal(phaseText(readAll('nothing', ' of that kind\n').phase), 'Unknown');
});

test('a known trouble is told until a line of progress, and the bare word error is none', () => {
  assert.equal(readAll('ep=1\nan error of 0.3 remains, Error bars are wide, FAIL\n').trouble, null);
  assert.equal(readAll('ep=1\nE: GRPC error: unavailable\n').trouble, 'grpc');
  assert.equal(readAll('ep=1\n', 'E: GRPC error\n', 'some words\n').trouble, 'grpc');
  assert.equal(readAll('ep=1\n', 'E: GRPC error\n', 'ep=1.5\n').trouble, null);
  assert.equal(readAll('ep=1\nE: GRPC error\nep=1.5\n').trouble, null);
  assert.equal(readAll('RESOURCE_EXHAUSTED: GRPC error\n').trouble, 'out_of_memory');
});

test('where a log is cut says nothing: any pieces of it come to the same', () => {
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
      const places = [...new Set(cuts.map((cut) => cut % whole.length))].toSorted((a, b) => a - b);
      const pieces = [0, ...places].map((from, index) => whole.slice(from, places[index] ?? whole.length));
      const [one, other] = [readAll(whole), readAll(...pieces)];
      assert.deepEqual({ ...one }, { ...other });
    }),
  );
});

test('a file is read on from where it was, and only its end at first', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-phases-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const bounds = { first: 40, tail: 10 };
  assert.deepEqual(readLog(path, null, bounds), nothingRead);

  writeFileSync(path, `ep=1 long ago\n${'.'.repeat(400)}\n`);
  const first = readLog(path, null, bounds);
  assert.equal(first.phase.kind, 'unknown');
  assert.equal(first.offset, 415);
  assert.equal(first.tail, `${'.'.repeat(9)}\n`);
  assert.equal(readLog(path, first, bounds), first);

  // A character that has only begun waits for its rest.
  const euro = Buffer.from('€');
  appendFileSync(path, 'ep=2 ');
  appendFileSync(path, euro.subarray(0, 2));
  const second = readLog(path, first, bounds);
  assert.equal(phaseText(second.phase), 'Running(ep 2)');
  assert.equal(second.offset, 420);
  appendFileSync(path, euro.subarray(2));
  const third = readLog(path, second, bounds);
  assert.equal(third.offset, 423);
  assert.ok(third.tail.endsWith('ep=2 €'));

  // Another log of that name begins anew.
  writeFileSync(path, 'Staging files...\n');
  assert.equal(phaseText(readLog(path, third, bounds).phase), 'Staging');
});

test('of five gigabytes the end is read, and what came since is, up to a bound', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-phases-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'log');
  const file = openSync(path, 'w');
  // Holes take no room on the disk, and reading them would take seconds and as much memory.
  writeSync(file, 'ep=7\n', 5 * 1024 ** 3);
  const first = readLog(path, null, { first: 800, tail: 200 });
  assert.equal(phaseText(first.phase), 'Running(ep 7)');
  writeSync(file, 'ep=8\n', 8 * 1024 ** 3);
  closeSync(file);
  const second = readLog(path, first, { first: 800, tail: 200 });
  assert.equal(phaseText(second.phase), 'Running(ep 8)');
  assert.equal(second.offset, 8 * 1024 ** 3 + 5);
});
