/** The command on a real terminal, provided by python3. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { jobmanCommand } from './jobman.ts';
import { findProgram, requireReal } from './real.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

export interface TerminalResult {
  /** The exit code for a shell. */
  readonly code: number;
  readonly screen: string;
  /** True when the terminal has its initial settings again. */
  readonly settingsRestored: boolean;
}

/** Runs jobman on a real terminal. Each text of `typed` is typed once the screen matches the pattern before it. */
export function runInTerminal(
  world: World,
  columns: number,
  args: readonly string[],
  typed: readonly (readonly [RegExp, string])[] = [],
): Promise<TerminalResult> {
  const argv = [
    join(root, 'test/real/run-in-terminal.py'),
    String(columns),
    '24',
    JSON.stringify(typed.map(([{ source }, text]) => [source, text])),
    ...jobmanCommand,
    ...args,
  ];
  const env = { ...world.env, TERM: 'xterm-256color' };
  return new Promise((resolve, reject) => {
    execFile('python3', argv, { env, cwd: world.folder, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error !== null) reject(new Error(`${error.message}\n${stderr}`));
      else resolve(JSON.parse(stdout) as TerminalResult);
    });
  });
}

/** False when the machine cannot provide a terminal; the test is then skipped with a message. */
export function hasTerminal(t: TestContext): boolean {
  return requireReal(t, 'python3', findProgram('python3'));
}
