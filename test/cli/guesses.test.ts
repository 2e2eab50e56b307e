/** Commands and flags that people guess work, or lead to the right one. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { forbiddenError } from '../../src/app/require-permission.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import type { Services } from '../../src/app/services.ts';
import { formatBug } from '../../src/cli/bug-report.ts';
import { findCommand } from '../../src/cli/find-command.ts';
import { jobmanProgram } from '../../src/cli/table.ts';
import type { ErrorOutput } from '../../src/cli/outputs.ts';
import { openWorld } from '../support/world.ts';
import { jobman, jobView, jsonLines } from './support/harness.ts';

const terminal = { columns: 100, rows: 24 };
const jobs = [
  jobView({ id: '000003', name: 'iris', phase: 'running' }),
  jobView({ id: '000002', name: 'vit', phase: 'failed' }),
  jobView({ id: '000001', name: 'bert', owner: 'bob', phase: 'queued' }),
];

function folder(t: TestContext): string {
  const { home } = openWorld(t);
  const path = join(home, 'work');
  mkdirSync(path, { recursive: true });
  return path;
}

suite('init', () => {
  for (const flags of [
    ['--accelerator', 'local', '--command', 'python3 train.py'],
    ['--accelerator', 'local', '--command', 'echo "a: b" # c', '--checkpoints', 'ck'],
    ['--accelerator', 'emulator', '--command', 'true', '--checkpoints', 'gs://my-bucket/vit'],
    ['--accelerator', 'v5litepod-16', '--command', 'true', '--name', 'vit', '--zone', 'us-west4-a'],
    ['--accelerator', 'Local', '--command', `python3 train.py ${'--flag=value '.repeat(20)}`],
    ['--accelerator', 'local', '--command', 'cd src\n  python3 train.py\n', '--checkpoints', 'a: b # c'],
  ]) {
    test(`writes a valid manifest without a question: ${flags.join(' ')}`, async (t) => {
      const cwd = folder(t);
      const written = await jobman(['init', ...flags], { cwd });
      assert.deepEqual([written.code, written.out], [0, 'Wrote jobman.yaml.\n'], written.err);
      const { code, out, err } = await jobman(['validate', 'jobman.yaml', '--offline'], { cwd });
      assert.equal(code, 0, err);
      assert.match(out, /^jobman\.yaml is valid/);
    });
  }

  test('asks three questions on a terminal', async (t) => {
    const cwd = folder(t);
    const input = ['local', 'python3 train.py', ''];
    const { code, err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input });
    assert.equal(code, 0);
    assert.equal(err.match(/\[[^\]]+\]: /g)?.length, 3);
    const text = readFileSync(join(cwd, 'a.yaml'), 'utf8');
    assert.match(text, /^local:$/m);
    assert.match(text, /^ {2}run: python3 train\.py$/m);
    assert.match(text, /^ {2}checkpoint_dir: checkpoints +#/m);
  });

  test('offers the hosts of the settings', async (t) => {
    const cwd = folder(t);
    const hosts = { gpu1: { ssh: 'gpu1.lab' }, gpu2: { ssh: 'gpu2.lab' } };
    const services = { settings: async () => defaultSettings(4, new Map([['hosts', hosts]])) };
    const input = ['gpu3', 'gpu1, gpu2', 'python3 train.py', ''];
    const { code, err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input, services });
    assert.equal(code, 0, err);
    assert.match(err, /A TPU type such as v4-16, emulator, gpu1, gpu2, or local/);
    assert.match(err, /"gpu3" is not a TPU type \(did you mean gpu[12]\?\)/);
    const text = readFileSync(join(cwd, 'a.yaml'), 'utf8');
    assert.match(text, /^hosts: \[gpu1, gpu2\] +#/m);
    assert.match(text, /^ {2}workdir: \. +#/m);
    assert.equal((await jobman(['validate', 'a.yaml', '--offline'], { cwd, services })).code, 0);
  });

  test('asks again after a wrong answer', async (t) => {
    const cwd = folder(t);
    const input = ['v4-17', 'emulator', 'python3 train.py', './foo', 'gs://b', 'gs://my-bucket/iris'];
    const { code, err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input });
    assert.equal(code, 0, err);
    assert.match(err, /"v4-17" is not a TPU type/);
    assert.match(err, /"\.\/foo" is not a bucket/);
    assert.match(err, /gcsfuse\.bucket_name: "b" is not a bucket name/);
    assert.match(readFileSync(join(cwd, 'a.yaml'), 'utf8'), /bucket_name: my-bucket/);
  });

  test('asks for the project of a real TPU, and proposes a known one', async (t) => {
    const cwd = folder(t);
    const input = ['v4-16', 'python3 train.py', '', 'Lab', 'lab-1234', ''];
    const { code, err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input });
    assert.equal(code, 0, err);
    assert.equal(err.match(/Which Google Cloud project\? (?!\[)/g)?.length, 3);
    assert.match(err, /A TPU needs a Google Cloud project, such as my-project-1234\./);
    assert.match(err, /"Lab" is not a valid project id/);
    assert.match(readFileSync(join(cwd, 'a.yaml'), 'utf8'), /^ {2}project: lab-1234 /m);

    mkdirSync(join(cwd, 'configurations'));
    writeFileSync(join(cwd, 'active_config'), 'work\n');
    writeFileSync(join(cwd, 'configurations/config_work'), '[core]\naccount = a@b.c\nproject = lab-5678\n');
    const env = { CLOUDSDK_CONFIG: cwd };
    const proposed = await jobman(['init', 'b.yaml'], { cwd, terminal, env, input: ['v4-16', 'true', '', ''] });
    assert.match(proposed.err, /Which Google Cloud project\? \[lab-5678\]: /);
    assert.match(readFileSync(join(cwd, 'b.yaml'), 'utf8'), /^ {2}project: lab-5678 /m);
  });

  test('without a known project writes a placeholder, which validate reports', async (t) => {
    const cwd = folder(t);
    await jobman(['init', '--accelerator', 'v4-16', '--command', 'true'], { cwd });
    const { code, err } = await jobman(['validate', 'jobman.yaml', '--offline'], { cwd });
    assert.equal(code, 0);
    assert.match(err, /tpu\.project: my-project is a placeholder; write the id of your Google Cloud project/);
  });

  test('proposes a bucket for the checkpoints of a TPU of the emulator', async (t) => {
    const cwd = folder(t);
    const { err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input: ['', '', ''] });
    assert.match(err, /or - for none \[gs:\/\/my-bucket\/checkpoints\]: /);
    const text = readFileSync(join(cwd, 'a.yaml'), 'utf8');
    assert.match(text, /^ {2}checkpoint_dir: ~\/bucket\/checkpoints /m);
    assert.match(text, /^ {2}bucket_name: my-bucket /m);
    assert.equal((await jobman(['validate', 'a.yaml', '--offline'], { cwd })).err, '');
  });

  test('asks again after a command that the manifest cannot contain', async (t) => {
    const cwd = folder(t);
    const input = ['local', 'echo ${job.nmae}', 'true', ''];
    const { code, err } = await jobman(['init', 'a.yaml'], { cwd, terminal, input });
    assert.equal(code, 0, err);
    assert.match(err, /command\.run: .*job\.nmae/);
    assert.match(readFileSync(join(cwd, 'a.yaml'), 'utf8'), /^ {2}run: "?true"?$/m);
    const empty = await jobman(['init', 'b.yaml', '--accelerator', 'local', '--command', ' '], { cwd });
    assert.deepEqual([empty.code, existsSync(join(cwd, 'b.yaml'))], [2, false]);
  });

  test('never overwrites, and needs flags without a terminal', async (t) => {
    const cwd = folder(t);
    const missing = await jobman(['init'], { cwd });
    assert.equal(missing.code, 2);
    assert.match(missing.err, /--accelerator is missing/);
    assert.equal(existsSync(join(cwd, 'jobman.yaml')), false);
    writeFileSync(join(cwd, 'jobman.yaml'), 'mine\n');
    const { code, err } = await jobman(['init', '--yes'], { cwd });
    assert.equal(code, 4);
    assert.match(err, /jobman\.yaml exists; nothing was written\./);
    assert.equal(readFileSync(join(cwd, 'jobman.yaml'), 'utf8'), 'mine\n');
  });

  for (const [flags, reason] of [
    [['--name', 'a b'], /job\.name: "a b" is not a valid job name/],
    [['--name', '12'], /job\.name: "12" is not a valid job name/],
    [['--checkpoints', ''], /job\.checkpoint_dir: is empty/],
    [['--checkpoints', 's3://b/x'], /"s3:\/\/b\/x" is not a bucket/],
    [['--accelerator', 'v4-8', '--checkpoints', './foo'], /"\.\/foo" is not a bucket: expected gs:/],
    [['--zone', 'us-central2-b'], /--project and --zone choose a TPU/],
    [['--accelerator', 'emulator', '--project', 'lab-1234'], /--project and the TPU emulator exclude each other/],
    [['--accelerator', 'v4-8', '--project', 'Bad Project'], /"Bad Project" is not a valid project id/],
  ] as const) {
    test(`refuses ${flags.join(' ')}`, async (t) => {
      const cwd = folder(t);
      const where = flags.some((flag) => flag === '--accelerator') ? [] : ['--accelerator', 'local'];
      const { code, err } = await jobman(['init', '--command', 'true', ...where, ...flags], { cwd });
      assert.equal(code, 2);
      assert.match(err, reason);
      assert.equal(existsSync(join(cwd, 'jobman.yaml')), false);
    });
  }

  test('says why a file cannot be written', async (t) => {
    const cwd = folder(t);
    symlinkSync('missing', join(cwd, 'link.yaml'));
    for (const [file, expected, reason] of [
      ['missing/a.yaml', 3, /There is no folder missing/],
      [`${'n'.repeat(300)}.yaml`, 1, /n\.yaml cannot be written: ENAMETOOLONG/],
      ['link.yaml', 4, /link\.yaml exists; nothing was written/],
      ['', 2, /The path of the manifest is empty/],
    ] as const) {
      const { code, err } = await jobman(['init', file, '--accelerator', 'local', '--command', 'true'], { cwd });
      assert.equal(code, expected);
      assert.match(err, reason);
    }
  });

  test('suggests a type', async (t) => {
    const { code, err } = await jobman(['init', '--accelerator', 'v5lite-16', '--command', 'x'], { cwd: folder(t) });
    assert.equal(code, 2);
    assert.match(err, /"v5lite-16" is not a TPU type \(did you mean v5litepod-16\?\)/);
  });
});

suite('run', () => {
  for (const [args, name] of [
    [['--', 'python3', 'train.py', '--lr', '1'], 'train'],
    [['--', 'python3 -m pytest -q'], 'pytest'],
    [['--', '/bin/ls', '-l'], 'ls'],
    [['--name', 'sweep', '--', 'true'], 'sweep'],
    [['--name', '~', '--', 'true'], '~'],
    [['--name', '[a]', '--', 'true'], '[a]'],
    [['--', '7'], 'job-7'],
    [['--', 'LR=0.1 python3 train.py'], 'train'],
  ] as const) {
    test(`${args.join(' ')} creates a local job named ${name}`, async (t) => {
      const { code, err, commands } = await jobman(['run', ...args], { cwd: folder(t), jobs: [] });
      assert.equal(code, 0, err);
      assert.equal(commands[0], `create ${name} for alice`);
    });
  }

  test('names the mistake on the command line', async (t) => {
    for (const [args, reason] of [
      [['--', ' '], /The command is empty/],
      [['-n', 'vision', '--', 'true'], /--namespace does not work with `run --`/],
      [['--config', 'a.yaml', '--', 'true'], /--config does not work with `run --`/],
    ] as const) {
      const { code, err } = await jobman(['run', ...args], { cwd: folder(t), jobs: [] });
      assert.equal(code, 2);
      assert.match(err, reason);
    }
  });

  test('refuses a program that does not exist', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
    const run = (...command: readonly string[]) =>
      jobman(['run', '--', ...command], { cwd, jobs: [], env: { PATH: `${cwd}:/bin` } });
    assert.match((await run('nosuchprogram')).err, /There is no program nosuchprogram on PATH\./);
    const { code, err, commands } = await run('./missing.sh', '--lr', '1');
    assert.deepEqual([code, commands], [2, []]);
    assert.match(err, /There is no program \.\/missing\.sh\./);
    for (const command of [['tool', '7'], ['./tool'], ['exit', '3'], ['LR=1 nosuchprogram'], ['sh', '-c', 'x']])
      assert.equal((await run(...command)).code, 0, command.join(' '));
  });

  test('FILE does what create does', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'a.yaml'), 'job: {name: iris}\nlocal: {}\ncommand: {run: "true"}\n');
    for (const command of ['run', 'create']) {
      const { code, commands } = await jobman([command, 'a.yaml', '--env', 'SEED=7', '-d'], { cwd });
      assert.deepEqual([code, commands[0]], [0, 'create iris for alice']);
    }
  });
});

test('a manifest that does not exist leads to a file with a similar name', async (t) => {
  const cwd = folder(t);
  writeFileSync(join(cwd, 'train.yaml'), 'local: {}\n');
  for (const command of ['create', 'validate', 'submit', 'run']) {
    const { code, err } = await jobman([command, 'train.yml'], { cwd });
    assert.deepEqual([code, err], [2, 'jobman: train.yml does not exist. Did you mean train.yaml?\n']);
  }
  assert.equal((await jobman(['create', 'x/y.yaml'], { cwd })).err, 'jobman: x/y.yaml does not exist.\n');
  assert.match((await jobman(['create', '-'], { cwd })).err, /not from standard input/);
});

test('validate says that a job without a command keeps its TPU', async (t) => {
  const cwd = folder(t);
  writeFileSync(join(cwd, 'a.yaml'), 'tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b}\n');
  const { code, out, err } = await jobman(['validate', 'a.yaml'], { cwd });
  assert.deepEqual([code, out], [0, 'a.yaml is valid: job a.\n']);
  assert.match(err, /The job has no command: its TPU is set up and then kept\. Release it: jobman stop ID --release\./);
});

suite('other names', () => {
  test('list: ls, ps; show: status, describe, get, which list without a job', async () => {
    const list = await jobman(['list'], { jobs });
    for (const name of ['ls', 'ps', 'status', 'describe', 'get', 'show'])
      assert.equal((await jobman([name], { jobs })).out, list.out, name);
    const show = await jobman(['show', '2'], { jobs });
    for (const name of ['status', 'describe', 'get'])
      assert.equal((await jobman([name, 'vit'], { jobs })).out, show.out);
  });

  test('rm, kill, -V, help of a family', async () => {
    assert.deepEqual((await jobman(['kill', '3'], { jobs })).commands, ['cancel 000003', 'wake']);
    assert.deepEqual((await jobman(['rm', '2', '--yes'], { jobs })).commands, ['delete 000002', 'wake']);
    assert.equal((await jobman(['-V'])).out, 'jobman 1.2.3\n');
    for (const family of ['controller', 'emulator'])
      assert.equal((await jobman([family, 'help'])).out, (await jobman([family, '--help'])).out);
  });

  test('-o json is --json', async () => {
    const expected = (await jobman(['list', '--json'], { jobs })).out;
    for (const flags of [['-o', 'json'], ['--output=json'], ['-ojson']])
      assert.equal((await jobman(['list', ...flags], { jobs })).out, expected);
    const { code, err } = await jobman(['lst', '-o', 'json']);
    assert.equal(code, 2);
    assert.equal(jsonLines(err).length, 1);
  });
});

test('schema knows the commands of two words, other names, and commands that print a message', async () => {
  const schemaOf = async (...args: readonly string[]) => {
    const { code, out, err } = await jobman(['schema', ...args]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as { readonly title: string; readonly $ref?: string };
  };
  assert.equal((await schemaOf('controller', 'status')).$ref, '#/$defs/ControllerStatusOutput');
  assert.equal((await schemaOf('tpu', 'find')).$ref, '#/$defs/BookingOutput');
  assert.equal((await schemaOf('emulator', 'preempt')).$ref, (await schemaOf('emulator act')).$ref);
  assert.equal((await schemaOf('tpu', 'create')).$ref, '#/$defs/AppliedTpuOutput');
  assert.equal((await schemaOf('tpu', 'add-user')).$ref, '#/$defs/MessageOutput');
  assert.equal((await jobman(['schema', 'list', 'x'])).code, 2);
  assert.equal((await schemaOf('ps')).$ref, '#/$defs/JobRow');
  assert.equal((await schemaOf('ssh')).$ref, '#/$defs/MessageOutput');
  assert.match((await schemaOf('manifest')).title, /manifest/i);
  const { code, err } = await jobman(['schema', 'lst']);
  assert.equal(code, 2);
  assert.match(err, /Unknown command "lst"\. Did you mean "list"\?/);
});

test('show without a job and create --wait have schemas for what they print', async () => {
  assert.equal(jsonLines((await jobman(['show', '--json'], { jobs })).out).length, 3);
  const { out } = await jobman(['schema', 'create']);
  const { $defs } = JSON.parse(out) as { readonly $defs: Readonly<Record<string, object>> };
  assert.match(JSON.stringify($defs['CreatedOutput']), /ShownJobOutput/);
});

test('settings completes an action, then a key', async () => {
  assert.match((await jobman(['__complete', 'settings', ''])).out, /^list\t.*\nget\t/);
  assert.match((await jobman(['__complete', 'storage', ''])).out, /^checkpoints\t/);
  const keys = (await jobman(['__complete', 'settings', 'get', ''])).out;
  assert.match(keys, /^tpu\.project\t/m);
  assert.doesNotMatch(keys, /^unset\t/m);
});

test('a global flag may come between the two words of a command', () => {
  const found = findCommand(jobmanProgram, ['-q', 'controller', '--json', 'logs', '--tail', '3']);
  assert.ok('command' in found);
  assert.deepEqual([found.command.names, found.args], [['controller logs'], ['-q', '--json', '--tail', '3']]);
});

test('controller logs prints lines for people', async (t) => {
  const logFile = join(folder(t), 'controller.log');
  const entry = { level: 40, time: '2026-11-28T07:14:04.624Z', tries: 2, msg: 'cannot use the database\u001b' };
  writeFileSync(logFile, `${JSON.stringify(entry)}\nnode:fs:1\n`);
  const status = async () => ({ running: false, pid: null, version: null, startedAt: null, logFile });
  const services = { controller: async () => ({ status }) } as unknown as Partial<Services>;
  const { out } = await jobman(['controller', 'logs'], { services });
  assert.equal(out, '2026-11-28T07:14:04.624Z warn cannot use the database\\x1b tries=2\nnode:fs:1\n');
  const [first] = jsonLines((await jobman(['controller', 'logs', '--json'], { services })).out);
  assert.deepEqual(first, { message: JSON.stringify(entry) });
});

test('an error names the id of its job with six digits', async () => {
  const { err } = await jobman(['show', '7', '--json']);
  assert.match(err, /"job":"000007"/);
});

test('a bug is reported as an object with --json', () => {
  const bug = new Error('a\u001b[31m');
  assert.match(formatBug(['list'], '1.2.3', bug), /^jobman 1\.2\.3 failed because of a bug:\nError: a\?\[31m\n {4}at /);
  assert.match(
    formatBug(['list'], '1.2.3', new Error('password=hunter2')),
    /password=\*\*\*[^]*jobman report --bundle/,
  );
  const { error } = JSON.parse(formatBug(['list', '--json'], '1.2.3', bug)) as ErrorOutput;
  assert.equal(error.message, 'jobman 1.2.3 failed because of a bug: Error: a?[31m');
});

test('logs without a job prints those of the newest, and says which', async () => {
  const { code, err } = await jobman(['logs'], { jobs });
  assert.equal(code, 0);
  assert.match(err, /^The newest job is 000003 \(iris\)\.\n/);
  const none = await jobman(['logs']);
  assert.match(none.err, /You have no jobs yet/);
  assert.equal(none.code, 3);
  assert.match((await jobman(['logs', '3', '--since', '10m'], { jobs })).err, /--since needs times/);
});

suite('--all', () => {
  test('of cancel includes a stopped job that still holds its TPU', async () => {
    const stopped = jobView({
      id: '000004',
      name: 'kept',
      phase: 'stopped',
      desired: 'stopped',
      heldCapacity: 'v4-16',
    });
    const { commands } = await jobman(['cancel', '--all', '--yes'], { jobs: [stopped] });
    assert.deepEqual(commands, ['cancel 000004', 'wake']);
    const { err } = await jobman(['cancel', '--all'], { jobs: [stopped], terminal, input: ['n'] });
    assert.match(err, /^000004 .* kept .* stopped, holds v4-16/m);
  });

  test('of cancel means your unfinished jobs, of delete your finished ones', async () => {
    const own = jobs.filter(({ owner }) => owner === 'alice');
    assert.deepEqual((await jobman(['cancel', '--all', '--yes'], { jobs: own })).commands, ['cancel 000003', 'wake']);
    assert.deepEqual((await jobman(['delete', '--all', '--yes'], { jobs: own })).commands, ['delete 000002', 'wake']);
  });

  test('lists the jobs and asks', async () => {
    const asked = await jobman(['cancel', '--all'], { jobs, terminal, input: ['n'] });
    assert.deepEqual([asked.code, asked.commands], [1, []]);
    assert.match(asked.err, /^000003 .* iris .* running[^]*Cancel 1 unfinished job\? \[y\/N\]/m);
    const refused = await jobman(['cancel', '--all'], { jobs });
    assert.deepEqual([refused.code, refused.commands], [4, []]);
    assert.equal((await jobman(['cancel', '--all', '3'], { jobs })).code, 2);
  });
});

test('queue lists jobs of hosts by position and TPU jobs, without a cluster too', async () => {
  const local = { backend: 'hosts', hosts: ['localhost'], accelerator: null, pricing: null, zone: null } as const;
  const waiting = [
    jobView({ id: '000004', name: 'b', phase: 'queued', ...local }),
    jobView({ id: '000003', name: 'a', phase: 'queued', ...local }),
    jobView({ id: '000002', name: 'r', phase: 'running', ...local }),
    jobView({ id: '000001', name: 't', phase: 'queued' }),
  ];
  const { code, out } = await jobman(['queue'], { jobs: waiting });
  assert.equal(code, 0);
  assert.match(out, /^This machine: 1 of 4 slots used, 2 jobs waiting\.\nTPUs: 1 job waiting\.\n/);
  assert.match(out, /^localhost 1 +000003 +a [^]*^localhost 2 +000004 +b [^]*^tpu +000001 +t /m);
});

suite('create', () => {
  test('names --no-check for a login that is missing, and not for a project that the user may not use', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'a.yaml'),
      'tpu: {project: lab, accelerator: v4-8, zone: us-central2-b}\ncommand: {run: ls}\n',
    );
    const hintAfter = async (error: JobmanError) => {
      const { code, err } = await jobman(['create', 'a.yaml'], {
        cwd,
        client: { checkLogin: () => Promise.reject(error) },
      });
      assert.equal(code, error.code, err);
      return /--no-check/.test(err);
    };
    assert.equal(await hintAfter(new JobmanError('no login', exitCode.unreachable)), true);
    assert.equal(await hintAfter(forbiddenError('you may not use the project lab')), false);
  });
});

suite('login', () => {
  test('reports a login', async () => {
    const { code, out } = await jobman(['login']);
    assert.equal(code, 0);
    assert.match(out, /^This machine is logged in to Google Cloud\./);
  });

  test('never prints a token that is an argument', async () => {
    const [token, withoutEnd] = [`jobman_${'x'.repeat(38)}`, `jobman_${'x'.repeat(30)}`];
    for (const argv of [
      ['login', 'https://jobman.example', token],
      ['login', 'https://jobman.example', withoutEnd],
      ['login', token],
      ['login', 'https://jobman.example', `--token-file=${token}`],
      ['login', `https://${token}@jobman.example`],
      ['token', 'revoke', token, '--json'],
      [token],
    ]) {
      const { code, out, err } = await jobman(argv);
      assert.equal(code, exitCode.usage);
      assert.match(out + err, /A token is never an argument: [^]*jobman login URL --token-file FILE/);
      assert.ok(!(out + err).includes('xxx'), out + err);
    }
  });

  test('names the commands that log in', async () => {
    const checkLogin = () => Promise.reject(new JobmanError('no login', exitCode.unreachable));
    const { code, err } = await jobman(['login'], { client: { checkLogin } });
    assert.equal(code, 5);
    assert.match(err, /There is no login to Google Cloud\.\n.*gcloud auth application-default login/);
  });

  test('indents every line of the answer of gcloud', async () => {
    const noLogin = new JobmanError('no login', exitCode.unreachable, ['ERROR: no account\nPlease run:\n\n  $ gcloud']);
    const { err } = await jobman(['login'], { client: { checkLogin: () => Promise.reject(noLogin) } });
    assert.match(err, /\n {2}ERROR: no account\n {2}Please run:\n {4}\$ gcloud\n {2}gcloud auth application-default/);
  });
});

test('help in a pipe has the width of COLUMNS, or 80 columns', async () => {
  const widest = async (env: Readonly<Record<string, string>>) =>
    Math.max(...(await jobman(['list', '--help'], { env })).out.split('\n').map(({ length }) => length));
  assert.ok((await widest({ COLUMNS: '70' })) <= 70);
  const plain = await widest({});
  assert.ok(plain > 70 && plain <= 80, String(plain));
});

test('a flag is suggested only if it is similar or an equivalent', async () => {
  for (const [argv, expected] of [
    [['list', '--sort', 'x'], /Unknown flag --sort\.\n/],
    [['storage', 'checkpoint'], /Unexpected argument "checkpoint"\. Did you mean `jobman storage checkpoints`\?/],
    [['show', '--name', 'x'], /Did you mean --job-name\?/],
    [['list', '--status', 'x'], /Did you mean --phase\?/],
    [['list', '-w'], /Did you mean --watch\?/],
    [['logs', '--lines', '3'], /Did you mean --tail\?/],
    [['logs', '--head', '3'], /Did you mean --tail\?/],
    [['notifications'], /jobman notify/],
    [['tag', '1', 'vit'], /job\.tags/],
    [['stop', '--wait'], /Unknown flag --wait\.\n/],
    [['why', '--lr', '3'], /Unknown flag --lr\.\n/],
    [['--no-color', 'list'], /Unknown flag --no-color\. Did you mean --color never\?/],
  ] as const) {
    const { code, err } = await jobman(argv);
    assert.equal(code, 2);
    assert.match(err, expected);
  }
});

test('phases have colours: running blue, succeeded green, failed red', async () => {
  for (const [phase, colour] of [
    ['running', 34],
    ['succeeded', 32],
    ['failed', 31],
  ] as const) {
    const { out } = await jobman(['list', '--color', 'always'], { jobs: [jobView({ phase })] });
    assert.ok(out.includes(`\u001b[${colour}m`), phase);
  }
});
