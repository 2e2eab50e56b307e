/** The module venv with the real Python and pip: a package from a folder, a change of the requirements, one that is not to be had. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { VenvModule } from '../../src/setup/modules.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { venvStep } from '../../src/setup/environments.ts';
import { openHost } from '../setup/shell.ts';
import { jobman } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openJobWorld } from '../support/jobs.ts';

const hasVenv = (): boolean => spawnSync('python3', ['-c', 'import ensurepip']).status === 0;
const none = { plain: [], secret: [] };

/** A wheel of one module, as pip wants it, in that folder. https://packaging.python.org/specifications/binary-distribution-format */
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

test('an environment is made, is the command’s, and follows its requirements', async (t) => {
  if (!requireReal(t, 'python3 with venv', hasVenv() && findProgram('python3'))) return;
  const host = openHost(t);
  const wheels = join(host.home, 'wheels');
  for (const version of ['1.0', '2.0']) writeWheel(wheels, version);
  const offline = { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, PIP_DISABLE_PIP_VERSION_CHECK: '1' };
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
    const made = host.run(step.apply, offline);
    assert.equal(made.code, 0, made.out);
    assert.equal(host.run(step.check ?? '').code, 0);
    const ran = host.run(wrapCommand(probe, [one], none));
    assert.deepEqual(ran, { code: 0, out: `${version} ${host.home}/venv/a b\n` });
  }
  const failed = host.run(venvStep(module('jobman-probe==3.0\n')).apply, offline);
  assert.equal(failed.code, 1);
  assert.match(failed.out, /No matching distribution found for jobman-probe==3\.0/);
});

test('on this machine a local job gets its environment, and one that cannot be made is told in why', async (t) => {
  if (!requireReal(t, 'python3 with venv', hasVenv() && findProgram('python3'))) return;
  const world = openJobWorld(t);
  const wheels = join(world.folder, 'wheels');
  writeWheel(wheels, '1.0');
  const env = { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  const run = (...words: readonly string[]) => jobman(world, words, { env, withinMs: 120_000 });
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
  const good = await run('create', 'job-1.0.yaml', '--follow');
  assert.equal(good.code, 0, good.stdout + good.stderr);
  assert.match(good.stdout, /^\[0\] 1\.0$/m);
  const bad = await run('create', 'job-3.0.yaml', '--follow');
  assert.equal(bad.code, 1);
  const why = (await run('why', '2')).stdout;
  assert.match(
    why,
    /step venv failed on worker 0 \(1 try\): .*No matching distribution found for jobman-probe==3\.0 \(exit code 1/,
  );
  assert.match(why, /No matching distribution found for jobman-probe==3\.0/);
  // Nothing of it goes on: the steps of a settled job on this machine may be gone through again, and fail again.
  const again = await run('setup', '2', 'venv');
  assert.deepEqual(
    [again.code, /worker 0, step venv: .*No matching distribution/.test(again.stderr)],
    [1, true],
    again.stderr,
  );
});
