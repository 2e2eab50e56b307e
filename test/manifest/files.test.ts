import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/catalogue/digest.ts';
import { assertEach, problemsOf, specOf, stepNames, tpu, type ParseOptions } from './fake-files.ts';

const files: NonNullable<ParseOptions['files']> = {
  '/work/train.py': 'print(1)\n',
  '/work/data/a.csv': '1,2\n',
  '/work/data/deep/run.sh': '#!/bin/sh\n',
  '/work/data/.git/HEAD': 'x',
  '/work/data/__pycache__/x.pyc': 'x',
  '/home/ada/notes.txt': 'n',
  '/work/large.bin': new Uint8Array(1024 * 1024 + 1),
  '/work/just.bin': new Uint8Array(1024 * 1024),
};

function copied(entries: string, more = files): readonly string[] {
  const [step] = specOf(tpu(`job: {files: ${entries}}\n`), { files: more }).spec.steps;
  return (step?.files ?? []).map((file) => `${file.kind} ${file.to} ${file.mode.toString(8)}`);
}

function refused(entries: string, more = files): string {
  return problemsOf(tpu(`job: {files: ${entries}}\n`), { files: more }).join('\n');
}

test('files and folders are frozen into the step called files, which comes first', () => {
  assert.deepEqual(copied('[train.py, "data:exp/data", "~/notes.txt:/tmp/notes", "train.py:bin/"]'), [
    'blob ~/train.py 644',
    'blob ~/exp/data/a.csv 644',
    'blob ~/exp/data/deep/run.sh 755',
    'blob /tmp/notes 644',
    'blob ~/bin/train.py 644',
  ]);
  const { spec, uploads } = specOf(tpu('job: {files: [train.py]}\nvenv: {}\n'), { files });
  assert.deepEqual(stepNames(spec), ['files', 'venv']);
  const [file] = spec.steps[0]?.files ?? [];
  const [content = Buffer.from('')] = uploads.contents;
  assert.ok(file?.kind === 'blob');
  assert.equal(file.blob, digestOf(content));
  assert.equal(Buffer.from(content).toString(), 'print(1)\n');
});

test('the key of the step follows the content', () => {
  const key = (content: string): string | undefined =>
    specOf(tpu('job: {files: [a]}\n'), { files: { '/work/a': content } }).spec.steps[0]?.key;
  assert.match(key('1') ?? '', /^[0-9a-f]{16}$/);
  assert.equal(key('1'), key('1'));
  assert.notEqual(key('1'), key('2'));
});

test('large things belong in a bucket', () => {
  assert.deepEqual(copied('[just.bin]'), ['blob ~/just.bin 644']);
  assertEach(refused, {
    '[train.py, large.bin]':
      /cfg\.yaml:3:\d+ job\.files\[1\]: large\.bin has 1\.0 MiB; the limit is 1 MiB, so put it in a bucket/,
    '["just.bin:1", "just.bin:2", "just.bin:3", "just.bin:4", "train.py"]':
      /job\.files\[4\]: the files have more than 4 MiB/,
  });
  const many = Object.fromEntries(Array.from({ length: 501 }, (_, n) => [`/work/many/${n}`, 'x']));
  assert.match(refused('[many]', many), /more than 500 files/);
});

test('what cannot be copied is said', () => {
  assert.match(refused('[nothing.py]'), /nothing\.py does not exist \(path: \/work\/nothing\.py\)/);
  assert.match(refused('["train.py:../out"]'), /is outside the login folder/);
  assert.match(refused('["train.py:~bob/x"]'), /is outside the login folder/);
  assert.match(refused('["data:~"]'), /the login folder cannot be replaced/);
  assert.match(refused('[":x"]'), /must be from:to/);
  assert.match(refused('["train.py: "]'), /must be from:to/);
  assert.match(refused('[bad]', { '/work/bad/a\\b': 'x' }), /a control character or a backslash in its name/);
});
