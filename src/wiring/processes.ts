// Processes: jobman's own programs in the background (the controller and the built-in cloud), and the system's on this terminal.

import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync, statfsSync, existsSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { fileError } from '../app/errors.ts';
import { fileModeIn, makeFolder } from '../app/files.ts';
import type { Io } from '../app/services.ts';
import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';
import { runProcess } from '../remote/process.ts';
import { recordFile } from './paths.ts';

interface Detached {
  /** For how many milliseconds it has certainly not been running; 0 while it may run. */
  readonly endedFor: () => number;
  /** The last lines that it has written by now. */
  readonly lastWords: () => readonly string[];
}

/**
 * Starts `jobman <words>` in a session of its own, with the `backgroundEnvironment`, its output appended to that file. Throws StoreError
 * when the file cannot be written.
 */
export async function startDetached(
  { io, home, coming }: { readonly io: Io; readonly home: string; readonly coming?: JobSpec | undefined },
  words: readonly string[],
  logFile: string,
): Promise<Detached> {
  const env = await backgroundEnvironment(io, home, coming);
  let log: number;
  try {
    makeFolder(dirname(logFile));
    log = openSync(logFile, 'a', fileModeIn(dirname(logFile)));
  } catch (error) {
    throw fileError(logFile, error);
  }
  try {
    const { size } = fstatSync(log);
    const [program = '', ...before] = io.launcher;
    const child = spawn(program, [...before, ...words], {
      // The user's folder may be unmounted or removed while the program goes on.
      cwd: '/',
      env: { ...env, JOBMAN_HOME: home } as NodeJS.ProcessEnv,
      stdio: ['ignore', log, log],
      detached: true,
    });
    let endedAt: number | null = null;
    const ended = (): void => {
      endedAt ??= performance.now();
    };
    child.on('error', ended);
    child.on('exit', ended);
    child.unref();
    return {
      endedFor: () => (endedAt === null ? 0 : performance.now() - endedAt),
      lastWords: () => linesAfter(logFile, size),
    };
  } finally {
    closeSync(log);
  }
}

const wordsMost = 5;

function linesAfter(file: string, offset: number): readonly string[] {
  try {
    const words = readFileSync(file)
      .subarray(offset)
      .toString('utf8')
      .split('\n')
      // Without the stack, which stays in the file.
      .filter((line) => line.trim() !== '' && !/^ +at /.test(line));
    // On a full disk it could not write why it ended.
    if (words.length === 0 && statfsSync(dirname(file)).bavail === 0)
      return [`The disk is full: nothing can be written below ${dirname(file)}.`];
    return words.slice(-wordsMost);
  } catch {
    return [];
  }
}

/** Asks again until the answer is not undefined, for at most that long and not once it `isInVain`. */
export async function waitFor<T>(
  ask: () => Promise<T | undefined>,
  mostMs: number,
  isInVain: () => boolean = () => false,
): Promise<T | undefined> {
  const end = performance.now() + mostMs;
  for (;;) {
    const isLast = isInVain() || performance.now() >= end;
    const answer = await ask();
    if (answer !== undefined || isLast) return answer;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Finished jobs whose secrets are left out too, since they may be resumed. */
const settledMost = 100;

/** The variables that jobman and the programs it calls go by. A job that calls one of them a secret does not take it from them. */
const needed =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|SSH_.*|JOBMAN_.*|GOOGLE_.*|CLOUDSDK_.*|GCE_.*|HTTPS?_PROXY|NO_PROXY|ALL_PROXY|NODE_.*)$/i;

/** It marks the processes of an attempt, which end with it: a program that goes on after the attempt must not have it. */
const attemptMark = 'JOBMAN_RUN';

/**
 * This environment without the variables that secrets of jobs are taken from: of those on record, and of the one that is about to be
 * created. What background programs start, such as another job's program, inherits from them. Ignores an unreadable record.
 */
export async function backgroundEnvironment(io: Io, home: string, coming?: JobSpec): Promise<Io['env']> {
  const secret = new Set([...variablesOf(coming), ...(await onRecord(home)).flatMap(({ spec }) => variablesOf(spec))]);
  const isKept = (name: string): boolean => name !== attemptMark && (!secret.has(name) || needed.test(name));
  return Object.fromEntries(Object.entries(io.env).filter(([name]) => isKept(name)));
}

function variablesOf(spec: JobSpec | undefined): readonly string[] {
  return Object.values(spec?.command.secrets ?? {}).flatMap((source) =>
    source.kind === 'environment' ? [source.variable] : [],
  );
}

async function onRecord(home: string): Promise<readonly Job[]> {
  const file = recordFile(home);
  if (!existsSync(file)) return [];
  try {
    const { lookAtRecord } = await import('../store/store.ts');
    return await lookAtRecord(file, async (store) => (await store.list({ settledMost })).jobs);
  } catch {
    return [];
  }
}

/** Sends SIGTERM to a program of our own that has just answered. Does nothing when it is gone, or when that is no pid of a program. */
export async function endProcess(pid: number): Promise<void> {
  // It comes from a file, and `kill` takes a number below 1 for a group of processes, or for all.
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  await runProcess({ argv: ['kill', '-TERM', String(pid)], timeoutMs: 5_000, outputMost: 1_000 });
}

/** Runs it with this terminal's streams and gives its exit code; 128 + n when signal n ended it. */
export function onTerminal(argv: readonly string[]): Promise<number> {
  const [program = '', ...words] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
}

/**
 * Calls back once when the reader of that pipe has gone, until the returned function is called. A command that watches may write nothing
 * for hours, and Node cannot poll a descriptor that it only writes to; GNU tail does, and ends by SIGPIPE. `pid` is our own process.
 */
export function watchPipeReader(pid: number, descriptor: number, gone: () => void): () => void {
  if (!fstatSync(descriptor).isFIFO()) return () => undefined;
  // It looks for our process too, so it does not outlive a kill.
  const tail = spawn('tail', ['-f', `--pid=${pid}`, '/dev/null'], { stdio: ['ignore', descriptor, 'ignore'] });
  tail.on('error', () => undefined);
  tail.on('exit', (_code, signal) => {
    if (signal === 'SIGPIPE') gone();
  });
  tail.unref();
  return () => void tail.kill();
}
