// The progress that a log shows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  phaseOfLine,
  formatLogPhase,
  matchPattern,
  failurePatterns,
  newestPhase,
  patternAfterProgress,
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

const phaseIn = (text: string): string => formatLogPhase(newestPhase(text));
const patternIn = (text: string): string | null => patternAfterProgress(text)?.pattern ?? null;

test('the newest line counts, and a working program does not return to its beginning', () => {
  assert.equal(phaseIn('Staging files...\n'), 'Staging');
  assert.equal(phaseIn('Staging files...\nInitializing\n'), 'Initializing');
  assert.equal(phaseIn('ep=1\nSampling 10\n'), 'Sampling');
  assert.equal(phaseIn('ep=1\nSampling 10\nep=2.5\n'), 'Running(ep 2.5)');
  assert.equal(phaseIn('ep=1\nInitializing the evaluation\n'), 'Running(ep 1)');
  assert.equal(phaseIn('nothing of that kind\n'), 'Unknown');
});

test('a known failure is reported until a line of progress; the text "error" alone is not a failure', () => {
  assert.equal(patternIn('ep=1\nan error of 0.3 remains, Error bars are wide, FAIL\n'), null);
  assert.equal(patternIn('ep=1\nE: GRPC error: unavailable\n'), 'grpc');
  assert.equal(patternIn('ep=1\nE: GRPC error\nsome text\n'), 'grpc');
  assert.equal(patternIn('ep=1\nE: GRPC error\nep=1.5\n'), null);
  assert.equal(patternIn('ep=1\nE: GRPC error\nep=1.5\n'), null);
  assert.equal(patternIn('RESOURCE_EXHAUSTED: GRPC error\n'), 'out_of_memory');
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
