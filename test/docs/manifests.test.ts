/** Every manifest in a document, or piece of one, is accepted by the parser. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { FileDoor } from '../../src/manifest/door.ts';
import { parseManifest } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/manifest/problems.ts';
import { readRehearsal } from '../../src/emulator/world/rehearsal.ts';
import { documents } from './documents.ts';

/** Whatever file a manifest names is there, in the manifest's own folder. */
const everythingThere: FileDoor = {
  look: (path) =>
    path === '/somewhere' ? { kind: 'folder', entries: [] } : { kind: 'file', bytes: 1, isExecutable: false },
  read: () => ({ bytes: new TextEncoder().encode('x') }),
};

function problemsIn(text: string): readonly string[] {
  const result = parseManifest({
    text,
    file: '/somewhere/train.yaml',
    env: { USER: 'ada' },
    home: '/home/ada',
    door: everythingThere,
    project: null,
    purpose: 'create',
  });
  return 'problems' in result ? formatProblems('train.yaml', result.problems) : [];
}

/** A piece of a manifest with what it needs to be whole. */
function whole(piece: string): string {
  const sections = Object.keys((parse(piece) ?? {}) as object);
  const place = ['tpu', 'local', 'kubernetes'].some((one) => sections.includes(one))
    ? ''
    : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\n';
  return `${place}${sections.includes('command') || sections.includes('kubernetes') ? '' : 'command: {run: ls}\n'}${piece}`;
}

test('every manifest in a document is accepted', () => {
  const blocks = documents().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  const manifests = blocks.filter(({ text }) => !isRehearsal(text));
  assert.ok(manifests.length > 15, 'documents show manifests');
  for (const { document, line, text } of manifests) {
    assert.deepEqual(problemsIn(whole(text)), [], `${document}:${line}`);
  }
});

/** A manifest is a map of sections; a list is a rehearsal of the built-in cloud. */
function isRehearsal(text: string): boolean {
  return Array.isArray(parse(text));
}

test('every rehearsal in a document is one that the built-in cloud can play', () => {
  const blocks = documents().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  const rehearsals = blocks.filter(({ text }) => isRehearsal(text));
  assert.ok(rehearsals.length > 0, 'documents show rehearsals');
  for (const { document, line, text } of rehearsals) assert.ok(readRehearsal(text, `${document}:${line}`).length > 0);
});

test('one with a mistake would not be', () => {
  assert.notDeepEqual(problemsIn(whole('job: {nmae: a}\n')), []);
  assert.notDeepEqual(problemsIn(whole('recovery: reaply\n')), []);
});
