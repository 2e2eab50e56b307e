// Every command with text that tries to control the terminal: in arguments, in the record, in what clouds, clusters, workers and
// kubeconfigs say, in manifests. No control character comes out, except line ends, tabs and the styles of the program itself.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { spawnSync } from 'node:child_process';
import type { WorkerAccess } from '../../src/app/worker-access.ts';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { Services } from '../../src/app/services.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import { formatPrefix } from '../../src/cli/logs/lines.ts';
import { completionScript } from '../../src/cli/commands/help.ts';
import { formatProposals } from '../../src/cli/completion/proposals.ts';
import { sanitizeText } from '../../src/cli/output.ts';
import { aligned } from '../../src/cli/render/aligned.ts';
import { listLines } from '../../src/cli/render/list.ts';
import { run } from '../support/output-schema.ts';
import { commands } from '../../src/cli/table.ts';
import { table as tpuTable } from '../../src/cli/tpu/table.ts';
import type { Lab } from '../../src/lab/lab.ts';
import { siteOf } from '../../src/lab/site.ts';
import type { TpuOperations } from '../../src/lab/tpu-operations.ts';
import { openStore } from '../../src/store/store.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import {
  aWhy,
  jobman,
  noSubmissions,
  createCliHarness,
  type CliHarnessOptions,
  jobView,
  fakeLog,
} from './support/harness.ts';
import { aLab, aTpu } from './tpu/lab-world.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';
import { aTicket, localSpec, usageRow } from '../support/builders.ts';
import { root } from '../support/root.ts';

/** A title, a cleared screen, a bell, a carriage return, C1's CSI, DEL, text turned around, text that is hidden. */
const evil = 'x\u001b]0;PWN\u0007\u001b[2J\r\u009b31m\u007f\u202egnp\u2066\u001b[8mHID\u001b[1;31mred\u001b(0';
const terminal = { columns: 100, rows: 40 };

function assertHarmless(text: string, of: string): void {
  const styles = /\p{Cc}\[(?:1|22|31|32|34|35|39)m/gu;
  const found = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/u.exec(text.replace(styles, ''));
  assert.equal(found, null, `${of}: ${JSON.stringify(text.slice(Math.max(0, (found?.index ?? 0) - 80)))}`);
}

const refusal = (): Promise<never> =>
  Promise.reject(new JobmanError(`it says ${evil}\nand ${evil}`, exitCode.unreachable, [`first: ${evil}`]));

const clusterJob = aClusterJob({
  name: `n${evil}`,
  flavor: evil,
  owner: evil,
  queueName: evil,
  images: [evil],
  failed: 1,
  conditions: [{ type: 'Failed', status: 'True', reason: evil, message: evil, at: null }],
});
const clusterPod = aClusterPod(
  { name: `p${evil}`, job: `n${evil}`, message: evil, reason: evil, node: evil, phase: 'Pending' },
  { image: evil, state: 'waiting', reason: evil, message: evil },
);

/** A cluster whose every name and message is hostile. */
function hostileCluster(): Cluster {
  const cluster = {
    context: () => ({ context: evil, server: evil, namespace: evil, user: evil }),
    async *jobs() {
      yield [clusterJob];
    },
    job: async () => clusterJob,
    async *pods() {
      yield [clusterPod];
    },
    async *unscheduledPods() {},
    events: async () => [{ at: 0, type: 'Warning', reason: evil, message: evil, count: 1, object: evil }],
    raw: async () => ({ metadata: { name: evil, annotations: { [evil]: evil } } }),
    close: async () => undefined,
  };
  return cluster as object as Cluster;
}

const job = jobView({
  name: `n${evil}`,
  owner: evil,
  accelerator: evil,
  zone: evil,
  worker0Address: evil,
  heldCapacity: evil,
  message: evil,
  phase: 'failed',
  progress: evil,
  throughput: evil,
  slowWorker: evil,
  dashboards: { wandb: evil, tensorboard: evil },
  tags: [evil],
  folder: { host: evil, path: `/tmp/${evil}` },
  why: aWhy({ message: evil, evidence: evil, logTail: [evil], rule: evil, typicalWait: evil, next: evil }),
});

const records: CliHarnessOptions = {
  jobs: [job],
  notes: [evil],
  more: 2,
  answerCommand: (id) => ({ id, ok: false, message: evil, exitCode: 1 }),
  zones: [],
  usage: [usageRow({ job: '000042', jobName: evil, owner: evil, tags: [evil], location: evil, accelerator: evil })],
  diffSide: (id, attempt) => ({
    job: id,
    name: evil,
    attempt,
    values: { result: { [evil]: `${attempt}${evil}` }, manifest: `${attempt}\n${evil}\n` },
    files: null,
  }),
};

const workers: WorkerAccess = {
  ticket: aTicket(2),
  start: (worker, { onBytes }) => ({
    write: async () => undefined,
    end: () => undefined,
    resize: () => undefined,
    stop: () => undefined,
    ended: (async () => {
      await onBytes(Buffer.from(`${evil}\n${worker}\n`), 'stdout');
      return { kind: 'unreachable', reason: evil, mayHaveRun: true } as const;
    })(),
  }),
  put: async () => ({ kind: 'failed', cause: 'failed', reason: evil }),
  get: async () => ({ kind: 'failed', cause: 'conflict', reason: evil }),
  tunnel: async () => ({ problem: evil, isReached: true }),
  ssh: { hosts: async () => [{ worker: 0, host: 'h', options: [['User', evil]] }], argv: async () => [evil] },
  close: () => undefined,
};

/** The additions of each world to the record; the same commands are called in each of them. */
const worlds: Readonly<Record<string, Partial<Services>>> = {
  'a cluster that answers with it': { cluster: async () => hostileCluster(), isClusterConfigured: async () => true },
  'everything refuses with it': {
    client: refusal,
    cluster: refusal,
    isClusterConfigured: async () => true,
    clusterSettings: refusal,
    workers: refusal,
    controller: refusal,
    emulator: refusal,
    clusterSubmissions: async () => ({ ...noSubmissions, isUsed: true }),
  },
  'workers that print it': { workers: async () => workers },
};

/** Arguments for each command; those that are not listed get the job. */
const argumentsOf: Readonly<Record<string, readonly (readonly string[])[]>> = {
  submit: [['-i', evil, '-r', evil, '-N', evil, '--', evil]],
  exec: [['42', '--', evil]],
  run: [['--', evil]],
  cp: [['42:a', evil], [evil, '42:'], [evil]],
  'port-forward': [
    ['42', '80'],
    ['42', evil],
  ],
  settings: [[], [evil], [evil, evil]],
  'emulator act': [['preempt', evil], [evil]],
  completion: [['bash'], [evil]],
  logs: [['42'], ['42', '--grep', evil]],
  cost: [
    [],
    ['42'],
    [evil],
    ['--csv'],
    ...['user', 'tag', 'zone', 'accelerator'].map((by) => ['--by', by]),
    ['--by', evil],
  ],
  diff: [
    ['42#1', '42#2'],
    ['42', evil],
  ],
  setup: [['42', evil]],
  // Without a file, a terminal is asked for the value and no user types it.
  'secret set': [['42', '--file', 'm.yaml'], [evil], ['42', '--file', evil]],
  import: [[evil]],
};
/** These serve until they are ended. */
const serving = new Set(['controller run', 'emulator serve']);

const settings = defaultSettings(2);

/** Bookings, TPUs and windows that say it, and such that refuse with it. */
const hostileLabs: Readonly<Record<string, Partial<Lab>>> = {
  'everything says it': {
    site: async () =>
      siteOf({ ...defaultSettings(1).lab, namePrefix: 'kmh-tpuvm-' }, { home: '/tmp', userHome: '/tmp' }),
    sheet: async () => ({
      name: evil,
      read: async () => ({
        bookings: [
          {
            tpu: 'kmh-tpuvm-v2-32-6',
            alias: `a${evil}`,
            status: { kind: 'unknown', text: evil },
            user: evil,
            note: evil,
            scriptNote: evil,
            owner: evil,
            zone: evil,
            changedAt: 0,
            changedBy: evil,
          },
        ],
        problems: [evil],
        late: [{ tpu: 'kmh-tpuvm-v2-32-6', message: evil }],
      }),
      lastRead: async () => null,
      changeLater: async () => ({ late: [{ tpu: 'kmh-tpuvm-v2-32-6', message: evil }], nextAt: null }),
      deliver: async () => ({ late: [{ tpu: 'kmh-tpuvm-v2-32-6', message: evil }], nextAt: null }),
      change: async () => {
        throw new JobmanError(evil, 4);
      },
    }),
    tpus: async () =>
      ({
        describe: async () => ({ kind: 'unknown', message: evil }),
        onWorkers: async () => [
          { worker: 0, kind: 'no_answer', message: evil },
          { worker: 1, kind: 'ended', code: 1, output: evil },
        ],
        holders: async () => ({
          holders: [{ worker: 0, pid: 1, user: evil, command: evil, commandLine: evil }],
          unreachable: [{ worker: 1, message: evil }],
        }),
        endPrograms: refusal,
        close: () => undefined,
      }) as object as TpuOperations,
  },
  'everything refuses with it': {
    site: refusal,
    sheet: refusal,
    tpus: refusal,
    tmuxWindows: refusal,
    checkNow: refusal,
    assertOriginalHome: async () => undefined,
  },
};

/** A lab whose users, aliases, tags and jobs are called so. */
async function hostileLab(parts: Partial<Lab>): Promise<Lab> {
  const store = openStore({ file: ':memory:' });
  const { lab: record } = store;
  const user = aUser('ada', { sheetName: evil, logins: [evil], directories: { 1: `/srv/${evil}` } });
  await record.addUser({ ...user, aliases: { ...user.aliases, [`k${evil}`]: evil } });
  await record.changeTpu('kmh-tpuvm-v2-32-6', {
    kind: 'add',
    tpu: aTpu('kmh-tpuvm-v2-32-6', { zone: evil, runtimeVersion: evil }),
  });
  await record.setTpuAlias('v2-32-6', 'kmh-tpuvm-v2-32-6');
  await record.setTpuAlias(`b${evil}`, 'kmh-tpuvm-v2-32-6');
  const { job: made } = await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: 0 });
  await record.addJob(
    aLabJob(made.id, 'ada', { directory: `/srv/${evil}`, configs: [`--config.x=${evil}`], tag: evil, tpu: evil }),
  );
  const { session, window } = await record.openWindow(made.id, 1, 0);
  await record.reportWindow(session, window.window, {
    logFolder: `/logs/${evil}`,
    stageFolder: evil,
    tpu: evil,
    startTime: evil,
    at: 0,
  });
  return aLab(record, {
    site: refusal,
    sheet: refusal,
    tpus: refusal,
    tmuxWindows: refusal,
    checkNow: async () => evil,
    assertOriginalHome: async () => undefined,
    ...parts,
  });
}

/** True when the text came out, in whatever form. */
async function call(t: TestContext, argv: readonly string[], options: CliHarnessOptions): Promise<boolean> {
  const ended = await jobman(argv, options).catch((error: unknown) => {
    // These small worlds lack parts that some commands need. This test is not about that; main.ts prints errors of our own.
    t.diagnostic(`${argv.join(' ').replaceAll(/[^ -~]/g, '?')}: ${String(error).split('\n')[0]}`);
    return { out: '', err: '' };
  });
  let { out, err } = ended;
  if (argv[0] === 'exec') {
    // Elsewhere the bytes of the workers' programs are wanted; on a terminal they may colour.
    if (options.terminal === undefined) return false;
    out = out.replace(/\p{Cc}\[[\d;]*m/gu, '');
    err = err.replace(/\p{Cc}\[[\d;]*m/gu, '');
  }
  assertHarmless(out, `${argv.join(' ')} on standard output`);
  assertHarmless(err, `${argv.join(' ')} on standard error`);
  return `${out}${err}`.includes('PWN');
}

suite('text that controls a terminal', () => {
  for (const [world, services] of Object.entries(worlds)) {
    test(`${world}: no command prints it as it is`, { timeout: 120_000 }, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'jobman-hostile-'));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const manifest = join(folder, 'm.yaml');
      writeFileSync(
        manifest,
        `job:\n  name: "a\u202eb"\n  "k\u202ey": 1\ntpu:\n  name: "t\u009b"\n"s\u2066": 1\n"\\e[2J": 2\n`,
      );
      const manifestCalls = ['create', 'validate'].map((path) => [path, manifest]);
      const calls = commands
        .map(({ names: [name] }) => name)
        .filter((path) => !serving.has(path))
        .flatMap((path) => {
          const given = argumentsOf[path] ?? [['42'], [`n${evil}`], ['-j', evil], [`--${evil}`], []];
          return given.map((args) => [...path.split(' '), ...args]);
        });
      for (const argv of [...calls, ...manifestCalls, [evil], ['help', evil]]) {
        for (const json of [[], ['--json']]) {
          for (const screen of [{}, { terminal }]) {
            const at = argv.includes('--') ? argv.indexOf('--') : argv.length;
            // Without movements of the cursor, which belong to the program and are not its text.
            const args = argv.toSpliced(at, 0, ...json, '--progress', 'none');
            await call(t, args, { ...records, ...screen, input: ['n'], cwd: folder, services });
          }
        }
      }
    });
  }

  for (const [world, parts] of Object.entries(hostileLabs)) {
    test(`tpu, ${world}: no command prints it as it is`, { timeout: 120_000 }, async (t) => {
      const lab = await hostileLab(parts);
      const labServices = { lab: async () => lab, labHome: refusal } as object as Partial<Services>;
      const services = { ...labServices, client: refusal, clusterSettings: refusal, settings: async () => settings };
      // A monitor runs until a key is typed, and shows the same as `check`.
      const ending = tpuTable.filter(({ names }) => !names.includes('monitor'));
      const showing = new Set<string>();
      const calls = ending.flatMap(({ names: [name] }) =>
        [
          [],
          [evil],
          ['ada'],
          ['ada', evil],
          ['windows=1'],
          [`tag=${evil}`, 'windows=1'],
          ['v2-32-6'],
          ['v2-32-6', evil],
        ]
          .map((rest) => [name, ...rest])
          .concat([
            [name, 'ada', 'dir=1', evil],
            [name, `--${evil}`],
            ['help', name],
          ]),
      );
      for (const argv of [...calls, [evil], ['help', evil], ['__complete', 'run', '']]) {
        for (const json of [[], ['--json']]) {
          for (const screen of [{}, { terminal }]) {
            const args = ['tpu', ...argv, ...json];
            const isShown = await call(t, args, { ...records, ...screen, input: ['n'], env: { TMUX: '' }, services });
            if (isShown) showing.add(argv[0] ?? '');
          }
        }
      }
      assert.ok(showing.size > 40, `only these showed it: ${[...showing].join(' ')}`);
    });
  }

  test('in logs that a terminal shows as JSON is escaped, and stays the same text', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'jobman-hostile-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, 'log');
    writeFileSync(path, `${evil.replace('\r', '')}\n`);
    const logs = [fakeLog(path)];
    const { out } = await jobman(['logs', '42', '--json'], { jobs: [jobView()], logs, terminal });
    assertHarmless(out, 'logs --json');
    const { text } = JSON.parse(out) as { text: string };
    assert.equal(text, evil.replace('\r', ''));
    const shown = await jobman(['logs', '42'], { jobs: [jobView()], logs, terminal });
    assert.doesNotMatch(shown.out, /\p{Cc}\]|[\u007f-\u009f\u202e]/u);
  });

  test('that uses our own styles ends with its line', () => {
    const red = '\u001b[31m';
    assert.equal(sanitizeText(`a${red}b\nc`), `a${red}b\u001b[22m\u001b[39m\nc`);
    assert.equal(sanitizeText(`${red}b\u001b[39m c\n`), `${red}b\u001b[39m c\n`);
    assert.equal(sanitizeText('\u001b[8mhidden\t\u0085'), '\\x1b[8mhidden\t\\u0085');
  });

  test('in an error or a note has no colours', async () => {
    const red = '\u001b[31mred';
    const error = new JobmanError(`it says ${red}`, exitCode.unreachable, [`first: ${red}`]);
    const world = createCliHarness({ notes: [red], client: { tpus: () => Promise.reject(error) } });
    await run(['tpus'], world.services);
    await run(['list'], world.services);
    assert.match(world.err(), /it says red\n {2}first: red\nNo jobs\.\nnote: red\n/);
    assert.ok(!world.err().includes('\u001b'));
  });

  test('of a newer version is not an exception', async () => {
    const world = createCliHarness({ terminal, services: { newerVersion: async () => evil } });
    await run(['list'], world.services);
    assertHarmless(world.err(), 'the remark about a newer version');
  });

  test('is escaped everywhere: only the files named here write text directly', () => {
    const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    );
    const past = files.filter((name) => /\brawBytes\(/.test(readFileSync(join(root, 'src', name), 'utf8')));
    assert.deepEqual(past.toSorted(), [
      'cli/block.ts',
      'cli/hosts/worker-output.ts',
      'cli/logs/first-error.ts',
      'cli/logs/stream.ts',
      'cli/output.ts',
    ]);
  });
});

const evilName = 'x\u001b]0;PWN\u0007\n000009  ada';

test('the label in front of a log line is one argument, also for a container with another name', () => {
  for (const form of ['terminal', 'pipe'] as const) {
    const labels = [`train-${evilName}/${evilName}`];
    // oxlint-disable-next-line no-control-regex
    assert.match(formatPrefix(labels, labels, { form, fold: false }), /^\[[^\u0000-\u001f]*\] $/);
  }
});

test('a line end in a cell begins no row', () => {
  assert.equal(
    aligned(
      [
        ['POD', 'NODE'],
        [evilName, 'a\nb'],
      ],
      ['left', 'left'],
      null,
    ).length,
    2,
  );
  for (const columns of [null, 200, 50]) {
    const lines = listLines([jobView({ id: evilName })], {
      columns,
      styler: (_, part) => part,
      unicode: false,
      now: 0,
    });
    assert.ok(lines.every((line) => !line.includes('\n')));
  }
});

test('a name with a control character is not proposed, and a meaning with one is one line', () => {
  const lines = formatProposals([
    { value: 'plain', summary: 'one\ntwo\t\u001b]0;x\u0007' },
    { value: 'a\nb', summary: '' },
    { value: 'c\u001b[2J', summary: '' },
    { value: 'd\u202e', summary: '' },
    { value: 'e\tf', summary: '' },
    { value: '', summary: 'nothing' },
    { value: '$(x)', summary: 'odd' },
  ]);
  assert.equal(lines, 'plain\tone\\x0atwo \\x1b]0;x\\x07\n$(x)\todd\n');
});

test('bash puts names on the line quoted', { skip: spawnSync('bash', ['-c', ':']).status !== 0 }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-completion-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const names = [
    '$(touch${IFS}PWN)',
    'a;touch${IFS}PWN',
    '`touch${IFS}PWN`',
    "c'd",
    '*',
    '~root',
    'back\\slash',
    'x&y',
    'plain',
  ];
  writeFileSync(join(folder, 'answers'), names.map((name) => `${name}\ta job\n`).join(''));
  writeFileSync(
    join(folder, 'script'),
    `${completionScript('bash')}
jobman() { cat answers; }
COMP_LINE='jobman show '; COMP_POINT=\${#COMP_LINE}
_jobman
for reply in "\${COMPREPLY[@]}"; do eval "printf '%s\\n' $reply"; done
COMP_LINE='jobman list --phase='; COMP_POINT=\${#COMP_LINE}
printf -- '--phase=$(touch\${IFS}PWN)\\t\\n' >answers
_jobman
printf '%s\\n' "\${COMPREPLY[@]}"
`,
  );
  const { stdout, stderr } = spawnSync('bash', ['--norc', 'script'], { cwd: folder, encoding: 'utf8' });
  assert.equal(stderr, '');
  assert.deepEqual(stdout.trimEnd().split('\n'), [...names, '\\$\\(touch\\$\\{IFS\\}PWN\\)']);
  assert.equal(existsSync(join(folder, 'PWN')), false);
});

test('a very long cell makes only its own row longer', () => {
  const rows = [
    ['hosts', 'x'.repeat(9_000), 'file'],
    ['local.slots', '1', 'default'],
  ];
  assert.equal(aligned(rows, ['left', 'left', 'left'], null)[1], 'local.slots  1  default');
});
