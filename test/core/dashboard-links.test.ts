// The dashboards that a log names. Its text may be hostile.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dashboardLinksOf } from '../../src/core/model/dashboard-links.ts';

const none = { wandb: null, tensorboard: null };

test('the newest run of Weights & Biases is linked, with and without colours', () => {
  const log = [
    'wandb: ⭐️ View project at https://wandb.ai/lab/vit',
    'wandb: 🚀 View run glad-sun-1 at https://wandb.ai/lab/vit/runs/one',
    'wandb: 🚀 View run \u001B[33mglad-sun-2\u001B[0m at: \u001B[34m\u001B[4mhttps://wandb.ai/lab/vit/runs/two\u001B[0m',
    'step 4 loss 2',
  ].join('\n');
  assert.deepEqual(dashboardLinksOf(log), { wandb: 'https://wandb.ai/lab/vit/runs/two', tensorboard: null });
});

for (const url of [
  'javascript:alert(1)',
  'file:///etc/passwd',
  'https://user:secret@wandb.ai/x',
  'https://',
  `https://wandb.ai/${'x'.repeat(600)}`,
  'https://wandb.ai/x\u001B]8;;evil\u0007',
]) {
  test(`${JSON.stringify(url.slice(0, 40))} is not a link`, () => {
    assert.deepEqual(dashboardLinksOf(`wandb: View run a at: ${url}\n`), none);
  });
}

for (const [line, folder] of [
  ['running: tensorboard --logdir /data/tb --port 6006', '/data/tb'],
  ["args: logdir='gs://bucket/run 1'", 'gs://bucket/run'],
  ['TensorBoard logs: ./runs/3.', './runs/3'],
  ['I0301 writing to /ckpt/tb/events.out.tfevents.1764.host.1.0', '/ckpt/tb'],
  ['log_dir: ~/runs', '~/runs'],
] as const) {
  test(`"${line}" names ${folder}`, () => assert.equal(dashboardLinksOf(line).tensorboard, folder));
}

test('other lines name nothing', () => {
  assert.deepEqual(dashboardLinksOf('catalogdir=/x\nTensorBoard is not installed\nwandb: Run history:\n'), none);
});

test('a hostile log takes no long time', () => {
  for (const text of ['/', 'logdir ', 'logdir=/', 'wandb: view run ', 'tfevents/', 'a://'])
    assert.deepEqual(dashboardLinksOf(`${text.repeat(100_000)}\n${`${text.repeat(100)}\n`.repeat(1_000)}`).wandb, null);
});
