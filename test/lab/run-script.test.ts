// The script of an attempt, run by a real bash with a fake launcher.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { beginShellCode, labScript, wrapperPrograms } from '../../src/lab/run-script.ts';
import { upgradeSpec, type StoredSpec } from '../../src/core/model/spec-version.ts';
import { localSpec } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';

const folder = mkdtempSync(join(tmpdir(), 'jobman-script-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A folder with staging.sh, and the script with a fake launcher for `__begin` and `__end`. */
function prepared(name: string, staging: string, args: readonly string[], verdict = 'echo "$code"') {
  const at = join(folder, name);
  mkdirSync(at);
  writeFileSync(join(at, 'staging.sh'), staging);
  const exports = { LAB_TEST: "it's", TMUX: null };
  writeFileSync(join(at, 'begun'), beginShellCode({ folder: at, args, exports }));
  writeFileSync(
    join(at, 'program'),
    `printf '%s|' "$@" >>"${at}/asked"
case $2 in
  __begin) cat "${at}/begun" ;;
  __end) for code; do :; done; ${verdict} ;;
esac`,
  );
  writeFileSync(join(at, 'script'), labScript);
  const asked = (): string => readFileSync(join(at, 'asked'), 'utf8');
  return { at, asked };
}

test('the script sources staging.sh in its folder with unchanged arguments, and returns its exit code', () => {
  const args = [
    'ka=tpu',
    '--config.a= b  c',
    "--config.q='",
    '--config.d=$(id)`id`"',
    '--config.n=1\n2',
    '--config.g=*',
    '--config.e=',
  ];
  const { at, asked } = prepared(
    'plain',
    'printf "%s\\0" "$PWD" "$LAB_TEST" "${TMUX-none}" "$@" >report\nexit 7\n',
    args,
  );
  const ended = spawnSync('bash', [join(at, 'script')], {
    encoding: 'utf8',
    cwd: folder,
    env: { ...process.env, JOBMAN_HOME: at, TMUX: 'x' },
  });
  assert.equal(ended.status, 7, ended.stderr);
  assert.deepEqual(readFileSync(join(at, 'report'), 'utf8').split('\0'), [at, "it's", 'none', ...args, '']);
  assert.equal(asked(), `tpu|__begin|${at}|tpu|__end|${at}|7|`);
});

test('a script of version 1, which names the program that created the job, becomes the same script', () => {
  const frozen = labScript.replace(/^jobman_launcher=.*$/m, "jobman_launcher=(/old/node '/old version/main.js')");
  assert.notEqual(frozen, labScript);
  const spec = localSpec();
  const stored = { ...spec, version: 1, command: { ...spec.command, script: frozen } } as unknown as StoredSpec;
  assert.equal(upgradeSpec(stored).command.script, labScript);
});

test('the exit code is the output of __end, or else the exit code of the script', () => {
  for (const [name, verdict, expected] of [
    ['another', 'echo 1', 1],
    ['nothing', 'exit 5', 4],
  ] as const) {
    const { at } = prepared(name, 'exit 4\n', [], verdict);
    assert.equal(
      spawnSync('bash', [join(at, 'script')], { encoding: 'utf8', env: { ...process.env, JOBMAN_HOME: at } }).status,
      expected,
    );
  }
});

test('if __begin fails, nothing is sourced', () => {
  const { at } = prepared('refused', 'touch report\n', []);
  writeFileSync(join(at, 'program'), 'echo no >&2; exit 3');
  const ended = spawnSync('bash', [join(at, 'script')], { encoding: 'utf8', env: { ...process.env, JOBMAN_HOME: at } });
  assert.deepEqual([ended.status, ended.stderr], [3, 'no\n']);
  assert.equal(existsSync(join(at, 'report')), false);
});

test('a script that receives SIGTERM calls __end with --stopped', async () => {
  const { at, asked } = prepared('stopped', 'touch begun-here\nsleep 1000\n', []);
  const child = spawn('bash', [join(at, 'script')], {
    stdio: 'ignore',
    detached: true,
    env: { ...process.env, JOBMAN_HOME: at },
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  assert.ok(await eventually(() => existsSync(join(at, 'begun-here'))));
  // Like jobman, to all processes of the attempt.
  process.kill(-(child.pid ?? 0), 'SIGTERM');
  assert.equal(await ended, 143);
  assert.equal(asked(), `tpu|__begin|${at}|tpu|__end|--stopped|${at}|143|`);
});

test('the tmux wrapper answers for its own window and calls the real tmux otherwise', () => {
  const at = join(folder, "it's bin");
  const others = join(folder, 'others');
  mkdirSync(at);
  mkdirSync(others);
  for (const name of ['tmux', 'ssh', 'scp']) {
    writeFileSync(join(others, name), `#!/bin/sh\necho "real ${name}: $*"\n`, { mode: 0o700 });
  }
  const given = { folder: at, launcher: ['echo', "a'b"], window: "ada's:42", pane: '%7', sshPort: 2222 };
  for (const [name, text] of Object.entries(wrapperPrograms(given)))
    writeFileSync(join(at, name), text, { mode: 0o700 });
  const run = (path: string, program: string, ...args: string[]): string => {
    return execFileSync(join(at, program), args, { encoding: 'utf8', env: { PATH: `${at}:${path}:/usr/bin:/bin` } });
  };
  for (const args of [
    ['-p', '#S:#I'],
    ['-p', '-t', '%7', '#S:#I'],
    ['-p', '-t', '', '#S:#I'],
    ['-t', '%7', '-p', '#S:#I'],
    ['-pt', '%7', '#S:#I'],
  ])
    assert.equal(run('/nowhere', 'tmux', 'display-message', ...args), "ada's:42\n", args.join(' '));
  for (const args of [['display-message', '-p', '-t', '%8', '#S:#I'], ['display-message', '-p', '#W'], ['ls']])
    assert.equal(run(others, 'tmux', ...args), `real tmux: ${args.join(' ')}\n`);
  assert.equal(run(others, 'tpu', 'upd-log', 'x y'), "a'b tpu upd-log x y\n");
  assert.equal(run(others, 'ssh', '-n', 'ada@127.64.0.6', 'ls'), 'real ssh: -p 2222 -n ada@127.64.0.6 ls\n');
  assert.equal(run(others, 'scp', 'x', 'ada@127.64.0.6:y'), 'real scp: -P 2222 x ada@127.64.0.6:y\n');
  assert.equal(run(others, 'ssh', 'elsewhere', 'ls'), 'real ssh: elsewhere ls\n');
  const behind = { encoding: 'utf8', env: { PATH: `/nowhere:${others}:${at}:/usr/bin:/bin` } } as const;
  assert.equal(execFileSync(join(at, 'ssh'), ['elsewhere', 'ls'], behind), 'real ssh: elsewhere ls\n');
  const none = spawnSync(join(at, 'tmux'), ['ls'], { encoding: 'utf8', env: { PATH: at } });
  assert.deepEqual([none.status, none.stderr.startsWith('tmux is not installed')], [1, true]);
});
