/** `jobman mark` of a worker without jobman, in the shells that workers have, and of an installed jobman. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { metricsOfReport } from '../../src/core/model/metric-lines.ts';
import { markScript } from '../../src/remote/mark.ts';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const shells: readonly (readonly string[])[] = [['dash'], ['bash'], ['busybox', 'sh']];

interface Reporter {
  readonly file: string;
  /** The code and the messages of one report. */
  readonly report: (
    args: readonly string[],
    file?: string,
  ) => Promise<{ readonly code: number; readonly message: string }>;
}

const reporters: Readonly<Record<string, (t: TestContext) => Reporter>> = Object.fromEntries([
  ...shells.map((shell) => [shell.join(' '), (t: TestContext) => scriptReporter(t, shell)] as const),
  ['an installed jobman', installedReporter] as const,
]);

function scriptReporter(t: TestContext, shell: readonly string[]): Reporter {
  const { folder, env } = openWorld(t);
  const script = join(folder, 'jobman');
  writeFileSync(script, markScript);
  const file = join(folder, 'metrics');
  return {
    file,
    async report(args, to = file) {
      const [program = '', ...before] = shell;
      const ran = spawnSync(program, [...before, script, ...args], { env: { ...env, JOBMAN_METRICS: to } });
      return { code: ran.status ?? -1, message: ran.stdout.toString() + ran.stderr.toString() };
    },
  };
}

function installedReporter(t: TestContext): Reporter {
  const world = openWorld(t);
  const file = join(world.folder, 'metrics');
  return {
    file,
    async report(args, to = file) {
      const { code, stdout, stderr } = await jobman({ ...world, env: { ...world.env, JOBMAN_METRICS: to } }, args);
      return { code: code ?? -1, message: stdout + stderr };
    },
  };
}

for (const [name, open] of Object.entries(reporters)) {
  test(`${name}: a report is one line with its time`, async (t) => {
    const { file, report } = open(t);
    const began = Date.now();
    for (const args of [
      ['mark', 'step=100', 'loss=0.3'],
      ['mark', 'step=101', 'loss=nan', 'lr=-1e-5', 'val/acc@1=.5', 'x=-Infinity'],
    ])
      assert.deepEqual(await report(args), { code: 0, message: '' });
    const lines = readFileSync(file, 'utf8').split('\n');
    assert.equal(lines.length, 3);
    const found = lines.slice(0, 2).map((line) => metricsOfReport(line));
    assert.deepEqual(
      found.map((line) => [line?.step, ...(line?.values.flat() ?? [])]),
      [
        [100, 'loss', 0.3],
        [101, 'loss', NaN, 'lr', -0.00001, 'val/acc@1', 0.5, 'x', -Infinity],
      ],
    );
    // A clock of full seconds is enough.
    for (const line of found) assert.ok(line?.at !== undefined && line.at !== null && line.at >= began - 1_000);
  });

  test(`${name}: of a line with wrong pairs the others are reported, with a message for each wrong one`, async (t) => {
    const { file, report } = open(t);
    const { code, message } = await report(['mark', 'step=100', 'loss=0.3', 'lr=abc', 'a b=1', 'acc=0.5']);
    assert.equal(code, 0);
    assert.match(message, /"abc" is not a number \(lr=\)\.\n.*"a b" is not the name of a metric/);
    assert.match(readFileSync(file, 'utf8'), /^\d{13} step=100 loss=0\.3 acc=0\.5\n$/);
  });

  test(`${name}: without a right pair a line is refused with a message, and nothing is written`, async (t) => {
    const { file, report } = open(t);
    for (const [args, message] of [
      [['mark'], /Name the metrics, for example: jobman mark step=100 loss=0\.3/],
      [['mark', 'loss'], /"loss" is not name=value\./],
      [['mark', 'a b=1'], /"a b" is not the name of a metric/],
      [['mark', '=1'], /"" is not the name of a metric/],
      [['mark', 'loss=high'], /"high" is not a number \(loss=\)\./],
      [['mark', 'loss='], /"" is not a number/],
      [['mark', 'loss=1-2'], /"1-2" is not a number/],
      [['mark', 'loss=1.2.3'], /"1\.2\.3" is not a number/],
      [['mark', 'loss=1\n2'], /is not a number/],
      [
        ['mark', `${'x'.repeat(60)}=1 `.trim(), ...Array.from({ length: 80 }, (_, at) => `${'y'.repeat(60)}${at}=1`)],
        /4,000 characters/,
      ],
    ] as const) {
      const answer = await report(args);
      const isRight = answer.code === 2 && message.test(answer.message);
      assert.ok(isRight, `${args.join(' ').slice(0, 80)}: ${answer.message}`);
    }
    assert.equal(existsSync(file), false);
  });

  test(`${name}: outside of a job it says so, and a file that cannot be written is a failure`, async (t) => {
    const { report } = open(t);
    const outside = await report(['mark', 'loss=1'], '');
    assert.equal(outside.code, 2);
    assert.match(outside.message, /jobman mark works only in the program of a job: JOBMAN_METRICS is not set\./);
    const lost = await report(['mark', 'loss=1'], '/nowhere/metrics');
    assert.equal(lost.code, 1);
    assert.match(lost.message, /The file \/nowhere\/metrics cannot be written/);
  });
}

test('the script takes metrics alone, and refuses other commands', (t) => {
  const { folder, env } = openWorld(t);
  const script = join(folder, 'jobman');
  writeFileSync(script, markScript);
  chmodSync(script, 0o755);
  const file = join(folder, 'metrics');
  const run = (...args: readonly string[]) => spawnSync(script, args, { env: { ...env, JOBMAN_METRICS: file } });
  assert.equal(run('step=1', 'loss=2').status, 0);
  assert.match(readFileSync(file, 'utf8'), /^\d{13} step=1 loss=2\n$/);
  const other = run('list');
  assert.equal(other.status, 2);
  assert.match(other.stderr.toString(), /This is only `jobman mark` of a job's program/);
});

test('many processes that report at once write whole lines', async (t) => {
  const { folder, env } = openWorld(t);
  const script = join(folder, 'jobman');
  writeFileSync(script, markScript);
  const file = join(folder, 'metrics');
  const loop = `for one in 1 2 3 4 5 6 7 8; do for two in 1 2 3 4 5; do sh "${script}" mark step=$one$two loss=1 & done; done; wait`;
  spawnSync('sh', ['-c', loop], { env: { ...env, JOBMAN_METRICS: file } });
  const lines = () => readFileSync(file, 'utf8').trimEnd().split('\n');
  assert.ok(await eventually(() => lines().length === 40));
  for (const line of lines()) assert.match(line, /^\d{13} step=\d\d loss=1$/);
});
