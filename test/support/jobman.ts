/**
 * Runs the command line: arguments in; text, exit code and files out. Tests run the source, so no build is needed. With
 * JOBMAN_TEST_BUNDLE=1 they run bin/jobman with the bundle, like users.
 */
import { checkOutput } from './output-schema.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

/** The arguments that start jobman, before its own. */
export const jobmanCommand: readonly [string, ...string[]] =
  process.env['JOBMAN_TEST_BUNDLE'] === '1'
    ? [join(root, 'bin/jobman')]
    : [process.execPath, join(root, 'src/main.ts')];

export interface JobmanOptions {
  /** Added to the world's environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** The standard input; empty by default. */
  readonly input?: string;
  /** After this time the command is killed and the test fails. */
  readonly withinMs?: number;
}

export interface JobmanResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly child: ChildProcess;
  /** The output so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Waits until the output contains a text; fails with the whole output when the command ends without it. */
  waitForOutput(text: string | RegExp, withinMs?: number): Promise<void>;
  readonly result: Promise<JobmanResult>;
}

/** Runs a command to its end. */
export function jobman(world: World, argv: readonly string[], options: JobmanOptions = {}): Promise<JobmanResult> {
  return startJobman(world, argv, options).result;
}

/** Starts a command, for a test that acts while it runs. */
export function startJobman(world: World, argv: readonly string[], options: JobmanOptions = {}): RunningCommand {
  const { env = {}, cwd = world.folder, input = '', withinMs = 120_000 } = options;
  const [file, ...args] = jobmanCommand;
  const child = spawn(file, [...args, ...argv], { cwd, env: { ...world.env, ...env } });

  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // A command that does not read its input may end before it is written.
  child.stdin.on('error', () => {}).end(input);

  const transcript = () => `jobman ${argv.join(' ')}\n--- stdout\n${stdout}\n--- stderr\n${stderr}`;
  const result = new Promise<JobmanResult>((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`It did not end within ${withinMs} ms: ${transcript()}`));
    }, withinMs);
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (signal === null && code !== null) {
        try {
          checkOutput(argv, { stdout, stderr, isTerminal: false });
        } catch (error) {
          reject(error);
        }
      }
      resolve({ code, signal, stdout, stderr });
    });
  });
  // If the test ends before the command, the leak check reports it. A rejection without a handler would hide that.
  result.catch(() => {});

  return {
    child,
    get stdout() {
      return stdout;
    },
    get stderr() {
      return stderr;
    },
    async waitForOutput(text, waitMs = 20_000) {
      const matches = () => (typeof text === 'string' ? (stdout + stderr).includes(text) : text.test(stdout + stderr));
      const over = () => child.exitCode !== null || child.signalCode !== null;
      await eventually(() => matches() || over(), { withinMs: waitMs });
      if (!matches() && over()) await result;
      if (!matches()) throw new Error(`It did not print ${String(text)}: ${transcript()}`);
    },
    result,
  };
}
