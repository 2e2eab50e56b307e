/** Every manifest in a document, or piece of one, is accepted by the parser. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { disk } from '../../src/cli/disk.ts';
import type { FileReader } from '../../src/manifest/files.ts';
import { parseManifest } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { parseFaultSchedule } from '../../src/emulator/world/fault-schedule.ts';
import { root } from '../support/root.ts';
import { readDocuments } from './documents.ts';

/** Every file that a manifest names exists, in the manifest's own folder. */
const everythingThere: FileReader = {
  inspect: (path) =>
    path === '/somewhere' ? { kind: 'folder', entries: [] } : { kind: 'file', bytes: 1, isExecutable: false },
  read: () => ({ bytes: new TextEncoder().encode('x') }),
};

/** The examples' own files as they are, and every file of a user that they name. */
const examplesThere: FileReader = {
  inspect: (path) => (path.startsWith(`${root}/`) ? disk.inspect(path) : everythingThere.inspect(path)),
  read: (path, most) => (path.startsWith(`${root}/`) ? disk.read(path, most) : everythingThere.read(path, most)),
};

/** The output of `validate`: problems, or warnings if there are no problems. */
function findingsIn(
  text: string,
  file = '/somewhere/train.yaml',
  reader: FileReader = everythingThere,
): { readonly problems: readonly string[]; readonly warnings: readonly string[] } {
  const result = parseManifest({
    text,
    file,
    env: { USER: 'ada', WANDB_API_KEY: 'key', MY_HF_TOKEN: 'token' },
    home: '/home/ada',
    files: reader,
    project: null,
    purpose: 'create',
  });
  const problems = 'problems' in result ? result.problems : [];
  return { problems: formatProblems('train.yaml', problems), warnings: formatProblems('train.yaml', result.warnings) };
}

const problemsIn = (text: string): readonly string[] => findingsIn(text).problems;

/** A piece of a manifest may lack keys, so warnings about missing keys are ignored. The keys that it has must have an effect. */
const unwanted = /is never asked|never applies|has no effect|is not used/;

/** A piece of a manifest with what it needs to be whole. */
function whole(piece: string): string {
  const sections = Object.keys((parse(piece) ?? {}) as object);
  const capacity = ['tpu', 'hosts', 'local', 'kubernetes'].some((one) => sections.includes(one))
    ? ''
    : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\n';
  return `${capacity}${sections.includes('command') || sections.includes('kubernetes') ? '' : 'command: {run: ls}\n'}${piece}`;
}

test('every manifest in a document is accepted', () => {
  const blocks = readDocuments().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  const manifests = blocks.filter(({ text }) => !isRehearsal(text));
  assert.ok(manifests.length > 15, 'documents show manifests');
  for (const { document, line, text } of manifests) {
    const { problems, warnings } = findingsIn(whole(text));
    assert.deepEqual(problems, [], `${document}:${line}`);
    assert.deepEqual(
      warnings.filter((warning) => unwanted.test(warning)),
      [],
      `${document}:${line}`,
    );
  }
});

test('every example is accepted, and nothing in it is without effect', () => {
  const folder = join(root, 'configs');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));
  assert.ok(names.length > 4);
  for (const name of names) {
    const { problems, warnings } = findingsIn(
      readFileSync(join(folder, name), 'utf8'),
      join(folder, name),
      examplesThere,
    );
    assert.deepEqual(problems, [], name);
    assert.deepEqual(
      warnings.filter((warning) => unwanted.test(warning)),
      [],
      name,
    );
  }
});

/** A manifest is a map of sections; a list is a fault schedule of the TPU emulator. */
function isRehearsal(text: string): boolean {
  return Array.isArray(parse(text));
}

test('every fault schedule in a document is valid', () => {
  const blocks = readDocuments().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  const rehearsals = blocks.filter(({ text }) => isRehearsal(text));
  assert.ok(rehearsals.length > 0, 'documents show fault schedules');
  for (const { document, line, text } of rehearsals)
    assert.ok(parseFaultSchedule(text, `${document}:${line}`).length > 0);
});

test('one with a mistake would not be', () => {
  assert.notDeepEqual(problemsIn(whole('job: {nmae: a}\n')), []);
  assert.notDeepEqual(problemsIn(whole('recovery: reaply\n')), []);
});
