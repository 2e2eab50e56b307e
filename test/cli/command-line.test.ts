// Every command accepts the common flags before and after its arguments, also by its other names.

import { loadSettings } from '../support/settings.ts';
import assert from 'node:assert/strict';
import { mock, suite, test } from 'node:test';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { ServerInUse } from '../../src/app/server-in-use.ts';
import type { JobmanCommand } from '../../src/cli/command.ts';
import { emulatorVerbs } from '../../src/cli/completion/proposals.ts';
import type { Cli } from '../../src/cli/context.ts';
import { dispatch } from '../../src/cli/dispatch.ts';
import { foreignCommandHint, foreignCommandHints } from '../../src/cli/foreign-commands.ts';
import { run } from '../../src/cli/run.ts';
import { commands } from '../../src/cli/table.ts';
import { version } from '../../src/version.ts';
import { jobman, createCliHarness, type CliHarnessOptions } from './support/harness.ts';
import { jobView } from './support/harness.ts';
import { jobman as jobmanIn } from '../support/jobman.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

/** Runs the command line with the command's own function replaced; what that function got. */
async function givenTo(entry: JobmanCommand, argv: readonly string[]): Promise<{ cli: Cli; args: readonly unknown[] }> {
  let given: { cli: Cli; args: readonly unknown[] } | undefined;
  const load = mock.method(entry, 'load', async () => async (cli: Cli, _flags: object, ...args: readonly unknown[]) => {
    given = { cli, args };
    return 0;
  });
  const world = createCliHarness({});
  const code = await dispatch(argv, world.services).finally(() => load.mock.restore());
  assert.equal(code, 0, `${argv.join(' ')}: ${world.err()}`);
  assert.ok(given !== undefined, argv.join(' '));
  return given;
}

/** Arguments that satisfy the command. */
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
  for (const entry of commands) {
    const names = entry.hidden ? emulatorVerbs.map(([verb]) => `emulator ${verb}`) : entry.names;
    for (const name of names) {
      test(name, async () => {
        const path = name.split(' ');
        const args = entry.hidden ? ['tty'] : argumentsOf(entry);
        for (const flags of forms) {
          for (const argv of [
            [...flags, ...path, ...args],
            [...path, ...flags, ...args],
            [...path, ...args, ...flags],
          ]) {
            const { cli, args: got } = await givenTo(entry, argv);
            assert.deepEqual([cli.quiet, cli.json], [true, flags.includes('--json')], argv.join(' '));
            if (entry.hidden) assert.deepEqual(got, [path[1], 'tty'], argv.join(' '));
          }
        }
      });
    }
  }
});

test('an option of the emulator is not taken for one of ours', async () => {
  const act = commands.find(({ hidden }) => hidden);
  assert.ok(act !== undefined);
  const argv = ['emulator', 'flaky', 'us-east5-b', '--p', '0.5', '-q', '--for', '5m'];
  const { cli, args } = await givenTo(act, argv);
  assert.equal(cli.quiet, true);
  assert.deepEqual(args, ['flaky', 'us-east5-b', '--p', '0.5', '--for', '5m']);
});

test('jobman alone prints its version and the first steps, which are commands and files that are there', async () => {
  const { code, out, err } = await jobman([]);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^jobman 1\.2\.3\n\nA first job\n/);
  const steps = [...out.matchAll(/jobman ([a-z].*)$/gm)].map(([, line = '']) => line.split(' '));
  assert.ok(steps.length >= 5);
  for (const [name = '', ...rest] of steps) {
    assert.equal((await jobman([name, '--help'])).code, 0, name);
    for (const [path] of rest.join(' ').matchAll(/configs\/\S+/g)) assert.ok(existsSync(join(root, path)), path);
  }
  for (const line of out.split('\n')) assert.ok(line.length <= 100, line);
});

test('jobman alone names its example by a path that exists from any folder', async (t) => {
  const launcher = ['node', join(root, 'dist/bundle/main.cjs')];
  for (const [cwd, path] of [
    [root, 'configs/quick-start.yaml'],
    [join(root, '..'), `${basename(root)}/configs/quick-start.yaml`],
    [openWorld(t).folder, join(root, 'configs/quick-start.yaml')],
  ] as const) {
    const { services, out } = createCliHarness({ cwd });
    await run([], { ...services, io: { ...services.io, launcher } });
    assert.ok(out().includes(`jobman create ${path} --follow\n`), out());
  }
});

test('-v is the version, -h the help', async () => {
  assert.equal((await jobman(['--version', '--json'])).out, '{"version":"1.2.3"}\n');
  for (const flag of ['-v', '--version']) assert.equal((await jobman([flag])).out, 'jobman 1.2.3\n');
  const [short, long] = [await jobman(['-h']), await jobman(['--help'])];
  assert.equal(short.out, long.out);
  assert.match(short.out, /^Usage: jobman <command>/);
});

suite('a newer version', () => {
  const terminal = { columns: 80, rows: 24 };
  const sentence = 'jobman 9.0.0 is available; this is 1.2.3.';

  async function ask(args: readonly string[], options: CliHarnessOptions = {}) {
    let asked = 0;
    const newerVersion = async (): Promise<string> => {
      asked += 1;
      return `${sentence}\u001b[2J`;
    };
    const ended = await jobman(args, { ...options, services: { newerVersion } });
    return { ...ended, asked };
  }

  test("is shown after a command's output on a terminal", async () => {
    for (const args of [[], ['-v'], ['list'], ['why', '7']]) {
      const { err, out } = await ask(args, { terminal });
      assert.ok(err.endsWith(`${String.raw`${sentence}\x1b[2J`}\n`), err);
      assert.ok(!out.includes('9.0.0'));
    }
    assert.equal((await ask(['why', '7'], { terminal })).code, 3, 'and changes no exit code');
  });

  test('is neither shown nor searched for elsewhere', async () => {
    assert.equal((await ask(['list'])).asked, 0);
    for (const args of [
      ['list', '--json'],
      ['-q', 'list'],
      ['__complete', 'li'],
    ]) {
      assert.equal((await ask(args, { terminal })).asked, 0, args.join(' '));
    }
  });
});

test('jobman --version and -v print the name and the version', async (t) => {
  const world = openWorld(t);
  for (const flag of ['--version', '-v']) {
    const { code, stdout, stderr } = await jobmanIn(world, [flag]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `jobman ${version}\n`, stderr: '' });
  }
});

test('an unknown command is a usage error', async (t) => {
  const { code, stdout, stderr } = await jobmanIn(openWorld(t), ['frobnicate']);
  assert.equal(code, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /frobnicate/);
});

/** The flags of the program itself, which belong to no command. */
const ownFlags = new Set(['--version', '--help']);

for (const foreign of Object.keys(foreignCommandHints).flatMap((names) => names.split('|'))) {
  test(`\`jobman ${foreign}\` leads to commands and flags that there are`, () => {
    assert.equal(
      commands.some((entry) => entry.names.some((name) => name.split(' ')[0] === foreign)),
      false,
      'it is a command itself',
    );
    const named = [...(foreignCommandHint(foreign) ?? '').matchAll(/`jobman ([^`]*)`/g)].map(([, text = '']) => text);
    assert.ok(named.length > 0, 'it names no command');
    for (const command of named) {
      if (ownFlags.has(command)) continue;
      if (emulatorVerbs.some(([verb]) => command === `emulator ${verb}`)) continue;
      const entry = commands.find(({ names: [name] }) => command === name || command.startsWith(`${name} `));
      assert.ok(entry !== undefined, `there is no command \`${command}\``);
      for (const [, flag = ''] of command.split(' -- ')[0]?.matchAll(/ --([a-z-]+)/g) ?? []) {
        const name = flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
        assert.ok(name in entry.flags, `\`${entry.names[0]}\` has no flag --${flag}`);
      }
    }
  });
}

test("a command of another tool is answered with jobman's command", async () => {
  const { code, out, err } = await jobman(['scancel', '1']);
  assert.equal(code, 2);
  assert.equal(out, '');
  assert.match(err, /^jobman: Unknown command "scancel"\.\n {2}`jobman cancel 1` stops a job and releases its TPU/);
});

test("after one of jobman's commands it is an ordinary mistyped argument", async () => {
  const { code, err } = await jobman(['controller', 'pause']);
  assert.equal(code, 2);
  assert.doesNotMatch(err, /resume/);
  assert.match(err, /Unknown command "pause"/);
});

test('a property of every object is not a command of another tool', () => {
  for (const name of ['constructor', 'toString', '__proto__', '']) assert.equal(foreignCommandHint(name), undefined);
});

test('hosts are added, listed and removed in the settings, and a wrong one changes nothing', async (t) => {
  const { home } = openWorld(t);
  const hosts = (...args: readonly string[]) =>
    jobman(['hosts', ...args], {
      jobs: [jobView({ id: '000003', hosts: ['localhost', 'gpu9'], message: 'no answer for 3h' })],
      services: { home, settings: () => loadSettings({ home, env: {}, cores: 4 }) },
    });
  const added = await hosts('add', 'gpu1', '--ssh', 'ada@example.com:2222', '--gpus', '4', '--slots', '2');
  assert.deepEqual([added.code, added.out], [0, 'Added host gpu1 (ada@example.com:2222, 2 slots, 4 GPUs).\n']);
  const file = readFileSync(join(home, 'settings.json'), 'utf8');
  const refused: readonly (readonly [args: readonly string[], code: number, message: RegExp])[] = [
    [['add', 'gpu1', '--ssh', 'other'], 4, /^jobman: The host gpu1 already exists \(ada@example\.com:2222\)\./],
    [['add', 'gpu2', '--ssh', '-oProxyCommand=x'], 2, /hosts\.gpu2\.ssh: must be an SSH address like/],
    [['add', 'gpu2'], 2, /jobman hosts add gpu2 --ssh ADDRESS/],
    [['add', 'localhost', '--ssh', 'a'], 2, /localhost is this machine/],
    [['remove', 'gpu2'], 3, /There is no host gpu2\.\n {2}Did you mean gpu1\?/],
    [['remove', 'localhost'], 2, /Its slots and GPUs are the settings local\.slots and local\.gpus/],
  ];
  for (const [args, code, message] of refused) {
    const answer = await hosts(...args);
    assert.equal(answer.code, code, args.join(' '));
    assert.match(answer.err, message);
  }
  assert.equal(readFileSync(join(home, 'settings.json'), 'utf8'), file);
  assert.equal(
    (await hosts()).out,
    'HOST       SSH                   SLOTS  GPUS  JOBS\nlocalhost  this machine              4     -  000003 no answer for 3h\ngpu1       ada@example.com:2222      2     4  -\n',
  );
  assert.equal((await hosts('rm', 'gpu1')).out, 'Removed host gpu1.\n');
  const { err } = await hosts('list');
  assert.match(err, /^gpu9 is not in the settings, and has 1 job: 000003$/m);
  assert.match(err, /Add another machine: jobman hosts add NAME --ssh ADDRESS/);
});

test('set and unset change one key, and a running controller is notified', async (t) => {
  const { home } = openWorld(t);
  const settings = (...args: readonly string[]) =>
    jobman(['settings', ...args], {
      services: { home, settings: () => loadSettings({ home, env: {}, cores: 4 }) },
    });
  const first = await settings('set', 'local.slots', '8');
  assert.deepEqual([first.code, first.out], [0, 'Set local.slots.\n']);
  assert.match(first.err, /^The running controller uses the new settings/);
  const second = await settings('add', 'lab.zones', 'us-central3-b');
  assert.deepEqual([second.code, second.out], [0, 'Added us-central3-b to lab.zones.\n']);
  assert.match(second.err, /^warning: \S+:7:7 lab\.zones\[0\]: "us-central3-b" matches no zone/);
  assert.match((await settings('unset', 'lab.zones')).err, /^The running controller uses the new settings at once/);
  await settings('set', 'notify.channels.script', '{"type": "command", "command": "true"}');
  assert.match((await settings('get', 'notify.channels.script')).out, /^\{"type":"command","command":"true"\}$/m);
  const replaced = await settings('set', 'notify.channels', '{"other": {"type": "command", "command": "true"}}');
  assert.match(
    replaced.err,
    /^The previous value also had script\. To set one: jobman settings set notify\.channels\.NAME VALUE$/m,
  );
  const options = {
    services: { home },
    recipientsInUse: [{ recipient: 'other', jobs: ['000007', '000009'], events: 1 }],
  };
  assert.match(
    (await jobman(['settings', 'unset', 'notify.channels'], options)).err,
    /^other is the recipient of 1 undelivered event and the unfinished jobs 000007 and 000009\. Drop the events: jobman notify drop other$/m,
  );
  assert.equal((await settings('set', 'grants', '[{ "zone": "us-*" }]')).code, 0);
  assert.match((await settings()).out, /^local\.slots +8 +settings\.json$/m);
  assert.match((await settings()).out, /^grants +\[\{"zone":"us-\*"\}\] +settings\.json$/m);
  assert.equal((await settings('unset', 'local.slots')).out, 'local.slots has its default value again.\n');
  assert.equal((await settings('unset', 'local.slots')).out, 'local.slots was not set in the file.\n');
  assert.deepEqual(JSON.parse(readFileSync(join(home, 'settings.json'), 'utf8')), { grants: [{ zone: 'us-*' }] });
});

test('get prints the default of a setting that is not set, and says so', async (t) => {
  const { home } = openWorld(t);
  for (const [key, value] of [
    ['tpu.project', 'null'],
    ['grants', '[]'],
    ['tpu.sshPort', '22'],
  ] as const) {
    const { code, out, err } = await jobman(['settings', 'get', key], { services: { home } });
    assert.deepEqual([code, out, err], [0, `${value}\n`, `${key} is not set; this is its default.\n`]);
  }
});

test('a variable that overrides the file is named', async (t) => {
  const { home } = openWorld(t);
  const env = { JOBMAN_TPU_ENDPOINT: 'http://127.0.0.1:1' };
  const { err } = await jobman(['settings', 'set', 'tpu.endpoint', 'http://127.0.0.1:2'], { services: { home }, env });
  assert.match(err, /^The variable JOBMAN_TPU_ENDPOINT is set in this terminal and overrides the file/);
});

test('an unknown setting, an invalid value or an incomplete command changes nothing', async (t) => {
  const { home } = openWorld(t);
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['set', 'local.slot', '3'], /There is no setting local\.slot\. Did you mean local\.slots\?/],
    [['get', 'local.slot'], /There is no setting local\.slot\. Did you mean local\.slots\?/],
    [['get', 'nonsense'], /There is no setting nonsense\. List all: jobman settings/],
    [['set', 'nonsense', 'x'], /There is no setting nonsense\. List all: jobman settings/],
    [['set', 'tpu.project', 'x y'], /tpu\.project was not changed\.\n.*must be a project id like "lab-1234"/],
    [['set', 'local.slots', 'many'], /local\.slots was not changed\.\n {2}local\.slots: must be a whole number/],
    [['get'], /Which setting\?\n/],
    [['grants'], /^jobman: "grants" is not an action\. Did you mean `jobman settings get grants`\?\n$/],
    [['set', 'local.slots'], /Which value for local\.slots\?\n.*\n.*\n.*jobman settings set <key> <value>/],
    [['set', 'local.slots', '3', '4'], /Unexpected arguments/],
    [['set', 'project', 'foo'], /There is no setting project\. Did you mean tpu\.project\?/],
    [['unset', 'nonsense.at.all'], /There is no setting nonsense\.at\.all\. List all: jobman settings/],
    [['change', 'local.slots', '3'], /Unexpected arguments/],
  ];
  for (const [args, message] of cases) {
    const { code, out, err } = await jobman(['settings', ...args], { services: { home } });
    assert.deepEqual([code, out], [2, ''], args.join(' '));
    assert.match(err, message);
  }
  assert.equal(existsSync(home), false);
});

test('a change on a server that the line does not name says once where it goes, on a terminal', async () => {
  const notesOf = async (
    chosenBy: ServerInUse['chosenBy'],
    options: CliHarnessOptions,
    argv: readonly string[] = [],
  ) => {
    let change = (): void => undefined;
    const server = { context: 'lab', url: 'https://jobman.example', token: 'a', ca: null, chosenBy };
    const { err } = await jobman(['secret', ...argv], {
      ...options,
      services: {
        useServer: ({ beforeChange }) => {
          change = () => beforeChange?.(server);
        },
      },
      client: {
        secrets: async () => {
          change();
          change();
          return [];
        },
      },
    });
    return err.match(/On the server lab \(https:\/\/jobman\.example\):/g)?.length ?? 0;
  };
  const terminal = { columns: 80, rows: 24 };
  assert.equal(await notesOf('current context', { terminal }), 1);
  assert.equal(await notesOf('JOBMAN_SERVER', { terminal }), 1);
  assert.equal(await notesOf('--server', { terminal }), 0);
  assert.equal(await notesOf('current context', { terminal }, ['--quiet']), 0);
  assert.equal(await notesOf('current context', {}), 0);
});
