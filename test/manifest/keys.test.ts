import assert from 'node:assert/strict';
import { test } from 'node:test';
import { presets } from '../../src/core/policy/presets.ts';
import { ownCheckpointSubfolder, workdirPlaceholder } from '../../src/core/model/spec.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { assertEach, assertRefused, parse, problemsOf, problemText, specOf, stepNames, tpu } from './fake-files.ts';

test('a minimal manifest is completed by defaults', () => {
  const { spec, warnings } = specOf(tpu());
  assert.equal(warnings.length, 1, 'a spot TPU without job.checkpoint_dir');
  assert.deepEqual(spec, {
    version: 2,
    name: 'cfg',
    tags: [],
    capacity: {
      kind: 'tpu',
      ownership: 'ephemeral',
      mode: 'queued-resources',
      project: 'emulator',
      zone: 'us-central2-b',
      accelerator: 'v4-16',
      name: 'cfg',
      runtimeVersion: 'tpu-ubuntu2204-base',
      pricing: 'spot',
      startupScript: null,
      networkTags: [],
      metadata: {},
      remoteUser: null,
      privateKey: null,
      pricePerHourUsd: null,
    },
    steps: [],
    command: { script: 'true', runsOn: 'workers', workers: 'all', env: {}, workdir: null, checkpointDir: null },
    recovery: {
      preset: 'pre',
      rules: presets.pre,
      budget: { preemptions: 1000, failures: 3, setupFailures: 3 },
      delayMs: 10 * second,
      delayMaxMs: 10 * minute,
      unreachableGraceMs: 3 * minute,
    },
    limits: { maxRuntimeMs: null, silenceTimeoutMs: null, capacityWaitMs: null, setupTries: 3 },
    stop: { signal: 'TERM', graceMs: 30 * second },
    finish: { capacity: 'release', keepForMs: null },
  });
});

test('every key of the job reaches the spec', () => {
  const { spec } = specOf(
    tpu(
      `job:
  name: pretrain
  remote_user: zephyr
  tags: [a, b, a]
  env: {A: 1, B: "x y", C: 3.10, D: null}
  checkpoint_dir: /home/zephyr/bucket/ckpt/
  silence_timeout: 30m
  max_runtime: 1d12h
  capacity_wait: 90
  stop_signal: INT
  stop_grace: 0
  on_finish: keep
  keep_for: 1h
`,
      'run: ls, env: {B: mine}, workdir: ~/exp, workers: 1',
    ),
  );
  assert.equal(spec.name, 'pretrain');
  assert.deepEqual(spec.tags, ['a', 'b']);
  assert.deepEqual(spec.command, {
    script: 'ls',
    runsOn: 'workers',
    workers: [1],
    env: { A: '1', B: 'mine', C: '3.10', D: '' },
    workdir: '~/exp',
    checkpointDir: `/home/zephyr/bucket/ckpt/${ownCheckpointSubfolder}`,
    checkpoints: 'own',
  });
  assert.deepEqual(spec.limits, {
    maxRuntimeMs: day + 12 * hour,
    silenceTimeoutMs: 30 * minute,
    capacityWaitMs: 90 * second,
    setupTries: 3,
  });
  assert.deepEqual(spec.stop, { signal: 'INT', graceMs: 0 });
  assert.deepEqual(spec.finish, { capacity: 'keep', keepForMs: hour });
  assert.ok(spec.capacity.kind === 'tpu');
  assert.equal(spec.capacity.remoteUser, 'zephyr');
  assert.equal(spec.capacity.name, 'pretrain');
});

test('every key of the TPU reaches the spec', () => {
  const { spec } = specOf(
    `job: {tags: [mine]}
tpu:
  project: my-project
  ownership: persistent
  allocation_mode: tpu-vm
  accelerator: v5litepod-8
  name: ada-\${tpu.accelerator}
  zone: us-west4-a
  version: v2-alpha-tpuv5-lite
  pricing: ondemand
  startup_script: boot.sh
  tags: ["jobman", "experiment"]
  metadata: {owner: "ada", run: 7}
command: {run: ls}
`,
    { files: { '/work/boot.sh': '#!/bin/sh\napt-get update\n' } },
  );
  assert.deepEqual(spec.capacity, {
    kind: 'tpu',
    ownership: 'persistent',
    mode: 'tpu-vm',
    project: 'my-project',
    zone: 'us-west4-a',
    accelerator: 'v5litepod-8',
    name: 'ada-v5litepod-8',
    runtimeVersion: 'v2-alpha-tpuv5-lite',
    pricing: 'ondemand',
    startupScript: '#!/bin/sh\napt-get update\n',
    networkTags: ['jobman', 'experiment'],
    metadata: { owner: 'ada', run: '7' },
    remoteUser: null,
    privateKey: null,
    pricePerHourUsd: null,
  });
  assert.deepEqual(spec.tags, ['mine', 'jobman', 'experiment'], 'the tags of the TPU are labels of the job');
  assert.equal(spec.recovery.preset, 'pass', 'what is not taken away needs no recovery');
});

test('a name of the job makes a name for the TPU', () => {
  const nameOf = (name: string): string => {
    const { capacity } = specOf(tpu(`job: {name: ${JSON.stringify(name)}}\n`)).spec;
    return capacity.kind === 'tpu' ? capacity.name : '';
  };
  assert.equal(nameOf('My_Run.v2'), 'my-run-v2');
  assert.equal(nameOf('2024-llama'), 'llama');
  assert.equal(nameOf('...'), 'job');
});

test('a file whose name is a number gets a job name that is not an id', () => {
  assert.equal(specOf(tpu(), { file: '/work/12.yaml' }).spec.name, 'job-12');
  assert.equal(specOf(tpu(), { file: '/work/-f.yaml' }).spec.name, 'f');
});

test('the local section runs everything on this machine', () => {
  const { spec, warnings } = specOf(
    'local: {workdir: sub}\njob: {checkpoint_dir: ~/ckpt, files: [a]}\ngcsfuse: {bucket_name: abc, mount_path: ~/b}\nssh: {private_key: k}\ncommand: {run: ls, workers: [0]}\n',
    { files: { '/work/sub/x': '' } },
  );
  assert.deepEqual(spec.capacity, { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] });
  assert.equal(spec.command.workdir, '/work/sub');
  assert.equal(spec.command.checkpointDir, `/home/ada/ckpt/${ownCheckpointSubfolder}`);
  assert.deepEqual(spec.steps, []);
  assert.equal(spec.recovery.preset, 'pass');
  assert.equal(warnings.length, 3, warnings.join('\n'));
  assertRefused('local: {workdir: nowhere}\ncommand: {run: ls}\n', /the folder \/work\/nowhere does not exist/);
});

test('a secret in plain job.env is warned about, and a path or another name is not', () => {
  const env = '{WANDB_API_KEY: a, HF_TOKEN: b, db_password: c, MONKEY: d, TOKENS: e, TOKEN: /a/file, X_SECRET: ""}';
  const { warnings } = specOf(`job: {env: ${env}}\nlocal: {}\ncommand: {run: ls}\n`);
  assert.equal(warnings.length, 3, warnings.join('\n'));
  for (const name of ['WANDB_API_KEY', 'HF_TOKEN', 'db_password'])
    assert.ok(
      warnings.some((one) => one.includes(`use job.secrets for ${name}`)),
      name,
    );
});

test('no message repeats a secret that a user wrote instead of its source', () => {
  const value = 'hf_Geheim/x+1';
  for (const written of [value, `env:${value}`, `./${value}`, `[${value}]`, `{value: ${value}}`]) {
    const text = `job: {secrets: {TOKEN: ${written}}}\nlocal: {}\ncommand: {run: ls}\n`;
    for (const purpose of ['create', 'check'] as const) {
      const parsed = parse(text, { purpose });
      const messages = formatProblems('x', 'problems' in parsed ? parsed.problems : parsed.warnings).join();
      assert.match(messages, /secrets/);
      assert.doesNotMatch(messages, /Geheim/);
    }
  }
});

test('a message about a secret names the file if it is certainly a path', () => {
  for (const path of ['~/.config/hf', '/etc/secrets/hf', 'keys/hf.txt']) {
    const text = `job: {secrets: {TOKEN: ${path}}}\nlocal: {}\ncommand: {run: ls}\n`;
    assert.match(problemText(text), new RegExp(`job.secrets.TOKEN: the file ${path} does not exist on this machine$`));
  }
});

test('a job on this machine runs a copy of its working directory too', () => {
  const files = { '/work/sub/x': '' };
  const given = (keys: string, run = 'run: ls') => specOf(`${keys}local: {}\ncommand: {${run}}\n`, { files });
  const { spec, warnings } = given('job: {workdir: sub, checkpoint_dir: ckpt}\n');
  assert.deepEqual(spec.workdir, { tree: null });
  assert.deepEqual(stepNames(spec), ['workdir']);
  assert.equal(spec.command.workdir, workdirPlaceholder);
  assert.equal(
    spec.command.checkpointDir,
    `/work/ckpt/${ownCheckpointSubfolder}`,
    'the checkpoints are outside the copy',
  );
  assert.deepEqual(warnings, []);
  assert.equal(given('job: {workdir: sub}\n', 'run: ls, workdir: a').spec.command.workdir, `${workdirPlaceholder}/a`);
  assert.equal(given('job: {workdir: sub}\n', 'run: ls, workdir: ~/a').spec.command.workdir, '/home/ada/a');
  const both = specOf('job: {workdir: sub}\nlocal: {workdir: sub}\ncommand: {run: ls}\n', { files });
  assert.match(both.warnings.join(), /local\.workdir: has no effect: the command starts in the copy of job\.workdir/);
});

test('the command may run on the machine of jobman', () => {
  const { spec } = specOf(tpu('job: {checkpoint_dir: ckpt}\n', 'run: ls, runs_on: here'));
  assert.equal(spec.command.runsOn, 'controller');
  assert.equal(spec.command.workdir, '/work');
  assert.equal(spec.command.checkpointDir, `/work/ckpt/${ownCheckpointSubfolder}`);
  assertRefused(
    tpu('docker: {image: i}\n', 'run: ls, runs_on: here'),
    /command\.runs_on: here runs the command on this machine, but docker/,
  );
});

test('rules of its own may ask for exit codes, a text in the log and a worker, and have terms of their own', () => {
  const alternatives = 'alternatives: [{zone: us-east5-b, accelerator: v5litepod-16}]';
  const { recovery } = specOf(
    tpu(`recovery:
  rules:
    - {reason: command_failed, exit_code: 42, then: rerun}
    - {reason: command_failed, exit_code: [75, 76], log: NCCL*timeout, then: resume, limit: 5, delay: 1m, delay_max: 1h}
    - {reason: unreachable, worker: 0, then: resume, on: new, avoid_zone: true}
`).replace('us-central2-b}', `us-central2-b, ${alternatives}}`),
  ).spec;
  assert.deepEqual(recovery.rules.slice(0, 3), [
    { reason: 'command_failed', exitCodes: [42], answer: { then: 'rerun', on: 'same' } },
    {
      reason: 'command_failed',
      evidence: 'NCCL*timeout',
      exitCodes: [75, 76],
      answer: { then: 'resume', on: 'same' },
      limit: 5,
      delayMs: minute,
      delayMaxMs: hour,
    },
    { reason: 'unreachable', worker: 0, answer: { then: 'resume', on: 'new' }, avoidZone: true },
  ]);
  assert.deepEqual(recovery.customPatterns, ['NCCL*timeout']);
});

test('recovery is a preset, a looping job, or rules of its own before those of a preset', () => {
  assert.deepEqual(specOf(tpu('recovery: reapply\n')).spec.recovery.rules, presets.reapply);
  const looping = specOf(tpu('job: {loop: true}\n')).spec.recovery;
  assert.equal(looping.preset, 'loop: true');
  assert.deepEqual(looping.budget, { preemptions: 1000, failures: 1000, setupFailures: 3 });
  assert.equal(specOf(tpu('job: {loop: failures}\n')).spec.recovery.preset, 'loop: failures');
  assert.equal(specOf(tpu('job: {loop: no}\n')).spec.recovery.preset, 'pre');
  const own = specOf(
    tpu(`recovery:
  preset: rerun
  rules:
    - {reason: command_failed, evidence: out_of_memory, then: fail}
    - {reason: command_failed, then: resume}
    - {reason: preempted, then: rerun}
  budget: {preemptions: 5, failures: 2, setup_failures: 7}
  delay: 1m
  delay_max: 1h
  unreachable_grace: 10m
`),
  ).spec.recovery;
  assert.equal(own.preset, 'rerun and rules of its own');
  assert.deepEqual(own.rules.slice(0, 3), [
    { reason: 'command_failed', evidence: 'out_of_memory', answer: { then: 'fail', on: 'same' } },
    { reason: 'command_failed', answer: { then: 'resume', on: 'same' } },
    { reason: 'preempted', answer: { then: 'rerun', on: 'new' } },
  ]);
  assert.deepEqual(own.rules.slice(3), presets.rerun);
  assert.deepEqual(own.budget, { preemptions: 5, failures: 2, setupFailures: 7 });
  assert.deepEqual([own.delayMs, own.delayMaxMs, own.unreachableGraceMs], [minute, hour, 10 * minute]);
});

test('versions of Python are one thing in three writings', () => {
  for (const written of ['3.10', '"3.10"', 'python3.10']) {
    const { spec } = specOf(tpu(`venv: {name: v, python: ${written}}\n`));
    assert.match(spec.steps[0]?.apply ?? '', /^python=python3\.10$/m, written);
  }
  assertRefused(tpu('venv: {python: three}\n'), /venv\.python: "three" is not a Python version/);
});

test('a virtual environment has a name or a path', () => {
  const folderOf = (keys: string): string =>
    /^folder=(.*)$/m.exec(specOf(tpu(`venv: ${keys}\n`)).spec.steps[0]?.apply ?? '')?.[1] ?? '';
  assert.equal(folderOf('{name: maxtext}'), '"$HOME"/venv/maxtext');
  assert.equal(folderOf('{path: /opt/maxtext}'), '/opt/maxtext');
  assert.equal(folderOf('{path: ~/envs/maxtext, name: maxtext}'), '"$HOME"/envs/maxtext');
  assertRefused(tpu('venv: {path: /opt/a, name: b}\n'), /does not end with the name/);
});

test('recipes of environments are read here and travel with the job', () => {
  const files = { '/work/assets/r.txt': 'numpy\n-r other.txt\n', '/work/assets/c.yaml': 'dependencies: [python]\n' };
  const venv = specOf(tpu('venv: {name: v, requirements_file: assets/r.txt}\n'), { files });
  assert.match(venv.spec.steps[0]?.apply ?? '', /numpy\n-r other\.txt\nJOBMAN_END/);
  assert.match(venv.warnings.join(), /refers to another file \(-r other\.txt\)/);
  assert.match(
    specOf(tpu('conda: {env_name: c, yaml_file: assets/c.yaml}\n'), { files }).spec.steps[0]?.apply ?? '',
    /dependencies: \[python\]/,
  );
});

test('optional keys of a TPU reach the spec, and are absent if not given', () => {
  const { spec } = specOf(
    `job: {checkpoint_dir: gs://b/c}
tpu:
  project: my-project
  accelerator: v4-16
  zone: us-central2-b
  reservation: lab-v4
  network: tpu-net
  subnetwork: projects/my-project/regions/us-central2/subnetworks/tpu-sub
  service_account: "trainer@\${tpu.project}.example.org"
  data_disks: [{source: imagenet}]
  topology: 2x2x2
  node_count: 2
  valid_until: 6h
command: {run: ls, workers: [3]}
`,
  );
  assert.ok(spec.capacity.kind === 'tpu');
  const { reservation, network, subnetwork, serviceAccount, dataDisks, topology, nodeCount, validForMs, pricing } =
    spec.capacity;
  assert.deepEqual(
    { reservation, network, subnetwork, serviceAccount, dataDisks, topology, nodeCount, validForMs, pricing },
    {
      reservation: 'lab-v4',
      network: 'tpu-net',
      subnetwork: 'projects/my-project/regions/us-central2/subnetworks/tpu-sub',
      serviceAccount: 'trainer@my-project.example.org',
      // Four machines can share it only to read.
      dataDisks: [{ source: 'imagenet', mode: 'read-only' }],
      topology: '2x2x2',
      nodeCount: 2,
      validForMs: 6 * hour,
      // Reserved capacity is not a spot capacity.
      pricing: 'ondemand',
    },
  );
});

test('an alternative takes missing keys from the section, and an image belongs to its generation', () => {
  const { spec } = specOf(
    `job: {checkpoint_dir: gs://b/c}
tpu:
  project: my-project
  accelerator: v5litepod-16
  zone: us-west4-a
  topology: 4x4
  alternatives:
    - zone: us-east5-b
    - {zone: us-east5-b, accelerator: v6e-16}
    - pricing: ondemand
  alternatives_wait: 20m
command: {run: ls}
`,
  );
  assert.ok(spec.capacity.kind === 'tpu');
  assert.equal(spec.capacity.alternativesWaitMs, 20 * minute);
  const own = {
    zone: 'us-west4-a',
    accelerator: 'v5litepod-16',
    pricing: 'spot',
    runtimeVersion: 'v2-alpha-tpuv5-lite',
  };
  assert.deepEqual(spec.capacity.alternatives, [
    { ...own, zone: 'us-east5-b', topology: '4x4', pricePerHourUsd: null },
    { ...own, zone: 'us-east5-b', accelerator: 'v6e-16', runtimeVersion: 'v2-alpha-tpuv6e', pricePerHourUsd: null },
    { ...own, pricing: 'ondemand', topology: '4x4', pricePerHourUsd: null },
  ]);
  // A program that may run on spot capacity is resumed, whichever alternative comes first.
  assert.equal(spec.recovery.preset, 'pre');
});

test('keys of the TPU that contradict each other are reported at their key', () => {
  const lines = (keys: string): string =>
    problemsOf(`tpu: {project: p-1, accelerator: v4-16, zone: us-central2-b, ${keys}}\ncommand: {run: ls}\n`).join(
      '\n',
    );
  assertEach(lines, {
    'node_count: 2, allocation_mode: tpu-vm': /tpu.node_count: requires allocation_mode/,
    'reservation: lab, pricing: spot': /tpu.pricing: is spot, but reserved capacity is always/,
    'topology: 2x2x1': /tpu.topology: 2x2x1 has 4 chips, but v4-16 has 8 \(did you mean "2x2x2/,
    'adopt: true': /tpu.name: is required with tpu.adopt/,
    'adopt: true, ownership: ephemeral, name: lab': /tpu.adopt: contradicts ownership: ephemeral/,
    'ownership: persistent, name: lab, alternatives: [{pricing: ondemand}]': /tpu.alternatives: have no meaning/,
    'data_disks: [{source: d, mode: read-write}]': /data_disks\[0\].mode: is read-write, but 2 workers/,
    'alternatives: [{accelerator: v5e-16}]': /alternatives\[0\].accelerator: "v5e-16" is not a TPU type/,
  });
});

test('adopt selects an existing TPU by its exact name', () => {
  const { spec } = specOf(
    'tpu: {project: p-1, accelerator: v4-16, zone: us-central2-b, adopt: true, name: lab-v4, pricing: ondemand}\ncommand: {run: ls}\n',
  );
  assert.ok(spec.capacity.kind === 'tpu');
  assert.deepEqual([spec.capacity.ownership, spec.capacity.name], ['persistent', 'lab-v4']);
});
