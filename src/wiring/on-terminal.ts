// A program of the system, run on the terminal that jobman was started from.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';

/** Runs it with this terminal's streams and gives its exit code; 128 + n when signal n ended it. */
export function onTerminal(argv: readonly string[]): Promise<number> {
  const [program = '', ...words] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
}
