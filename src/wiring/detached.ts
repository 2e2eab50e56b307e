// Programs of our own that go on without the terminal they were started from: the controller and the built-in cloud.

import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileError } from '../app/file-trouble.ts';
import { fileModeIn, makeFolder } from '../app/make-folder.ts';
import type { Io } from '../app/services.ts';

/** A program that was started and goes on by itself. */
export interface Detached {
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
