// Programs of our own that go on without the terminal they were started from: the controller and the built-in cloud.

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

/** A program that was started and goes on by itself. */
interface Detached {
  /** For how many milliseconds it has certainly not been running; 0 while it may run. */
  readonly endedFor: () => number;
  /** The last lines that it has written by now, for whoever wonders why it ended. */
  readonly lastWords: () => readonly string[];
}

/**
 * Starts `jobman <words>` in a session of its own, its output going to the end of that file, and returns at once.
 * Its environment is what `backgroundEnvironment` leaves of the user's: credentials and endpoints are the user's own. Throws
 * StoreError when the file cannot be written.
 */
export function startDetached(
  { io, home, env }: { readonly io: Io; readonly home: string; readonly env: Io['env'] },
  words: readonly string[],
  logFile: string,
): Detached {
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
      // Not the folder the user stands in: it may be unmounted or removed while the program goes on.
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
      // Where in our own code it was thrown helps nobody here; it stays in the file.
      .filter((line) => line.trim() !== '' && !/^ +at /.test(line));
    // Without room for its words it could not say what the matter was.
    if (words.length === 0 && statfsSync(dirname(file)).bavail === 0)
      return [`The disk is full: nothing can be written below ${dirname(file)}.`];
    return words.slice(-wordsMost);
  } catch {
    // Where it cannot be read there are no words to repeat.
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

// The environment of our own programs that go on in the background. They are started from some shell, often the very one in
// which a job's secrets stand, and what they start inherits from them: another job's program on this machine, a cloud's workers.

/** Ended jobs that are still asked: they may be resumed, and their secrets are secrets all the same. */
const settledMost = 100;

/** The variables that jobman and the programs it calls go by. A job that calls one of them a secret does not take it from them. */
const needed =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|SSH_.*|JOBMAN_.*|GOOGLE_.*|CLOUDSDK_.*|GCE_.*|HTTPS?_PROXY|NO_PROXY|ALL_PROXY|NODE_.*)$/i;

/** By it the processes of an attempt are known, and ended with it: a program that goes on after the attempt must not have it. */
const attemptMark = 'JOBMAN_RUN';

/**
 * This environment without the variables that secrets of jobs are taken from: of those on record, and of the one that is about
 * to be created. The controller does not need them: their values were kept when the job was created. A record that cannot be
 * read takes nothing away; whoever needs it says what is the matter with it.
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

// Ending a program of our own by its pid. The caller has made sure that the pid is that program's: it answered a moment ago.

/** Asks the process to end (SIGTERM). Nothing happens when it is gone already, or when that is no pid of a program. */
export async function endProcess(pid: number): Promise<void> {
  // It comes from a file, and `kill` takes a number below 1 for a group of processes, or for all.
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  await runProcess({ argv: ['kill', '-TERM', String(pid)], timeoutMs: 5_000, outputMost: 1_000 });
}

// A program of the system, run on the terminal that jobman was started from.

/** Runs it with this terminal's streams and gives its exit code; 128 + n when signal n ended it. */
export function onTerminal(argv: readonly string[]): Promise<number> {
  const [program = '', ...words] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
}

// Pipe reader: whether somebody still reads our pipe. A program learns that by writing (EPIPE), and one that watches may have nothing
// to write for hours. Node cannot poll a descriptor that it only writes to; GNU tail does, and ends by SIGPIPE when the reader has gone.

/**
 * Calls back once when the reader of that descriptor has gone, where it is a pipe, until the returned function is called. Never does
 * where the machine has no tail of GNU. `pid` is our own process.
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
