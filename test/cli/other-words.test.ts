// The words of other tools lead to commands that there are, and never in the place of one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { otherWord, otherWords } from '../../src/cli/other-words.ts';
import { table } from '../../src/cli/table.ts';
import { jobman } from './support/pretend.ts';

/** The flags of the program itself, which belong to no command. */
const ownFlags = new Set(['--version', '--help']);

for (const word of otherWords) {
  test(`\`jobman ${word}\` leads to commands and flags that there are`, () => {
    assert.equal(
      table.some((entry) => entry.names.some((name) => name.split(' ')[0] === word)),
      false,
      'it is a command itself',
    );
    const commands = [...(otherWord(word) ?? '').matchAll(/`jobman ([^`]*)`/g)].map(([, text = '']) => text);
    assert.ok(commands.length > 0, 'it names no command');
    for (const command of commands) {
      if (ownFlags.has(command)) continue;
      const entry = table.find(({ names: [name] }) => command === name || command.startsWith(`${name} `));
      assert.ok(entry !== undefined, `there is no command \`${command}\``);
      for (const [, flag = ''] of command.split(' -- ')[0]?.matchAll(/ --([a-z-]+)/g) ?? []) {
        const name = flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
        assert.ok(name in entry.flags, `\`${entry.names[0]}\` has no flag --${flag}`);
      }
    }
  });
}

test('a word of another tool is answered with what it is called here', async () => {
  const { code, out, err } = await jobman(['scancel', '1']);
  assert.equal(code, 2);
  assert.equal(out, '');
  assert.match(err, /^jobman: there is no command `scancel`\.\n {2}`jobman cancel 1` ends a job for good/);
});

test('below a command of ours it is a mistyped word like any other', async () => {
  const { code, err } = await jobman(['controller', 'pause']);
  assert.equal(code, 2);
  assert.doesNotMatch(err, /resume/);
  assert.match(err, /no command `pause`/);
});

test('a name that every object has is no word of another tool', () => {
  for (const word of ['constructor', 'toString', '__proto__', '']) assert.equal(otherWord(word), undefined);
});
