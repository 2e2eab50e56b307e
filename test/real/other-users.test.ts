/**
 * Several real users of this machine, without root: the TPU emulator and jobs work as for root, users cannot disturb
 * each other, and in a shared home of a group either login runs the jobs of both.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sharedMode } from '../../src/lab/lab.ts';
import { root } from '../support/root.ts';

/** User ids without an account: no other process has them, and nothing must be created or removed. */
const [other, unknownUser, ada, bob, lab] = [64_731, 64_732, 64_741, 64_742, 64_743] as const;

/** Runs a program as that user, without supplementary groups. */
const become = (uid: number, ...argv: readonly string[]) =>
  spawnSync('setpriv', [`--reuid=${uid}`, '--clear-groups', ...argv], { encoding: 'utf8' });

const canBecomeOthers = userInfo().uid === 0 && become(other, 'test', '-r', join(root, 'package.json')).status === 0;
const skip = canBecomeOthers ? false : 'NOT TESTED: other users need root, setpriv, and a folder that others may read';

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs jobman as that user and group, with only this environment. */
function jobmanAs(uid: number, groups: string, env: NodeJS.ProcessEnv, args: readonly string[]): Promise<Output> {
  const argv = [`--reuid=${uid}`, `--regid=${uid}`, groups, '--', process.execPath, join(root, 'src/main.ts')];
  const whole = { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8', NO_COLOR: '1', ...env };
  return new Promise((resolve) => {
    execFile('setpriv', [...argv, ...args], { env: whole, cwd: root, timeout: 120_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 255), stdout, stderr });
    });
  });
}

test('a user without root runs a TPU job and cannot touch the jobs of others', { skip }, async () => {
  // The user's home is a folder that only they may read.
  const home = mkdtempSync(join(tmpdir(), 'jobman-other-'));
  const temporary = join(home, 'tmp');
  // Others may write to it, as to a volume of a container, until the first job.
  const jobmanHome = join(home, 'jobman');
  for (const folder of [temporary, jobmanHome]) mkdirSync(folder);
  for (const folder of [home, temporary, jobmanHome]) chownSync(folder, other, other);
  chmodSync(jobmanHome, 0o777);
  chmodSync(home, 0o700);
  const env = { HOME: home, USER: 'ada', LOGNAME: 'ada', TMPDIR: temporary, JOBMAN_HOME: jobmanHome };
  const as = (uid: number, ...args: readonly string[]) => jobmanAs(uid, '--clear-groups', env, args);
  try {
    const ran = await as(other, 'create', 'configs/quick-start.yaml', '--follow', '--set', 'tpu.accelerator=v4-8');
    assert.equal(ran.code, 0, `${ran.stdout}${ran.stderr}`);
    assert.match(ran.stdout, /finished after 300 steps/);
    assert.match((await as(other, 'doctor')).stdout, /^ok +home /m);
    const log = readFileSync(join(jobmanHome, 'emulator.log'), 'utf8');
    assert.match(log, /^Hosts have their own user namespaces|Namespaces cannot be created here/);
    const bucket = join(jobmanHome, 'emulator', 'buckets', 'iris-example', 'checkpoints');
    const checkpoints = readdirSync(bucket, { recursive: true, encoding: 'utf8' });
    assert.ok(
      checkpoints.some((name) => name.endsWith('/step_000300.json')),
      'the bucket has the checkpoints',
    );

    // Files, emulator and database belong to their user.
    const endpoint = readFileSync(join(jobmanHome, 'emulator', 'endpoint.json'), 'utf8');
    const { url } = JSON.parse(endpoint) as { readonly url: string };
    const asked = become(unknownUser, 'curl', '-s', `${url}/emulator/info`);
    assert.match(asked.stdout, /serves only the user who started it/);
    assert.match(become(unknownUser, 'ls', jobmanHome).stderr, /Permission denied/);
    const closed = await as(unknownUser, 'show', '1');
    assert.equal(closed.code, 5, closed.stderr);
    assert.match(closed.stderr, /belongs to another user/);

    // The user comes from the system, not from the environment. Even root, who can read the database, is not the owner.
    const refused = await as(0, 'resume', '1');
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, new RegExp(`belongs to ${other}\\. Nothing was done\\.`));
  } finally {
    await as(other, 'controller', 'stop');
    await as(other, 'emulator', 'stop');
    for (let tries = 0; tries < 100 && processesOf(other).length > 0; tries += 1) await pause(100);
    const left = processesOf(other);
    for (const pid of left) process.kill(pid, 'SIGKILL');
    // Clean up as the users themselves, because their files may be closed to others.
    const removed = become(other, 'rm', '-rf', jobmanHome);
    rmSync(home, { recursive: true, force: true });
    assert.equal(removed.stderr, '');
    assert.deepEqual(left, [], 'no process of theirs runs');
    assert.equal(existsSync(home), false);
  }
});

/** All processes of that user id, which only this test uses. */
function processesOf(uid: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8');
      const isDead = /^State:\s+[ZX]/m.test(status);
      return !isDead && new RegExp(`^Uid:\\s+${uid}\\b`, 'm').test(status) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

test('two logins share one home, and either runs the jobs of both', { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-lab-'));
  chmodSync(folder, 0o755);
  const home = join(folder, 'home');
  for (const [path, uid] of [
    [join(folder, `${ada}`), ada],
    [join(folder, `${bob}`), bob],
    [home, ada],
  ] as const) {
    mkdirSync(path);
    chownSync(path, uid, uid);
  }
  const manifest = (name: string, run: string): string => {
    const file = join(folder, `${name}.yaml`);
    writeFileSync(file, JSON.stringify({ job: { name }, local: { workdir: '/tmp' }, command: { run } }));
    chmodSync(file, 0o644);
    return file;
  };
  const hello = manifest('hello', 'umask; echo "by $(id -u)"');
  const long = manifest('long', `echo begun; until [ -e ${folder}/go ]; do sleep 0.2; done`);

  const as = async (uid: number, line: string): Promise<readonly [number, string]> => {
    const env = { HOME: join(folder, `${uid}`), JOBMAN_HOME: home };
    const { code, stdout, stderr } = await jobmanAs(uid, `--groups=${lab}`, env, line.split(' '));
    return [code, `${stdout}${stderr}`];
  };
  const right = async (uid: number, line: string, message: RegExp): Promise<void> => {
    const [code, text] = await as(uid, line);
    assert.equal(code, 0, `${line}: ${text}`);
    assert.match(text, message, line);
  };
  const wrong = async (uid: number, line: string, expected: number): Promise<void> => {
    const [code, text] = await as(uid, line);
    assert.equal(code, expected, `${line}: ${text}`);
  };

  try {
    // The home had a job before it was shared.
    await right(ada, `create ${hello} --follow`, /by 64741/);
    assert.notEqual((await as(bob, 'list'))[0], 0);
    await wrong(ada, `tpu init-lab group=${lab}`, 4);
    await right(ada, 'controller stop', /./);
    await wrong(ada, 'tpu init-lab group=no-such-group', 3);
    await wrong(bob, `tpu init-lab group=${lab}`, 1);
    for (let times = 0; times < 2; times += 1) await right(ada, `tpu init-lab group=${lab}`, /now shares/);

    // Bob reads ada's job and creates his own. His controller is the first, and runs her job too.
    await right(bob, 'logs 1', /by 64741/);
    await right(bob, `create ${hello} --follow`, /0007[\s\S]*by 64742/);
    await right(ada, `create ${hello} --follow`, /by 64742/);
    await right(ada, 'logs 2', /by 64742/);
    await right(ada, 'settings set local.slots 3', /./);
    await right(bob, 'settings set local.slots 2', /./);
    // Either user's controller may stop.
    await right(ada, 'controller stop', /./);
    await right(ada, `create ${hello} --follow`, /by 64741/);
    // A program of another login cannot be observed, so it is not presumed gone and not started again.
    await right(ada, `create ${long}`, /000005/);
    for (let tries = 0; tries < 100 && !/begun/.test((await as(ada, 'logs 5'))[1]); tries += 1) await pause(200);
    await right(ada, 'controller stop', /./);
    await right(bob, `create ${hello} --follow`, /by 64742/);
    await right(bob, 'show 5', /running/);
    await right(bob, 'controller stop', /./);
    writeFileSync(join(folder, 'go'), '');
    await right(ada, 'controller start', /./);
    await right(ada, 'wait 5', /succeeded/);
    await right(ada, 'show 5', /attempt 1,/);
    await right(bob, 'controller stop', /./);
    assert.deepEqual(wrongModes(home), []);
    assert.match(become(unknownUser, 'ls', home).stderr, /Permission denied/);
  } finally {
    for (const uid of [ada, bob]) await as(uid, 'controller stop');
    rmSync(folder, { recursive: true, force: true });
  }
});

/** All files and folders of the home with a wrong group or mode. */
function wrongModes(home: string): readonly string[] {
  return readdirSync(home, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .flatMap((name) => {
      const path = join(home, name);
      const facts = lstatSync(path);
      if (facts.isSymbolicLink()) return [];
      const mode = facts.mode & 0o7777;
      const wanted = sharedMode({ path: relative(home, path).split('/'), isFolder: facts.isDirectory(), mode });
      return wanted === null || (mode === wanted && facts.gid === lab)
        ? []
        : [`${name} ${mode.toString(8)} of ${facts.gid}`];
    });
}
