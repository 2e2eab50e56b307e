// Processes of this machine: the end, the duration and the output of a program come back as data. An exit code is never
// an exception, because only the caller knows its meaning.

import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { Duplex as DuplexStream } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { messageOf } from '../app/errors.ts';
import type { Duration } from '../core/model/time.ts';

export interface ProcessRequest {
  readonly argv: readonly string[];
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** After this, the program is killed with its process group. */
  readonly timeoutMs: Duration;
  readonly maxOutputBytes: number;
  /** Receives every chunk, kept or not; while it is awaited nothing more is read. */
  readonly onOutput?: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void | Promise<void>;
}

export interface ProcessResult {
  readonly argv: readonly string[];
  /** Null after a signal, or when it could not start. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  readonly timedOut: boolean;
  readonly durationMs: Duration;
  /** Null when it ran. */
  readonly error: string | null;
}

type ProcessEnd = Pick<ProcessResult, 'exitCode' | 'signal' | 'error'>;

/** Never throws: a program that cannot be started has `error` set. */
export async function runProcess(request: ProcessRequest): Promise<ProcessResult> {
  const begun = performance.now();
  const kept = {
    stdout: createOutputBuffer(request.maxOutputBytes),
    stderr: createOutputBuffer(request.maxOutputBytes),
  };
  let timedOut = false;
  const answer = (end: ProcessEnd): ProcessResult => ({
    argv: request.argv,
    ...end,
    stdout: kept.stdout.bytes(),
    stderr: kept.stderr.bytes(),
    truncated: kept.stdout.isTruncated() || kept.stderr.isTruncated(),
    timedOut,
    durationMs: performance.now() - begun,
  });
  const [program = '', ...args] = request.argv;
  let child: ChildProcessWithoutNullStreams;
  try {
    // In its own process group, so that a kill also ends its children.
    child = spawn(program, args, {
      env: request.env as NodeJS.ProcessEnv | undefined,
      cwd: request.cwd,
      stdio: 'pipe',
      detached: true,
    });
  } catch (error) {
    return answer({ exitCode: null, signal: null, error: messageOf(error) });
  }
  // A program may end without reading its input; that is not an error.
  child.stdin.on('error', () => undefined);
  const reads = (['stdout', 'stderr'] as const).map(async (name) => {
    try {
      for await (const chunk of child[name] as AsyncIterable<Buffer>) {
        kept[name].add(chunk);
        await request.onOutput?.(chunk, name);
      }
    } catch {
      // A kill broke the pipe. Earlier output counts.
    }
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('error', (error) => resolve({ exitCode: null, signal: null, error: messageOf(error) }));
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal, error: null }));
  });
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, request.timeoutMs);
  child.stdin.end(request.stdin ?? '');
  const end = await ended;
  // Another process (a detached child) may hold the pipes open: after the exit they get a limited time.
  if (end.error === null)
    await Promise.race([Promise.all(reads), pause(timedOut ? 100 : 2_000, undefined, { ref: false })]);
  clearTimeout(timer);
  child.stdout.destroy();
  child.stderr.destroy();
  return answer(end);
}

/** A program's input and output as one stream, for a connection through it (ProxyCommand, `ssh -W`). */
export function processAsStream(argv: readonly string[]) {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const kept = createOutputBuffer(4_096);
  child.stderr.on('data', (chunk: Buffer) => kept.add(chunk));
  const silent = new Promise<void>((resolve) => child.stderr.once('close', resolve));
  // The declared types of `from` lack the pair that Node documents.
  const pair: unknown = { readable: child.stdout, writable: child.stdin };
  const stream = DuplexStream.from(pair as NodeJS.ReadableStream);
  child.once('error', (error) => stream.destroy(error));
  stream.once('close', () => killGroup(child));
  return {
    stream,
    /** The program's standard error: complete if it has ended, else the output of the next half second. */
    async errorOutput(): Promise<string> {
      await Promise.race([silent, pause(500, undefined, { ref: false })]);
      return new TextDecoder().decode(kept.bytes()).trim();
    },
  };
}

/** Through a shell: Node kills a negative pid only with the global `process`, which is reserved for main.ts. */
function killGroup(child: ChildProcess): void {
  const { pid } = child;
  // The pid of an ended child may already belong to another process.
  if (pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const killer = spawn('/bin/sh', ['-c', 'kill -s KILL -- "-$1"', 'sh', String(pid)], { stdio: 'ignore' });
  killer.on('error', () => child.kill('SIGKILL'));
}

export function createOutputBuffer(maxBytes: number) {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let truncated = false;
  return {
    add(chunk: Uint8Array): void {
      const part = chunk.subarray(0, Math.max(0, maxBytes - length));
      truncated ||= part.length < chunk.length;
      if (part.length > 0) chunks.push(part);
      length += part.length;
    },
    bytes: () => Buffer.concat(chunks),
    isTruncated: () => truncated,
  };
}
