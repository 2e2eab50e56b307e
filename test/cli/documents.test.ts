/** The manual, the help and the table of commands say the same words. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { emulatorVerbs } from '../../src/cli/completion/proposals.ts';
import { flagName, globalFlags } from '../../src/cli/flags.ts';
import { jobmanProgram, commands } from '../../src/cli/table.ts';
import { phases } from '../../src/core/decide/phase.ts';
import { verbs } from '../../src/emulator/world/verbs.ts';
import { root } from '../support/root.ts';
import { jobman } from './support/harness.ts';

const manual = readFileSync(join(root, 'docs/commands.md'), 'utf8');

/** The manual's sections by their headings. */
const sections = new Map(
  manual
    .split(/^### /m)
    .slice(1)
    .map((text) => {
      const [heading = '', ...rest] = text.split('\n');
      return [heading, rest.join('\n').split(/^## /m)[0] ?? ''] as const;
    }),
);

const headingOf = ({ names: [name], hidden }: (typeof commands)[number]) => (hidden ? 'emulator <verb>' : name);

/** `- `-f`, `--follow`: …`: the flags that a part of the manual lists. */
function flagsIn(text: string): string[] {
  return [...text.matchAll(/^- (?:`-\w`, )?`(--[\w-]+)/gm)].map((found) => found[1] ?? '');
}

test('the manual has a section for each command, in the order of the help, and no other', () => {
  const headings = jobmanProgram.groups.flatMap((group) =>
    commands.filter((entry) => entry.group === group).map(headingOf),
  );
  assert.deepEqual([...sections.keys()], headings);
});

suite('the manual and the table agree on', () => {
  for (const entry of commands) {
    test(entry.names[0], () => {
      const text = sections.get(headingOf(entry)) ?? '';
      assert.deepEqual(flagsIn(text), Object.keys(entry.flags).map(flagName));
      for (const [name, { also = [] }] of Object.entries(entry.flags)) {
        // One flag may have two letters; the manual shows the first.
        const [letter] = also;
        if (letter !== undefined)
          assert.ok(text.includes(`\`-${letter}\`, \`${flagName(name)}`), `-${letter} is not there`);
      }
      assert.ok(text.includes(entry.usage), 'the usage line');
      for (const alias of entry.names.slice(1)) assert.ok(text.includes(`\`${alias}\``), alias);
      assert.ok(entry.examples.length > 0, 'an example');
      for (const [command] of entry.examples) assert.ok(text.includes(command), command);
      for (const [code, meaning] of Object.entries(entry.exitCodes ?? {}))
        assert.ok(text.includes(`- ${code}: ${meaning}.`), code);
    });
  }

  test('the flags of every command', () => {
    const part = manual.split('## Flags of every command')[1]?.split('## Exit codes')[0] ?? '';
    assert.deepEqual(flagsIn(part), Object.keys(globalFlags).map(flagName));
  });
});

test('-n is the namespace in every command that can ask a cluster, and nothing else anywhere', () => {
  for (const { names, flags } of commands) {
    const [found] = Object.entries(flags).find(([, { also }]) => also?.includes('n')) ?? [];
    assert.equal(found, Object.hasOwn(flags, 'namespace') ? 'namespace' : undefined, names[0]);
  }
});

suite('--help', () => {
  test('lists every command once', async () => {
    const { code, out, err } = await jobman(['--help']);
    assert.equal(code, 0);
    assert.equal(err, '');
    for (const { names } of commands) assert.ok(out.includes(`\n  ${names[0].split(' ')[0] ?? ''}`), names[0]);
    assert.equal((await jobman(['help'])).out, out);
    assert.equal((await jobman(['-h'])).out, out);
  });

  for (const entry of commands) {
    test(`of ${entry.names[0]} tells its flags, an example and how it is used`, async () => {
      const { code, out, err } = await jobman([...entry.names[0].split(' '), '--help']);
      assert.equal(code, 0);
      assert.equal(err, '');
      for (const [name, { summary }] of Object.entries({ ...entry.flags, ...globalFlags })) {
        assert.ok(out.includes(flagName(name)) && out.includes(summary), name);
      }
      for (const [command, meaning] of entry.examples) {
        assert.ok(/[ \n]/.test(out.split(`  ${command}`)[1]?.[0] ?? '') && out.includes(meaning), command);
      }
      assert.equal((await jobman([...entry.names[0].split(' '), '-h'])).out, out);
      for (const line of out.split('\n')) assert.ok(line.length <= 120, `too wide: ${line}`);
    });
  }

  for (const { names, flags } of commands) {
    // The verbs of the built-in cloud have flags of their own, which the cloud checks.
    if (names[0] === 'emulator act') continue;
    test(`a mistyped flag of ${names[0]} leads to one that there is`, async () => {
      for (const flag of Object.keys(flags)) {
        const { err } = await jobman([...names[0].split(' '), `--${flag.toLowerCase()}x`]);
        assert.match(err, /Did you mean --[a-z-]+\?/, flag);
      }
    });
  }

  test('of a happening in the built-in cloud is there under its own word', async () => {
    const { code, out } = await jobman(['emulator', 'preempt', '--help']);
    assert.equal(code, 0);
    assert.match(out, /^Usage: jobman emulator <verb> \[target\]/);
  });

  test('has no letter beyond ASCII, for terminals of any locale', () => {
    const texts = commands.flatMap((entry) => [
      entry.summary,
      entry.about ?? '',
      entry.usage,
      ...entry.examples.flat(),
    ]);
    for (const text of texts) assert.match(text, /^[\n -~]*$/);
  });
});

for (const columns of [80, 60]) {
  test(`the help is no wider than a terminal of ${columns} columns, and says the same`, async () => {
    const asked = ['', 'emulator', 'controller', ...commands.map(({ names: [name] }) => name)];
    const splitText = (text: string) => text.split(/\s+/).filter(Boolean);
    for (const path of asked) {
      const argv = [...path.split(' ').filter(Boolean), '--help'];
      const { out } = await jobman(argv, { terminal: { columns, rows: 24 } });
      // A command line that is an example stays whole.
      for (const line of out.split('\n')) assert.ok(line.length <= columns || /^ +(jobman|source) /.test(line), line);
      assert.deepEqual(splitText(out), splitText((await jobman(argv)).out), path);
    }
  });
}

suite('a newcomer finds in the help', () => {
  const help = async (...args: string[]) => (await jobman([...args, '--help'])).out;

  test('every phase that list can be asked for, and what settled means', async () => {
    const out = await help('list');
    for (const phase of phases) assert.match(out, new RegExp(`[ ,]${phase}[,.]`), phase);
    assert.match(out, /settled once it has/);
    assert.match(await help(), /settled once it has/);
  });

  test('the way back to a job that was left', async () => {
    assert.match(await help('create'), /`jobman logs 1 -f` comes back to it/);
  });

  test('every verb of the built-in cloud, in the words of the cloud', async () => {
    for (const out of [await help('emulator'), await help('emulator', 'preempt')]) {
      for (const [verb, { description }] of Object.entries(verbs)) assert.match(out, rowOf(verb, description), verb);
    }
    assert.deepEqual(
      emulatorVerbs.map(([verb]) => verb),
      Object.keys(verbs),
    );
  });
});

/** A row of two columns of the help. */
function rowOf(first: string, second: string): RegExp {
  return new RegExp(`^ {2}${RegExp.escape(first)} +${RegExp.escape(second)}$`, 'm');
}
