/** Every command line of `tpu` in the documents parses, and docs/tpu.md has every key and flag of `run` and every setting. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { splitGlobals, table } from '../../src/cli/tpu/table.ts';
import { findCommand, parseArguments } from '../../src/cli/tpu/parse-arguments.ts';
import type { KnownNames } from '../../src/cli/tpu/command.ts';
import { userSettings } from '../../src/lab/user-settings.ts';
import { aTpu } from '../cli/tpu/lab-world.ts';
import { readDocument, readDocuments, shownCommands, splitShellArgs } from './documents.ts';

const page = readDocument('docs/tpu.md');

/** The names in the documents. */
const known: KnownNames = {
  users: ['ada', 'bob'].map((name, id) => ({ name, id })),
  tpus: [aTpu('lab-tpu-v2-32-6')],
  tpuAliases: new Map(['v2-32-6', 'v2-32-p1', 'v2-8-p1'].map((alias) => [alias, 'lab-tpu-v2-32-6'])),
};

/** Lines that are shown because they are errors. */
const refused = ['add-tag 42 100 ada', 'check adda'];

const lines = readDocuments()
  .flatMap((one) => shownCommands(one, 'tpu'))
  // Usage forms are not command lines.
  .filter(({ argsText }) => !/[<[…]|\.\.\.|\\$/.test(argsText))
  .map(({ position, argsText }) => ({ position, line: argsText.replace(/ +#.*/, '').trim() }));

suite('a line of tpu in a document', () => {
  test('parses', () => {
    assert.ok(lines.length > 70, `documents show ${lines.length} lines`);
    for (const { position, line } of lines) {
      const read = (): unknown => {
        const { rest: typed, flags } = splitGlobals(splitShellArgs(line));
        if (flags.help) return findCommand(table, typed);
        if (typed[0] === 'help') return typed.length === 1 || findCommand(table, typed.slice(1));
        const { row, verb, rest } = findCommand(table, typed);
        // A sentence may name only the command.
        if (rest.length === 0) return row;
        return parseArguments(row, verb, rest, known);
      };
      if (refused.includes(line)) assert.throws(read, position);
      else assert.doesNotThrow(read, `${position}: tpu ${line}`);
    }
  });
});

test('the page has every key and flag of `run`, and every setting', () => {
  const { takes, flags } = findCommand(table, ['run']).row;
  for (const key of Object.keys(takes.keys ?? {})) assert.match(page.text, new RegExp(`\`${key}=\\S+\``), key);
  for (const flag of Object.keys(flags)) assert.match(page.text, new RegExp(`[\`\\s]--?${flag}\\b`), flag);
  for (const { key } of userSettings) assert.ok(page.text.includes(key), key);
});
