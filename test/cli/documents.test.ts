/** The help, and the short flags of all commands. test/docs/reference.test.ts compares the manual with the tables. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { emulatorVerbs } from '../../src/cli/completion/proposals.ts';
import { flagName, globalFlags, type Flag } from '../../src/cli/flags.ts';
import { commands } from '../../src/cli/table.ts';
import { table } from '../../src/cli/tpu/table.ts';
import { phases } from '../../src/core/decide/phase.ts';
import { verbs } from '../../src/emulator/world/verbs.ts';
import { jobman } from './support/harness.ts';

/** Flags of the older `tpu` program that its users type. */
const olderMeanings = new Set([
  ...['run', 'resume', 'rerun'].flatMap((verb) => [`tpu ${verb} -f`, `tpu ${verb} -q`]),
  ...['-n', '-p', '-a'].map((flag) => `tpu find ${flag}`),
]);

test('a short flag means the same in every command of jobman and tpu', () => {
  const meanings = new Map<string, string>();
  const rows = [
    ...commands.map(({ names, flags }) => ({ command: names[0], flags: { ...flags, ...globalFlags } })),
    ...table.map(({ names, flags, takes }) => ({ command: `tpu ${names[0]}`, flags: { ...flags, ...takes.keys } })),
  ];
  for (const { command, flags } of rows) {
    for (const [name, { also = [] }] of Object.entries<Flag>(flags)) {
      const letters = [name, ...also].map((form) => form.replace(/^-/, '')).filter((form) => form.length === 1);
      for (const letter of letters) {
        if (olderMeanings.has(`${command} -${letter}`)) continue;
        // `--workers 0,2` of several and `--worker 3` of one.
        const long = [name, ...also].find((form) => form.length > 1 && form !== `-${letter}`) ?? name;
        const meaning = long === 'workers' ? 'worker' : long;
        const known = meanings.get(letter) ?? meaning;
        assert.equal(meaning, known, `-${letter} of ${command}`);
        meanings.set(letter, known);
      }
    }
  }
  const fixed = { f: 'follow', w: 'worker', n: 'namespace', j: 'jobName', y: 'yes', q: 'quiet', h: 'help' };
  for (const [letter, name] of Object.entries(fixed)) assert.equal(meanings.get(letter), name, letter);
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
    test(`of ${entry.names[0]} shows its flags, an example and its usage`, async () => {
      const { code, out, err } = await jobman([...entry.names[0].split(' '), '--help']);
      assert.equal(code, 0);
      assert.equal(err, '');
      const text = out.replaceAll(/\s+/g, ' ');
      for (const [name, { summary }] of Object.entries({ ...entry.flags, ...globalFlags })) {
        assert.ok(text.includes(flagName(name)) && text.includes(summary), name);
      }
      for (const [command, meaning] of entry.examples) {
        assert.ok(text.includes(`${command} ${meaning}`), command);
      }
      assert.equal((await jobman([...entry.names[0].split(' '), '-h'])).out, out);
      for (const line of out.split('\n'))
        assert.ok(line.length <= 100 || line.includes('  jobman '), `too wide: ${line}`);
    });
  }

  for (const { names, flags } of commands) {
    // The verbs of the TPU emulator have their own flags, which the emulator checks.
    if (names[0] === 'emulator act') continue;
    test(`a mistyped flag of ${names[0]} leads to one that there is`, async () => {
      for (const flag of Object.keys(flags)) {
        const { err } = await jobman([...names[0].split(' '), `--${flag.toLowerCase()}x`]);
        assert.match(err, /Did you mean --[a-z-]+\?/, flag);
      }
    });
  }

  test('of a verb of the TPU emulator exists under its name', async () => {
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

  test('every phase that list can be asked for, and the meaning of finished', async () => {
    const out = (await help('list')).replaceAll(/\s+/g, ' ');
    for (const phase of phases) assert.match(out, new RegExp(`[ ,]${phase}[,.]`), phase);
    assert.match(out, /finished once it has/);
    assert.match(await help(), /finished once it has/);
  });

  test('the way back to a job that was left', async () => {
    assert.match(await help('create'), /`jobman\s+logs\s+1 -f`\s+attaches again/);
  });

  test("every verb of the TPU emulator, with the emulator's descriptions", async () => {
    for (const out of [await help('emulator'), await help('emulator', 'preempt')]) {
      const text = out.replaceAll(/\s+/g, ' ');
      for (const [verb, { description }] of Object.entries(verbs))
        assert.ok(text.includes(` ${verb} ${description}`), verb);
    }
    assert.deepEqual(
      emulatorVerbs.map(([verb]) => verb),
      Object.keys(verbs),
    );
  });
});
