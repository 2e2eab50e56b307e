/** Every command line of jobman that a document shows is one that jobman understands. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { JobmanCommand } from '../../src/cli/command.ts';
import { commands } from '../../src/cli/table.ts';
import { jobman } from '../cli/support/harness.ts';
import { startTestEmulator } from '../emulator/test-emulator.ts';
import { readDocuments, parseDocument, shownCommands, splitShellArgs, type ShownCommand } from './documents.ts';

/** A line that is not a command but the form of one (`jobman create <yaml> [--follow]`); test/cli/documents.test.ts reads those. */
const isForm = ({ argsText }: ShownCommand): boolean => /<(?!id>)|[[\]…]|\.\.\./.test(argsText);

const shown = readDocuments()
  .flatMap((one) => shownCommands(one))
  .filter((one) => !isForm(one))
  .map(({ position, argsText }) => ({ position, args: splitShellArgs(argsText.replaceAll('<id>', '1')) }));

/** True for a verb of the TPU emulator. Its verbs and options are the emulator's own. */
const isEmulatorVerb = ({ args }: { readonly args: readonly string[] }): boolean =>
  args[0] === 'emulator' &&
  args[1] !== undefined &&
  !args[1].startsWith('-') &&
  !commands.some(({ names: [name] }) => name === `emulator ${args[1]}`);

suite('a command line in a document', () => {
  /** The commands that would run after parsing. Only the commands' implementations are replaced. */
  const ran: string[] = [];
  const loads = new Map<JobmanCommand, JobmanCommand['load']>();
  const setLoad = (entry: JobmanCommand, load: JobmanCommand['load']): void => void Object.assign(entry, { load });
  before(() => {
    for (const entry of commands) {
      loads.set(entry, entry.load);
      setLoad(entry, async () => async () => {
        ran.push(entry.names[0]);
        return 0;
      });
    }
  });
  after(() => {
    for (const [entry, load] of loads) setLoad(entry, load);
  });

  test('parses', async () => {
    assert.ok(shown.length > 60, 'documents show commands');
    for (const { position, args } of shown) {
      ran.length = 0;
      const isHelp = args[0] === 'help' || args.includes('--help') || args.includes('--version');
      const { code, err } = await jobman(args);
      assert.ok(code === 0 && (isHelp || ran.length === 1), `${position}: jobman ${args.join(' ')}\n${err}`);
    }
  });

  test('a wrong one is detected', async () => {
    for (const line of ['list --nonsense', 'lst', 'show 1 --worker 3', 'create a.yaml b.yaml', 'logs 1 --tail many']) {
      ran.length = 0;
      const { code } = await jobman(splitShellArgs(line));
      assert.ok(code === 2 && ran.length === 0, line);
    }
  });
});

test('every verb of the TPU emulator in a document works', async (t) => {
  const cloud = await startTestEmulator(t);
  const verbCalls = shown.filter(isEmulatorVerb);
  assert.ok(verbCalls.length > 15, 'documents show verbs');
  for (const [index, { position, args }] of verbCalls.entries()) {
    const [, verb = '', ...rest] = args;
    const plain = rest.filter((arg, at) => !arg.startsWith('-') && !(rest[at - 1] ?? '').startsWith('--'));
    const options = Object.fromEntries(
      rest.flatMap((arg, at) => (arg.startsWith('--') ? [[arg.slice(2), rest[at + 1] ?? 'true']] : [])),
    );
    // The job of the document, or the TPU by its name, with four workers. Zones end with a letter.
    const job = /^\d+/.exec(plain[0] ?? '1')?.[0] ?? '1';
    const name = /^[a-z].*-p?\d+$/.exec(plain[0] ?? '')?.[0] ?? `node-${index}`;
    await cloud.createNode(name, { acceleratorType: 'v4-32', labels: { 'jobman-job': job.padStart(6, '0') } });
    cloud.clock.advance(300_000);
    assert.ok(plain.length <= 1, `${position}: ${args.join(' ')}`);
    await cloud.admin(verb, plain[0], options).catch((error: unknown) => {
      assert.fail(`${position}: jobman ${args.join(' ')}: ${String(error)}`);
    });
    await cloud.admin('clear');
    await cloud.ok('DELETE', `nodes/${name}`);
    cloud.clock.advance(300_000);
  }
});

test('command lines are found in blocks and in sentences, and nowhere else', () => {
  const text = [
    'Say `jobman why 1`, or `bin/jobman list`; jobman show is not a code.',
    '```sh',
    'npm install && bin/jobman create a.yaml --follow   # jobman logs',
    'jobman list | jq .id',
    'source <(jobman completion bash)',
    '```',
    '```console',
    '$ jobman wait 1',
    'say: jobman rerun 1',
    '```',
    '```yaml',
    'run: jobman clean 1',
    '```',
  ].join('\n');
  assert.deepEqual(
    shownCommands(parseDocument('a.md', text)).map(({ argsText }) => argsText),
    ['create a.yaml --follow', 'list', 'completion bash', 'wait 1', 'why 1', 'list'],
  );
});
