// Login program: a program that prints the login for a server, as kubeconfigs and Docker's configuration name them.

import { execFile, type ExecFileException } from 'node:child_process';
import { second, type Duration } from '../core/time.ts';
import type { Environment } from './client.ts';

/** How the program ended. */
export interface LoginProgramEnd {
  readonly stdout: string;
  readonly stderr: string;
  /** The failure, as the end of a sentence about the program; undefined if it ended well. */
  readonly failed: string | undefined;
}

/** A login has a few thousand characters. */
const outputMost = 1024 * 1024;

/** Runs the program and kills it when it takes or prints too much. It has no terminal, and reads `input`. Never rejects. */
export function runLoginProgram(
  argv: readonly [string, ...string[]],
  { env, input, within }: { readonly env: Environment; readonly input: string; readonly within: Duration },
): Promise<LoginProgramEnd> {
  const [program, ...words] = argv;
  const limits = { env, timeout: within, maxBuffer: outputMost, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    try {
      const child = execFile(program, words, limits, (error, stdout, stderr) => {
        resolve({ stdout, stderr, failed: error === null ? undefined : whyFailed(error, within) });
      });
      // A program may end without reading.
      child.stdin?.on('error', () => undefined).end(input);
    } catch (error) {
      // Node refuses some names and variables before it starts anything.
      resolve({ stdout: '', stderr: '', failed: `cannot be run: ${(error as Error).message}` });
    }
  });
}

function whyFailed({ code, killed, signal, message }: ExecFileException, within: Duration): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `printed more than ${outputMost / 1024 / 1024} MiB`;
  if (killed === true) return `did not answer within ${within / second} s`;
  if (code === 'ENOENT') return 'is not there';
  if (typeof code === 'number') return `ended with ${code}`;
  return signal === null || signal === undefined ? `cannot be run: ${message}` : `was ended by ${signal}`;
}
