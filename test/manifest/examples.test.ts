/** The manifests that ship with jobman parse, and mean what they say. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { presets } from '../../src/core/policy/presets.ts';
import { problemsOf, specOf, stepNames } from './fake-files.ts';
import { ownCheckpointSubfolder } from '../../src/core/model/spec.ts';
import { disk } from '../../src/cli/disk.ts';
import { keyReference } from '../../tools/key-tables.ts';
import { loadManifest } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { root } from '../support/root.ts';

const configs = join(root, 'configs');

function load(name: string) {
  const result = loadManifest({
    file: name,
    cwd: configs,
    env: {},
    home: '/nobody',
    files: disk,
    project: null,
    purpose: 'check',
  });
  if ('problems' in result) throw new Error(formatProblems(name, result.problems).join('\n'));
  return result;
}

function loadSpec(name: string) {
  const result = load(name);
  if (!('spec' in result)) throw new Error(`${name} is for a cluster`);
  return result;
}

test('every example parses', () => {
  const names = readdirSync(configs, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));
  assert.ok(names.length >= 5);
  for (const name of names) load(name);
});

test('the first job runs on two workers of the TPU emulator and resumes after a preemption', () => {
  const { spec, warnings } = loadSpec('quick-start.yaml');
  assert.deepEqual(warnings, []);
  assert.ok(spec.capacity.kind === 'tpu');
  assert.deepEqual(
    [spec.capacity.project, spec.capacity.accelerator, spec.capacity.pricing],
    ['emulator', 'v4-16', 'spot'],
  );
  assert.deepEqual(stepNames(spec), ['files', 'gcsfuse']);
  assert.deepEqual(
    spec.steps[0]?.files.map(({ to }) => to),
    ['~/iris/train.py', '~/iris/iris.csv'],
  );
  assert.equal(spec.recovery.preset, 'pre');
  assert.equal(spec.command.checkpointDir, `~/bucket/checkpoints/${ownCheckpointSubfolder}`);
});

test('the local example runs where its program is', () => {
  const { spec } = loadSpec('local.yaml');
  assert.deepEqual(spec.capacity, { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] });
  assert.equal(spec.command.checkpointDir, join(configs, 'iris/checkpoints', ownCheckpointSubfolder));
});

// ------------------------------------------------------------------------------------------ the older jobmans

// The two examples are the manifests that the manuals of the older jobmans show (names of people, images and buckets changed).
// The first generation names what is set up in `setup.modules`, the second has `job.env_type`.

test('the example of the first generation means what its manual says', () => {
  const { spec } = loadSpec('examples/modules.yaml');
  assert.ok(spec.capacity.kind === 'tpu');
  const { capacity } = spec;
  assert.deepEqual(
    [capacity.mode, capacity.accelerator, capacity.name, capacity.zone, capacity.runtimeVersion, capacity.pricing],
    ['queued-resources', 'v6e-1', 'ada-v6e-1', 'us-east1-d', 'v2-alpha-tpuv6e', 'spot'],
  );
  assert.equal(capacity.startupScript, null);
  assert.deepEqual(capacity.networkTags, ['jobman', 'experiment']);
  assert.deepEqual(capacity.metadata, { owner: 'ada', purpose: 'testing jobman' });
  assert.deepEqual(capacity.privateKey, { kind: 'localFile', path: '/u/ada/.ssh/id_rsa' });
  assert.deepEqual(stepNames(spec), ['gcsfuse', 'ssh', 'docker'], 'the order of setup.modules');
  assert.deepEqual(spec.command.workers, [0]);
  assert.equal(spec.command.userScript, 'pip show jax\npip show flax\n');
});

test('the example of the second generation means what its manual says; conda and venv wait', () => {
  const { spec } = loadSpec('examples/env-type.yaml');
  assert.equal(spec.name, 'pretrain-llama3-8b-200b-tune');
  assert.deepEqual(stepNames(spec), ['ssh', 'gcsfuse', 'docker']);
  assert.deepEqual(spec.recovery.rules, presets['loop: true'], 'starts again after every exit');
  assert.ok(spec.capacity.kind === 'tpu');
  assert.deepEqual(spec.capacity.privateKey, { kind: 'localFile', path: '/nobody/.ssh/id_rsa' });
  for (const part of [
    /export HOME=\/home\/zephyr\n/,
    /--workdir \/home\/zephyr/,
    /--privileged[^]*--network=host/,
    /\/home\/zephyr\/\.config\/gcloud:\/root\/\.config\/gcloud/,
  ]) {
    assert.match(spec.command.script, part);
  }
});

/** If the manifest names no project, the settings do. */
const given = {
  project: 'my-project',
  files: Object.fromEntries(
    [
      '/u/ada/.ssh/id_rsa',
      '/u/ada/.ssh/id_rsa.pub',
      '/home/ada/.ssh/id_rsa',
      '/home/ada/.ssh/id_rsa.pub',
      '/home/ada/.ssh/id_ed25519_github',
      '/home/ada/.ssh/id_ed25519_github.pub',
      '/work/assets/fms.yaml',
      '/work/assets/requirements.txt',
    ].map((path) => [path, 'x\n']),
  ),
};
const bare = 'tpu: {accelerator: v4-128, zone: us-central2-b}\n';

for (const name of ['examples/modules.yaml', 'examples/env-type.yaml']) {
  test(`every section of ${name} is taken by itself, with the sections that it chooses`, () => {
    const texts = readFileSync(join(configs, name), 'utf8').split(/^(?=\w+:)/m);
    const sections = new Map(texts.map((text) => [/^\w+/.exec(text)?.[0] ?? '', text] as const));
    sections.delete('');
    assert.ok(sections.size >= 6);
    for (const section of sections.keys()) {
      const chosen = section === 'setup' ? ['gcsfuse', 'ssh', 'docker'] : section === 'job' ? ['docker'] : [];
      const needed = `${section === 'tpu' ? '' : bare}${section === 'command' ? '' : 'command: {run: ls}\n'}`;
      const text = [section, ...chosen].reduce((whole, one) => whole + (sections.get(one) ?? ''), needed);
      assert.doesNotThrow(() => specOf(text, given), section);
    }
  });
}

test('the keys of both generations are two names of one thing', () => {
  const pairs: readonly (readonly [text: string, older: string, newer: string])[] = [
    [`${bare}command: {KEY: "ls -l"}\n`, 'cmd', 'run'],
    [`${bare}command: {run: ls}\nssh: {KEY: /u/ada/.ssh/id_rsa}\n`, 'tpu_private_key', 'private_key'],
    [`${bare}command: {run: ls}\nconda: {KEY: fms}\n`, 'env_name', 'name'],
    [`${bare}command: {run: ls}\nconda: {name: fms, KEY: assets/fms.yaml}\n`, 'yaml_file', 'config_file'],
    [`${bare}command: {run: ls}\ndocker: {image: i, KEY: /w}\n`, 'work_dir', 'workdir'],
    [`${bare}command: {run: ls}\njob: {KEY: {A: b}}\n`, 'environment', 'env'],
  ];
  for (const [text, older, newer] of pairs) {
    const [one, other] = [older, newer].map((key) => specOf(text.replace('KEY', key), given).spec);
    assert.deepEqual(one, other, `${older} and ${newer}`);
  }
});

test('keys that jobman sets itself are refused with advice', () => {
  const lines = problemsOf(
    `job: {name: a, id: "000001", user: ada, dir: /jobs/ada/000001}\ntpu: {accelerator: v4-8, zone: us-central2-b, num_workers: 1, ips: [{worker: 0}], flags: [--async], spot: true}\nbrevo_email: {sender: a}\ncommand: {run: ls}\n`,
    given,
  );
  assert.equal(lines.length, 8, lines.join('\n'));
  for (const key of ['job.id', 'job.user', 'job.dir', 'tpu.ips']) {
    assert.ok(
      lines.some((line) => line.includes(`${key}: is set by jobman`)),
      key,
    );
  }
  assert.match(lines.join('\n'), /tpu\.num_workers: is not needed: tpu\.accelerator determines it; remove it/);
  assert.match(lines.join('\n'), /tpu\.flags: is not supported/);
  assert.match(lines.join('\n'), /tpu\.spot: is not a key; write pricing: spot or pricing: ondemand/);
  assert.match(lines.join('\n'), /brevo_email: is not supported/);
});

test('the template names every key', () => {
  const text = readFileSync(join(configs, 'template.yaml'), 'utf8');
  for (const { section, rows } of keyReference()) {
    assert.match(text, new RegExp(`^(# )?${section}:`, 'm'), section);
    for (const { key } of rows) {
      const name = key.split('.').at(-1)?.replace('[]', '') ?? key;
      assert.match(text, new RegExp(`\\b${name}:`), `${section}.${key}`);
    }
  }
});
