/** Editing one value of a manifest keeps the rest of its text. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import { hasKey, parseForEditing, valueAt, withValue, type NewValue } from '../../src/manifest/edit.ts';
import type { Path } from '../../src/schema/kinds.ts';

const text = [
  '# A job.',
  'job:',
  '  name: iris          # the name',
  '  tags: [a, b]',
  '  unknown: {x: 1}     # stays',
  '',
  '# Where it runs.',
  'tpu:',
  '  accelerator: v4-8',
  '  zone:               # not chosen yet',
  '',
  'gcsfuse: {bucket_name: b}',
  'local: {}',
  'command:',
  '  cmd: |',
  '    echo 1',
  '    echo 2',
  '',
  '  workers: all',
  '',
].join('\n');

/** The lines that differ, with their signs. */
function changes(before: string, after: string | undefined): readonly string[] {
  assert.ok(after !== undefined);
  const [old, own] = [before.split('\n'), after.split('\n')];
  return [
    ...old.filter((line) => !own.includes(line)).map((line) => `- ${line}`),
    ...own.filter((line) => !old.includes(line)).map((line) => `+ ${line}`),
  ];
}

suite('one value', () => {
  const cases: readonly (readonly [string, Path, NewValue | null, readonly string[]])[] = [
    [
      'replaces another, before its comment',
      ['job', 'name'],
      'vit',
      ['-   name: iris          # the name', '+   name: vit          # the name'],
    ],
    [
      'is quoted where YAML would read another value',
      ['job', 'name'],
      '007',
      ['-   name: iris          # the name', '+   name: "007"          # the name'],
    ],
    ['is a list', ['job', 'tags'], ['a', 'c d'], ['-   tags: [a, b]', '+   tags: [a, c d]']],
    [
      'fills an empty key',
      ['tpu', 'zone'],
      'us-central2-b',
      ['-   zone:               # not chosen yet', '+   zone: us-central2-b               # not chosen yet'],
    ],
    ['is a new key at the end of its section', ['job', 'budget'], '50 USD', ['+   budget: 50 USD']],
    [
      'is a new key of a section in braces',
      ['gcsfuse', 'mount_path'],
      '~/b',
      ['- gcsfuse: {bucket_name: b}', '+ gcsfuse: {bucket_name: b, mount_path: ~/b}'],
    ],
    [
      'is the first key of an empty section',
      ['local', 'workdir'],
      '/data',
      ['- local: {}', '+ local:', '+   workdir: /data'],
    ],
    ['is the first key of a new section', ['docker', 'image'], 'a:1', ['+ docker:', '+   image: a:1']],
    ['is a new section', ['recovery'], 'loop: failures', ['+ recovery: "loop: failures"']],
    [
      'is a script of several lines, by the other name of its key',
      ['command', 'run'],
      'echo 3\n\necho 4\n',
      ['-     echo 1', '-     echo 2', '+     echo 3', '+     echo 4'],
    ],
    [
      'replaces a script by one line',
      ['command', 'run'],
      'echo 3',
      ['-   cmd: |', '-     echo 1', '-     echo 2', '+   cmd: echo 3'],
    ],
    ['is removed', ['job', 'tags'], null, ['-   tags: [a, b]']],
  ];
  for (const [what, path, value, expected] of cases)
    test(what, () => assert.deepEqual(changes(text, withValue(text, path, value)), expected));

  test('is the first of an empty text', () => {
    assert.equal(withValue('', ['job', 'name'], 'a'), 'job:\n  name: a\n');
    assert.equal(withValue('# later\n', ['job', 'name'], 'a'), '# later\n\njob:\n  name: a\n');
  });

  test('that is the last of its section leaves the section empty', () => {
    assert.equal(
      withValue('local:\n  workdir: /a\ncommand: {cmd: a}\n', ['local', 'workdir'], null),
      'local: {}\ncommand: {cmd: a}\n',
    );
  });

  test('below an alias, whose value other keys share, is not changed', () => {
    assert.equal(withValue('vars: &a {zone: x}\ntpu: *a\n', ['tpu', 'zone'], 'y'), undefined);
    assert.equal(withValue('job: 3\n', ['job', 'name'], 'y'), undefined);
  });
});

test('a text that is no map has no keys to edit', () => {
  for (const wrong of ['a: [', '[1]', 'text', 'a: 1\n---\nb: 2\n', '*a'])
    assert.equal(parseForEditing(wrong), undefined, wrong);
});

test('a value is read as a form shows it', () => {
  const document = parseForEditing(text);
  assert.ok(document !== undefined);
  const at = (...path: Path) => valueAt(document, path);
  assert.deepEqual(at('job', 'name'), { kind: 'single', text: 'iris' });
  assert.deepEqual(at('job', 'tags'), { kind: 'list', items: ['a', 'b'] });
  assert.deepEqual(at('command', 'run'), { kind: 'single', text: 'echo 1\necho 2\n' });
  assert.deepEqual([at('tpu', 'zone'), at('docker', 'image')], [{ kind: 'absent' }, { kind: 'absent' }]);
  assert.deepEqual(at('job'), { kind: 'other' });
  assert.deepEqual([hasKey(document, ['local']), hasKey(document, ['docker'])], [true, false]);
});

test('any value at any of these keys becomes the value of the text, with every comment kept', () => {
  const paths: readonly Path[] = [
    ['job', 'name'],
    ['job', 'tags'],
    ['tpu', 'zone'],
    ['command', 'run'],
    ['docker', 'image'],
    ['local', 'workdir'],
    ['gcsfuse', 'x'],
  ];
  const comments = (one: string) => [...one.matchAll(/# (A job|the name|stays|Where it runs|not chosen yet)/g)].length;
  fc.assert(
    fc.property(
      fc.constantFrom(...paths),
      fc.oneof(fc.string(), fc.array(fc.string()), fc.integer()),
      (path, value) => {
        const edited = withValue(text, path, value);
        assert.ok(edited !== undefined);
        const [section, key] = path as [string, string];
        const written = (parse(edited) as Record<string, Record<string, unknown>>)[section];
        assert.deepEqual(written?.[key === 'run' ? 'cmd' : key], value);
        assert.ok(comments(edited) >= 5);
      },
    ),
    { numRuns: 300 },
  );
});
