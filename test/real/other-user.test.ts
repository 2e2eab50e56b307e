/**
 * A second real user of this machine, without root: the built-in cloud and a job of theirs work as root's do, in the
 * namespaces that Linux gives everybody; and the two keep out of each other's way.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';

/** A number that no account of the machine has: nothing else runs as it, and nothing has to be made or removed. */
const other = 64_731;

interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const mayBecomeOthers = userInfo().uid === 0 && spawnSync('setpriv', ['--version']).status === 0;
const isReadable =
  spawnSync('setpriv', [`--reuid=${String(other)}`, '--clear-groups', 'test', '-r', join(root, 'package.json')])
    .status === 0;
const skip =
  mayBecomeOthers && isReadable
    ? false
    : 'NOT TESTED: only root with setpriv, in a folder that others may read, can be somebody else';

test('another user, who is not root, runs a TPU job of their own and cannot touch ours', { skip }, async () => {
  // Not below /tmp of somebody: their home is a folder that only they may read.
  const home = mkdtempSync(join(tmpdir(), 'jobman-other-'));
  chownSync(home, other, other);
  chmodSync(home, 0o700);
  mkdirSync(join(home, 'tmp'));
  chownSync(join(home, 'tmp'), other, other);
  const env = {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: home,
    USER: 'ada',
    LOGNAME: 'ada',
    TMPDIR: join(home, 'tmp'),
    JOBMAN_HOME: join(home, 'jobman'),
    LANG: 'C.UTF-8',
    NO_COLOR: '1',
  };
  const as = (uid: number, words: readonly string[]): Promise<Said> =>
    new Promise((resolve) => {
      const become = [`--reuid=${String(uid)}`, `--regid=${String(uid)}`, '--clear-groups', '--'];
      const argv = become.concat([process.execPath, join(root, 'src/main.ts')], words);
      execFile('setpriv', argv, { env, cwd: root, timeout: 120_000 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 255), stdout, stderr });
      });
    });
  try {
    const ran = await as(other, ['create', 'configs/quick-start.yaml', '--follow', '--set', 'tpu.accelerator=v4-8']);
    assert.equal(ran.code, 0, `${ran.stdout}${ran.stderr}`);
    assert.match(ran.stdout, /finished after 300 steps/);
    const log = readFileSync(join(home, 'jobman', 'emulator.log'), 'utf8');
    assert.match(log, /^Hosts (have user namespaces of their own|are folders)|No namespaces can be made here/);
    const checkpoints = readdirSync(join(home, 'jobman', 'emulator', 'buckets', 'iris-example', 'checkpoints'), {
      recursive: true,
      encoding: 'utf8',
    });
    assert.ok(
      checkpoints.some((name) => name.endsWith('/step_000300.json')),
      'the bucket keeps the checkpoints',
    );

    // What is theirs, is theirs: files, the cloud, and the record.
    const { url } = JSON.parse(readFileSync(join(home, 'jobman', 'emulator', 'endpoint.json'), 'utf8')) as {
      url: string;
    };
    const strangers = spawnSync('setpriv', ['--reuid=64732', '--clear-groups', 'curl', '-s', `${url}/emulator/info`], {
      encoding: 'utf8',
    });
    assert.match(strangers.stdout, /answers the user who started it, and nobody else/);
    const peeked = spawnSync('setpriv', ['--reuid=64732', '--clear-groups', 'ls', join(home, 'jobman')], {
      encoding: 'utf8',
    });
    assert.match(peeked.stderr, /Permission denied/);

    // Who somebody is, the system's books say and not the environment. Even root, who can read the record, is not its owner.
    const refused = await as(0, ['resume', '1']);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, new RegExp(`belongs to ${String(other)}; only its owner may resume it`));
  } finally {
    await as(other, ['controller', 'stop']);
    await as(other, ['emulator', 'stop']);
    for (let tries = 0; tries < 100 && processesOf(other).length > 0; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const left = processesOf(other);
    for (const pid of left) process.kill(pid, 'SIGKILL');
    // As they would do it themselves: nothing that is left may be closed to them.
    const removed = spawnSync(
      'setpriv',
      [`--reuid=${String(other)}`, '--clear-groups', 'rm', '-rf', join(home, 'jobman')],
      {
        encoding: 'utf8',
      },
    );
    rmSync(home, { recursive: true, force: true });
    assert.equal(removed.stderr, '');
    assert.deepEqual(left, [], 'nothing of theirs runs on');
    assert.equal(existsSync(home), false);
  }
});

/** All processes of that user; nobody but this test has that number. */
function processesOf(uid: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8');
      const isDead = /^State:\s+[ZX]/m.test(status);
      return !isDead && new RegExp(`^Uid:\\s+${String(uid)}\\b`, 'm').test(status) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
