/** The command on a real terminal, which python3 gives it. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { jobmanCommand } from './jobman.ts';
import { findProgram, requireReal } from './real.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

export interface TerminalResult {
  /** As a shell would see it. */
  readonly code: number;
  readonly screen: string;
  /** Whether the terminal's settings were left as they were found. */
  readonly settingsRestored: boolean;
}

/** Runs jobman on a real terminal; `typed` is what is typed, each text once the screen shows the pattern before it. */
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

/** Whether there is what gives a command a terminal; the test is skipped loudly where there is not. */
export function hasTerminal(t: TestContext): boolean {
  return requireReal(t, 'python3', findProgram('python3'));
}
