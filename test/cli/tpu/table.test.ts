// The command table has no contradictions, all examples parse, and commands that only read write nothing.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KnownNames } from '../../../src/cli/tpu/command.ts';
import { acceptedKeys } from '../../../src/cli/tpu/parse-arguments.ts';
import { findCommand, parseArguments } from '../../../src/cli/tpu/parse-arguments.ts';
import { replacementHint, removedCommands, table } from '../../../src/cli/tpu/table.ts';
import type { LabStore } from '../../../src/lab/lab-store.ts';
import { aTpu, openLabWorld, openSampleLab } from './lab-world.ts';

/** The names in the examples. */
const known: KnownNames = {
  users: ['ada', 'bob', 'xibo', 'lyy'].map((name, id) => ({ name, id })),
  tpus: [aTpu('kmh-tpuvm-v2-32-1'), aTpu('lab-tpu-v2-32-1')],
  tpuAliases: new Map(
    ['v2-32-1', 'v2-32-2', 'v2-32-6', 'v2-32-p1', 'v2-32-p2'].map((alias) => [alias, 'kmh-tpuvm-v2-32-1']),
  ),
};

function duplicates(names: readonly string[]): readonly string[] {
  return names.filter((name, index) => names.indexOf(name) !== index);
}

test('every name belongs to one command', () => {
  assert.deepEqual(duplicates(table.flatMap((row) => row.names)), []);
});

suite('a command has no key or flag twice', () => {
  for (const row of table) {
    const { names, takes, args } = row;
    test(names[0], () => {
      assert.deepEqual(duplicates(acceptedKeys(row)), [], 'a key');
      const flags = Object.entries(row.flags).flatMap(([name, { also = [] }]) => [name, ...also]);
      assert.deepEqual(duplicates(flags), [], 'a flag');
      assert.ok(takes.windows === undefined || !args.some(({ number }) => number), 'a number has one meaning');
      for (const flag of flags)
        assert.ok(!['h', 'help', 'y', 'yes', 'json'].includes(flag), `-${flag} is a global flag`);
    });
  }
});

suite('examples parse', () => {
  const rows = table.flatMap(({ examples }) => examples);
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

test('lines of the older manual parse', () => {
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

test('hints for missing commands name existing commands', () => {
  for (const command of removedCommands) {
    assert.ok(!table.some(({ names }) => names.includes(command)), command);
    for (const [, verb = ''] of replacementHint(command)?.matchAll(/`tpu ([^ `]+)[^`]*`/g) ?? []) {
      assert.ok(
        table.some(({ names }) => names.includes(verb)),
        `${command}: tpu ${verb}`,
      );
    }
  }
});

/** Methods of the store that only read. */
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
  'sheetChanges',
  'eventsSince',
] satisfies readonly (keyof LabStore)[]);

/** The store, and the writing methods that were called. */
function watched(labStore: LabStore): { readonly labStore: LabStore; readonly written: string[] } {
  const written: string[] = [];
  const proxy = new Proxy(labStore, {
    get(target, name) {
      if (!reading.has(String(name))) written.push(String(name));
      return Reflect.get(target, name) as unknown;
    },
  });
  return { labStore: proxy, written };
}

/** Commands that run until they are interrupted have other tests. */
const runsOn = (line: string): boolean => /^monitor\b| -f$/.test(line);

suite('reads only', () => {
  for (const row of table.filter(({ changes, hidden }) => !changes && !hidden)) {
    test(row.names[0], async () => {
      const world = await openSampleLab();
      await world.job('xibo', { tag: 'baseline' });
      const { labStore, written } = watched(world.labStore);
      const { tpu } = openLabWorld({ store: labStore });
      for (const [example] of row.examples) {
        const line = /tpu ([^)|]*)/.exec(example)?.[1]?.trim() ?? '';
        if (runsOn(line)) continue;
        const args = line
          .replaceAll('"', '')
          .replaceAll(/\b(ada|NAME)\b/g, 'xibo')
          .split(' ');
        // Some commands need more than the store; writes before that point count.
        await tpu(args).catch((error: unknown) => {
          assert.match(String(error), /has no/);
        });
      }
      assert.deepEqual(written, []);
    });
  }
});
