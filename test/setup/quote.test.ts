import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { quote, splitArguments } from '../../src/catalogue/shell.ts';
import { quotePath, writeFile } from '../../src/setup/script.ts';

/** The arguments that a real shell makes of a script. */
function sh(script: string, env: Readonly<Record<string, string>> = {}): string {
  const ran = spawnSync('sh', [], {
    input: script,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  assert.equal(ran.stderr, '');
  assert.equal(ran.status, 0);
  return ran.stdout;
}

const end = '\u0001';
const nasty = [
  '',
  ' ',
  "'",
  '"',
  '$HOME',
  '`id`',
  '$(id)',
  'a b',
  "it's",
  '\\',
  '\\\\',
  '\n',
  'x\n',
  '!',
  '*',
  '?',
  '~',
  '-n',
  '--',
  '%s',
  '\t',
  ';',
  '&',
  '|',
  '<',
  '>',
  '#',
  'ü€',
  "''\"'\"",
];

test('a quoted argument reaches a program unchanged', () => {
  const samples = [...nasty];
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      (sample) => void samples.push(sample.replaceAll('\0', '').replaceAll(end, '')),
    ),
    { numRuns: 200 },
  );
  // One shell for all: after each argument it prints a byte that no argument of the test contains.
  const script = samples.map((sample) => `printf '%s\\001' ${quote(sample)}\n`).join('');
  assert.deepEqual(sh(script).split(end).slice(0, -1), samples);
});

test('a plain argument needs no quotes, and a NUL is refused', () => {
  assert.equal(quote('us-central2-b'), 'us-central2-b');
  assert.throws(() => quote('a\0b'));
});

test('a path below the login folder works for every user who runs the script', () => {
  assert.equal(sh(`printf %s ${quotePath('~/a b/$x')}`, { HOME: "/home/o'neill" }), "/home/o'neill/a b/$x");
  assert.equal(sh(`printf %s ${quotePath('~')}`, { HOME: '/h' }), '/h');
  assert.equal(sh(`printf %s ${quotePath('/a/~/b')}`), '/a/~/b');
});

test('a text is written to a file without a shell reading it', () => {
  for (const text of [
    '',
    'x',
    'x\n',
    '$HOME `id` $(id) \\ \' "',
    'JOBMAN_END\nJOBMAN_END_\n',
    'a\n\n\n',
    'tab\there',
  ]) {
    const expected = text === '' || text.endsWith('\n') ? text : `${text}\n`;
    assert.equal(sh(`file=$(mktemp)\n${writeFile('"$file"', text)}cat "$file"\nrm "$file"\n`), expected);
  }
});

test('a line of flags is split as in a shell', () => {
  for (const line of [
    '--a b',
    "-e X='a b'",
    '"a b"c',
    "''",
    'a\\ b',
    '"a\\"b" \'c\\d\'',
    '  a   b  ',
    '"\\n"',
    'a"b c"d',
  ]) {
    assert.deepEqual(
      splitArguments(line),
      sh(`for arg in ${line}; do printf '%s\\001' "$arg"; done`).split(end).slice(0, -1),
      line,
    );
  }
  assert.equal(splitArguments('"open'), undefined);
  assert.equal(splitArguments("'open"), undefined);
  assert.equal(splitArguments('open\\'), undefined);
});
