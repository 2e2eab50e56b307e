// Processes of this machine behind one small door: what ran, how long, how it ended and what it printed come back as data.
// An exit code is never an exception; whoever asked knows what a code means.

import { spawn, type ChildProcess } from 'node:child_process';
import { Duplex as DuplexStream } from 'node:stream';
import { textOf } from '../app/errors.ts';
import type { Duration } from '../core/time.ts';

export interface ProcessRequest {
  readonly argv: readonly string[];
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** After this time the program is killed with all of its group. */
  readonly timeoutMs: Duration;
  /** How many bytes of each stream are kept; the rest is read and thrown away. */
  readonly outputMost: number;
  /** Sees every chunk as it comes, whatever is kept; while it is awaited nothing more is read. */
  readonly onOutput?: (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void | Promise<void>;
}

export interface ProcessResult {
  readonly argv: readonly string[];
  /** Null when a signal ended it or it could not be started. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly cut: boolean;
  readonly timedOut: boolean;
  readonly durationMs: Duration;
  /** Why it could not be started: no such program, no permission. Null when it ran. */
  readonly error: string | null;
}

type Output = (chunk: Uint8Array, stream: 'stdout' | 'stderr') => void | Promise<void>;

type ProcessEnd = Pick<ProcessResult, 'exitCode' | 'signal' | 'error'>;

/** A program with its three pipes, in a group of its own, so that a kill ends what it started as well. May throw. */
function spawnPiped(argv: readonly string[], { env, cwd }: Pick<ProcessRequest, 'env' | 'cwd'>, onOutput: Output) {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, {
    env: env as NodeJS.ProcessEnv | undefined,
    cwd,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  // A program may end without reading its input; that is its own affair.
  child.stdin.on('error', () => undefined);
  const reads = (['stdout', 'stderr'] as const).map(async (name) => {
    try {
      for await (const chunk of child[name] as AsyncIterable<Buffer>) await onOutput(chunk, name);
    } catch {
      // The pipe was torn by a kill. What came before it counts.
    }
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('error', (error) => resolve({ exitCode: null, signal: null, error: textOf(error) }));
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal, error: null }));
  });
  return { child, reads: Promise.all(reads), ended };
}

/** Runs a program to its end. Never throws: a program that cannot be started has `error` set. */
export async function runProcess(request: ProcessRequest): Promise<ProcessResult> {
  const begun = performance.now();
  const kept = { stdout: keepFirst(request.outputMost), stderr: keepFirst(request.outputMost) };
  let timedOut = false;
  const answer = (end: ProcessEnd): ProcessResult => ({
    argv: request.argv,
    ...end,
    stdout: kept.stdout.bytes(),
    stderr: kept.stderr.bytes(),
    cut: kept.stdout.isCut() || kept.stderr.isCut(),
    timedOut,
    durationMs: performance.now() - begun,
  });
  let started: ReturnType<typeof spawnPiped>;
  try {
    started = spawnPiped(request.argv, request, async (chunk, stream) => {
      kept[stream].add(chunk);
      await request.onOutput?.(chunk, stream);
    });
  } catch (error) {
    return answer({ exitCode: null, signal: null, error: textOf(error) });
  }
  const { child, reads, ended } = started;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, request.timeoutMs);
  child.stdin.end(request.stdin ?? '');
  const end = await ended;
  // Somebody else may hold the pipes open (a detached child): after the exit they get a moment, not for ever.
  if (end.error === null) await Promise.race([reads, pause(timedOut ? 100 : 2_000)]);
  clearTimeout(timer);
  child.stdout.destroy();
  child.stderr.destroy();
  return answer(end);
}

/**
 * Starts a program whose input stays open and whose output is handed over as it comes, each chunk awaited before the
 * next is read. `ended` is called once, after the last chunk was taken.
 */
export function openProcess(
  argv: readonly string[],
  options: Pick<ProcessRequest, 'env' | 'cwd'>,
  receiver: { readonly onOutput: Output; ended(end: ProcessEnd): void },
) {
  const { child, reads, ended } = spawnPiped(argv, options, receiver.onOutput);
  let isOver = false;
  void ended.then(async (end) => {
    isOver = true;
    await reads;
    receiver.ended(end);
  });
  return {
    pid: child.pid,
    /** Bytes for its input; the input stays open until `close`. */
    write(bytes: string | Uint8Array): void {
      child.stdin.write(bytes);
    },
    /** Ends the input, and kills the group when the program is still there after `patienceMs`. */
    close(patienceMs: Duration): void {
      child.stdin.end();
      if (isOver) return;
      setTimeout(() => {
        if (!isOver) killGroup(child);
      }, patienceMs);
    },
  };
}

/** A program's input and output as one stream, for a line that goes through it (ProxyCommand, `ssh -W`). */
export function processAsStream(argv: readonly string[]) {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const kept = keepFirst(4_096);
  child.stderr.on('data', (chunk: Buffer) => {
    kept.add(chunk);
  });
  const silent = new Promise<void>((resolve) => {
    child.stderr.once('close', resolve);
  });
  // The declared types of `from` lack the pair that Node documents.
  const pair: unknown = { readable: child.stdout, writable: child.stdin };
  const stream = DuplexStream.from(pair as NodeJS.ReadableStream);
  child.once('error', (error) => {
    stream.destroy(error);
  });
  stream.once('close', () => {
    killGroup(child);
  });
  return {
    stream,
    /** The program's standard error: all of it when it has ended, else what there is after a moment. */
    async words(): Promise<string> {
      await Promise.race([silent, pause(500)]);
      return new TextDecoder().decode(kept.bytes()).trim();
    },
  };
}

export interface DetachedRequest {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/**
 * Starts a program in a session of its own which outlives us, and resolves with what it prints before it lets go of
 * its output (by a redirection of its own) or ends. `onExit` is called when it ends while we live. It never keeps
 * this process alive.
 */
export function startDetached(
  request: DetachedRequest,
  options: { readonly timeoutMs: Duration; readonly onExit?: () => void },
): Promise<{ readonly words: string; readonly error: string | null; readonly timedOut: boolean }> {
  const [program = '', ...args] = request.argv;
  return new Promise((resolve) => {
    let words = '';
    const timer = setTimeout(() => {
      resolve({ words, error: null, timedOut: true });
    }, options.timeoutMs);
    const finish = (error: string | null): void => {
      clearTimeout(timer);
      resolve({ words, error, timedOut: false });
    };
    let child: ChildProcess;
    try {
      child = spawn(program, args, {
        env: request.env as NodeJS.ProcessEnv,
        cwd: request.cwd,
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: true,
      });
    } catch (error) {
      finish(textOf(error));
      return;
    }
    child.unref();
    child.once('error', (error) => {
      finish(textOf(error));
    });
    child.once('exit', () => options.onExit?.());
    child.stdout?.setEncoding('utf8');
    child.stdout?.on('data', (text: string) => {
      words += text;
    });
    child.stdout?.once('close', () => {
      finish(null);
    });
  });
}

/**
 * Kills all of a child's group. A negative pid needs the kill of a shell: Node offers it only on the global `process`,
 * which is for main.ts alone.
 */
function killGroup(child: ChildProcess): void {
  const { pid } = child;
  // A number that was given back may already be somebody else's.
  if (pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const killer = spawn('/bin/sh', ['-c', 'kill -s KILL -- "-$1"', 'sh', String(pid)], { stdio: 'ignore' });
  killer.on('error', () => child.kill('SIGKILL'));
}

function pause(ms: Duration): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

/** The first bytes of an output, up to a limit. */
export function keepFirst(most: number) {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let cut = false;
  return {
    add(chunk: Uint8Array): void {
      const part = chunk.subarray(0, Math.max(0, most - length));
      cut ||= part.length < chunk.length;
      if (part.length > 0) chunks.push(part);
      length += part.length;
    },
    bytes: () => Buffer.concat(chunks),
    isCut: () => cut,
  };
}
