/** `pip install -e .` and the modules that S0 and S2 run with `python -m`: a door to the same command line. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';
import { version } from '../../src/version.ts';

/** What pip may need to be told on this machine: where packages are, whom to trust. */
const pipWords = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(PIP_|SSL_CERT|REQUESTS_CA)|_proxy$/iu.test(name)),
) as Record<string, string>;

test('pip install -e . gives the command, and python -m its single parts', (t) => {
  const hasVenv = spawnSync('python3', ['-c', 'import ensurepip']).status === 0;
  if (!requireReal(t, 'python3 with venv', hasVenv && findProgram('python3'))) return;
  const world = openWorld(t);
  // A copy of what a checkout holds of it, so that nothing is written into this one.
  const checkout = join(world.folder, 'checkout');
  mkdirSync(join(checkout, 'bin'), { recursive: true });
  for (const part of ['pyproject.toml', 'python']) cpSync(join(root, part), join(checkout, part), { recursive: true });
  symlinkSync(join(root, 'bin/jobman'), join(checkout, 'bin/jobman'));
  const run = (file: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const ran = spawnSync(file, argv, {
      cwd: world.folder,
      encoding: 'utf8',
      env: { ...world.env, ...pipWords, PYTHONDONTWRITEBYTECODE: '1', ...env },
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
  writeFileSync(stored, 'job:\n  name: door\nlocal:\n  workdir: .\ncommand:\n  cmd: echo through the door\n');
  const created = run(join(venv, 'bin/jobman'), ['create', stored, '--quiet']);
  assert.deepEqual([created.code, created.stdout], [0, '000001\n'], created.stderr);
  assert.equal(run(python, ['-m', 'jobman', 'wait', '1']).code, 0);
  const ran = run(python, ['-m', 'jobman.job', '1', '--cmd-only']);
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(run(join(venv, 'bin/jobman'), ['logs', '1']).stdout, /through the door\n/);
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
  // `python -m jobman.envs.venv 2` is `jobman setup 2 venv`: its words, its exit code, its flags.
  const made = join(world.folder, 'made');
  writeFileSync(
    stored,
    `job:\n  name: door-2\nlocal:\n  workdir: .\nvenv:\n  path: ${made}\ncommand:\n  cmd: echo again\n`,
  );
  assert.equal(run(join(venv, 'bin/jobman'), ['create', stored, '--follow']).code, 0);
  const holds = run(python, ['-m', 'jobman.envs.venv', '2']);
  assert.deepEqual([holds.code, holds.stderr], [0, 'Step venv holds on 1 worker of job 000002.\n'], holds.stdout);
  rmSync(made, { recursive: true });
  assert.equal(run(python, ['-m', 'jobman.envs.venv', 'door-2', '--quiet']).code, 0);
  assert.ok(existsSync(join(made, 'bin/python')));
  const other = run(python, ['-m', 'jobman.envs.docker', '2']);
  assert.equal(other.code, 2);
  assert.match(other.stderr, /Job 000002 \(door-2\) has no setup step docker: it has venv\./);
  assert.match(run(python, ['-m', 'jobman.gcsfuse', '--help']).stdout, /jobman setup <job> <step>/);
  assert.equal(run(join(venv, 'bin/jobman'), ['controller', 'stop']).code, 0);

  // Away from its checkout it is only a door: it looks for the program on PATH, never finds itself, and says what to do.
  const alone = join(world.folder, 'alone');
  cpSync(join(root, 'python'), alone, { recursive: true });
  const lost = run(python, ['-m', 'jobman', '--version'], {
    PYTHONPATH: alone,
    PATH: `${join(venv, 'bin')}:/usr/bin:/bin`,
  });
  assert.equal(lost.code, 5);
  assert.match(lost.stderr, /its program is not there\. In a checkout of jobman: npm install && pip install -e \.\n$/);
});

test('the Python door has the version of the package', () => {
  const manifest = readFileSync(join(root, 'pyproject.toml'), 'utf8');
  assert.match(manifest, new RegExp(`^version = "${RegExp.escape(version)}"$`, 'mu'));
});
