/** One table of keys: the parser, the schema for editors and the manual say the same. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { keyReference } from '../../tools/key-tables.ts';
import { manifestSchema } from '../../src/manifest/keys.ts';
import { root } from '../support/root.ts';
import { assertRefused, clusterOf, specOf } from './fake-files.ts';

const manual = readFileSync(join(root, 'docs/configuration.md'), 'utf8');

/** The files that examples name. */
const files = Object.fromEntries(
  [
    '/work/startup.sh',
    '/work/assets/fms.yaml',
    '/work/assets/requirements.txt',
    '/work/train.py',
    '/work/data/x',
    '/home/ada/.ssh/id_rsa',
    '/home/ada/.ssh/id_rsa.pub',
    '/home/ada/.ssh/id_ed25519_github',
    '/home/ada/.ssh/id_ed25519_github.pub',
  ].map((path) => [path, '']),
);

test('the manual has a chapter for every section', () => {
  for (const { section } of keyReference())
    assert.ok(manual.includes(`\n## \`${section}\`\n`), `docs/configuration.md has no chapter for ${section}`);
});

test('every example of the manual parses', () => {
  const blocks = [...manual.matchAll(/```yaml\n([^]*?)```/g)].map((match) => match[1] ?? '');
  assert.ok(blocks.length >= 10);
  for (const block of blocks) {
    const sections = Object.keys((parse(block) ?? {}) as object);
    const capacity = ['tpu', 'hosts', 'local', 'kubernetes'].some((one) => sections.includes(one))
      ? ''
      : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\n';
    const work = sections.includes('command') ? '' : 'command: {run: ls}\n';
    const read = sections.includes('kubernetes') ? clusterOf : specOf;
    assert.doesNotThrow(() => read(`${capacity}${work}${block}`, { files, project: 'my-project' }), block);
  }
});

test("every key's own example is accepted", () => {
  /** Other keys that a section requires. */
  const requiredLines: Readonly<Record<string, readonly string[]>> = {
    tpu: ['project: emulator', 'accelerator: v4-16', 'zone: us-central2-b'],
    ssh: ['private_key: ~/.ssh/id_rsa'],
    gcsfuse: ['bucket_name: a-bucket', 'mount_path: ~/b'],
    docker: ['image: i'],
    conda: ['name: c'],
    command: ['run: ls'],
  };
  const block = (section: string, lines: readonly string[]): string =>
    `${section}:\n${lines.map((one) => `  ${one}\n`).join('')}`;
  for (const { section, rows } of keyReference()) {
    for (const { key, example } of rows) {
      if (example === undefined || /[.[]/.test(key)) continue;
      // A selected section must exist; `enabled: false` selects nothing.
      const beforehand = key === 'adopt' ? ['name: lab-v4'] : [];
      const chosen = key === 'modules' ? ['ssh', 'gcsfuse', 'docker'] : key === 'env_type' ? ['docker'] : [];
      const isCluster = section === 'kubernetes';
      const capacity = isCluster || section === 'local' ? section : 'tpu';
      // The two sections both say what is run.
      const work = isCluster ? [] : ['command'];
      const wanted = new Set([capacity, ...work, section, ...chosen]);
      const text = [...wanted].map((name) => {
        const lines = (requiredLines[name] ?? []).filter((one) => name !== section || !one.startsWith(`${key}:`));
        return block(name, name === section ? [...lines, ...beforehand, `${key}: ${example}`] : lines);
      });
      assert.doesNotThrow(
        () =>
          (isCluster ? clusterOf : specOf)(text.join(''), {
            files: { ...files, '/work/x': '', '/home/ada/.hf_token': '' },
            env: { HOME: '/home/ada', WANDB_API_KEY: 'key' },
          }),
        `${section}.${key}: ${example}`,
      );
    }
  }
});

test('the schema knows every key, by all its names, and nothing else', () => {
  const schema = manifestSchema() as {
    properties: Record<
      string,
      { properties?: Record<string, unknown>; additionalProperties?: unknown; description?: string }
    >;
  };
  assert.deepEqual(
    Object.keys(schema.properties),
    keyReference().map(({ section }) => section),
  );
  for (const { section, rows } of keyReference()) {
    const of = schema.properties[section];
    assert.ok((of?.description ?? '').length > 10, section);
    if (section === 'recovery') continue;
    for (const { key, aliases } of rows) {
      if (/[.[]/.test(key)) continue;
      for (const name of [key, ...aliases]) assert.ok(of?.properties?.[name] !== undefined, `${section}.${name}`);
    }
  }
  assert.equal(schema.properties['job']?.additionalProperties, false);
  assert.doesNotThrow(() => JSON.stringify(schema));
});

test('the schema offers types, zones and presets to editors, each of which is taken', () => {
  const schema = manifestSchema() as {
    properties: Record<string, { properties: Record<string, { examples?: string[] }> }>;
  };
  const offered = (key: string): readonly string[] => schema.properties['tpu']?.properties[key]?.examples ?? [];
  for (const key of ['accelerator', 'zone', 'version']) assert.ok(offered(key).length > 10, key);
  for (const [key, values] of [
    ['accelerator', offered('accelerator')],
    ['zone', offered('zone')],
    ['version', offered('version')],
  ] as const) {
    for (const value of values) {
      const keys = { project: 'my-project', accelerator: 'v4-8', zone: 'us-central2-b', [key]: value };
      const text = `job: {checkpoint_dir: gs://b/c}\ntpu: ${JSON.stringify(keys)}\ncommand: {run: ls}\n`;
      assert.doesNotThrow(() => specOf(text), `${key}: ${value}`);
    }
  }
});

test('a key that the table does not have is refused, whatever its section', () => {
  for (const { section } of keyReference()) {
    if (section === 'vars' || section === 'command' || section === 'hosts') continue;
    assertRefused(`${section}: {zzzzqqqq: 1}\n`, new RegExp(`Unknown key "zzzzqqqq" in ${section}`));
  }
});
