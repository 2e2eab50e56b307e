// The table of commands contradicts itself nowhere, every shown line can be typed, and a command that only reads writes nothing.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KnownNames } from '../../../src/cli/tpu/command.ts';
import { cheatSheet } from '../../../src/cli/tpu/commands/help.ts';
import { acceptedKeys } from '../../../src/cli/tpu/tokenize.ts';
import { findCommand, parseArguments } from '../../../src/cli/tpu/parse-arguments.ts';
import { replacementHint, removedCommands, table } from '../../../src/cli/tpu/table.ts';
import type { LabStore } from '../../../src/lab/lab-store.ts';
import { aTpu, openLabWorld, openSampleLab } from './lab-world.ts';

/** Whoever and whatever the examples speak of. */
const known: KnownNames = {
  users: ['ada', 'bob', 'xibo', 'lyy', 'NAME'].map((name, id) => ({ name, id })),
  tpus: [aTpu('kmh-tpuvm-v2-32-1'), aTpu('lab-tpu-v2-32-1')],
  tpuAliases: new Map(
    ['v2-32-1', 'v2-32-2', 'v2-32-6', 'v2-32-p1', 'v2-32-p2'].map((alias) => [alias, 'kmh-tpuvm-v2-32-1']),
  ),
};

function twice(names: readonly string[]): readonly string[] {
  return names.filter((name, index) => names.indexOf(name) !== index);
}

test('every word names one command', () => {
  assert.deepEqual(twice(table.flatMap((row) => row.names)), []);
});

suite('a command takes nothing twice', () => {
  for (const row of table) {
    const { names, takes, args } = row;
    test(names[0], () => {
      assert.deepEqual(twice(acceptedKeys(row)), [], 'a key');
      const flags = Object.entries(row.flags).flatMap(([name, { also = [] }]) => [name, ...also]);
      assert.deepEqual(twice(flags), [], 'a flag');
      assert.ok(
        takes.windows === undefined || !args.some(({ number }) => number),
        'a bare number can be one thing only',
      );
      for (const flag of flags) assert.ok(!['h', 'help', 'y', 'yes', 'json'].includes(flag), `-${flag} is everybody's`);
    });
  }
});

suite('examples can be typed', () => {
  const rows = [...table.flatMap(({ examples }) => examples), ...cheatSheet.flatMap(([, examples]) => examples)];
  for (const [command] of rows) {
    const line = /\$\((tpu .*?)\)|(?:^|<\()(tpu .*?)\)?$/.exec(command);
    test(command, () => {
      const typed = (line?.[1] ?? line?.[2] ?? '')
        .replaceAll(/ --(json|yes)\b/g, '')
        .split(' ')
        .slice(1);
      const { row, verb, rest } = findCommand(table, typed);
      parseArguments(row, verb, rest, known);
    });
  }
});

test('lines of the older manual can be typed in forms that no example and no line of words.test.ts has', () => {
  for (const line of [
    'run v2-32-p1 lyy dir=2',
    'run v2-32-p2 xibo rule=rerun',
    'find v234',
    'rel v2-32-6 xibo',
    'release v2-32-6',
    'clean xibo -re',
    'clear-finished xibo',
    'clear-error xibo',
    'clear-all xibo',
    '-czw xibo',
    '-czj xibo',
    'reapply v2-32-6',
    '-a lr config.training.learning_rate',
    '-alias a config.full xibo',
    '-ta alias FULL_TPU_NAME',
    'ack',
    'upd-log xibo:101 /logs /stage kmh-tpuvm-v2-32-1 20250420_011026',
    'finish-job xibo:101',
  ]) {
    const { row, verb, rest } = findCommand(table, line.split(' '));
    parseArguments(row, verb, rest, known);
  }
});

test('words that are gone are no commands, and name some that are there', () => {
  for (const name of removedCommands) {
    assert.ok(!table.some(({ names }) => names.includes(name)), name);
    for (const [, verb = ''] of replacementHint(name)?.matchAll(/`tpu ([^ `]+)[^`]*`/g) ?? []) {
      assert.ok(
        table.some(({ names }) => names.includes(verb)),
        `${name}: tpu ${verb}`,
      );
    }
  }
});

/** What a reader may ask of the record. */
const reading: ReadonlySet<string> = new Set([
  'users',
  'tpus',
  'tpuAliases',
  'job',
  'jobs',
  'jobStates',
  'similarJobs',
  'windows',
  'findWindow',
  'bookings',
  'eventsSince',
] satisfies readonly (keyof LabStore)[]);

/** The record, and what was asked of it beyond reading. */
function watched(record: LabStore): { readonly record: LabStore; readonly written: string[] } {
  const written: string[] = [];
  const proxy = new Proxy(record, {
    get(target, name) {
      if (!reading.has(String(name))) written.push(String(name));
      return Reflect.get(target, name) as unknown;
    },
  });
  return { record: proxy, written };
}

/** What goes on until somebody leaves has tests of its own. */
const goesOn = (line: string): boolean => /^monitor\b| -f$/.test(line);

suite('reads only', () => {
  for (const row of table.filter(({ changes, hidden }) => !changes && !hidden)) {
    test(row.names[0], async () => {
      const world = await openSampleLab();
      await world.job('xibo', { tag: 'baseline' });
      const { record, written } = watched(world.record);
      const { tpu } = openLabWorld({ store: record });
      for (const [example] of row.examples) {
        const line = /tpu ([^)|]*)/.exec(example)?.[1]?.trim() ?? '';
        if (goesOn(line)) continue;
        const columns = line
          .replaceAll('"', '')
          .replaceAll(/\b(ada|NAME)\b/g, 'xibo')
          .split(' ');
        // Some of them need more than the record; what they have written until then counts.
        await tpu(columns).catch((error: unknown) => {
          assert.match(String(error), /has no/);
        });
      }
      assert.deepEqual(written, []);
    });
  }
});
