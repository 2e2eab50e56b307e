// The flags of every command are taken by every command, before its words and behind them, and by every other name of it.

import assert from 'node:assert/strict';
import { mock, suite, test } from 'node:test';
import type { JobmanCommand } from '../../src/cli/command.ts';
import type { Cli } from '../../src/cli/context.ts';
import { dispatch } from '../../src/cli/dispatch.ts';
import { emulatorVerbs } from '../../src/cli/completion/proposals.ts';
import { table } from '../../src/cli/table.ts';
import { pretend } from './support/pretend.ts';

/** Runs the command line with the command's own function replaced; what that function got. */
async function givenTo(entry: JobmanCommand, argv: readonly string[]): Promise<{ cli: Cli; args: readonly unknown[] }> {
  let given: { cli: Cli; args: readonly unknown[] } | undefined;
  const load = mock.method(entry, 'load', async () => async (cli: Cli, _flags: object, ...args: readonly unknown[]) => {
    given = { cli, args };
    return 0;
  });
  const world = pretend({});
  const code = await dispatch(argv, world.services).finally(() => load.mock.restore());
  assert.equal(code, 0, `${argv.join(' ')}: ${world.err()}`);
  assert.ok(given !== undefined, argv.join(' '));
  return given;
}

/** Words that satisfy what the command requires. */
function argumentsOf({ args }: JobmanCommand): readonly string[] {
  return args.filter(({ needed }) => needed).map(({ name }) => (name === 'shell' ? 'bash' : '1'));
}

const forms: readonly (readonly string[])[] = [
  ['-q'],
  ['--quiet'],
  ['-q', '--json', '--yes', '--color', 'never'],
  ['--progress=none', '-q'],
];

suite('-q and its like are taken by', () => {
  for (const entry of table) {
    const names = entry.hidden ? emulatorVerbs.map(([verb]) => `emulator ${verb}`) : entry.names;
    for (const name of names) {
      test(name, async () => {
        const words = name.split(' ');
        const args = entry.hidden ? ['tty'] : argumentsOf(entry);
        for (const flags of forms) {
          for (const argv of [
            [...flags, ...words, ...args],
            [...words, ...flags, ...args],
            [...words, ...args, ...flags],
          ]) {
            const { cli, args: got } = await givenTo(entry, argv);
            assert.deepEqual([cli.quiet, cli.json], [true, flags.includes('--json')], argv.join(' '));
            if (entry.hidden) assert.deepEqual(got, [words[1], 'tty'], argv.join(' '));
          }
        }
      });
    }
  }
});

test('an option of the emulator is not taken for one of ours', async () => {
  const act = table.find(({ hidden }) => hidden);
  assert.ok(act !== undefined);
  const argv = ['emulator', 'flaky', 'us-east5-b', '--p', '0.5', '-q', '--for', '5m'];
  const { cli, args } = await givenTo(act, argv);
  assert.equal(cli.quiet, true);
  assert.deepEqual(args, ['flaky', 'us-east5-b', '--p', '0.5', '--for', '5m']);
});
