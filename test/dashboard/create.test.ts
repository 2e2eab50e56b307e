/** The draft of a new job, its templates, and the fields of its form. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  changeDraft,
  draft,
  draftOf,
  isChanged,
  removeDraft,
  startDraft,
  storedDraft,
} from '../../src/dashboard/create/draft.ts';
import { controlText, fieldGroups } from '../../src/dashboard/create/fields.ts';
import { templates } from '../../src/dashboard/create/templates.ts';
import { parseForEditing, valueAt } from '../../src/manifest/edit.ts';
import { noFiles } from '../../src/manifest/files.ts';
import { parseManifest } from '../../src/manifest/parse.ts';

const start = { job: null, name: 'a', text: 'local: {}\n' };

test('each text has its own idempotency key, and the same text keeps it', () => {
  startDraft('ada', start);
  const first = draft.value?.key;
  assert.match(first ?? '', /^[0-9a-f]{32}$/);
  changeDraft(start.text);
  assert.deepEqual([draft.value?.key, isChanged(draft.value!)], [first, false]);
  changeDraft('job: {}\n');
  assert.deepEqual([draft.value?.key === first, isChanged(draft.value!)], [false, true]);
});

test('a draft is for its user only, and ends with its job', () => {
  startDraft('ada', start);
  assert.deepEqual([draftOf('ada')?.text, draftOf('bob')], [start.text, null]);
  assert.equal(draftOf(null)?.text, start.text);
  removeDraft();
  assert.equal(draftOf('ada'), null);
});

test('everything else than a draft in the storage of the tab is no draft', () => {
  startDraft('ada', start);
  const text = JSON.stringify(draft.value);
  assert.deepEqual(
    storedDraft(() => text),
    draft.value,
  );
  for (const garbage of [null, '', '5', 'null', '[]', '{', '{"user":"ada"}', text.replace('"local: {}\\n"', '5')])
    assert.equal(
      storedDraft(() => garbage),
      null,
      String(garbage),
    );
  const forbidden = (): never => {
    throw new Error('forbidden');
  };
  assert.equal(storedDraft(forbidden), null);
});

test('a list that one line with commas would change is only in the text', () => {
  const textOf = (tags: string) => {
    const document = parseForEditing(`job: {tags: ${tags}}`);
    assert.ok(document !== undefined);
    return controlText(valueAt(document, ['job', 'tags']));
  };
  assert.deepEqual(['[a, b]', 'a', '', '["a,b", c]', '["", a]', '{a: b}'].map(textOf), [
    'a, b',
    'a',
    '',
    null,
    null,
    null,
  ]);
});

test('each template is valid without any file of a machine', () => {
  for (const { name, text } of templates) {
    const result = parseManifest({
      text,
      file: '/a/job.yaml',
      home: '/a',
      env: {},
      files: noFiles,
      project: null,
      purpose: 'create',
    });
    assert.ok('spec' in result, `${name} ${JSON.stringify(result)}`);
    // The project is the person's own.
    assert.deepEqual(
      result.warnings.filter(({ path }) => path !== 'tpu.project'),
      [],
      name,
    );
  }
});

test('the form has the keys of the capacity of the job, with the controls of their schemas', () => {
  const names = (text: string) => {
    const document = parseForEditing(text);
    assert.ok(document !== undefined);
    return fieldGroups(document).flatMap(({ fields }) => fields);
  };
  const tpu = names('tpu: {}\nrecovery: {preset: pre}\n');
  assert.deepEqual(
    tpu.filter(({ isRequired }) => isRequired).map(({ name }) => name),
    ['tpu.accelerator', 'tpu.zone', 'command.run'],
  );
  const controls = Object.fromEntries(tpu.map(({ name, control }) => [name, control]));
  assert.deepEqual(controls['tpu.pricing'], { kind: 'choice', options: ['spot', 'ondemand', 'preemptible'] });
  assert.deepEqual([controls['job.tags']?.kind, controls['command.run']?.kind], ['list', 'script']);
  assert.ok(controls['tpu.zone']?.kind === 'text' && controls['tpu.zone'].examples.includes('us-central2-b'));
  assert.ok('recovery.preset' in controls);
  assert.deepEqual(tpu.find(({ name }) => name === 'command.run')?.names, ['command.run', 'command.cmd']);
  assert.ok(tpu.length <= 20);
  assert.ok(names('').some(({ name }) => name === 'tpu.zone'));
  const own = names('hosts: [a]\n').map(({ name }) => name);
  assert.deepEqual(
    [own.includes('hosts'), own.includes('tpu.zone'), own.includes('local.workdir')],
    [true, false, false],
  );
  assert.ok(!names('kubernetes: {}\n').some(({ name }) => name.startsWith('tpu.')));
  assert.ok(names('local: {}\n').some(({ name }) => name === 'local.workdir'));
});
