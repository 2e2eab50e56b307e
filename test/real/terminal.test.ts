/** The terminal with everything behind it: a job of this machine, followed, left, piped and cleaned up. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { frontDoor, jobman, startJobman } from '../support/jobman.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld, type World } from '../support/world.ts';

/** A world with a manifest of that command, whose controller is stopped at the end. */
function openJobWorld(t: TestContext, script: string): World {
  const world = openWorld(t, { patienceMs: 10_000 });
  const indented = script.replaceAll('\n', '\n    ');
  writeFileSync(join(world.folder, 'job.yaml'), `job:\n  name: it\nlocal: {}\ncommand:\n  run: |\n    ${indented}\n`);
  world.atEnd(async () => {
    await jobman(world, ['cancel', '1']);
    await jobman(world, ['wait', '1', '--timeout', '20s']);
    await jobman(world, ['controller', 'stop']);
  });
  return world;
}

suite('create --follow', { concurrency: false }, () => {
  test('shows what the program prints and ends with its verdict', async (t) => {
    const world = openJobWorld(t, 'echo one\necho two >&2\nexit 3');
    const { code, stdout, stderr } = await jobman(world, ['create', 'job.yaml', '--follow']);
    assert.equal(code, 1, stderr);
    assert.equal(stdout, '[0] one\n[0] two\n');
    assert.match(stderr, /^000001 it created; it goes on without this terminal\n/);
    assert.match(stderr, /000001 it failed after .*exit(ed)?.* 3/);
    assert.equal((await jobman(world, ['wait', '1'])).code, 1);
  });

  test('left by Ctrl-C lets the job go on, and logs -f comes back to it', async (t) => {
    const world = openJobWorld(t, 'echo begun\nuntil test -e go; do sleep 0.1; done\necho done');
    const following = startJobman(world, ['create', 'job.yaml', '--follow']);
    await following.prints('[0] begun');
    following.child.kill('SIGINT');
    const left = await following.ended;
    assert.equal(left.code, 130);
    assert.match(left.stderr, /Left; 000001 goes on\. Back: jobman logs 1 -f\n$/);

    const back = startJobman(world, ['logs', '1', '-f']);
    await back.prints('[0] begun');
    writeFileSync(join(world.folder, 'go'), '');
    const { code, stdout } = await back.ended;
    assert.equal(code, 0);
    assert.equal(stdout, '[0] begun\n[0] done\n');
  });

  test('a killed controller is replaced by the next command, of whatever kind', async (t) => {
    const world = openJobWorld(t, 'sleep 60');
    await jobman(world, ['create', 'job.yaml']);
    const status = async () =>
      JSON.parse((await jobman(world, ['controller', 'status', '--json'])).stdout) as { running: boolean; pid: number };
    const { pid } = await status();
    process.kill(pid, 'SIGKILL');
    assert.ok(await eventually(async () => !(await status()).running));
    await jobman(world, ['list']);
    const after = await status();
    assert.ok(after.running);
    assert.notEqual(after.pid, pid);
  });
});

test('output to a closed pipe ends quietly', async (t) => {
  const world = openJobWorld(t, 'yes "a line of the log" | head -n 300000');
  await jobman(world, ['create', 'job.yaml']);
  assert.equal((await jobman(world, ['wait', '1', '--timeout', '60s'])).code, 0);
  const [program, ...words] = frontDoor;
  const line = [program, ...words, 'logs', '1'].map((word) => `'${word}'`).join(' ');
  const shell = spawn('bash', ['-c', `set -o pipefail; ${line} | head -n 2`], { cwd: world.folder, env: world.env });
  let stdout = '';
  let stderr = '';
  shell.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  shell.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => void shell.on('close', resolve));
  assert.equal(stdout, '[0] a line of the log\n[0] a line of the log\n');
  assert.equal(stderr, '');
  assert.equal(code, 0);
});

test('on a terminal the status is drawn and gone at the end, and Ctrl-C is typed', async (t) => {
  const script = findProgram('script');
  if (!requireReal(t, 'script (util-linux), which makes a terminal', script)) return;
  const world = openJobWorld(t, 'echo begun\nsleep 60');
  const line = [...frontDoor, 'create', 'job.yaml', '--follow'].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    cwd: world.folder,
    env: { ...world.env, TERM: 'xterm' },
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  const ended = new Promise<number | null>((resolve) => void child.on('close', resolve));
  assert.ok(await eventually(() => out.includes('running') && out.includes('[0] begun'), { withinMs: 60_000 }), out);
  assert.ok(out.includes('Ctrl-C leaves, the job goes on'));
  child.stdin.write('\u0003');
  assert.equal(await ended, 130);
  assert.match(out, /Left; 000001 goes on\./);
});
