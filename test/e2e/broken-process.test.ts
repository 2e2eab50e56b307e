// A shell may start a command in a removed folder, or on an output that cannot be written.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { jobmanCommand } from '../support/jobman.ts';
import { run, type ProgramResult } from '../support/program.ts';
import { openWorld } from '../support/world.ts';

type Run = (script: string, ...argv: string[]) => Promise<ProgramResult>;

/** Runs a shell script in an empty folder, in which "$@" is a jobman command. */
function openShell(t: TestContext): Run {
  const { folder, env } = openWorld(t);
  return (script, ...argv) => {
    const cwd = join(folder, 'current');
    mkdirSync(cwd, { recursive: true });
    return run(['sh', '-c', script, 'sh', ...jobmanCommand, ...argv], { cwd, env });
  };
}

suite('in a removed folder', () => {
  const script = 'rmdir ../current; exec "$@"';

  test('a command that needs the folder says so', async (t) => {
    const shell = openShell(t);
    for (const argv of [
      ['validate', 'job.yaml'],
      ['create', 'job.yaml'],
      ['init', '--accelerator', 'v4-8'],
      ['run', '--', 'echo', 'hello'],
      ['import', 'jobs'],
    ]) {
      const { code, stdout, stderr } = await shell(script, ...argv);
      assert.deepEqual([code, stdout], [2, ''], argv.join(' '));
      assert.match(stderr, /^jobman: The current folder no longer exists\.$/m);
    }
    const { code, stderr } = await shell(script, 'validate', 'job.yaml', '--json');
    assert.equal(code, 2);
    assert.equal(
      (JSON.parse(stderr) as { error: { message: string } }).error.message,
      'The current folder no longer exists.',
    );
  });

  test('a relative JOBMAN_HOME needs it too', async (t) => {
    const { code, stderr } = await openShell(t)(`JOBMAN_HOME=home; ${script}`, 'list');
    assert.deepEqual([code, stderr], [1, 'jobman: The current folder no longer exists.\n']);
  });

  test('other commands work', async (t) => {
    const shell = openShell(t);
    for (const argv of [['list'], ['--help'], ['--version']]) {
      const { code, stderr } = await shell(script, ...argv);
      assert.equal(code, 0, stderr);
    }
  });
});

suite('on a full output', () => {
  test('a command fails and says why', async (t) => {
    const { code, stderr } = await openShell(t)('exec "$@" > /dev/full', 'version');
    assert.equal(code, 1);
    assert.equal(stderr, 'jobman: The output is incomplete: no space left on device.\n');
  });

  test('with --json the failure is one object', async (t) => {
    const { code, stderr } = await openShell(t)('exec "$@" > /dev/full', 'version', '--json');
    assert.equal(code, 1);
    const { error } = JSON.parse(stderr) as { error: object };
    assert.deepEqual(error, {
      code: 'failed',
      exitCode: 1,
      message: 'The output is incomplete: no space left on device.',
      job: null,
      hints: [],
      problems: [],
      reasons: [],
    });
  });
});
