// Processes: jobman's own background programs (the controller and the TPU emulator), and system programs on this
// terminal.

import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync, statfsSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { exitCode, JobmanError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { fileModeIn, makeFolder } from '../files/files.ts';
import { serverVariable, thisMachine } from '../app/server-in-use.ts';
import type { Io } from '../app/services.ts';
import type { Job } from '../core/model/job.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { runProcess } from '../remote/process.ts';
import type { DatabaseAddress } from '../store/open-database.ts';
import { databaseOf, hasDatabase } from './paths.ts';

/**
 * Runs `jobman <args>` with the `backgroundEnvironment`, and returns the first answer of `find`. If another
 * client has started the program at the same time, ours ends with `conflict`, and the other one answers soon. Throws
 * StoreError when `logFile` cannot be written, and JobmanError without an answer.
 */
export async function startInBackground<T>(program: {
  readonly io: Io;
  readonly home: string;
  readonly name: string;
  readonly args: readonly string[];
  readonly logFile: string;
  readonly pendingSpec?: JobSpec | undefined;
  readonly find: () => Promise<T | undefined>;
  readonly timeoutMs: number;
  readonly failureCode: number;
}): Promise<T> {
  const { io, home, name, logFile } = program;
  const env = await backgroundEnvironment(io, home, program.pendingSpec);
  let hasFailed = false;
  let log: number;
  try {
    makeFolder(dirname(logFile));
    log = openSync(logFile, 'a', fileModeIn(dirname(logFile)));
  } catch (error) {
    throw fileError(logFile, error);
  }
  const { size } = fstatSync(log);
  try {
    const [launcher = '', ...before] = io.launcher;
    const child = spawn(launcher, [...before, ...program.args], {
      // The user's folder may be unmounted or removed while the program runs.
      cwd: '/',
      // Also for the programs of jobs, which must not use a server that this terminal has.
      env: { ...env, JOBMAN_HOME: home, [serverVariable]: thisMachine } as NodeJS.ProcessEnv,
      stdio: ['ignore', log, log],
      detached: true,
    });
    child.on('error', () => void (hasFailed = true));
    child.on('exit', (code) => void (hasFailed = code !== exitCode.conflict));
    child.unref();
  } finally {
    closeSync(log);
  }
  const found = await pollUntil(program.find, program.timeoutMs, () => hasFailed);
  if (found !== undefined) return found;
  const problem = hasFailed ? 'failed to start' : 'was started but does not answer';
  throw new JobmanError(`${name} ${problem}. Its log: ${logFile}`, program.failureCode, linesAfter(logFile, size));
}

const maxOutputLines = 5;

function linesAfter(file: string, offset: number): readonly string[] {
  try {
    const lines = readFileSync(file)
      .subarray(offset)
      .toString('utf8')
      .split('\n')
      // Without the stack, which stays in the file.
      .filter((line) => line.trim() !== '' && !/^ +at /.test(line));
    // On a full disk the program could not write why it ended.
    if (lines.length === 0 && statfsSync(dirname(file)).bavail === 0) return [`The disk of ${dirname(file)} is full.`];
    return lines.slice(-maxOutputLines);
  } catch {
    return [];
  }
}

/** Ends with a value, after `timeoutMs`, or once `hasFailed` is true. */
export async function pollUntil<T>(
  ask: () => Promise<T | undefined>,
  timeoutMs: number,
  hasFailed: () => boolean = () => false,
): Promise<T | undefined> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const isLast = hasFailed() || performance.now() >= end;
    const answer = await ask();
    if (answer !== undefined || isLast) return answer;
    await setTimeout(25);
  }
}

/** These jobs may be resumed, so their secrets are removed too. */
const maxFinishedJobs = 100;

/** Variables that jobman and the programs it calls need. They stay even if a job declares one of them a secret. */
const requiredVariables =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|SSH_.*|JOBMAN_.*|GOOGLE_.*|CLOUDSDK_.*|GCE_.*|HTTPS?_PROXY|NO_PROXY|ALL_PROXY|NODE_.*)$/i;

/** The processes of an attempt are killed by it, so a program that outlives the attempt must not have it. */
const attemptMarker = 'JOBMAN_RUN';

/** The environment without the variables that jobs use as secrets: programs of other jobs would inherit them. */
export async function backgroundEnvironment(io: Io, home: string, pendingSpec?: JobSpec): Promise<Io['env']> {
  const specs = [pendingSpec, ...(await storedJobs(databaseOf({ io, home }))).map(({ spec }) => spec)];
  const secret = new Set(specs.flatMap(secretVariables));
  const isKept = (name: string): boolean =>
    name !== attemptMarker && (!secret.has(name) || requiredVariables.test(name));
  return Object.fromEntries(Object.entries(io.env).filter(([name]) => isKept(name)));
}

function secretVariables(spec: JobSpec | undefined): readonly string[] {
  return Object.values(spec?.command.secrets ?? {}).flatMap((ref) =>
    ref.kind === 'job' && ref.variable !== undefined ? [ref.variable] : [],
  );
}

async function storedJobs(database: DatabaseAddress): Promise<readonly Job[]> {
  if (!hasDatabase(database)) return [];
  try {
    const { withReadOnlyStore } = await import('../store/store.ts');
    return await withReadOnlyStore(
      database,
      async (store) => (await store.list({ maxFinished: maxFinishedJobs })).jobs,
    );
  } catch {
    return [];
  }
}

/** For jobman's own programs that have just answered. Ignores an invalid `pid`. */
export async function terminateProcess(pid: number, signal = 'TERM'): Promise<void> {
  // The pid comes from a file, and `kill` takes a number below 1 for a group of processes, or for all.
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  await runProcess({ argv: ['kill', `-${signal}`, String(pid)], timeoutMs: 5_000, maxOutputBytes: 1_000 });
}

/** Also false for a zombie, which holds no file, and without `/proc`. */
export function isProcessRunning(pid: number): boolean {
  try {
    return !/\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

/** Resolves with the exit code; 128 + n when signal n ended the program. */
export function runOnTerminal(argv: readonly string[]): Promise<number> {
  const [program = '', ...args] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
}

/**
 * Calls back once when the reader of that pipe has gone. A command that follows changes may write nothing for hours,
 * and Node cannot poll a write-only descriptor; GNU tail can, and ends by SIGPIPE.
 */
export function watchPipeReader(pid: number, descriptor: number, onGone: () => void): () => void {
  if (!fstatSync(descriptor).isFIFO()) return () => undefined;
  // `--pid` makes it end with our process, even after a kill.
  const tail = spawn('tail', ['-f', `--pid=${pid}`, '/dev/null'], { stdio: ['ignore', descriptor, 'ignore'] });
  tail.on('error', () => undefined);
  tail.on('exit', (_code, signal) => {
    if (signal === 'SIGPIPE') onGone();
  });
  tail.unref();
  return () => void tail.kill();
}
