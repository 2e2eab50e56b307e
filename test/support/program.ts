/** Runs programs without blocking servers in the test's own process. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** The standard input; empty by default. */
  readonly input?: string;
}

/** Runs a program to its end. Rejects when it cannot be started. */
export async function run(
  argv: readonly string[],
  { input = '', ...options }: RunOptions = {},
): Promise<ProgramResult> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { ...options, stdio: 'pipe' });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  // A program that does not read its input may end before it is written.
  child.stdin.on('error', () => undefined).end(input);
  const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}
