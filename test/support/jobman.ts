/**
 * The command's front door: arguments in; text, exit code and files out.
 *
 * Tests run the source as it stands, so no build has to come first. With JOBMAN_TEST_BUNDLE=1 they run bin/jobman, and
 * by it what users run.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

/** The words that start jobman, before its own arguments. */
export const frontDoor: readonly [string, ...string[]] =
  process.env['JOBMAN_TEST_BUNDLE'] === '1'
    ? [join(root, 'bin/jobman')]
    : [process.execPath, join(root, 'src/main.ts')];

export interface Options {
  /** Added to the world's environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** What the command reads; without it, standard input is empty. */
  readonly input?: string;
  /** After this time the command is killed and the test fails. */
  readonly withinMs?: number;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  /** What has been printed so far. */
  readonly stdout: string;
  readonly stderr: string;
  /** Waits until the output holds a text; fails with the whole output when it ends without it. */
  prints(text: string | RegExp, withinMs?: number): Promise<void>;
  readonly ended: Promise<Ended>;
}

/** Runs a command to its end. */
export function jobman(world: World, argv: readonly string[], options: Options = {}): Promise<Ended> {
  return startJobman(world, argv, options).ended;
}

/** Starts a command, for a test that does something while it runs. */
export function startJobman(world: World, argv: readonly string[], options: Options = {}): Running {
  const { env = {}, cwd = world.folder, input = '', withinMs = 120_000 } = options;
  const [file, ...words] = frontDoor;
  const child = spawn(file, [...words, ...argv], { cwd, env: { ...world.env, ...env } });

  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // A command that does not read its input may end before it is written.
  child.stdin.on('error', () => {}).end(input);

  const said = () => `jobman ${argv.join(' ')}\n--- stdout\n${stdout}\n--- stderr\n${stderr}`;
  const ended = new Promise<Ended>((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`It did not end within ${withinMs} ms: ${said()}`));
    }, withinMs);
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, stdout, stderr });
    });
  });
  // A test that ends before the command does is told so by the leak check, not by a rejection that nobody awaits.
  ended.catch(() => {});

  return {
    child,
    get stdout() {
      return stdout;
    },
    get stderr() {
      return stderr;
    },
    async prints(text, waitMs = 20_000) {
      const matches = () => (typeof text === 'string' ? (stdout + stderr).includes(text) : text.test(stdout + stderr));
      const over = () => child.exitCode !== null || child.signalCode !== null;
      await eventually(() => matches() || over(), { withinMs: waitMs });
      if (!matches() && over()) await ended;
      if (!matches()) throw new Error(`It did not print ${String(text)}: ${said()}`);
    },
    ended,
  };
}
