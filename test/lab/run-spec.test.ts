// The job of a `tpu run`: its spec, its TPU and its configs.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { test } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { defaultAliases } from '../../src/lab/names.ts';
import {
  configArguments,
  jobName,
  buildRunSpec,
  scriptEnvironment,
  retargetSpec,
  persistentTpuSpec,
  tpuInScript,
  tpusOfTypes,
  defaultRule,
  formatCommandLine,
} from '../../src/lab/run-spec.ts';
import { tpuFromName } from '../../src/lab/tpus.ts';

const site = { zones: ['us-central2-b'], remoteUser: null, privateKey: null };

function spec(name: string, options: { readonly rule?: 'rerun'; readonly monitor?: boolean } = {}) {
  const tpu = tpuFromName(name);
  assert.ok(tpu);
  return buildRunSpec({
    directory: '/code/vit',
    tag: 'sweep',
    capacity: persistentTpuSpec(tpu, site, { project: 'emulator' }),
    steps: [],
    rule: options.rule ?? defaultRule(tpu),
    monitor: options.monitor ?? true,
    stageLimit: 10,
    hangGraceMs: 300_000,
    commandLine: '',
    env: {},
  });
}

test('the default rule is pre on preemptible and spot TPUs, else pass; monitor=False turns recovery off', () => {
  assert.equal(spec('kmh-tpuvm-v2-32-1').recovery.preset, 'pass');
  assert.equal(spec('kmh-tpuvm-v2-32-preemptible-1').recovery.preset, 'pre');
  assert.equal(spec('kmh-tpuvm-v2-32-preemptible-1', { rule: 'rerun' }).recovery.preset, 'rerun');
  assert.deepEqual(spec('kmh-tpuvm-v2-32-preemptible-1', { monitor: false }).recovery.rules, []);
  assert.deepEqual(spec('kmh-tpuvm-v2-32-1').recovery.budget, { preemptions: 10, failures: 10, setupFailures: 3 });
});

test('the allocation is persistent, and the script runs on this machine', () => {
  const { capacity, command, tags, name } = spec('kmh-tpuvm-v2-32-1');
  assert.deepEqual(
    [capacity.ownership, capacity.kind === 'tpu' && capacity.name, command.runsOn],
    ['persistent', 'kmh-tpuvm-v2-32-1', 'controller'],
  );
  assert.deepEqual([name, tags], ['vit', ['sweep']]);
});

test('on another TPU the default rule changes, and a chosen rule stays', () => {
  const there = tpuFromName('kmh-tpuvm-v2-32-1');
  assert.ok(there);
  const to = { capacity: persistentTpuSpec(there, site, { project: 'emulator' }), steps: [] };
  const moved = retargetSpec(spec('kmh-tpuvm-v2-32-preemptible-1'), to, { monitor: true });
  assert.deepEqual([moved.recovery.preset, moved.capacity], ['pass', to.capacity]);
  assert.equal(
    retargetSpec(spec('kmh-tpuvm-v2-32-preemptible-1', { rule: 'rerun' }), to, { monitor: true }).recovery.preset,
    'rerun',
  );
  assert.equal(
    retargetSpec(spec('kmh-tpuvm-v2-32-preemptible-1', { monitor: false }), to, { monitor: false }).recovery.preset,
    'pass',
  );
});

test('the job name is the last part of the directory, made valid', () => {
  const names = ['/code/vit', '/code/vit/', '/', '/code/42', '/code/my vit', '/code/--x', '/代码/模型'];
  assert.deepEqual(names.map(jobName), ['vit', 'vit', 'run', 'run-42', 'my_vit', 'x', '模型']);
});

test('scripts get some variables of the caller, and no secrets', () => {
  const env = {
    PATH: '/opt/conda/bin',
    CLOUDSDK_CORE_PROJECT: 'p',
    CLOUDSDK_AUTH_ACCESS_TOKEN: 's',
    WANDB_API_KEY: 's',
    LANG: undefined,
  };
  assert.deepEqual(scriptEnvironment(env), {
    PATH: '/opt/conda/bin',
    CLOUDSDK_CORE_PROJECT: 'p',
  });
});

test('the displayed command line is quoted for a shell', () => {
  assert.equal(
    formatCommandLine('t-1', ['--config.lr=0.1', "--config.n=it's"]),
    `source staging.sh ka=t-1 --config.lr=0.1 '--config.n=it'\\''s'`,
  );
});

test('the TPU of ka.sh is found without running it', () => {
  const cases: readonly (readonly [string, string | null])[] = [
    ['VM_NAME=a-v2-32-1\n', 'a-v2-32-1'],
    ['export VM_NAME="a-v2-32-1"  # mine\n', 'a-v2-32-1'],
    ["  export ZONE=x; export VM_NAME='a-v2-32-1'\n", 'a-v2-32-1'],
    ['# VM_NAME=old\nVM_NAME=new\n', 'new'],
    ['if [ -n "$1" ]; then\n  VM_NAME=$1\nelse\n  VM_NAME=a-1\nfi\n', 'a-1'],
    ['VM_NAME=${1:-a-1}\n', 'a-1'],
    ['VM_NAME=$(pick)\n', null],
    ['OTHER_VM_NAME=a-1\n', null],
    ['ZONE=x\n', null],
    ['VM_NAME=a-1\nVM_NAME=a-1\n', 'a-1'],
  ];
  for (const [text, name] of cases) assert.equal(tpuInScript(text, 'ka.sh'), name, text);
  assert.throws(
    () => tpuInScript('VM_NAME=a-1\nVM_NAME=a-2\n', '/code/ka.sh'),
    (error: unknown) => {
      assert.ok(error instanceof JobmanError);
      assert.equal(error.code, 2);
      assert.match(error.message, /^\/code\/ka\.sh names several TPUs: a-1, a-2\./);
      return true;
    },
  );
});

test('types select TPUs of the registry in any spelling', () => {
  const names = ['x-v2-32-1', 'x-v2-8-1', 'x-v5e-8-1'];
  const tpus = names.map(tpuFromName).filter((tpu) => tpu !== null);
  const named = (types: readonly string[]): readonly string[] => tpusOfTypes(tpus, types).map(({ name }) => name);
  assert.deepEqual(named(['v2-32']), ['x-v2-32-1']);
  assert.deepEqual(named(['v5e-8']), ['x-v5e-8-1']);
  assert.deepEqual(named(['v5litepod-8', 'v2-8']), ['x-v2-8-1', 'x-v5e-8-1']);
  assert.deepEqual(named([]), names);
});

const configs = (line: string) => line.split(' ').map((pair) => pair.split('=') as [key: string, value: string]);

test('aliases and full keys become arguments of the script', () => {
  const args = configArguments(configs('lr=0.01 config.a.b=v ep='), defaultAliases, []);
  assert.deepEqual(args, ['--config.training.learning_rate=0.01', '--config.a.b=v', '--config.training.num_epochs=']);
});

test('the last value of a key counts', () => {
  const args = configArguments(configs('lr=1 bs=8 config.training.learning_rate=2'), defaultAliases, []);
  assert.deepEqual(args, ['--config.training.learning_rate=2', '--config.training.batch_size=8']);
});

test('values are unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      assert.deepEqual(configArguments([['lr', value]], { lr: 'config.lr' }, []), [`--config.lr=${value}`]);
    }),
  );
  for (const value of ["it's", '"', '$(id)', '`id`', 'a=b=c', '; rm -rf /', 'a b', '\n', '两'])
    assert.deepEqual(configArguments([['config.note', value]], {}, []), [`--config.note=${value}`]);
});

test('unknown keys are reported together, with suggestions', () => {
  assert.throws(
    () => configArguments(configs('lrr=1 toString=2 tga=x'), defaultAliases, ['tag']),
    (error: unknown) => {
      assert.ok(error instanceof JobmanError);
      assert.equal(error.code, 2);
      assert.match(error.message, /`lrr` is neither one of your config aliases.* Did you mean lr=\?/);
      assert.match(error.lines.join('\n'), /`toString` is neither/);
      assert.match(error.lines.join('\n'), /`tga` is neither.* Did you mean tag=\?/);
      return true;
    },
  );
});
