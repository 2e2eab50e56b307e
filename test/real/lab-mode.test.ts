/**
 * A home that a group shares, used by two logins of this machine without root: one record, each may write it, the controller of
 * either runs the jobs of both, and what is made in it is the group's, but for what is a secret or a login's own.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { sharedMode } from '../../src/lab/lab.ts';
import { root } from '../support/root.ts';

/** Numbers that no account of the machine has: nothing else runs as them, and nothing has to be made or removed. */
const [ada, bob, lab] = [64_741, 64_742, 64_743] as const;

const mayBecomeOthers = userInfo().uid === 0 && spawnSync('setpriv', ['--version']).status === 0;
const isReadable =
  spawnSync('setpriv', [`--reuid=${ada}`, '--clear-groups', 'test', '-r', join(root, 'package.json')]).status === 0;
const skip =
  mayBecomeOthers && isReadable
    ? false
    : 'NOT TESTED: only root with setpriv, in a folder that others may read, can be somebody else';

interface Said {
  readonly code: number;
  readonly text: string;
}

test('two logins share one home, and either runs the jobs of both', { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-lab-'));
  chmodSync(folder, 0o755);
  const home = join(folder, 'home');
  const peopleHome = (uid: number): string => join(folder, String(uid));
  for (const uid of [ada, bob]) {
    mkdirSync(peopleHome(uid));
    chownSync(peopleHome(uid), uid, uid);
  }
  mkdirSync(home);
  chownSync(home, ada, ada);
  const manifest = join(folder, 'job.yaml');
  writeFileSync(manifest, 'job:\n  name: hello\nlocal:\n  workdir: /tmp\ncommand:\n  run: umask; echo "by $(id -u)"\n');
  chmodSync(manifest, 0o644);

  const long = join(folder, 'long.yaml');
  const waits = `echo begun; until [ -e ${folder}/go ]; do sleep 0.2; done`;
  writeFileSync(long, `job:\n  name: long\nlocal:\n  workdir: /tmp\ncommand:\n  run: ${JSON.stringify(waits)}\n`);
  chmodSync(long, 0o644);

  const as = (uid: number, words: readonly string[]): Promise<Said> =>
    new Promise((resolve) => {
      const become = [`--reuid=${uid}`, `--regid=${uid}`, `--groups=${lab}`, '--'];
      const argv = [...become, process.execPath, join(root, 'src/main.ts'), ...words];
      const env = {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        HOME: peopleHome(uid),
        JOBMAN_HOME: home,
        LANG: 'C.UTF-8',
        NO_COLOR: '1',
      };
      execFile('setpriv', argv, { env, cwd: '/', timeout: 120_000 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? 255), text: `${stdout}${stderr}` });
      });
    });
  const right = async (uid: number, words: readonly string[], says: RegExp): Promise<void> => {
    const { code, text } = await as(uid, words);
    assert.equal(code, 0, `${words.join(' ')}: ${text}`);
    assert.match(text, says, words.join(' '));
  };

  try {
    // A home in which something was done before it was shared.
    await right(ada, ['create', manifest, '--follow'], /by 64741/);
    const closed = await as(bob, ['list']);
    assert.notEqual(closed.code, 0, closed.text);
    const early = await as(ada, ['tpu', 'init-lab', `group=${lab}`]);
    assert.equal(early.code, 4, early.text);
    await right(ada, ['controller', 'stop'], /./);
    const strange = await as(ada, ['tpu', 'init-lab', 'group=no-such-group']);
    assert.equal(strange.code, 3, strange.text);
    const foreign = await as(bob, ['tpu', 'init-lab', `group=${lab}`]);
    assert.equal(foreign.code, 1, foreign.text);
    await right(ada, ['tpu', 'init-lab', `group=${lab}`], /shared by the group/);
    await right(ada, ['tpu', 'init-lab', `group=${lab}`], /shared by the group/);

    // Bob reads what ada made, and makes his own; his controller is the first, and runs hers too.
    await right(bob, ['logs', '1'], /by 64741/);
    await right(bob, ['create', manifest, '--follow'], /0007[\s\S]*by 64742/);
    await right(ada, ['create', manifest, '--follow'], /by 64742/);
    await right(ada, ['logs', '2'], /by 64742/);
    await right(ada, ['settings', 'set', 'local.slots', '3'], /./);
    await right(bob, ['settings', 'set', 'local.slots', '2'], /./);
    // Who leaves the controller is no matter either.
    await right(ada, ['controller', 'stop'], /./);
    await right(ada, ['create', manifest, '--follow'], /by 64741/);
    // A program of another login cannot be looked at: nothing is taken for gone, and it is not begun a second time.
    await right(ada, ['create', long], /000005/);
    for (let tries = 0; tries < 100 && !/begun/.test((await as(ada, ['logs', '5'])).text); tries += 1) await pause(200);
    await right(ada, ['controller', 'stop'], /./);
    await right(bob, ['create', manifest, '--follow'], /by 64742/);
    await right(bob, ['show', '5'], /running/);
    await right(bob, ['controller', 'stop'], /./);
    writeFileSync(join(folder, 'go'), '');
    await right(ada, ['controller', 'start'], /./);
    await right(ada, ['wait', '5'], /succeeded/);
    await right(ada, ['show', '5'], /attempt 1,/);
    await right(bob, ['controller', 'stop'], /./);
    assert.deepEqual(wrongModes(home), []);
    const stranger = spawnSync('setpriv', ['--reuid=64744', '--clear-groups', 'ls', home], { encoding: 'utf8' });
    assert.match(stranger.stderr, /Permission denied/);
  } finally {
    await as(ada, ['controller', 'stop']);
    await as(bob, ['controller', 'stop']);
    rmSync(folder, { recursive: true, force: true });
  }
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Every file and folder of the home that has not the group or the mode that it should have. */
function wrongModes(home: string): readonly string[] {
  return readdirSync(home, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .flatMap((name) => {
      const path = join(home, name);
      const facts = lstatSync(path);
      if (facts.isSymbolicLink()) return [];
      const mode = facts.mode & 0o7777;
      const wanted = sharedMode({ path: relative(home, path).split('/'), isFolder: facts.isDirectory(), mode });
      if (wanted === null) return [];
      return mode === wanted && facts.gid === lab ? [] : [`${name} ${mode.toString(8)} of ${facts.gid}`];
    });
}
