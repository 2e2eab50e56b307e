// Transport: how one machine is reached. A script goes in over the shell's standard input, never as an argument, so
// that nothing of it appears in a list of processes or meets a shell's quotes; bytes and an exit code come back.
// Two implementations: the local machine (in this file) and SSH (ssh.ts).

import type { Duration } from '../core/time.ts';
import { openProcess, runProcess } from './process.ts';

export interface RunRequest {
  /** POSIX sh. Its standard input is empty; data travels inside it (see `fileText` in launch.ts). */
  readonly script: string;
  readonly timeoutMs: Duration;
  readonly outputMost: number;
  /** It changes nothing, so it may be run once more when nobody knows what became of it. */
  readonly isRepeatable?: boolean;
  readonly onOutput?: (chunk: Uint8Array) => void | Promise<void>;
}

export type RunResult =
  | {
      readonly kind: 'ended';
      readonly exitCode: number;
      readonly stdout: Uint8Array;
      readonly stderr: Uint8Array;
      readonly cut: boolean;
    }
  /** No answer. `sent` is false when the script cannot have reached the machine, true when it may have run. */
  | { readonly kind: 'no_answer'; readonly reason: string; readonly sent: boolean; readonly timedOut: boolean };

export type StreamEnd =
  | { readonly kind: 'ended'; readonly exitCode: number; readonly stderr: string }
  | { readonly kind: 'dropped'; readonly reason: string };

export interface StreamRequest {
  /** POSIX sh. Descriptor 3 is a pipe that reaches its end when we have gone: a script that waits must watch it. */
  readonly script: string;
  /** Bytes of standard output, in order. While it is awaited nothing more is read, so a slow receiver slows the sender. */
  readonly onBytes: (chunk: Uint8Array) => void | Promise<void>;
  /** Called once, last, unless the stream was called off. */
  readonly onEnd: (end: StreamEnd) => void;
}

/** A way to one machine. Nothing throws for what the machine or the line does. */
export interface Transport {
  run(request: RunRequest): Promise<RunResult>;
  /** Runs a script and hands over its output as it comes. The returned function calls it off: no call follows. */
  stream(request: StreamRequest): () => void;
}

export type Reach =
  | { readonly kind: 'open'; readonly transport: Transport }
  | { readonly kind: 'closed'; readonly reason: string };

/** Ends the words that a login shell's start-up files may print before the script does. */
const beginMark = 'jobman begins here\n';

/**
 * The script as one program: it is read to its end before any of it runs, so that a line cut in the middle runs
 * nothing, and no command inside it can eat the rest of it from standard input.
 */
export function asProgram(script: string): string {
  return `exec 3<&0\n{\nprintf 'jobman begins here\\n'\n${script}\n} </dev/null\nexit\n`;
}

/** Drops what came before the script's own first byte, and tells when that is: all of the script has been read then. */
export function afterBeginMark(begun: () => void = () => undefined): (chunk: Uint8Array) => Uint8Array {
  const mark = new TextEncoder().encode(beginMark);
  let head: Buffer | null = Buffer.alloc(0);
  return (chunk) => {
    if (head === null) return chunk;
    head = Buffer.concat([head, chunk]);
    const at = head.indexOf(mark);
    if (at < 0) return new Uint8Array(0);
    const rest = head.subarray(at + mark.length);
    head = null;
    begun();
    return rest;
  };
}

/** This machine: a `sh` of its own for each script, with that environment. */
export function createLocalTransport(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The shell that reads its program from standard input; the system's when absent. */
  readonly shell?: readonly string[];
}): Transport {
  const argv = options.shell ?? ['/bin/sh', '-s'];
  return {
    async run(request) {
      const body = afterBeginMark();
      const result = await runProcess({
        argv,
        stdin: asProgram(request.script),
        env: options.env,
        cwd: options.cwd,
        timeoutMs: request.timeoutMs,
        outputMost: request.outputMost + beginMark.length,
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
        stdout: afterBeginMark()(result.stdout),
        stderr: result.stderr,
        cut: result.cut,
      };
    },
    stream(request) {
      const body = afterBeginMark();
      let isOff = false;
      let words = '';
      const child = openProcess(argv, options, {
        async onOutput(chunk, stream) {
          if (isOff) return;
          if (stream === 'stderr') {
            words = (words + new TextDecoder().decode(chunk)).slice(-4_096);
            return;
          }
          const bytes = body(chunk);
          if (bytes.length > 0) await request.onBytes(bytes);
        },
        ended(end) {
          if (isOff) return;
          if (end.exitCode !== null) request.onEnd({ kind: 'ended', exitCode: end.exitCode, stderr: words });
          else
            request.onEnd({ kind: 'dropped', reason: `the shell on this machine ended: ${end.error ?? end.signal}` });
        },
      });
      child.write(asProgram(request.script));
      return () => {
        isOff = true;
        child.close(1_000);
      };
    },
  };
}
