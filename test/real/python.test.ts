/**
 * jobman with the real Python and pip of this machine: virtual environments, conda, the example program, and the
 * modules for `python -m`.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { VenvModule } from '../../src/setup/modules.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { condaStep, venvStep } from '../../src/setup/environments.ts';
import { version } from '../../src/version.ts';
import { openChannel, fakeConda } from '../setup/conda.ts';
import { openHost } from '../setup/shell.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/folder.ts';
import { openJobWorld } from '../support/jobs.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

/** The test is skipped with a message where Python cannot create virtual environments. */
const hasVenv = (t: TestContext): boolean =>
  requireReal(t, 'python3 with venv', spawnSync('python3', ['-c', 'import ensurepip']).status === 0);
const none = { plain: [], secret: [] };
/** Keeps pip from using any server. */
const offline = (wheels: string) => ({
  PIP_NO_INDEX: '1',
  PIP_FIND_LINKS: wheels,
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
});

/**
 * Creates a wheel of one module in that folder. https://packaging.python.org/specifications/binary-distribution-format
 */
function writeWheel(folder: string, version: string): void {
  mkdirSync(folder, { recursive: true });
  const about = `jobman_probe-${version}.dist-info`;
  const program = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('jobman_probe.py', 'version = ${JSON.stringify(version)}\\n')
    wheel.writestr('${about}/METADATA', 'Metadata-Version: 2.1\\nName: jobman-probe\\nVersion: ${version}\\n')
    wheel.writestr('${about}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('${about}/RECORD', '')
`;
  const file = join(folder, `jobman_probe-${version}-py3-none-any.whl`);
  assert.equal(spawnSync('python3', ['-c', program, file]).status, 0);
}

test('an environment is created, used by the command, and follows its requirements', async (t) => {
  if (!hasVenv(t)) return;
  const host = openHost(t);
  const wheels = join(host.home, 'wheels');
  for (const version of ['1.0', '2.0']) writeWheel(wheels, version);
  const module = (requirements: string): VenvModule => ({
    name: 'venv',
    folder: '~/venv/a b',
    python: 'python3',
    requirements,
  });
  const probe = '#!/usr/bin/env python\nimport jobman_probe, sys\nprint(jobman_probe.version, sys.prefix)\n';
  for (const version of ['1.0', '2.0']) {
    const one = module(`jobman-probe==${version}\n`);
    const step = venvStep(one);
    assert.equal(host.run(step.check ?? '').code, 1);
    const made = host.run(step.apply, offline(wheels));
    assert.equal(made.code, 0, made.out);
    assert.equal(host.run(step.check ?? '').code, 0);
    const ran = host.run(wrapCommand(probe, [one], none));
    assert.deepEqual(ran, { code: 0, out: `${version} ${host.home}/venv/a b\n` });
  }
  const failed = host.run(venvStep(module('jobman-probe==3.0\n')).apply, offline(wheels));
  assert.equal(failed.code, 1);
  assert.match(failed.out, /No matching distribution found for jobman-probe==3\.0/);
});

test('a local job gets its environment, and a failed environment is explained by why', async (t) => {
  if (!hasVenv(t)) return;
  const wheels = temporaryFolder(t);
  writeWheel(wheels, '1.0');
  const world = openJobWorld(t, { env: offline(wheels) });
  for (const version of ['1.0', '3.0']) {
    writeFileSync(join(world.folder, `requirements-${version}.txt`), `jobman-probe==${version}\n`);
    writeFileSync(
      join(world.folder, `job-${version}.yaml`),
      `job: {name: probe}
setup: {tries: 1}
local: {workdir: .}
venv: {path: ${world.folder}/env-${version}, requirements_file: requirements-${version}.txt}
command: {run: python -c 'import jobman_probe; print(jobman_probe.version)'}
`,
    );
  }
  const good = await world.jobman(['create', 'job-1.0.yaml', '--follow']);
  assert.equal(good.code, 0, good.stdout + good.stderr);
  assert.match(good.stdout, /^\[0\] 1\.0$/m);
  const bad = await world.jobman(['create', 'job-3.0.yaml', '--follow']);
  assert.equal(bad.code, 1);
  const why = (await world.jobman(['why', '2'])).stdout;
  assert.match(
    why,
    /step venv failed on worker 0 \(1 try\): .*No matching distribution found for jobman-probe==3\.0 \(exit code 1/,
  );
  assert.match(why, /No matching distribution found for jobman-probe==3\.0/);
  // Nothing runs: the steps of a finished local job may run again, and fail again.
  const again = await world.jobman(['setup', '2', 'venv']);
  assert.deepEqual(
    [again.code, /worker 0, step venv: .*No matching distribution/.test(again.stderr)],
    [1, true],
    again.stderr,
  );
});

/**
 * A fake installer of conda with a fake conda (Miniconda must not be copied here): a few lines that unpack packages and
 * find programs.
 */
test('a fresh host gets conda, the environment of the file, and the command in it', (t) => {
  const host = openHost(t);
  const module = openChannel(host);
  // The installer is what curl downloads. Its flags: -b no questions, -u update, -p the folder.
  host.write(
    '~/installer',
    `[ "$1 $2 $3" = '-b -u -p' ] || exit 9\nmkdir -p "$4/bin"\ncat >"$4/bin/conda" <<'END'\n${fakeConda}END\nchmod 755 "$4/bin/conda"\n`,
  );
  host.program('curl', 'echo "$@" >>"$HOME/fetched"\nwhile [ "$1" != -o ]; do shift; done\ncp "$HOME/installer" "$2"');

  const nasty = 'probe; printf "%s|" "$HOME" \'$HOME\' "it\'s"; exit 7\n';
  for (const version of ['1.0', '2.0']) {
    const one = module(version);
    const made = host.step(condaStep(one));
    assert.deepEqual([made.code, made.applied], [0, true], made.out);
    assert.equal(host.step(condaStep(one)).applied, false);
    const ran = host.run(wrapCommand(nasty, [one], none));
    const prefix = join(host.home, 'miniconda/envs/fms');
    assert.deepEqual(ran, { code: 7, out: `probe ${version} in ${prefix}\n${host.home}|$HOME|it's|` });
  }
  assert.equal(readFileSync(join(host.home, 'fetched'), 'utf8').split('\n').length, 2, 'installed once');
  assert.match(readFileSync(join(host.home, 'fetched'), 'utf8'), /Miniconda3-latest-Linux-\S+\.sh\n$/);
  const missing = host.step(condaStep(module('3.0')));
  assert.equal(missing.code, 1);
  assert.match(missing.out, /PackagesNotFoundError: probe-3\.0/);
  // A half-finished environment does not count as created.
  assert.equal(host.step(condaStep(module('3.0'))).applied, true);
});

const program = join(root, 'configs/iris/train.py');

function train(
  world: World,
  env: Readonly<Record<string, string>> = {},
): { readonly code: number | null; readonly out: string } {
  const ran = spawnSync('python3', [program], { env: { ...world.env, IRIS_PACE: '0', ...env }, encoding: 'utf8' });
  return { code: ran.status, out: `${ran.stdout}${ran.stderr}` };
}

function lastLine(out: string): string {
  return out.trim().split('\n').at(-1) ?? '';
}

test("the flowers of the example are Fisher's", () => {
  const [head, ...rows] = readFileSync(join(root, 'configs/iris/iris.csv'), 'utf8').trim().split('\n');
  assert.equal(head, 'sepal_length,sepal_width,petal_length,petal_width,species');
  const means = ['setosa', 'versicolor', 'virginica'].map((kind) => {
    const flowers = rows.map((row) => row.split(',')).filter((row) => row[4] === kind);
    assert.equal(flowers.length, 50);
    return [0, 1, 2, 3].map((column) => (flowers.reduce((sum, row) => sum + Number(row[column]), 0) / 50).toFixed(3));
  });
  assert.deepEqual(means, [
    ['5.006', '3.428', '1.462', '0.246'],
    ['5.936', '2.770', '4.260', '1.326'],
    ['6.588', '2.974', '5.552', '2.026'],
  ]);
});

test('the example ends with the same numbers however often it is interrupted, and learns', async (t) => {
  if (!requireReal(t, 'python3', findProgram('python3'))) return;
  const world = openWorld(t);
  const checkpoints = join(world.folder, 'checkpoints');
  const undisturbed = train(world);
  assert.equal(undisturbed.code, 0, undisturbed.out);
  const accuracy = Number(/final accuracy ([0-9.]+)$/.exec(lastLine(undisturbed.out))?.[1]);
  assert.ok(accuracy >= 0.96, lastLine(undisturbed.out));

  // Killed twice without a signal, once with SIGTERM; it always continues from the newest checkpoint.
  let resumeFrom = '';
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
    const had = new Set(list(checkpoints));
    const env = {
      ...world.env,
      IRIS_PACE: '0.004',
      JOBMAN_CHECKPOINT_DIR: checkpoints,
      JOBMAN_RESUME_FROM: resumeFrom,
    };
    const running = spawn('python3', [program], { env, stdio: 'ignore' });
    const ended = once(running, 'exit');
    assert.ok(await eventually(() => list(checkpoints).some((name) => !had.has(name)), { withinMs: 60_000 }));
    running.kill(signal);
    await ended;
    const newest = list(checkpoints).at(-1) ?? '';
    assert.match(newest, /^step_\d{6}\.json$/);
    resumeFrom = join(checkpoints, newest);
  }
  const resumed = train(world, {
    JOBMAN_CHECKPOINT_DIR: checkpoints,
    JOBMAN_RESUME_FROM: resumeFrom,
    JOBMAN_STAGE: '3',
  });
  assert.match(resumed.out, /^resuming at step \d+ from .*step_\d{6}\.json \(stage 3\)\n/);
  assert.equal(lastLine(resumed.out), lastLine(undisturbed.out));
  assert.equal(list(checkpoints).at(-1), 'step_000300.json');
});

test('only worker 0 of the example keeps checkpoints, and a fresh start ignores old ones', (t) => {
  if (!requireReal(t, 'python3', findProgram('python3'))) return;
  const world = openWorld(t);
  const checkpoints = join(world.folder, 'checkpoints');
  const env = { JOBMAN_CHECKPOINT_DIR: checkpoints };
  const other = train(world, { ...env, JOBMAN_WORKER: '1' });
  assert.deepEqual(list(checkpoints), []);
  const first = train(world, { ...env, JOBMAN_WORKER: '0' });
  assert.equal(lastLine(other.out), lastLine(first.out), 'every worker trains the same model');
  assert.equal(list(checkpoints).length, 15);
  // JOBMAN_RESUME_FROM is the folder itself after an interruption before the first checkpoint.
  assert.match(train(world, { ...env, JOBMAN_RESUME_FROM: checkpoints }).out, /^training on 120 flowers/);
});

function list(folder: string): readonly string[] {
  mkdirSync(folder, { recursive: true });
  return readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .toSorted();
}

/** pip's settings on this machine: package index and trusted hosts. */
const pipCommands = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(PIP_|SSL_CERT|REQUESTS_CA)|_proxy$/iu.test(name)),
) as Record<string, string>;

test('pip install -e . installs the command, and python -m runs single steps', (t) => {
  if (!hasVenv(t)) return;
  const world = openWorld(t);
  // Work on a copy, so that nothing is written into this checkout.
  const checkout = join(world.folder, 'checkout');
  mkdirSync(join(checkout, 'bin'), { recursive: true });
  for (const part of ['pyproject.toml', 'python']) cpSync(join(root, part), join(checkout, part), { recursive: true });
  symlinkSync(join(root, 'bin/jobman'), join(checkout, 'bin/jobman'));
  const run = (file: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const ran = spawnSync(file, argv, {
      cwd: world.folder,
      encoding: 'utf8',
      env: { ...world.env, ...pipCommands, PYTHONDONTWRITEBYTECODE: '1', ...env },
    });
    return { code: ran.status, stdout: ran.stdout, stderr: ran.stderr };
  };

  const venv = join(world.folder, 'venv');
  assert.equal(run('python3', ['-m', 'venv', venv]).code, 0);
  const installed = run(join(venv, 'bin/pip'), ['install', '--quiet', '--editable', checkout]);
  assert.equal(installed.code, 0, installed.stderr);
  const python = join(venv, 'bin/python');

  assert.equal(run(join(venv, 'bin/jobman'), ['--version']).stdout, `jobman ${version}\n`);
  assert.equal(run(python, ['-m', 'jobman', '--version']).stdout, `jobman ${version}\n`);
  const stored = join(world.folder, 'job.yaml');
  writeFileSync(stored, 'job:\n  name: module\nlocal:\n  workdir: .\ncommand:\n  cmd: echo through the module\n');
  const created = run(join(venv, 'bin/jobman'), ['create', stored, '--quiet']);
  assert.deepEqual([created.code, created.stdout], [0, '000001\n'], created.stderr);
  assert.equal(run(python, ['-m', 'jobman', 'wait', '1']).code, 0);
  const ran = run(python, ['-m', 'jobman.job', '1', '--cmd-only']);
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(run(join(venv, 'bin/jobman'), ['logs', '1']).stdout, /through the module\n/);
  for (const module of [
    'jobman.ssh',
    'jobman.gcsfuse',
    'jobman.envs.docker',
    'jobman.envs.conda',
    'jobman.envs.venv',
  ]) {
    const bare = run(python, ['-m', module]);
    assert.equal(bare.code, 2, bare.stderr);
    assert.equal(bare.stderr, `jobman: Say which job, for example: python -m ${module} 42\n`);
  }
  // `python -m jobman.envs.venv 2` is `jobman setup 2 venv`, with its arguments, exit code and flags.
  const made = join(world.folder, 'made');
  writeFileSync(
    stored,
    `job:\n  name: module-2\nlocal:\n  workdir: .\nvenv:\n  path: ${made}\ncommand:\n  cmd: echo again\n`,
  );
  assert.equal(run(join(venv, 'bin/jobman'), ['create', stored, '--follow']).code, 0);
  const holds = run(python, ['-m', 'jobman.envs.venv', '2']);
  assert.deepEqual([holds.code, holds.stderr], [0, 'Step venv is applied on 1 worker of job 000002.\n'], holds.stdout);
  rmSync(made, { recursive: true });
  assert.equal(run(python, ['-m', 'jobman.envs.venv', 'module-2', '--quiet']).code, 0);
  assert.ok(existsSync(join(made, 'bin/python')));
  const other = run(python, ['-m', 'jobman.envs.docker', '2']);
  assert.equal(other.code, 2);
  assert.match(other.stderr, /Job 000002 \(module-2\) has no setup step docker: it has venv\./);
  assert.match(run(python, ['-m', 'jobman.gcsfuse', '--help']).stdout, /jobman setup <job> <step>/);
  assert.equal(run(join(venv, 'bin/jobman'), ['controller', 'stop']).code, 0);

  // Outside its checkout the Python module searches the program on PATH, never finds itself, and says what to do.
  const alone = join(world.folder, 'alone');
  cpSync(join(root, 'python'), alone, { recursive: true });
  const lost = run(python, ['-m', 'jobman', '--version'], {
    PYTHONPATH: alone,
    PATH: `${join(venv, 'bin')}:/usr/bin:/bin`,
  });
  assert.equal(lost.code, 5);
  assert.match(
    lost.stderr,
    /found no jobman program\. In a checkout of jobman, run: npm install && pip install -e \.\n$/,
  );
});

test('the Python module has the version of the package', () => {
  const manifest = readFileSync(join(root, 'pyproject.toml'), 'utf8');
  assert.match(manifest, new RegExp(`^version = "${RegExp.escape(version)}"$`, 'mu'));
});
