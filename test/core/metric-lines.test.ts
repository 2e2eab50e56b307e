// The numbers and the progress that a program prints.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createChance } from '../../sim/chance.ts';
import {
  countsOf,
  createLineFinder,
  createStepCarrier,
  maxMetricLineLength,
  metricsOfLine,
  metricsOfReport,
} from '../../src/core/model/metric-lines.ts';

for (const [line, counts] of [
  ['step  300/300  loss 0.0643', ['step 300/300']],
  ['[12:00:01] Step 40,210 of 90,000 loss 2.1', ['step 40210/90000']],
  ['Epoch [3/10], Step [200/500]: loss 1.2', ['epoch 3/10', 'step 200/500']],
  ['epoch: 3/10 lr=0.1', ['epoch 3/10']],
  ['iter 1_000 out of 2_000', ['iteration 1000/2000']],
  [' 45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]', ['step 450/1000']],
  ['Training:  45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]', ['step 450/1000']],
  // None of these is certainly progress.
  ['Downloading shards:  45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]', []],
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

/** `100/900 loss=0.3`: the step, its total, the values. */
function describe(line: string): string | undefined {
  const found = metricsOfLine(line);
  if (found === undefined) return undefined;
  const total = found.total === null ? '' : `/${found.total}`;
  return [`${found.step ?? '-'}${total}`, ...found.values.map(([name, value]) => `${name}=${value}`)].join(' ');
}

for (const [line, expected] of [
  ['step 40210 loss 2.114 acc 0.513', '40210 loss=2.114 acc=0.513'],
  ['step=100 loss=0.3', '100 loss=0.3'],
  ['Step 40,210 loss 2.1', '40210 loss=2.1'],
  ['Step 100/90000 | loss: 0.3 | 1.2 it/s', '100/90000 loss=0.3 it/s=1.2'],
  // Hugging Face's Trainer; newer versions print strings.
  ["{'loss': 0.3, 'learning_rate': 5e-05, 'epoch': 1.0}", '- loss=0.3 learning_rate=0.00005 epoch=1'],
  ["{'loss': '0.3', 'epoch': '1.0'}", '- loss=0.3 epoch=1'],
  ['{"step": 100, "loss": 0.3, "ts": "2026-01-01T00:00:00"}', '100 loss=0.3'],
  // MaxText
  [
    'completed step: 5, seconds: 1.2, TFLOP/s/device: 90, Tokens/s/device: 2000.5, loss: 7.1',
    '5 seconds=1.2 TFLOP/s/device=90 Tokens/s/device=2000.5 loss=7.1',
  ],
  // Keras
  ['100/100 ━━━━ 1s 2ms/step - accuracy: 0.9000 - val_loss: nan', '- accuracy=0.9 val_loss=NaN ms/step=2'],
  // absl
  ['I0301 12:00:00.123456 140 trainer.py:55] step = 100, loss = 0.3 (1.2 sec)', '100 loss=0.3'],
  ['2026-01-01 12:00:00,123 - INFO - trainer.py:120 - step 5 loss 3.2e-1', '5 loss=0.32'],
  ['[2026-11-28 10:00:00][rank0]: step: 7 loss: inf, mem: 12.3GiB', '7 loss=Infinity mem=12.3'],
  // PyTorch Lightning counts the batches of each epoch, from epoch 0.
  [
    'Epoch 3:  10%|█  | 10/100 [00:01<00:09, 9.98it/s, v_num=0, train_loss=0.3]',
    '310 epoch=3 train_loss=0.3 it/s=9.98',
  ],
  ['Epoch [3/10], Step [200/500]: Loss: 1.2', '1200/5000 epoch=3 Loss=1.2'],
  [' 10%|█         | 500/5000 [00:10<01:30, 49.0it/s]', '500/5000 it/s=49'],
  // nanoGPT
  ['iter 100: loss 2.1034, time 350.12ms, mfu 30.00%', '100 loss=2.1034 time=350.12 mfu=30'],
  ['step 0: train loss 4.2, val loss 4.3', '0 train_loss=4.2 val_loss=4.3'],
  // Megatron
  [
    ' iteration       10/   90000 | learning rate: 1.500E-04 | lm loss: 9.1E+00 | grad norm: 1.2 |',
    '10/90000 learning_rate=0.00015 lm_loss=9.1 grad_norm=1.2',
  ],
  ['loss: tensor(0.3, device=cuda:0) step: 5', '5 loss=0.3'],
  ['loss=Array(-0.3, dtype=float32)', '- loss=-0.3'],
  ['\u001B[32mstep 5\u001B[0m loss \u001B[1m0.5\u001B[0m', '5 loss=0.5'],
  ['step 100 took 3 seconds on 4 workers', '100'],
  // Not about training, or not a number.
  ['connecting to host: port=8476 timeout: 30', undefined],
  ['eval_steps=500, save_steps=1000, max_steps: 90000', undefined],
  ['saved step_100/ckpt', undefined],
  ['loss function: mse', undefined],
  ['Traceback: step failed', undefined],
  ['Downloading: 45%|##| 450/1000 [00:10<00:12, 45.0it/s]', undefined],
  ['step 1.2.3', undefined],
  ['', undefined],
] as const) {
  test(`"${line}" gives ${expected ?? 'nothing'}`, () => assert.equal(describe(line), expected));
}

test('a name occurs once, and a line has at most 64 values', () => {
  assert.equal(describe('step 1 loss=1 loss=2'), '1 loss=2');
  const many = Array.from({ length: 200 }, (_, index) => `m${index}=1`).join(' ');
  assert.equal(metricsOfLine(`step 1 ${many}`)?.values.length, 64);
});

test('of a longer line only the beginning is read, and quickly', () => {
  const long = `step 1 loss 2 ${'x'.repeat(10_000_000)} acc=3`;
  assert.equal(describe(long), '1 loss=2');
  // A pattern that tries each of these again from each position would not end.
  for (const text of ['a.', 'a=', '1,', "'", 'loss ', '1_', ' | ']) metricsOfLine(text.repeat(5_000));
});

for (const [line, expected, unreadable = []] of [
  ['1764326052123 step=100 loss=0.3', [1764326052123, 100, null, 'loss=0.3']],
  ['step=100 total_steps=900 x=-1e-5', [null, 100, 900, 'x=-0.00001']],
  // Ten digits are seconds, sixteen microseconds, nineteen nanoseconds.
  ['1764326052123456 loss=1', [1764326052123, null, null, 'loss=1']],
  ['1764326052123456789 loss=1', [1764326052123, null, null, 'loss=1']],
  ['9999999999999999999 loss=1', [10_000_000_000_000, null, null, 'loss=1']],
  ['99999999999999 loss=1', [99_999_999_999_999, null, null, 'loss=1']],
  ['1764326052 loss=nan a/b=inf c=-Infinity', [1764326052000, null, null, 'loss=NaN a/b=Infinity c=-Infinity']],
  ['epoch=3', [null, null, null, 'epoch=3']],
  ['loss=abc step=4 lr', [null, 4, null, ''], ['loss=abc', 'lr']],
  ['step=-1 loss=2', [null, null, null, 'loss=2'], ['step=-1']],
  ['1764326052123', undefined, ['1764326052123']],
  ['half a li', undefined, ['half a li']],
] as const) {
  test(`the reported line "${line}" gives ${expected === undefined ? 'nothing' : 'its metrics'}`, () => {
    const leftOut: string[] = [];
    const found = metricsOfReport(line, (text) => leftOut.push(text));
    assert.deepEqual(leftOut, unreadable);
    const text = found?.values.map(([name, value]) => `${name}=${value}`).join(' ');
    assert.deepEqual(found === undefined ? undefined : [found.at, found.step, found.total, text], expected);
  });
}

test('a line without a step has that of the progress bar before it, but not that of an evaluation', () => {
  const carry = createStepCarrier();
  const stepsOf = (...lines: readonly string[]) =>
    lines.map((text) => {
      const line = metricsOfLine(text);
      return line === undefined ? undefined : (carry(line)?.step ?? null);
    });
  const bar = (done: number, total: number) => ` 10%|#    | ${done}/${total} [00:10<01:30, 49.0it/s]`;
  assert.deepEqual(
    stepsOf("{'loss': 9.0}", bar(500, 5000), "{'loss': 0.3}", bar(7, 20), "{'eval_loss': 0.4}", bar(600, 5000)),
    [null, 500, 500, null, 500, 600],
  );
});

test('any division of the stream into chunks gives the same lines at the same offsets', () => {
  const pieces = [
    'step 1 loss 0.5\n',
    ' 10%|#  | 1/10 [00:01<00:09]\r 20%|#  | 2/10 [00:02<00:08]\r\n',
    'Verlust ÄÖÜ 損失 step 3 loss=0.25\n',
    '\n\n',
    `step 4 loss 1 ${'y'.repeat(3 * maxMetricLineLength)} loss=7\n`,
    'step 5\u0008\u0008step 6 loss nan\n',
    'step 7 loss 1',
  ];
  const bytes = Buffer.from(pieces.join(''));
  const read = (cuts: readonly number[]) => {
    const finder = createLineFinder(metricsOfLine, 100);
    const ends = [...cuts, bytes.length];
    const found = ends.flatMap((end, index) => finder.push(bytes.subarray(cuts[index - 1] ?? 0, end)));
    return [...found, ...finder.end()];
  };
  const whole = read([]);
  assert.deepEqual(
    whole.map(({ line }) => line.step),
    [1, 1, 2, 3, 4, 5, 6, 7],
  );
  assert.equal(whole.at(-1)?.end, 100 + bytes.length);
  const chance = createChance(1);
  for (let round = 0; round < 300; round += 1) {
    const count = chance.between(1, 40);
    const cuts = Array.from({ length: count }, () => chance.between(0, bytes.length)).toSorted((a, b) => a - b);
    assert.deepEqual(read(cuts), whole, `cuts at ${cuts.join(', ')}`);
  }
  assert.deepEqual(read(Array.from({ length: bytes.length }, (_, index) => index)), whole);
});
