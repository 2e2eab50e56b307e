/** The script of a session by hand, read by every shell that a host or a container may have. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import type { Program } from '../../src/app/by-hand.ts';
import { sessionScript, word } from '../../src/remote/session.ts';
import { asProgram } from '../../src/remote/transport.ts';
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
