// The table of commands: nothing in it contradicts itself, and every line that is shown can be typed.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Known } from '../../../src/cli/tpu/command.ts';
import { days } from '../../../src/cli/tpu/commands/help.ts';
import { keysOf } from '../../../src/cli/tpu/line.ts';
import { findCommand, readWords } from '../../../src/cli/tpu/read-words.ts';
import { formerWord, formerWords, table } from '../../../src/cli/tpu/table.ts';
import type { LabRecord } from '../../../src/lab/record.ts';
import { aTpu, openLabWorld, openUsualLab } from './lab-world.ts';

/** Whoever and whatever the examples speak of. */
const known: Known = {
  users: ['ada', 'bob', 'xibo', 'lyy', 'NAME'].map((name, id) => ({ name, id })),
  tpus: [aTpu('kmh-tpuvm-v2-32-1'), aTpu('lab-tpu-v2-32-1')],
  tpuAliases: new Map(
    ['v2-32-1', 'v2-32-2', 'v2-32-6', 'v2-32-p1', 'v2-32-p2'].map((alias) => [alias, 'kmh-tpuvm-v2-32-1']),
  ),
};

function twice(words: readonly string[]): readonly string[] {
  return words.filter((word, index) => words.indexOf(word) !== index);
}

test('every word names one command', () => {
  assert.deepEqual(twice(table.flatMap((row) => row.names)), []);
});

suite('a command takes nothing twice', () => {
  for (const row of table) {
    const { names, takes, args } = row;
    test(names[0], () => {
      assert.deepEqual(twice(keysOf(row)), [], 'a key');
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
  const rows = [...table.flatMap(({ examples }) => examples), ...days.flatMap(([, examples]) => examples)];
  for (const [command] of rows) {
    const line = /\$\((tpu .*?)\)|(?:^|<\()(tpu .*?)\)?$/.exec(command);
    test(command, () => {
      const typed = (line?.[1] ?? line?.[2] ?? '')
        .replaceAll(/ --(json|yes)\b/g, '')
        .split(' ')
        .slice(1);
      const { row, verb, rest } = findCommand(table, typed);
      readWords(row, verb, rest, known);
    });
  }
});

test('every line of the old manual can be typed', () => {
  for (const line of seed) {
    const { row, verb, rest } = findCommand(table, line.split(' ').slice(1));
    readWords(row, verb, rest, known);
  }
});

test('words that are gone are no commands, and name some that are there', () => {
  for (const word of formerWords) {
    assert.ok(!table.some(({ names }) => names.includes(word)), word);
    for (const [, verb = ''] of formerWord(word)?.matchAll(/`tpu ([^ `]+)[^`]*`/g) ?? []) {
      assert.ok(
        table.some(({ names }) => names.includes(verb)),
        `${word}: tpu ${verb}`,
      );
    }
  }
});

/** The command lines of the documentation that people have (its forms in brackets written out). */
const seed: readonly string[] = [
  'tpu add-user',
  'tpu set-cur 1 xibo',
  'tpu ls xibo',
  'tpu del-dir 2 xibo',
  'tpu swap-dir 1 2 xibo',
  'tpu run v2-32-6 xibo',
  'tpu run v2-32-p1 lyy dir=2',
  'tpu run kmh-tpuvm-v2-32-1 xibo',
  'tpu run v2-32-6 xibo lr=0.01',
  'tpu run v2-32-6 xibo config.training.learning_rate=0.01',
  'tpu run v2-32-p2 xibo rule=rerun',
  'tpu run v2-32-2 xibo rule=resume',
  'tpu run v2-32-6 xibo tag=T',
  'tpu run v2-32-6 xibo -apply',
  'tpu run v2-32-6 xibo -q',
  'tpu run v2-32-6 xibo -ssn',
  'tpu run v2-32-6 xibo --set-spreadsheet-notes',
  'tpu run v2-32-6 xibo ssn=a_b',
  'tpu run v2-32-6 xibo --log-stage',
  'tpu monitor xibo',
  'tpu monitor xibo -dsv',
  'tpu check xibo',
  'tpu add-tag 101 T xibo',
  'tpu find v34 -n',
  'tpu find v2',
  'tpu find v234',
  'tpu find v*',
  'tpu find v2-32 -p',
  'tpu release v2-32-6',
  'tpu rel v2-32-6 xibo',
  'tpu clean xibo',
  'tpu clean xibo -re',
  'tpu clear xibo',
  'tpu kill w=101 xibo',
  'tpu kill-job -w=101 xibo',
  'tpu -k window=101 xibo',
  'tpu -kj 101 xibo',
  'tpu kill 101 xibo',
  'tpu -kw 101 xibo',
  'tpu kill-window 101 xibo',
  'tpu -czw xibo',
  'tpu -czj xibo',
  'tpu clear-finished xibo',
  'tpu clear-error xibo',
  'tpu clear-all xibo',
  'tpu apply v2-32-6',
  'tpu reapply v2-32-6',
  'tpu delete v2-32-6',
  'tpu mount-disk v2-32-6',
  'tpu describe v2-32-6',
  'tpu check-status v2-32-6',
  'tpu solve v2-32-6',
  'tpu -a lr config.training.learning_rate xibo',
  'tpu -a lr config.training.learning_rate',
  'tpu -alias a config.full xibo',
  'tpu -sa xibo',
  'tpu del-config-alias a xibo',
  'tpu -lta',
  'tpu -ta alias FULL_TPU_NAME',
  'tpu resume windows=101 xibo',
  'tpu resume windows=101 tpu=v2-32-2 xibo',
  'tpu rerun windows=101 xibo',
  'tpu rerun windows=101 tpu=v2-32-2 xibo',
  'tpu check-rules',
  'tpu ack',
  'tpu set-settings monitor_after_run False xibo',
  'tpu get-settings xibo',
  'tpu reset-settings xibo',
  'tpu reset-window-num 5 xibo',
  'tpu tldr',
  'tpu upd-log xibo:101 /logs /stage kmh-tpuvm-v2-32-1 20250420_011026',
  'tpu finish-job xibo:101',
];

// ------------------------------------------------------------------------------------------ reads.test

/** What a reader may ask of the record. */
const reading: ReadonlySet<string> = new Set([
  'users',
  'tpus',
  'tpuAliases',
  'job',
  'jobs',
  'lives',
  'alike',
  'windows',
  'windowOf',
  'bookings',
  'eventsSince',
] satisfies readonly (keyof LabRecord)[]);

/** The record, and what was asked of it beyond reading. */
function watched(record: LabRecord): { readonly record: LabRecord; readonly written: string[] } {
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
      const world = await openUsualLab();
      await world.job('xibo', { tag: 'baseline' });
      const { record, written } = watched(world.record);
      const { tpu } = openLabWorld({ record });
      for (const [example] of row.examples) {
        const line = /tpu ([^)|]*)/.exec(example)?.[1]?.trim() ?? '';
        if (goesOn(line)) continue;
        const words = line
          .replaceAll('"', '')
          .replaceAll(/\b(ada|NAME)\b/g, 'xibo')
          .split(' ');
        // Some of them need more than the record; what they have written until then counts.
        await tpu(words).catch((error: unknown) => {
          assert.match(String(error), /has no/);
        });
      }
      assert.deepEqual(written, []);
    });
  }
});
