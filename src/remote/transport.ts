// Transport: runs scripts on one machine. A script is sent over the shell's standard input, never as an argument, so
// that it does not appear in a process list and needs no quoting. ssh.ts implements it.

import { messageOf } from '../app/errors.ts';
import type { Duration } from '../core/model/time.ts';
import { runProcess } from './process.ts';

export interface RunRequest {
  /** POSIX sh. Its standard input is empty; data travels inside it (see `writeFileCommand` in run-folder.ts). */
  readonly script: string;
  readonly timeoutMs: Duration;
  readonly maxOutputBytes: number;
  /** It may run once more when its result is unknown. */
  readonly isRepeatable?: boolean;
  readonly onOutput?: (chunk: Uint8Array) => void | Promise<void>;
}

export type RunResult =
  | {
      readonly kind: 'ended';
      readonly exitCode: number;
      readonly stdout: Uint8Array;
      readonly stderr: Uint8Array;
      readonly truncated: boolean;
    }
  /**
   * No answer. `sent` is false when the script cannot have reached the machine, true when it may have run. `remedy`: the
   * command that repairs it, if it is known.
   */
  | {
      readonly kind: 'no_answer';
      readonly reason: string;
      readonly remedy?: string;
      readonly sent: boolean;
      readonly timedOut: boolean;
    };

export type StreamEnd =
  | { readonly kind: 'ended'; readonly exitCode: number; readonly stderr: string }
  | { readonly kind: 'dropped'; readonly reason: string };

export interface StreamRequest {
  /** POSIX sh. Descriptor 3 is a pipe that ends when we have gone: a script that waits must watch it. */
  readonly script: string;
  /** Bytes of standard output, in order. Nothing more is read while it is awaited, which slows the sender. */
  readonly onBytes: (chunk: Uint8Array) => void | Promise<void>;
  readonly onEnd: (end: StreamEnd) => void;
}

/** Never throws for a failure of the machine or of the connection. */
export interface Transport {
  run(request: RunRequest): Promise<RunResult>;
  /** The returned function cancels the stream: no call follows. */
  stream(request: StreamRequest): () => void;
}

export type TransportResult =
  | { readonly kind: 'open'; readonly transport: Transport }
  | { readonly kind: 'closed'; readonly reason: string };

/** `closed` if it cannot be opened. Never rejects. */
export async function transportResult(opening: Promise<Transport>): Promise<TransportResult> {
  try {
    return { kind: 'open', transport: await opening };
  } catch (error) {
    return { kind: 'closed', reason: messageOf(error) };
  }
}

/** Ends the output of a login shell's start-up files. */
export const beginMarker = 'jobman begins here';

/** One compound command, which the shell reads first: a cut connection runs nothing, and no command reads the rest. */
export function wrapScript(script: string): string {
  return `exec 3<&0\n{\nprintf '${beginMarker}\\n'\n${script}\n} </dev/null\nexit\n`;
}

/** Drops the output before the script's first byte. `onBegin` is called when the shell has read the whole script. */
export function skipToBeginMarker(onBegin: () => void = () => undefined): (chunk: Uint8Array) => Uint8Array {
  const marker = new TextEncoder().encode(`${beginMarker}\n`);
  let head: Buffer | null = Buffer.alloc(0);
  return (chunk) => {
    if (head === null) return chunk;
    head = Buffer.concat([head, chunk]);
    const at = head.indexOf(marker);
    if (at < 0) return new Uint8Array(0);
    const rest = head.subarray(at + marker.length);
    head = null;
    onBegin();
    return rest;
  };
}

export async function runLocalScript(
  request: RunRequest,
  options: {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly cwd: string;
    /** The system's when absent. */
    readonly shell?: readonly string[];
  },
): Promise<RunResult> {
  const body = skipToBeginMarker();
  const result = await runProcess({
    argv: options.shell ?? ['/bin/sh', '-s'],
    stdin: wrapScript(request.script),
    env: options.env,
    cwd: options.cwd,
    timeoutMs: request.timeoutMs,
    maxOutputBytes: request.maxOutputBytes + beginMarker.length + 1,
    onOutput: async (chunk, stream) => {
      const bytes = stream === 'stdout' ? body(chunk) : chunk;
      if (stream === 'stdout' && bytes.length > 0) await request.onOutput?.(bytes);
    },
  });
  const noAnswer = (reason: string, sent: boolean): RunResult => {
    return { kind: 'no_answer', reason: `this machine ${reason}`, sent, timedOut: sent };
  };
  if (result.error !== null) return noAnswer(`could not start sh: ${result.error}`, false);
  if (result.timedOut) return noAnswer(`did not answer within ${Math.round(request.timeoutMs / 1000)} s`, true);
  return {
    kind: 'ended',
    exitCode: result.exitCode ?? 128,
    stdout: skipToBeginMarker()(result.stdout),
    stderr: result.stderr,
    truncated: result.truncated,
  };
}
