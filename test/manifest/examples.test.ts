/** The manifests that ship with jobman parse, and mean what they say. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { stepNames } from './pretend.ts';
import { ownCheckpointLevel } from '../../src/core/spec.ts';
import { disk } from '../../src/cli/disk.ts';
import { keyReference } from './key-tables.ts';
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
    door: disk,
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

test('the first job runs on two workers of the built-in cloud and comes back after a preemption', () => {
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
  assert.equal(spec.command.checkpointDir, `~/bucket/checkpoints/${ownCheckpointLevel}`);
});

test('the local example runs where its program is', () => {
  const { spec } = loadSpec('local.yaml');
  assert.deepEqual(spec.capacity, { kind: 'local', ownership: 'standing', workdir: join(configs, 'iris') });
  assert.equal(spec.command.checkpointDir, join(configs, 'iris/checkpoints', ownCheckpointLevel));
});

test("the manuals' own examples use what they choose, in their order", () => {
  const modules = loadSpec('examples/modules.yaml').spec;
  assert.deepEqual(stepNames(modules), ['gcsfuse', 'ssh', 'docker']);
  assert.ok(modules.capacity.kind === 'tpu');
  assert.equal(modules.capacity.name, 'ada-v6e-1');
  assert.equal(modules.capacity.privateKey, '/u/ada/.ssh/id_rsa');
  assert.deepEqual(modules.command.workers, [0]);
  const envType = loadSpec('examples/env-type.yaml').spec;
  assert.deepEqual(stepNames(envType), ['ssh', 'gcsfuse', 'docker']);
  assert.equal(envType.recovery.preset, 'loop: true');
  assert.match(envType.command.script, /export HOME=\/home\/zephyr\n/);
  assert.ok(envType.capacity.kind === 'tpu');
  assert.equal(envType.capacity.privateKey, '/nobody/.ssh/id_rsa');
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
