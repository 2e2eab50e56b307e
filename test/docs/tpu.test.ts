/** docs/tpu.md says what the table of `tpu` commands says, and every line of `tpu` in a document can be typed. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { splitGlobals, table, tpuProgram } from '../../src/cli/tpu/table.ts';
import { findCommand, parseArguments } from '../../src/cli/tpu/parse-arguments.ts';
import type { KnownNames } from '../../src/cli/tpu/command.ts';
import { userSettings } from '../../src/lab/user-settings.ts';
import { aTpu } from '../cli/tpu/lab-world.ts';
import { readDocument, readDocuments, shownCommands, splitShellArgs } from './documents.ts';

const page = readDocument('docs/tpu.md');

/** Whoever and whatever the documents speak of. */
const known: KnownNames = {
  users: ['ada', 'bob'].map((name, id) => ({ name, id })),
  tpus: [aTpu('lab-tpu-v2-32-6')],
  tpuAliases: new Map(['v2-32-6', 'v2-32-p1', 'v2-8-p1'].map((alias) => [alias, 'lab-tpu-v2-32-6'])),
};

/** Lines that are shown because they are refused. */
const refused = ['add-tag 42 100 ada', 'check adda'];

const lines = readDocuments()
  .flatMap((one) => shownCommands(one, 'tpu'))
  // Forms of commands are held to the table below.
  .filter(({ argsText }) => !/[<[…]|\.\.\.|\\$/.test(argsText))
  .map(({ position, argsText }) => ({ position, line: argsText.replace(/ +#.*/, '').trim() }));

suite('a line of tpu in a document', () => {
  test('can be typed', () => {
    assert.ok(lines.length > 70, `documents show ${lines.length} lines`);
    for (const { position, line } of lines) {
      const read = (): unknown => {
        const { rest: typed, flags } = splitGlobals(splitShellArgs(line));
        if (flags.help) return findCommand(table, typed);
        if (typed[0] === 'help') return typed.length === 1 || findCommand(table, typed.slice(1));
        const { row, verb, rest } = findCommand(table, typed);
        // A sentence may name a command alone.
        if (rest.length === 0) return row;
        return parseArguments(row, verb, rest, known);
      };
      if (refused.includes(line)) assert.throws(read, position);
      else assert.doesNotThrow(read, `${position}: tpu ${line}`);
    }
  });
});

test('the page lists every command with its other words, its usage and what it does', () => {
  const reference = page.text.split('## Every command\n')[1] ?? '';
  const expected = tpuProgram.groups.flatMap((group) => [
    `### ${group}`,
    '| Command | Also | What it does |',
    '|---|---|---|',
    ...table
      .filter((row) => row.group === group && !row.hidden)
      .map(({ names: [first, ...others], usage, summary }) => {
        const form = `tpu ${first} ${usage}`.trim().replaceAll('|', '\\|');
        return `| \`${form}\` | ${others.map((other) => `\`${other}\``).join(', ')} | ${summary} |`;
      }),
  ]);
  assert.deepEqual(
    reference.split('\n').filter((line) => line !== ''),
    expected,
  );
});

test('the page has every key and flag of `run`, and every setting', () => {
  const { takes, flags } = findCommand(table, ['run']).row;
  for (const key of Object.keys(takes.keys ?? {})) assert.match(page.text, new RegExp(`\`${key}=\\S+\``), key);
  for (const flag of Object.keys(flags)) assert.match(page.text, new RegExp(`[\`\\s]--?${flag}\\b`), flag);
  for (const { key } of userSettings) assert.ok(page.text.includes(key), key);
});
