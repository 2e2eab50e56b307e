/** The script of a session by hand, read by every shell that a host or a container may have. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Program } from '../../src/app/by-hand.ts';
import { sessionScript, word } from '../../src/remote/session.ts';
import { afterBeginMark, asProgram } from '../../src/remote/transport.ts';
import { findProgram } from '../support/real.ts';

const shells = [['dash'], ['bash'], ['busybox', 'sh']].filter(([name = '']) => findProgram(name) !== undefined);

interface Begun {
  /** Resolves when it has printed that, or will print nothing any more. */
  readonly until: (text: string) => Promise<void>;
  readonly say: (words: string) => void;
  /** No more of our words come: whoever listened is gone. */
  readonly leave: () => void;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null; readonly printed: string }>;
}

/** `leads` as under sshd, whose sessions lead a process group already. */
async function begin(shell: readonly string[], program: Program, leads: boolean): Promise<Begun> {
  const [name = '', ...rest] = shell;
  const child = spawn(name, [...rest, '-s'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: leads,
    env: { PATH: process.env['PATH'], SHELL: '/bin/sh' },
  });
  let printed = '';
  const ended = (async () => {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return { code, signal, printed };
  })();
  child.stdin.on('error', () => undefined);
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const until = async (text: string): Promise<void> => {
    while (!printed.includes(text)) {
      if ((await Promise.race([once(child.stdout, 'data'), ended.then(() => null)])) === null) return;
    }
  };
  child.stdin.write(asProgram(sessionScript(program, false)));
  await until('ready');
  return { until, say: (words) => child.stdin.write(words), leave: () => child.stdin.end(), ended };
}

/** Runs one line to its end under a shell that leads its group. */
async function toEnd(
  shell: readonly string[],
  text: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly printed: string; readonly code: number | null }> {
  const [name = '', ...rest] = shell;
  const child = spawn(name, [...rest, '-s'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
    env: { PATH: process.env['PATH'], ...env },
  });
  let printed = '';
  const body = afterBeginMark();
  child.stdout.on('data', (chunk: Buffer) => (printed += Buffer.from(body(chunk)).toString('utf8')));
  child.stdin.on('error', () => undefined);
  child.stdin.write(asProgram(sessionScript(line(text), false)));
  // The watcher is left alone until the program has ended: it would end it.
  child.on('exit', () => child.stdin.end());
  const [code] = (await once(child, 'close')) as [number | null];
  return { printed, code };
}

const line = (text: string): Program => ({ kind: 'line', line: text });

for (const shell of shells) {
  for (const leads of [false, true]) {
    const where = `${shell.join(' ')}, ${leads ? 'which leads its group' : 'which leads nothing'}`;

    test(`a session in ${where}: the program's own exit code, in a group of its own`, async () => {
      const { ended, leave } = await begin(shell, line('echo ready; kill -0 "-$$" && echo leads; exit 7'), leads);
      const end = await ended;
      leave();
      assert.equal(end.code, 7);
      assert.match(end.printed, /ready\nleads\n/);
    });

    test(`a session in ${where}: stop ends the program and what it started`, async () => {
      // The other holds our end of the pipe too, so the end is seen only when both are gone.
      const { ended, say, leave } = await begin(shell, line('sleep 1000 & echo ready; wait'), leads);
      say(word.stop);
      const end = await ended;
      leave();
      assert.equal(end.signal, 'SIGTERM');
    });

    test(`a session in ${where}: nobody who listens any more ends it too`, async () => {
      const { ended, leave } = await begin(shell, line('echo ready; exec sleep 1000'), leads);
      leave();
      assert.equal((await ended).signal, 'SIGTERM');
    });

    test(`a session in ${where}: what a program has left running is not touched when we go`, async () => {
      const left = '(while kill -0 $$; do sleep 0.01; done; echo alone; sleep 0.3; echo later) 2>/dev/null &';
      const { ended, leave, until } = await begin(shell, line(`${left} echo ready`), leads);
      await until('alone');
      leave();
      assert.match((await ended).printed, /later/);
    });
  }
}

/** Every shell's own answers; the script is read by each shell that is here. */
for (const shell of shells) {
  test(`a line read by ${shell.join(' ')}: one of plain words is begun without a shell, and comes to the same`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'jobman-line-'));
    t.after(() => {
      rmSync(folder, { recursive: true });
    });
    // A shell that says so when it is asked.
    const asked = join(folder, 'bash');
    writeFileSync(asked, '#!/bin/sh\necho asked\nexec /bin/sh "$@"\n', { mode: 0o700 });
    const end = async (text: string, env: Readonly<Record<string, string>> = {}): Promise<readonly unknown[]> => {
      const { printed, code } = await toEnd(shell, text, { SHELL: asked, ...env });
      return [printed, code];
    };
    assert.deepEqual(await end('expr 1 + 2'), ['3\n', 0]);
    assert.deepEqual(await end('expr 1 - 1'), ['0\n', 1]);
    assert.deepEqual(await end('expr 1 + 2;'), ['asked\n3\n', 0], 'what a shell has to read');
    assert.deepEqual(await end('expr 3 "*" 2'), ['asked\n6\n', 0]);
    assert.deepEqual(await end('exit 7'), ['asked\n', 7], 'what is a shell’s own');
    assert.deepEqual(await end('no-such-program-here x'), ['asked\n', 127], 'what is not there');
    assert.deepEqual(await end('expr 1 + 2', { BASH_ENV: '/dev/null' }), ['asked\n3\n', 0]);
    const fish = join(folder, 'fish');
    symlinkSync(asked, fish);
    assert.deepEqual(await end('expr 1 + 2', { SHELL: fish }), ['asked\n3\n', 0], 'a shell with other words');
  });
}

test('no word of a shell of this machine is taken for a program', { skip: findProgram('bash') === undefined }, () => {
  const { stdout } = spawnSync('bash', ['-c', 'compgen -b; compgen -k'], { encoding: 'utf8' });
  for (const name of stdout.split('\n').filter((one) => /^[a-z]/u.test(one))) {
    assert.doesNotMatch(sessionScript(line(`${name} x`), false), /command -v/u, name);
  }
});
