// Programs of our own that go on without the terminal they were started from: the controller and the built-in cloud.

import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import type { Io } from '../app/services.ts';

/**
 * Starts `jobman <words>` in a session of its own, its output going to the end of that file, and returns its pid at once.
 * It inherits the environment: credentials and endpoints are the user's own.
 */
export function startDetached(io: Io, home: string, words: readonly string[], logFile: string): number | undefined {
  mkdirSync(dirname(logFile), { recursive: true, mode: 0o700 });
  const log = openSync(logFile, 'a', 0o600);
  try {
    const [program = '', ...before] = io.launcher;
    const child = spawn(program, [...before, ...words], {
      // Not the folder the user stands in: it may be unmounted or removed while the program goes on.
      cwd: '/',
      env: { ...io.env, JOBMAN_HOME: home } as NodeJS.ProcessEnv,
      stdio: ['ignore', log, log],
      detached: true,
    });
    // A failed start is found by whoever waits for the program to answer.
    child.on('error', () => undefined);
    child.unref();
    return child.pid;
  } finally {
    closeSync(log);
  }
}

/** Asks again until the answer is not undefined, for at most that long. */
export async function waitFor<T>(ask: () => Promise<T | undefined>, mostMs: number): Promise<T | undefined> {
  const end = performance.now() + mostMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined || performance.now() >= end) return answer;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Runs a program on this terminal, with its streams, and gives its exit code; 128 + n when a signal ended it. */
export function onTerminal(argv: readonly string[]): Promise<number> {
  const [program = '', ...words] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
}
