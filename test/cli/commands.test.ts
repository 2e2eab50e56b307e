import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { AllocationView, AttemptView, Client, JobView, Plan, Why } from '../../src/app/client.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { WorkerAccess } from '../../src/app/worker-access.ts';
import type { EmulatorStatus, EmulatorService } from '../../src/app/services.ts';
import type { OrphanView } from '../../src/app/orphans.ts';
import type { UncheckedLocation, TpuRow } from '../../src/app/tpus.ts';
import type { Event } from '../../src/core/model/event.ts';
import { openWorld } from '../support/world.ts';
import { jobCost } from '../../src/reports/cost.ts';
import type { UsageRow } from '../../src/reports/usage.ts';
import { localSpec, noon, tpuSpec, usageRow } from '../support/builders.ts';
import { jsonLines, aWhy, jobman, now, jobView, allocationView, attemptView, tpuRow } from './support/harness.ts';

const terminal = { columns: 80, rows: 24 };
const minute = 60_000;
const midnight = noon - 12 * 60 * minute;
const attempts: readonly AttemptView[] = [
  attemptView({
    createdAt: now - 300 * minute,
    notBeforeAt: now - 300 * minute,
    startedAt: now - 200 * minute,
    endingAt: now - 110 * minute,
    endedAt: now - 100 * minute,
    reason: 'preempted',
    evidence: { message: 'node PREEMPTED' },
  }),
  attemptView({
    attempt: 2,
    createdAt: now - 100 * minute,
    notBeforeAt: now - 100 * minute,
    startedAt: now - 40 * minute,
  }),
];
const allocation = (number: number, ready: number, gone: number | null): AllocationView =>
  allocationView({
    allocation: number,
    state: gone === null ? 'ready' : 'gone',
    requestedAt: ready - minute,
    readyAt: ready,
    releasedAt: gone,
    goneAt: gone,
  });
const allocations = [allocation(1, now - 202 * minute, now - 99 * minute), allocation(2, now - 42 * minute, null)];

suite('the command line', () => {
  test('alone prints the version and the first steps', async () => {
    const { code, out } = await jobman([]);
    assert.equal(code, 0);
    assert.match(out, /^jobman 1\.2\.3\n/);
    assert.match(out, /jobman create configs\/quick-start\.yaml --follow/);
  });

  for (const [argv, message] of [
    [['lst'], /Unknown command "lst"\. Did you mean "list"\?/],
    [['list', '--jsno'], /Unknown flag --jsno\. Did you mean --json\?/],
    [['create', '--dryrun'], /Unknown flag --dryrun\. Did you mean --dry-run\?/],
    [['create', '--dry-run=yess', 'x'], /--dry-run takes no value, not "yess"/],
    [['continue', '--cmd-only', '--cmd-only', '1'], /--cmd-only is given twice\.\n/],
    [['run'], /What should run\?/],
    [['run', 'train.py'], /train\.py is not a manifest\.\n.*jobman run -- python3 train\.py/],
    [['run', 'train.sh'], /train\.sh is not a manifest\.\n.*jobman run -- bash train\.sh/],
    [['create', 'a.yaml', '--follow', '--detach'], /--follow and --detach exclude each other/],
    [['create', 'train.py'], /train\.py is a program, not a manifest\.\n.*jobman run -- python3 train\.py/],
    [['list', 'failed'], /Unexpected argument "failed"\. Did you mean --phase failed\?/],
    [['create', 'a.yaml', '--zone', 'us-west4-a'], /Unknown flag --zone\. Did you mean --set tpu\.zone=VALUE\?/],
    [['rename', '1', 'vit'], /A job keeps its name/],
    [['restart', '6'], /`jobman resume 6` continues from the last checkpoint, `jobman rerun 6` starts over/],
    [['run', '42'], /There is no manifest "42"\.\n.*jobman continue 42/],
    [['run', 'a.yaml', '--', 'true'], /Unexpected argument "a\.yaml"/],
    [['list', '-z'], /Unknown flag -z/],
    [['list', 'vit'], /Unexpected argument "vit"\. Did you mean --name vit\?/],
    [['list', '--phase', 'runing'], /--phase "runing": expected one of queued, /],
    [['list', '--name'], /--name needs a value/],
    [['list', '--name='], /--name= needs a value/],
    [['list', '--name', 'a', '--name', 'b'], /--name is given twice/],
    [['logs', '1', '--tail', 'few'], /--tail "few": expected a whole number/],
    [['logs', '1', '--grep', '('], /--grep "\(": not a regular expression/],
    [['wait', '1', '--timeout', 'soon'], /expected a length of time/],
    [['controller', '--bogus'], /Unknown flag --bogus\.\n/],
    [['emulator', '--jsn'], /Unknown flag --jsn\. Did you mean --json\?/],
    [['controller', 'strat'], /Unknown command "strat"\. Did you mean "start"\?/],
    [['controller', 'foo'], /Unknown command "foo"\.\n/],
    [['validate'], /Which manifest\? For example: jobman validate train\.yaml/],
    [['create'], /Which manifest\?/],
    [['create', ''], /path of the manifest is empty/],
    [['down'], /`jobman cancel 1` stops a job and releases its TPU, `jobman stop 1` keeps the TPU\./],
    [['init'], /--accelerator is missing, .*\n.*jobman init --accelerator v4-16 --command/],
    [['validate', ''], /path of the manifest is empty/],
    [['create', 'a.yaml', '--config=b.yaml'], /Two manifests are given/],
    [['stop'], /Which job\?/],
    [['continue'], /Which job\?/],
    [['continue', '1', '42'], /Continue one job at a time: it runs in the foreground\./],
    [['continue', 'x', 'y'], /Continue one job at a time: it runs in the foreground\./],
    [['clean', '1', '--all'], /--all and jobs exclude each other/],
    [['completion', 'tcsh'], /expected one of bash, zsh, fish/],
    [['completion', 'bash', '--json'], /"`jobman completion` has no JSON output\."/],
    [['help', '--json'], /"Help has no JSON output\."/],
    [['help', 'list', '--json'], /"Help has no JSON output\."/],
    [['list', '--help', '-o', 'json'], /"Help has no JSON output\."/],
    [['controller', '--json'], /"Help has no JSON output\."/],
    [['ssh', '1', '--json'], /"`jobman ssh` has no JSON output\."/],
    [['emulator', 'serve', '--json'], /"`jobman emulator serve` has no JSON output\."/],
    [['logs', '1', '--raw', '--json'], /"--raw and --json exclude each other\."/],
  ] as const) {
    test(`refuses \`jobman ${argv.join(' ')}\` with exit code 2 and a sentence`, async () => {
      const { code, out, err, commands } = await jobman(argv, { jobs: [jobView()] });
      assert.equal(code, 2);
      assert.match(err, message);
      assert.equal(out, '');
      assert.deepEqual(commands, []);
    });
  }

  test('takes the common flags before and after the command, with `=` and without', async () => {
    const { out } = await jobman(['list', '--json'], { jobs: [jobView()] });
    for (const argv of [
      ['--json', 'list'],
      ['--color', 'never', '--json', 'list'],
      ['--color=never', 'list', '--json'],
      ['-q', 'list', '--json'],
    ]) {
      assert.equal((await jobman(argv, { jobs: [jobView()] })).out, out);
    }
  });
});

suite('start, stop, resume, rerun and cancel', () => {
  test('say each job’s answer on its own line and wake the controller once', async () => {
    const jobs = [jobView({ id: '000001', name: 'a' }), jobView({ id: '000002', name: 'b' })];
    for (const verb of ['start', 'stop', 'resume', 'rerun', 'cancel']) {
      const { code, out, commands } = await jobman([verb, '1', 'b'], { jobs });
      assert.equal(code, 0);
      assert.equal(out, `000001 a: ${verb}\n000002 b: ${verb}\n`);
      assert.deepEqual(commands, [`${verb} 000001`, `${verb} 000002`, 'wake']);
    }
  });

  test('a refusal or an unknown job does not affect the other jobs; the worst exit code counts', async () => {
    const jobs = [jobView({ id: '000001' }), jobView({ id: '000002' })];
    const { code, out, err } = await jobman(['stop', '1', '7', '2'], {
      jobs,
      answerCommand: (id) =>
        id === '000001'
          ? { id, ok: false, message: `${id} belongs to bob.`, exitCode: 4 }
          : { id, ok: true, message: `${id} stops.`, exitCode: 0 },
    });
    assert.equal(code, 4);
    assert.equal(out, '000002 stops.\n');
    assert.equal(err, 'jobman: 000001 belongs to bob.\njobman: There is no job 000007.\n');
  });

  test('a command in the name of the owner is a question, if the role allows it', async () => {
    const run = (...flags: readonly string[]) =>
      jobman(['cancel', '1', ...flags], {
        jobs: [jobView({ id: '000001' })],
        answerCommand: (id, _verb, { onBehalfOf }) =>
          onBehalfOf === 'bob'
            ? { id, ok: true, message: `${id} ends.`, exitCode: 0 }
            : { id, ok: false, message: 'It is his.', exitCode: 4, refusedFor: 'bob', mayActForOwner: true },
      });
    const asked = await run();
    assert.deepEqual(
      [asked.code, asked.err],
      [4, 'jobman: It is his. Nothing was done. To cancel it in the name of bob, confirm with --yes.\n'],
    );
    const confirmed = await run('--yes');
    assert.deepEqual([confirmed.code, confirmed.out], [0, '000001 ends.\n'], confirmed.err);
  });

  test('stop --release and --json hand on what they say', async () => {
    const { out, commands } = await jobman(['stop', '42', '--release', '--json'], { jobs: [jobView()] });
    assert.deepEqual(commands, ['stop 000042 release', 'wake']);
    assert.deepEqual(JSON.parse(out), { id: '000042', message: '000042 vit-l16-3e4: stop' });
  });
});

suite('delete', () => {
  const holding = jobView({ allocations, pricePerHourUsd: 4 });

  test('of a job that holds capacity asks on a terminal, and takes only a yes', async () => {
    for (const [answer, expected] of [
      ['y', ['delete 000042', 'wake']],
      ['yes', ['delete 000042', 'wake']],
      ['', []],
      ['no', []],
    ] as const) {
      const { code, err, commands } = await jobman(['delete', '42'], { jobs: [holding], terminal, input: [answer] });
      assert.deepEqual(commands, expected);
      assert.equal(code, expected.length === 2 ? 0 : 1);
      assert.match(
        err,
        /Job 000042 \(vit-l16-3e4\) holds v5litepod-16, which costs about \$4\.00\/h\. Stop\nits program, .*\[y\/N\] /,
      );
    }
  });

  test('elsewhere is not done, and the flag that says yes is named', async () => {
    const { code, err, commands } = await jobman(['delete', '42'], { jobs: [holding] });
    assert.equal(code, 4);
    assert.match(err, /It was not deleted\. Confirm with --yes\./);
    assert.deepEqual(commands, []);
    assert.deepEqual((await jobman(['delete', '42', '-y'], { jobs: [holding] })).commands, ['delete 000042', 'wake']);
  });

  test('of a job that the user may not delete is refused without a question', async () => {
    const { code, commands } = await jobman(['delete', '42'], {
      jobs: [holding],
      action: { answer: 'deny', cause: 'permission', message: 'It is his' },
      answerCommand: (id) => ({ id, ok: false, message: 'It is his.', exitCode: 4, refusedFor: 'bob' }),
    });
    assert.deepEqual([code, commands], [4, ['delete 000042']]);
  });

  test('of a cancelled job asks nothing, because its capacity is being released', async () => {
    for (const desired of ['cancelled', 'deleted'] as const) {
      const { commands, err } = await jobman(['delete', '42'], {
        jobs: [jobView({ allocations, pricePerHourUsd: 4, desired })],
      });
      assert.deepEqual(commands, ['delete 000042', 'wake'], err);
    }
  });

  test('of a job whose requests were all refused needs no question: it holds nothing', async () => {
    const refused = allocations.map((one) => ({ ...one, state: 'refused' as const, readyAt: null }));
    const { commands, err } = await jobman(['delete', '42'], { jobs: [jobView({ allocations: refused })] });
    assert.deepEqual(commands, ['delete 000042', 'wake'], err);
  });

  test('of a job that holds nothing needs no question; --force is handed on', async () => {
    const { commands } = await jobman(['delete', '42', '--force'], { jobs: [jobView()] });
    assert.deepEqual(commands, ['delete 000042 force', 'wake']);
  });
});

test('clean --all lists the jobs and asks; one job does not', async () => {
  assert.deepEqual((await jobman(['clean', '42'], { jobs: [jobView()] })).commands, ['clean 000042']);
  const jobs = [jobView({ id: '000002', name: 'vit', phase: 'failed' }), jobView({ id: '000001' })];
  const refused = await jobman(['clean', '--all'], { jobs });
  assert.deepEqual([refused.code, refused.commands], [4, []]);
  assert.match(refused.err, /^000002 .* vit .*\njobman: Nothing was removed\. Confirm with --yes\.\n$/m);
  assert.deepEqual((await jobman(['clean', '--all', '--yes'], { jobs })).commands, ['clean 000002']);
  const asked = await jobman(['clean', '--all'], { jobs, terminal, input: ['n'] });
  assert.deepEqual([asked.code, asked.commands], [1, []]);
  assert.match(asked.err, /Remove the files of 1 finished job\? \[y\/N\]/);
  const none = await jobman(['clean', '--all'], { jobs: jobs.slice(1) });
  assert.deepEqual([none.code, none.err], [0, 'Nothing to clean.\n']);
});

test('an error of one job names it in JSON', async () => {
  for (const [argv, job, code] of [
    [['exec', '7', '--', 'ls'], '000007', 3],
    [['cp', 'a', '7:a'], '000007', 3],
    [['continue', '7'], '000007', 3],
    [['port-forward', '7', '6006'], '000007', 3],
    [['ssh-config', '7'], '000007', 3],
    [['wait', '7'], '000007', 3],
    [['exec', 'nemo', '--', 'ls'], 'nemo', 3],
    [['setup', '-j', 'nemo', 'docker'], 'nemo', 3],
    [['continue', '-j', 'nemo'], 'nemo', 3],
    [['exec', '42'], '000042', 2],
  ] as const) {
    const shown = await jobman(['--json', ...argv], { jobs: [jobView()] });
    assert.equal(shown.code, code, shown.err);
    assert.equal((JSON.parse(shown.err) as { error: { job: string } }).error.job, job, argv.join(' '));
  }
});

test('wait --json is the same as show --json, with its times', async () => {
  const jobs = [jobView({ phase: 'succeeded', attempts })];
  const [waited, shown] = await Promise.all(
    ['wait', 'show'].map((command) => jobman([command, '42', '--json'], { jobs })),
  );
  assert.equal(waited?.out, shown?.out);
  assert.match(waited?.out ?? '', /"startedAt":"\d{4}-/);
});

suite('show', () => {
  const job = jobView({
    attempts,
    allocations,
    stage: 1,
    attempt: 2,
    workers: [{ worker: 0, address: '10.0.0.1', message: 'running', logAgeMs: 4_000, lastLine: ' 9%\r10%\u001b[2J' }],
  });

  test('shows the attempts and the workers', async () => {
    const { code, out } = await jobman(['details', 'vit-l16-3e4'], { jobs: [job] });
    assert.equal(code, 0);
    assert.match(out, /^000042 vit-l16-3e4 \(alice\) {2}▸ running for 2h05m {2}attempt 2, stage 1\n/);
    for (const line of [
      'ATTEMPT  STAGE  ALLOCATION  WAITED  SETUP    RAN  ENDED (UTC)',
      '      1      0           1   1h38m     2m  1h30m  06:40:14 preempted: node PREEMPTED',
      '      2      1           2     58m     2m    40m  -',
      'WORKER  HOST      STATE    LOG AGE  LAST LINE',
      '     0  10.0.0.1  running       4s  10%\\x1b[2J',
    ]) {
      assert.ok(out.includes(`\n${line}\n`), `${line}\nis not in\n${out}`);
    }
    assert.match(out, /where {5}v5litepod-16 spot, us-west4-a, allocation 2 \(vit-000042-2\) ready for 42m\n/);
  });

  test('--json has the fields for programs', async () => {
    const { out } = await jobman(['show', '42', '--json'], { jobs: [job] });
    const shown = JSON.parse(out) as Record<string, unknown> & { attempts: Record<string, unknown>[] };
    for (const key of ['id', 'name', 'owner', 'backend', 'phase', 'message', 'desired', 'stage'])
      assert.ok(key in shown, key);
    assert.deepEqual(shown.attempts[0], {
      attempt: 1,
      stage: 0,
      startMode: 'fresh',
      startedBy: 'owner',
      commandOnly: false,
      allocation: 1,
      workers: [0],
      createdAt: '2026-11-21T03:20:14.000Z',
      notBeforeAt: '2026-11-21T03:20:14.000Z',
      startedAt: '2026-11-21T05:00:14.000Z',
      endingAt: '2026-11-21T06:30:14.000Z',
      endedAt: '2026-11-21T06:40:14.000Z',
      reason: 'preempted',
      evidence: {
        message: 'node PREEMPTED',
        worker: null,
        exitCode: null,
        signal: null,
        unconfirmed: false,
        pattern: null,
        line: null,
        raw: null,
      },
      exits: [],
      workdirCopy: null,
    });
  });

  for (const columns of [100, 80, 60, 40]) {
    test(`fits ${columns} columns, and cuts no sentence`, async () => {
      const evidence = { message: 'exit code 1 on worker 3; a sentence that is longer than what is left of the line' };
      const long = jobView({
        ...job,
        attempts: [{ ...attempts[0], reason: 'command_failed', evidence } as AttemptView],
      });
      const terminalOf = { columns, rows: 24 };
      const { out } = await jobman(['show', '42', '--color=never'], { jobs: [long], terminal: terminalOf });
      // A path stays whole, so that it can be copied.
      for (const line of out.split('\n')) assert.ok(line.length <= columns || line.startsWith('files '), line);
      assert.ok(out.replaceAll(/\s+/g, ' ').includes(`command failed: ${evidence.message}`), out);
      assert.match(out, /jobman why 42\n$/);
    });
  }

  test('on 40 columns the end of the log is worth more than the address', async () => {
    const { out } = await jobman(['show', '42', '--color=never'], { jobs: [job], terminal: { columns: 40, rows: 24 } });
    assert.ok(out.includes('\nWORKER  STATE    LOG AGE  LAST LINE\n     0  running       4s  10%\\x1b[2J\n'), out);
  });

  test('of a rehearsal that holds nothing any more: what it would have cost, and where', async () => {
    const { out } = await jobman(['show', '42'], {
      jobs: [jobView({ cost: jobCost([usageRow({ simulated: true })], now), simulated: true, pricePerHourUsd: null })],
    });
    assert.match(out, /\ncost {6}\$8\.00 estimated so far \(16\.0 chip-hours, simulated: free\): useful \$8\.00\n/);
  });

  test('the cost has the chip-hours and the uses of the capacity', async () => {
    const lost = usageRow({ use: 'lost', until: midnight + 4 * minute });
    const view = { backend: 'tpu', pricePerHourUsd: 8, cost: jobCost([usageRow(), lost], now) } as const;
    const { out } = await jobman(['show', '42'], { jobs: [jobView(view)] });
    const line = 'about $8.00/h; $8.53 estimated so far (17.1 chip-hours): useful $8.00, lost $0.53';
    assert.ok(out.includes(`\ncost      ${line}\n`), out);
  });

  test('the last known checkpoint has its age, and its folder the address of the bucket', async () => {
    const resumedFrom = { attempt: 3, name: 'step_400', savedAt: now - 60 * minute };
    const view = jobView({ resumedFrom, checkpointDir: '~/b/ck', checkpointUrl: 'gs://b/ck' });
    const { out } = await jobman(['show', '42'], { jobs: [view] });
    assert.match(out, /\nsaved {5}step_400, 1h ago, the newest when attempt 3 started\n/);
    assert.match(out, /\nsaves to {2}~\/b\/ck \(gs:\/\/b\/ck\); age of the newest file: jobman storage checkpoints\n/);
  });

  test('a folder on another machine has the name of the machine', async () => {
    const folder = { host: 'gpu1', path: '/srv/jobs/000042' };
    const { out } = await jobman(['show', '42'], { jobs: [jobView({ folder, hasFiles: true })] });
    assert.match(out, /\nfiles {5}gpu1:\/srv\/jobs\/000042\n/);
    assert.match((await jobman(['show', '42'], { jobs: [jobView()] })).out, /\nfiles {5}\/home\/alice\//);
  });

  test('the budget has its used part; less than a cent is not a zero', async () => {
    const budget = { budgetUsd: 0.05, ownerBudget: null, usedUpAt: null };
    const show = async (spentUsd: number) =>
      (await jobman(['show', '42'], { jobs: [jobView({ budgets: [{ ...budget, spentUsd }] })] })).out;
    assert.match(await show(0.0425), /\nbudget {4}\$0\.0425 of \$0\.05 used \(85%\)\n/);
    assert.match(await show(0.00001), /\nbudget {4}<\$0\.0001 of \$0\.05 used \(0%\)\n/);
    assert.match(await show(0), /\nbudget {4}\$0\.00 of \$0\.05 used \(0%\)\n/);
  });

  test('a local job without a price has a cost only if it lost work', async () => {
    const row = usageRow({ source: 'hosts', chips: null, pricePerHourUsd: null, pricesOf: null });
    const show = async (rows: readonly UsageRow[]) =>
      (
        await jobman(['show', '42'], {
          jobs: [jobView({ backend: 'hosts', hosts: ['localhost'], cost: jobCost(rows, now) })],
        })
      ).out;
    assert.doesNotMatch(await show([row]), /\ncost /);
    assert.match(await show([{ ...row, use: 'lost' }]), /\ncost {6}not priced: lost 1h00m\n/);
  });

  test('names the owner label for machines of a shared project', async () => {
    const { out } = await jobman(['show', '42'], {
      jobs: [jobView({ spec: tpuSpec({}, { metadata: { owner: 'carol' } }) })],
    });
    assert.match(out, /\nowner {5}carol, by tpu\.metadata\n/);
  });

  test('says of a local job where it works, and of an attempt of another day its date', async () => {
    const yesterday = { ...attempts[0], endedAt: now - 1_000 * minute } as AttemptView;
    const { out } = await jobman(['show', '42'], {
      jobs: [
        jobView({
          backend: 'hosts',
          hosts: ['localhost'],
          accelerator: null,
          attempts: [yesterday],
          allocations,
          spec: localSpec({ command: { ...localSpec().command, workdir: '/home/alice' } }),
        }),
      ],
    });
    assert.match(out, /\nwhere {5}this machine, in \/home\/alice\n/);
    assert.match(out, / {2}20 Nov 15:40:14 preempted: node PREEMPTED\n/);
  });
});

test('show of many workers has those that are unlike the others', async () => {
  const workers = Array.from({ length: 64 }, (_, worker) => ({
    worker,
    address: '10.0.0.1',
    message: worker === 41 ? 'setup' : 'running',
    logAgeMs: worker === 50 ? 600_000 : 1_000,
    lastLine: `step ${worker}`,
  }));
  const { out } = await jobman(['show', '42'], { jobs: [jobView({ workers })] });
  assert.match(out, /\n {4}41 {2}10\.0\.0\.1 {2}setup .*\n {4}50 {2}10\.0\.0\.1 {2}running +10m {2}step 50\n/);
  assert.match(out, /\n44 more workers, like the others: jobman show 42 --json\n/);
});

suite('sentences on a terminal', () => {
  const answer = (id: string) => ({
    id,
    ok: id === '000042',
    exitCode: 4,
    message: `Job ${id} ${'has a long reason '.repeat(5)}.`,
  });
  for (const columns of [80, 40]) {
    test(`end at a space in ${columns} columns, whether they are results or complaints`, async () => {
      const jobs = [jobView(), jobView({ id: '000043' })];
      const { out, err } = await jobman(['stop', '42', '43', '--color=never'], {
        jobs,
        answerCommand: answer,
        terminal: { columns, rows: 24 },
      });
      for (const text of [out, err]) {
        for (const line of text.split('\n')) assert.ok(line.length <= columns, line);
        const whole = text.replaceAll('\n  ', ' ');
        assert.match(whole, /(has a long reason ){5}\.\n$/);
        assert.equal(whole.split('\n').length, 2);
      }
    });
  }

  test('are one line each elsewhere', async () => {
    const { out } = await jobman(['stop', '42'], { jobs: [jobView()], answerCommand: answer });
    assert.equal(out, `${answer('000042').message}\n`);
  });
});

test('why prints the message, the evidence and the next step', async () => {
  const why = aWhy({
    message: '000042 is recovering: its TPU was preempted 4m ago.',
    evidence: 'node gone, seen 08:16:02',
    rule: 'pre: preempted -> new allocation, resume (4 of 100 used)',
    next: 'attempt 5 from step 8,000',
    nextAt: now + 38_000,
  });
  const { out } = await jobman(['why', '42'], { jobs: [jobView({ why })] });
  assert.equal(
    out,
    [why.message, `because   ${why.evidence}`, `rule      ${why.rule}`, `next      ${why.next} (in 38s)`, ''].join(
      '\n',
    ),
  );
  const json = await jobman(['why', '42', '--json'], { jobs: [jobView({ why })] });
  assert.equal((JSON.parse(json.out) as { nextAt: string }).nextAt, '2026-11-21T08:20:52.000Z');
});

test('why --explain also names the situation that the controller saw last', async () => {
  const situation = { name: 'backoff', description: 'the pause is not over' };
  const jobs = { jobs: [jobView({ why: aWhy({ situation }) })] };
  assert.match((await jobman(['why', '42', '--explain'], jobs)).out, /^situation +backoff: the pause is not over$/m);
  const { out } = await jobman(['why', '42', '--explain', '--json'], jobs);
  assert.deepEqual((JSON.parse(out) as Why).situation, situation);
  assert.doesNotMatch((await jobman(['why', '42'], jobs)).out, /situation/);
  const none = await jobman(['why', '42', '--explain'], { jobs: [jobView({ why: aWhy({}) })] });
  assert.match(none.out, /^situation +none yet$/m);
});

suite('history', () => {
  const events: Readonly<Record<string, readonly Event[]>> = {
    '000042': [
      { at: now - 300 * minute, kind: 'created', by: 'alice' },
      {
        at: now - 202 * minute,
        kind: 'allocation_requested',
        allocation: 1,
        name: 'vit-000042-1',
        ownership: 'ephemeral',
      },
    ],
  };

  test('is one line an event; on a terminal with the time since the last one', async () => {
    const jobs = [jobView({ attempts, allocations })];
    const plain = await jobman(['history', '42'], { jobs, events });
    assert.match(plain.out, /\n2026-11-21T03:20:14Z {2}created by alice; recovery pre\n/);
    const shown = await jobman(['history', '42', '--color=never'], { jobs, events, terminal });
    assert.match(
      shown.out,
      /\n21 Nov, UTC\n03:20:14 {11}created by alice.*\n04:58:14 {3}\+1h38m {2}allocation 1 requested/,
    );
  });

  test('shows one loss of a TPU, of which the cloud reports two states', async () => {
    const seen = { at: now, kind: 'allocation_seen', allocation: 1, state: 'lost' } as const;
    const lost = {
      '000042': [
        { ...seen, message: 'SUSPENDING' },
        { ...seen, message: 'SUSPENDED' },
      ],
    };
    const { out } = await jobman(['history', '42'], { jobs: [jobView()], events: lost });
    assert.match(out, /allocation 1 is lost \(SUSPENDING\)\n$/);
  });

  test('breaks a long sentence below its beginning, and on a narrow terminal below its time', async () => {
    const jobs = [jobView({ attempts, allocations })];
    const at = async (columns: number) => {
      const { out } = await jobman(['history', '42', '--timeline', '--color=never'], {
        jobs,
        events,
        terminal: { columns, rows: 24 },
      });
      for (const line of out.split('\n')) assert.ok(line.length <= columns, line);
      return out;
    };
    assert.match(
      await at(60),
      /\n04:58:14 {3}\+1h38m {2}allocation 1 requested: this machine,\n {19}named vit-000042-1\n/,
    );
    assert.match(await at(40), /\n04:58:14 {3}\+1h38m\n {5}allocation 1 requested: this\n/);
  });

  test('--json prints one object per event, with its number and time', async () => {
    const { out } = await jobman(['history', '42', '--json'], { jobs: [jobView()], events });
    const first = JSON.parse(out.split('\n')[0] ?? '') as object;
    assert.deepEqual(first, { seq: 1, at: '2026-11-21T03:20:14.000Z', kind: 'created', by: 'alice' });
  });

  test('--timeline draws waiting, setup, running and the end along an axis', async () => {
    const jobs = [jobView({ createdAt: now - 300 * minute, attempts, allocations })];
    const { out } = await jobman(['history', '42', '--timeline'], { jobs, events });
    const [, range, ruler = '', bar = '', numbers = '', sums] = out.split('\n');
    assert.equal(range, '21 Nov 03:20:14 -> 21 Nov 08:20:14 UTC');
    assert.equal(sums, '5h00m in all: 2h10m running, 2h36m waiting, 4m setup, 10m ended or lost');
    // 300 minutes in columns of 5: 98 minutes of waiting, 2 of setup, 90 running, 10 until all was gone, then the second attempt.
    assert.match(bar, /^ {8}\.{19}\+>{18}!!!\.{10}\+>{9}$/);
    assert.match(ruler, /^ {8}03:20 +04:20 +05:20/);
    assert.match(numbers, /^attempt 1/);
    assert.equal(numbers.indexOf('2'), bar.lastIndexOf('!'));
    for (const line of [ruler, bar, numbers]) assert.ok(line.length <= 80);
  });
});

suite('create', () => {
  const manifest = 'job:\n  name: iris\nlocal: {}\ncommand:\n  run: "true"\n';

  test('prints the id, wakes the controller, and names what comes next', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'iris.yaml'), manifest);
    const jobs = [jobView({ id: '000007', name: 'iris' })];
    const result = await jobman(['create', 'iris.yaml'], { jobs, cwd: folder });
    assert.equal(result.code, 0);
    assert.equal(result.out, 'Created job 000007 (iris). It runs in the background.\n');
    assert.match(result.err, /jobman logs 7 -f/);
    assert.deepEqual(result.commands, ['create iris for alice', 'wake']);
    assert.equal((await jobman(['create', '-q', '--config', 'iris.yaml'], { jobs, cwd: folder })).out, '000007\n');
  });

  test('--set changes a key; one that is none is a usage error', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'iris.yaml'), manifest);
    const named = await jobman(['create', 'iris.yaml', '--set', 'job.name=rose', '--set=command.run=false'], {
      cwd: folder,
    });
    assert.deepEqual(named.commands, ['create rose for alice', 'wake']);
    const wrong = await jobman(['create', 'iris.yaml', '--set', 'job.name'], { cwd: folder });
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /--set job\.name: has no value; write job\.name=VALUE/);
  });

  for (const [what, prepare, message] of [
    ['is missing', () => {}, /does not exist/],
    ['is empty', (path: string) => writeFileSync(path, ''), /m\.yaml/],
    ['is a folder', (path: string) => mkdirSync(path), /is a folder/],
    ['has 10 MB', (path: string) => writeFileSync(path, `a: ${'x'.repeat(10_000_000)}\n`), /too large/],
    ['is binary', (path: string) => writeFileSync(path, Buffer.from([0, 1, 2, 255])), /binary/],
    ['has a tab', (path: string) => writeFileSync(path, 'job:\n\tname: x\n'), /m\.yaml:2:\d+/],
    ['has an unknown key', (path: string) => writeFileSync(path, `${manifest}jbo: 1\n`), /m\.yaml:6:1: .*jbo.*job/],
  ] as const) {
    test(`a manifest that ${what} is reported with its position, and nothing is stored`, async (t) => {
      const { folder } = openWorld(t);
      prepare(join(folder, 'm.yaml'));
      const { code, out, err, commands } = await jobman(['create', 'm.yaml'], { cwd: folder });
      assert.equal(code, 2);
      assert.equal(out, '');
      assert.match(err, message);
      assert.deepEqual(commands, []);
      assert.equal((await jobman(['validate', 'm.yaml'], { cwd: folder })).code, 2);
    });
  }

  test('--dry-run says the plan and stores nothing', async (t) => {
    const { folder } = openWorld(t);
    writeFileSync(join(folder, 'iris.yaml'), manifest);
    const plan: Plan = {
      name: 'iris',
      backend: 'hosts',
      requests: ['this machine'],
      steps: [],
      command: 'true',
      script: null,
      rules: ['preset pass: no automatic recovery', 'preempted -> fail'],
      limits: ['no time limit'],
      pricePerHourUsd: null,
      simulated: false,
      typicalWait: '41m (median of 12 waits in 30 days; 9 of 10 within 2h10m)',
      reasons: [],
    };
    const { code, out, commands } = await jobman(['create', 'iris.yaml', '--dry-run'], { cwd: folder, plan });
    assert.equal(code, 0);
    assert.deepEqual(commands, []);
    assert.match(out, /^Plan for iris \(nothing was created\)/);
    assert.match(out, /\nrequests {2}this machine\nusually {3}41m \(median/);
    assert.match(out, /\nrules {5}preset pass: no automatic recovery\nlimits/);
    assert.match(out, /\nprice {5}free: it runs on your own machines\n/);
    const confirmation = {
      kind: 'budget_used',
      message: 'the budget is used up',
      cost: null,
      remedy: 'Raise it.',
      mayProceed: false,
      token: null,
    } as const;
    const refused = await jobman(['create', 'iris.yaml', '--dry-run'], { cwd: folder, plan, confirmation });
    assert.deepEqual([refused.code, refused.out], [4, out]);
    assert.match(refused.err, /`create` would refuse this job: the budget is used up\.\n +Raise it\./);
    writeFileSync(join(folder, 'rules.yaml'), `${manifest}recovery: {rules: [{reason: hung, then: resume}]}\n`);
    for (const args of [['rules.yaml'], ['iris.yaml', '--verbose']]) {
      const all = await jobman(['create', ...args, '--dry-run'], { cwd: folder, plan });
      assert.match(all.out, /\nrules {5}preset pass: no automatic recovery\n {10}preempted -> fail\n/, args.join(' '));
    }
    const json = await jobman(['create', 'iris.yaml', '--dry-run', '--json'], { cwd: folder, plan });
    assert.deepEqual(JSON.parse(json.out), { ...plan, warnings: [] });
  });
});

test('a verb of the TPU emulator passes through with its target and options', async () => {
  const acts: unknown[] = [];
  const emulator = {
    start: async () => ({ started: false, url: '' }),
    act: async (...act: unknown[]) => {
      acts.push(act);
      return 'node vit-000001-1 is PREEMPTED';
    },
  } as unknown as EmulatorService;
  const services = { emulator: async () => emulator };
  const { code, out } = await jobman(['emulator', 'preempt', '1', '--delay=5s', '--quiet-time', '3', '--hard'], {
    services,
  });
  assert.equal(code, 0);
  assert.equal(out, 'node vit-000001-1 is PREEMPTED\n');
  assert.deepEqual(acts, [['preempt', '1', { delay: '5s', 'quiet-time': '3', hard: 'true' }]]);
});

suite('gc', () => {
  const orphan = (job: string, seen: OrphanView['presence'], message: string): OrphanView => ({
    backend: 'tpu',
    resource: `projects/lab/locations/us-west4-a/nodes/vit-${job}-1`,
    installation: 'abc123',
    job,
    allocation: 1,
    state: 'READY',
    presence: seen,
    message,
  });

  /** A cloud in which a released orphan is deleted at the next check. */
  function orphanOperations(...orphans: OrphanView[]) {
    const [shared, others, missed]: [TpuRow[], TpuRow[], UncheckedLocation[]] = [[], [], []];
    const state: { anyAnswered: boolean; forgettable: string[] } = { anyAnswered: true, forgettable: [] };
    const acts: string[] = [];
    const client: Partial<Client> = {
      orphans: async () => ({
        orphans: orphans.map((one) => ({ ...one })),
        shared,
        others,
        unchecked: missed,
        ...state,
      }),
      observeOrphans: async (asked) =>
        asked.map((one) => {
          const still = orphans.find(({ resource }) => resource === one.resource);
          return still ?? { ...one, presence: 'gone', message: 'gone' };
        }),
      async releaseOrphan({ resource, job }) {
        acts.push(`release ${job}`);
        if (job === '000009') return { kind: 'failed', evidence: { message: 'the cloud did not answer' } };
        const at = orphans.findIndex((one) => one.resource === resource);
        orphans[at] = orphan(job, 'gone', 'gone');
        return { kind: 'done' };
      },
      async forgetOrphan({ resource, job }) {
        acts.push(`forget ${job}`);
        orphans.splice(
          orphans.findIndex((one) => one.resource === resource),
          1,
        );
      },
    };
    return { acts, shared, others, missed, state, client };
  }

  test('lists what is on record with what is seen of it, and changes nothing', async () => {
    const { acts, client } = orphanOperations(
      orphan('000001', 'present', 'READY'),
      orphan('000002', 'unknown', 'code 403'),
    );
    const { code, out, err } = await jobman(['gc'], { client });
    assert.equal(code, 0);
    assert.equal(
      out,
      [
        'JOB     STATE                NAME          IN',
        '000001  READY                vit-000001-1  projects/lab/locations/us-west4-a/nodes',
        '000002  not known: code 403  vit-000002-1  projects/lab/locations/us-west4-a/nodes',
        '',
      ].join('\n'),
    );
    assert.match(err, /^2 orphans; nothing changed\..*jobman gc --yes\n$/);
    assert.deepEqual(acts, []);
    assert.match((await jobman(['gc'], { client: orphanOperations().client })).err, /No orphaned TPUs/);
  });

  test('--yes releases existing orphans, and forgets deleted ones', async () => {
    const { acts, client } = orphanOperations(orphan('000001', 'present', 'READY'), orphan('000002', 'gone', 'gone'));
    const { code, out } = await jobman(['gc', '--yes'], { client });
    assert.equal(code, 0);
    assert.deepEqual(acts, ['release 000001', 'forget 000002', 'forget 000001']);
    assert.match(out, /vit-000002-1 is deleted\.\n.*vit-000001-1 is deleted\.\n$/);
  });

  test('takes those that are named, by job or by name, and no other', async () => {
    const { acts, client } = orphanOperations(
      orphan('000001', 'present', 'READY'),
      orphan('000002', 'present', 'READY'),
    );
    await jobman(['gc', '2', '--yes'], { client });
    await jobman(['gc', 'vit-000001-1', '-y'], { client });
    assert.deepEqual(
      acts.filter((act) => act.startsWith('release')),
      ['release 000002', 'release 000001'],
    );
    const { code, err } = await jobman(['gc', '7'], { client: orphanOperations().client });
    assert.equal(code, 3);
    assert.match(err, /no orphan 7/);
  });

  test('lists other TPUs separately, with or without --yes, and names a project that does not answer', async () => {
    const { acts, others, missed, state, client } = orphanOperations(orphan('000001', 'present', 'READY'));
    state.forgettable.push('other');
    const theirs = `projects/lab/locations/us-west4-a/nodes/theirs`;
    others.push(
      tpuRow({
        name: 'theirs',
        owner: { kind: 'installation', installation: 'q7k2zz', id: '000001' },
        job: null,
        idleMs: null,
      }),
    );
    missed.push({ project: 'other', zone: null, message: 'no login', isEmulatorStopped: false });
    const { code, out, err } = await jobman(['gc', '--yes'], { client });
    assert.equal(code, 0, 'one project out of reach does not fail the command for the others');
    assert.match(out, /^theirs +us-west4-a .* jobman q7k2zz/m);
    assert.match(err, /1 TPU not created by this jobman, which gc never touches:/);
    assert.match(err, /project other could not be checked: no login/);
    assert.match(err, /To stop asking about that project: jobman tpus --forget other/);
    assert.deepEqual(acts, ['release 000001', 'forget 000001']);
    const rows = (await jobman(['gc', '--json'], { client })).out.trim().split('\n');
    assert.deepEqual(
      rows
        .map((line) => JSON.parse(line) as { kind: string; resource: string })
        .map(({ kind, resource }) => [kind, resource]),
      [['other', theirs]],
    );
    const named = await jobman(['gc', 'theirs', '--yes'], { client });
    assert.equal(named.code, 3);
    assert.match(named.err, /theirs does not belong to this installation; gc never touches it\.\n.*tpu delete theirs/);
  });

  test('names the shared TPUs without a job, and never deletes one', async () => {
    const { acts, shared, client } = orphanOperations();
    shared.push(
      tpuRow({
        name: 'ours',
        sharedByInstallation: 'ours00',
        owner: { kind: 'shared', name: 'ada' },
        job: null,
        idleMs: null,
      }),
    );
    const { code, out, err } = await jobman(['gc', '--yes'], { client });
    assert.equal(code, 0);
    assert.match(out, /^ours +us-west4-a .* ada /m);
    assert.match(err, /1 shared TPU without a job\. To delete one: tpu delete ours/);
    const named = await jobman(['gc', 'ours', '--yes'], { client });
    assert.equal(named.code, 4);
    assert.match(named.err, /tpu delete ours/);
    assert.deepEqual(acts, []);
  });

  test('does not say that nothing is left if a zone could not be checked', async () => {
    const { missed, state, client } = orphanOperations();
    missed.push({ project: 'emulator', zone: null, message: 'it does not run', isEmulatorStopped: true });
    assert.match((await jobman(['gc'], { client })).err, /No orphaned TPUs/, 'in a cloud that sleeps nothing runs');
    missed.push({ project: 'lab', zone: null, message: 'no login', isEmulatorStopped: false });
    state.anyAnswered = false;
    for (const args of [['gc'], ['gc', '--yes']]) {
      const { code, err } = await jobman(args, { client });
      assert.equal(code, 5);
      assert.match(err, /No orphaned TPUs found; some zones could not be checked/);
      assert.doesNotMatch(err, /No orphaned TPUs\./);
    }
  });

  test('names the orphans that could not be released, and keeps them in the database', async () => {
    const { acts, client } = orphanOperations(
      orphan('000009', 'present', 'READY'),
      orphan('000001', 'present', 'READY'),
    );
    const { code, err } = await jobman(['gc', '--yes'], { client });
    assert.equal(code, 1);
    assert.match(err, /vit-000009-1 was not released: the cloud did not answer/);
    assert.ok(acts.includes('forget 000001') && !acts.includes('forget 000009'));
  });
});

suite('emulator', () => {
  const at = { running: true, url: 'http://127.0.0.1:4', pid: 7 };
  const cloud: Omit<EmulatorStatus, keyof typeof at> = {
    speed: 40,
    sshPort: 2222,
    tpus: [
      {
        name: 'iris-000001-1',
        zone: 'us-central2-b',
        accelerator: 'v4-16',
        nodeState: 'READY',
        queuedResourceState: 'ACTIVE',
        workers: ['running', 'dead'],
        job: '000001',
        createdAt: now - 12_000,
      },
      {
        name: 'mine',
        zone: 'us-east5-b',
        accelerator: 'v6e-8',
        nodeState: null,
        queuedResourceState: 'WAITING_FOR_RESOURCES',
        workers: [],
        job: null,
        createdAt: now - 90_000,
      },
    ],
    activeFaults: ['stockout us-east5-b, for 10m'],
  };
  const running = { start: async () => ({ started: false, url: 'http://127.0.0.1:1' }) };
  const emulator = (parts: Partial<EmulatorService>) => ({
    emulator: async () => ({ ...running, ...parts }) as EmulatorService,
  });

  test("status has a row per TPU and a line per condition; --json is the emulator's own state", async () => {
    const services = emulator({ status: async () => ({ ...at, ...cloud }) });
    const { code, out } = await jobman(['emulator', 'status'], { services });
    assert.equal(code, 0);
    assert.equal(
      out,
      [
        'The TPU emulator runs at http://127.0.0.1:4 (process 7), 40 times as fast as Google Cloud.',
        'NAME           ZONE           ACCELERATOR  STATE                  WORKERS    JOB     AGE',
        'iris-000001-1  us-central2-b  v4-16        READY                  2, 1 dead  000001  12s',
        'mine           us-east5-b     v6e-8        WAITING_FOR_RESOURCES  -          -        1m',
        'in force: stockout us-east5-b, for 10m',
        '',
      ].join('\n'),
    );
    const json = await jobman(['emulator', 'status', '--json'], { services });
    const shown = JSON.parse(json.out) as { tpus: { createdAt: string }[]; activeFaults: string[]; speed: number };
    assert.equal(shown.speed, 40);
    assert.equal(shown.tpus[0]?.createdAt, '2026-11-21T08:20:02.000Z');
    assert.deepEqual(shown.activeFaults, ['stockout us-east5-b, for 10m']);
  });

  test('status of one that does not run, or is empty, says so', async () => {
    const absent = {
      running: false,
      url: null,
      pid: null,
      speed: null,
      sshPort: null,
      tpus: [],
      activeFaults: [],
    };
    const { code, out } = await jobman(['emulator', 'status'], { services: emulator({ status: async () => absent }) });
    assert.equal(code, 1);
    assert.match(out, /^The TPU emulator does not run/);
    const empty = { ...at, ...cloud, tpus: [], activeFaults: [] };
    const none = await jobman(['emulator', 'status'], { services: emulator({ status: async () => empty }) });
    assert.match(none.out, /\nIt has no TPUs\.\n$/);
  });

  /** A cloud that knows job 000042 by its id only. */
  const knowsIds = emulator({
    async act(verb, target) {
      if (/^(0*42|n1)(\/\d)?$/.test(target ?? '')) return `${verb} ${target}`;
      throw new JobmanError(`There is no node "${target}". The emulator has no TPUs.`, 3);
    },
  });

  for (const [target, acted] of [
    ['42', '42'],
    ['n1', 'n1'],
    ['vit-l16-3e4', '000042'],
    ['vit-l16-3e4/3', '000042/3'],
  ]) {
    test(`a verb finds ${target}`, async () => {
      const { code, out } = await jobman(['emulator', 'preempt', target ?? ''], {
        jobs: [jobView()],
        services: knowsIds,
      });
      assert.equal(code, 0);
      assert.equal(out, `preempt ${acted}\n`);
    });
  }

  for (const [what, job, message] of [
    [
      'waits for its next TPU',
      jobView({
        id: '000007',
        phase: 'recovering',
        allocations: [allocation(1, now - minute, now), { ...allocation(2, now, null), readyAt: null }],
      }),
      'jobman: Job 000007 (vit-l16-3e4) holds no TPU now: it is recovering and waits for a new v5litepod-16. More: jobman why 7\n',
    ],
    [
      'has ended',
      jobView({ id: '000007', phase: 'succeeded', allocations: [allocation(1, now - minute, now)] }),
      'jobman: Job 000007 (vit-l16-3e4) holds no TPU now: it has finished (succeeded). More: jobman show 7\n',
    ],
    [
      'runs on this machine',
      jobView({
        id: '000007',
        backend: 'hosts',
        hosts: ['localhost'],
        accelerator: null,
        allocations: [allocation(1, now - minute, null)],
      }),
      'jobman: Job 000007 (vit-l16-3e4) runs on this machine and has no TPU.\n',
    ],
  ] as const) {
    test(`a verb on a job that ${what} reports that, and not a missing node`, async () => {
      const { code, err } = await jobman(['emulator', 'preempt', '7'], { jobs: [job], services: knowsIds });
      assert.equal(code, 4);
      assert.equal(err, message);
    });
  }

  test("the emulator's refusal for a job's TPU is shown with its message", async () => {
    const jobs = [jobView({ id: '000007', allocations: [allocation(1, now - minute, null)] })];
    const { code, err } = await jobman(['emulator', 'preempt', '7'], { jobs, services: knowsIds });
    assert.equal(code, 3);
    assert.equal(err, 'jobman: There is no node "000007". The emulator has no TPUs.\n');
  });

  test('a verb on an id that no job has says so', async () => {
    const { code, err } = await jobman(['emulator', 'preempt', '7'], { services: knowsIds });
    assert.equal(code, 3);
    assert.equal(err, 'jobman: There is no job 000007. The emulator has no TPUs.\n');
  });

  test('an unknown verb is reported as such, whatever the job, and starts no emulator', async () => {
    const services = emulator({ start: () => Promise.reject(new Error('it was started')) });
    const { code, err } = await jobman(['emulator', 'preemt', '42'], {
      jobs: [jobView({ phase: 'succeeded' })],
      services,
    });
    assert.equal(code, 2);
    assert.equal(
      err,
      'jobman: Unknown verb "preemt" of the TPU emulator. Did you mean "preempt"?\n  `jobman emulator --help` lists them.\n',
    );
  });

  test("a verb on an unknown target is refused with the emulator's message", async () => {
    const { code, err } = await jobman(['emulator', 'preempt', 'missing'], { jobs: [jobView()], services: knowsIds });
    assert.equal(code, 3);
    assert.equal(err, 'jobman: There is no node "missing". The emulator has no TPUs.\n');
  });
});

test('ssh passes on the worker and the arguments after --', async () => {
  const seen: unknown[] = [];
  const services = {
    workers: async (id: string) =>
      ({
        ssh: {
          argv: async (worker: number, command: readonly string[]) => {
            seen.push([id, worker, command]);
            return ['ssh', 'host'];
          },
        },
        close: () => undefined,
      }) as unknown as WorkerAccess,
    onTerminal: async (argv: readonly string[]) => (argv.length === 2 ? 7 : 1),
  };
  const { code } = await jobman(['ssh', '42', '--worker', '3', '--', 'ls', '-la', '--json'], {
    jobs: [jobView()],
    services,
  });
  assert.equal(code, 7);
  assert.deepEqual(seen, [['000042', 3, ['ls', '-la', '--json']]]);
});

test('settings shows each value and its source', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'settings.json'), '{"local":{"slots":8},"tpu":{"endpoint":"http://127.0.0.1:1"}}');
  const env = { JOBMAN_TPU_ENDPOINT: 'http://127.0.0.1:2', JOBMAN_TPU_SSH_PORT: '' };
  const { out } = await jobman(['settings', '--json'], { services: { home: folder }, env });
  const rows = jsonLines<{ key: string; source: string }>(out);
  assert.deepEqual(rows.find(({ key }) => key === 'local.slots')?.source, 'settings.json');
  assert.deepEqual(rows.find(({ key }) => key === 'tpu.sshPort')?.source, 'default');
  assert.deepEqual(rows.find(({ key }) => key === 'tpu.endpoint')?.source, 'JOBMAN_TPU_ENDPOINT');
  assert.match((await jobman(['settings', '--help'])).out, /are in \$JOBMAN_HOME\/settings\.json/);
});

suite('completion', () => {
  const proposed = async (...args: string[]) => {
    const { out } = await jobman(['__complete', ...args], {
      jobs: [jobView(), jobView({ id: '000043', name: 'bert' })],
    });
    return out
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('\t')[0]);
  };

  test('proposes commands, flags, values and jobs', async () => {
    assert.deepEqual(await proposed('stop'), ['stop']);
    assert.deepEqual(await proposed('controller', 'sta'), ['status', 'start']);
    assert.deepEqual(await proposed('logs', '--fo'), ['--follow']);
    assert.deepEqual(await proposed('list', '--phase', 're'), ['recovering']);
    assert.deepEqual(await proposed('logs', '00004'), ['000042', '000043']);
    assert.deepEqual(await proposed('stop', '000042', 'be'), ['bert']);
    assert.deepEqual(await proposed('completion', ''), ['bash', 'zsh', 'fish']);
    assert.deepEqual(await proposed('schema', 'li'), ['list']);
    assert.deepEqual(await proposed('schema', 'contr'), ['controller']);
    assert.deepEqual(await proposed('help', 'controller', 'sta'), ['status', 'start']);
    assert.deepEqual(await proposed('help', 'list', ''), []);
    assert.deepEqual(await proposed('init', '--accelerator', 'v2-'), ['v2-8', 'v2-32', 'v2-128', 'v2-256', 'v2-512']);
    assert.deepEqual((await proposed('init', '--accelerator', '')).slice(0, 3), ['emulator', 'local', 'v2-8']);
    // Every command that takes a job proposes jobs, one with a second name too.
    for (const args of [['show'], ['details'], ['why'], ['emulator', 'preempt']])
      assert.deepEqual(await proposed(...args, ''), ['000042', '000043', 'bert', 'vit-l16-3e4']);
  });

  test('proposes the verbs of the TPU emulator next to its commands', async () => {
    assert.deepEqual(await proposed('emulator', 'st'), ['status', 'start', 'stop', 'start-host', 'stockout']);
    assert.deepEqual(await proposed('emulator', 'nothing', ''), []);
    assert.deepEqual(await proposed('emulator', 'preempt', '000042', ''), []);
  });

  test('proposes the steps of a job where one is wanted', async () => {
    const steps = ['ssh', 'docker'].map((name) => ({ name }) as JobView['spec']['steps'][number]);
    const job = jobView({ spec: { ...jobView().spec, steps } });
    const proposals = async (...line: string[]) =>
      (await jobman(['__complete', ...line], { jobs: [job] })).out.split('\n').map((text) => text.split('\t')[0]);
    assert.deepEqual(await proposals('logs', '--tail', '3', '000042', '--step', ''), [
      'ssh',
      'docker',
      'command',
      'job',
      'tpu',
      '',
    ]);
    assert.deepEqual(await proposals('logs', '000042', '--step', 'd'), ['docker', '']);
    assert.deepEqual(await proposals('logs', '--step', ''), ['command', 'job', 'tpu', '']);
    assert.deepEqual(await proposals('setup', '000042', ''), ['ssh', 'docker', '']);
    assert.deepEqual(await proposals('setup', ''), ['000042', 'vit-l16-3e4', '']);
  });

  test('prints a script for each shell', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, out } = await jobman(['completion', shell]);
      assert.equal(code, 0);
      assert.match(out, /__complete/);
    }
  });
});

test('a viewer, which may not start the controller, cancels a job while one runs', async () => {
  const wake = async () => {
    throw new JobmanError('ada may not start the controller', exitCode.conflict, [], { errorCode: 'forbidden' });
  };
  for (const [isRunning, code] of [
    [true, exitCode.ok],
    [false, exitCode.conflict],
  ] as const) {
    const client = { wake, isControllerRunning: async () => isRunning };
    assert.equal((await jobman(['cancel', '42'], { jobs: [jobView()], client })).code, code);
  }
});

test('an audit log without entries says so, and with a flag that none matches', async () => {
  const client = { audit: async () => [] };
  for (const [argv, sentence] of [
    [[], 'The audit log has no entries yet.\n'],
    [['--limit', '5'], 'The audit log has no entries yet.\n'],
    [['--denied'], 'The audit log has no entries that match.\n'],
    [['--user', 'ada'], 'The audit log has no entries that match.\n'],
  ] as const) {
    const { code, out, err } = await jobman(['audit', ...argv], { client });
    assert.deepEqual([code, out, err], [exitCode.ok, '', sentence]);
  }
});
