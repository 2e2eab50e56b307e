/** Every manifest in a document, or piece of one, is accepted by the parser. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { FileDoor } from '../../src/manifest/door.ts';
import { parseManifest } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/manifest/problems.ts';
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
  const place =
    sections.includes('tpu') || sections.includes('local')
      ? ''
      : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\n';
  return `${place}${sections.includes('command') ? '' : 'command: {run: ls}\n'}${piece}`;
}

test('every manifest in a document is accepted', () => {
  const blocks = documents().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  assert.ok(blocks.length > 15, 'documents show manifests');
  for (const { document, line, text } of blocks) {
    assert.deepEqual(problemsIn(whole(text)), [], `${document}:${line}`);
  }
});

test('one with a mistake would not be', () => {
  assert.notDeepEqual(problemsIn(whole('job: {nmae: a}\n')), []);
  assert.notDeepEqual(problemsIn(whole('recovery: reaply\n')), []);
});
