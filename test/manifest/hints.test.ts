/** Common mistakes get the suggestion that a colleague would give. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { suggestDuration, formatExactDuration, parseDuration } from '../../src/manifest/durations.ts';
import { problemsOf, specOf, tpu } from './fake-files.ts';

/** The hint about the only problem of a TPU job in which that key has that value. */
function hint(key: string, value: string): string | null {
  const [section = '', name = ''] = key.split('.');
  const base: Record<string, Record<string, string>> = {
    tpu: { project: 'emulator', accelerator: 'v4-16', zone: 'us-central2-b' },
    command: { run: 'ls' },
  };
  base[section] = { ...(section === 'gcsfuse' ? { mount_path: '~/b' } : {}), ...base[section], [name]: value };
  const text = Object.entries(base)
    .map(
      ([one, keys]) =>
        `${one}: {${Object.entries(keys)
          .map(([a, b]) => `${a}: ${b}`)
          .join(', ')}}\n`,
    )
    .join('');
  const problems = problemsOf(text);
  assert.equal(problems.length, 1, problems.join('\n'));
  return /\(did you mean "(.*)"\?\)$/.exec(problems[0] ?? '')?.[1] ?? null;
}

test('a hint is what was meant, ready to be written', () => {
  const hints: readonly (readonly [key: string, value: string, suggestion: string | null])[] = [
    ['tpu.accelerator', 'v5litepod-17', 'v5litepod-16'],
    ['tpu.accelerator', 'v5e-8', 'v5litepod-8'],
    ['tpu.accelerator', 'V4-8', 'v4-8'],
    ['tpu.pricing', 'spott', 'spot'],
    ['tpu.pricing', 'on-demand', 'ondemand'],
    ['tpu.zone', 'us-central2', 'us-central2-b'],
    ['tpu.zone', 'us-central2b', 'us-central2-b'],
    ['tpu.zone', 'us-central2-a', 'us-central2-b'],
    ['tpu.project', 'Emulator', 'emulator'],
    ['tpu.project', 'My Project', 'my-project'],
    ['tpu.name', 'Ada_Run', 'ada-run'],
    ['tpu.tags', '[My_Tag]', 'my-tag'],
    ['tpu.allocation_mode', 'queued_resources', 'queued-resources'],
    ['job.name', 'my run', 'my-run'],
    ['job.name', '"12"', null],
    ['job.stop_signal', 'SIGINT', 'INT'],
    ['job.stop_signal', 'sigterm', 'TERM'],
    ['job.max_runtime', '10 sec', '10s'],
    ['job.max_runtime', '2 hours and 30 minutes', '2h30m'],
    ['job.max_runtime', 'unlimited', 'null'],
    ['job.max_runtime', 'soon', null],
    ['job.budget', '50', '50 USD'],
    ['job.budget', '$1250', '1250 USD'],
    ['job.budget', '50 dollars', '50 USD'],
    ['job.budget', '50 EUR', null],
    ['job.budget', '1e3 USD', null],
    ['job.budget', '-1 USD', null],
    ['job.budget', '.5 USD', null],
    ['job.budget', '"1,250 USD"', null],
    ['job.budget', '99999999999999999999999 USD', null],
    ['job.budget', 'much', null],
    ['job.budget', '0 USD', null],
    ['job.loop', 'ture', 'true'],
    ['job.loop', 'on-failure', 'failures'],
    ['gcsfuse.bucket_name', 'gs://my-bucket/data', 'my-bucket'],
    ['gcsfuse.bucket_name', 'My-Bucket', 'my-bucket'],
    ['venv.python', '3.10.4', '3.10'],
    ['command.workers', 'ALL', 'all'],
    ['recovery.preset', 'resum', 'resume'],
  ];
  for (const [key, value, suggestion] of hints) {
    assert.equal(hint(key, value), suggestion, `${key}: ${value}`);
  }
});

test('yes and no are understood, in quotes too, as the YAML of the older jobman did', () => {
  const preset = (value: string): string => specOf(tpu(`job: {loop: ${value}}\n`)).spec.recovery.preset;
  for (const value of ['yes', '"yes"', 'on', 'True', '"true"']) assert.equal(preset(value), 'loop: true', value);
  for (const value of ['no', '"no"', 'off', 'FALSE']) assert.equal(preset(value), 'pre', value);
});

test('durations in the notation of people and of Slurm', () => {
  const meant: readonly (readonly [string, string | undefined])[] = [
    ['10 sec', '10s'],
    ['5 m', '5m'],
    ['500 ms', '500ms'],
    ['1.5 hours', '1.5h'],
    ['90 Minutes', '90m'],
    ['1 day, 2 hours', '1d2h'],
    ['1-12:00:00', '1d12h'],
    ['00:30:00', '30m'],
    ['-1', 'null'],
    ['forever', 'null'],
    ['10 parsecs', undefined],
    ['12:30', undefined],
    ['99999999 days', undefined],
    ['', undefined],
  ];
  for (const [written, expected] of meant) assert.equal(suggestDuration(written), expected, written);
});

test('a key one level too high is named with its section', () => {
  const lines = problemsOf(tpu('env: {LR: 1}\nname: vit\ngcsfuse: {bucket_name: abc, mount_path: ~/b, dir: /tmp}\n'));
  assert.deepEqual(
    lines.map((line) => line.replace(/^\S+ /, '')),
    [
      'Unknown section "env" (did you mean "job.env"?)',
      'Unknown section "name" (did you mean "job.name"?)',
      'Unknown key "dir" in gcsfuse (did you mean "gcsfuse.cache.dir"?)',
    ],
  );
});

test('durations are read as people write them', () => {
  const table: readonly (readonly [string, number | undefined])[] = [
    ['30s', 30_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['90', 90_000],
    ['1.5h', 5_400_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['0', 0],
    [' 5m ', 300_000],
    ['', undefined],
    ['5', 5_000],
    ['-5', undefined],
    ['5 m', undefined],
    ['5M', undefined],
    ['m5', undefined],
    ['1e3', undefined],
    ['4000d', undefined],
    ['Infinity', undefined],
  ];
  for (const [text, expected] of table) assert.equal(parseDuration(text), expected, text);
});

test('the text of a duration reads back as the same duration', () => {
  assert.equal(formatExactDuration(90_000), '1m30s');
  assert.equal(formatExactDuration(0), '0s');
  for (const duration of [1, 999, 1_000, 61_000, 3_600_001, 86_400_000, 123_456_789]) {
    assert.equal(parseDuration(formatExactDuration(duration)), duration);
  }
});

test('a file of another tool is recognised by its own keys', () => {
  const messages = {
    'resources: {accelerators: tpu-v4-8}\nsetup: pip install x\nrun: python train.py\n':
      'This looks like a SkyPilot task; see docs/migrating.md',
    'name: a\nnum_nodes: 1\nrun: python train.py\n': 'This looks like a SkyPilot task; see docs/migrating.md',
    'type: task\nname: a\ncommands: [python train.py]\n':
      'This looks like a dstack configuration; see docs/migrating.md',
    'fleets: [a]\n': 'This looks like a dstack configuration; see docs/migrating.md',
    '#!/bin/bash\n#SBATCH --time=1:00:00\nsrun python train.py\n':
      'This looks like a Slurm script; see docs/migrating.md',
  };
  for (const [text, message] of Object.entries(messages))
    assert.deepEqual(problemsOf(text), [`cfg.yaml:1:1: ${message}`]);
  // A manifest with such a key is a manifest with a mistake.
  assert.match(problemsOf(tpu('resources: {cpu: 1}\n')).join(), /Unknown section "resources"/);
  assert.match(problemsOf('run: ls\n').join(), /Unknown section "run" \(did you mean "command\.run"\?\)/);
});

test('a GPU leads to the page about Kubernetes', () => {
  for (const type of ['A100:8', 'H100-80GB', 'nvidia-l4', 'V100', 'L40S', 't4', 'MI300X', 'RTX 4090']) {
    const text = `tpu: {project: my-project, accelerator: "${type}", zone: us-central2-b}\ncommand: {run: ls}\n`;
    assert.deepEqual(problemsOf(text), [
      `cfg.yaml:1:41 tpu.accelerator: "${type}" is a GPU, and this section is for TPUs; for GPUs see docs/hosts.md and docs/kubernetes.md`,
    ]);
  }
});

test('a list of commands leads to one script', () => {
  assert.match(
    problemsOf('local: {}\ncommand: {run: [pip install x, python train.py]}\n').join(),
    /command\.run: must be one script, not a list; join the commands with && or use a \| block/,
  );
});
