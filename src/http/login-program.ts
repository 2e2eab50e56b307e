// Runs programs that print the credentials for a server, as kubeconfigs and Docker's configuration name them.

import { execFile, type ExecFileException } from 'node:child_process';
import { second, type Duration } from '../core/model/time.ts';
import type { Environment } from './client.ts';

export interface LoginProgramResult {
  readonly stdout: string;
  readonly stderr: string;
  /** The failure, as the end of a sentence about the program; undefined after success. */
  readonly failure: string | undefined;
}

const maxOutputBytes = 1024 * 1024;

/** Runs a program without a terminal, with `input`. Kills it if it takes too long or prints too much. Never rejects. */
export function runLoginProgram(
  argv: readonly [string, ...string[]],
  { env, input, timeout }: { readonly env: Environment; readonly input: string; readonly timeout: Duration },
): Promise<LoginProgramResult> {
  const [program, ...args] = argv;
  const limits = { env, timeout, maxBuffer: maxOutputBytes, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    try {
      const child = execFile(program, args, limits, (error, stdout, stderr) => {
        resolve({ stdout, stderr, failure: error === null ? undefined : describeFailure(error, timeout) });
      });
      // A program may end without reading its input.
      child.stdin?.on('error', () => undefined).end(input);
    } catch (error) {
      // Node refuses some names and variables before it starts anything.
      resolve({ stdout: '', stderr: '', failure: `cannot be run: ${(error as Error).message}` });
    }
  });
}

function describeFailure({ code, killed, signal, message }: ExecFileException, timeout: Duration): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `printed more than ${maxOutputBytes / 1024 / 1024} MiB`;
  if (killed === true) return `did not answer within ${timeout / second} s`;
  if (code === 'ENOENT') return 'was not found';
  if (typeof code === 'number') return `exited with code ${code}`;
  return signal === null || signal === undefined ? `cannot be run: ${message}` : `was killed by ${signal}`;
}
