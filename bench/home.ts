// Home: a JOBMAN_HOME for one measurement, and jobman as users start it, from bin/jobman with the bundle.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseAddress } from '../src/store/open-database.ts';
import { isRunning } from './machine.ts';

export const root = join(import.meta.dirname, '..');
/** The Node that bin/jobman runs on, without its symbolic link, so that both start in the same way. */
export const node = join(root, 'node_modules/node/bin/node');
export const jobman = join(root, 'bin/jobman');

export interface Home {
  /** `$JOBMAN_HOME`. */
  readonly path: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Runs jobman to its end and returns its output. Throws when the exit code is not `code` (default 0). */
  run(args: readonly string[], code?: number): Promise<string>;
  /** The controller's pid; waits until one runs. */
  controller(): Promise<number>;
}

/** For a measurement that a signal interrupts. */
const cleanUps = new Set<() => void>();

/** Runs `measure`, then `undo`, also when a signal interrupts the measurement. */
export async function withCleanUp<T>(undo: () => void, measure: () => Promise<T>): Promise<T> {
  cleanUps.add(undo);
  try {
    return await measure();
  } finally {
    cleanUps.delete(undo);
    undo();
  }
}

/** Blocks until all clean-ups are done, because the process ends next. */
export function cleanUpAll(): void {
  for (const cleanUp of cleanUps) cleanUp();
}

/** URL of a PostgreSQL database. Each home then has a database of its own on that server. */
export const serverUrl = process.env['JOBMAN_BENCH_SERVER'] ?? '';

/** Creates a home, and afterwards ends its programs, controller and emulator and deletes its files. */
export function withHome<T>(measure: (home: Home) => Promise<T>, settings: object = {}): Promise<T> {
  if (serverUrl === '') return withNewHome(measure, settings);
  return withDatabase((database) => withNewHome(measure, { ...settings, database }));
}

/** A new database on that server. */
export async function withDatabase<T>(measure: (url: string) => Promise<T>): Promise<T> {
  const { default: pg } = await import('pg');
  const name = `jobman_bench_${process.pid}`;
  const query = async (statement: string): Promise<void> => {
    const client = new pg.Client({ connectionString: serverUrl });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await query(`create database ${name} encoding 'UTF8' template template0`);
  const url = new URL(serverUrl);
  url.pathname = name;
  try {
    return await measure(url.href);
  } finally {
    await query(`drop database ${name} with (force)`);
  }
}

export function databaseOf({ path }: Home): DatabaseAddress {
  const { database } = JSON.parse(readFileSync(join(path, 'settings.json'), 'utf8')) as { readonly database?: string };
  return database === undefined ? { file: join(path, 'state.db') } : { url: database };
}

async function withNewHome<T>(measure: (home: Home) => Promise<T>, settings: object): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-bench-'));
  const path = join(folder, 'home');
  mkdirSync(path, { mode: 0o700 });
  writeFileSync(join(path, 'settings.json'), JSON.stringify(settings), { mode: 0o600 });
  // Compiled code stays in the user's own cache, as in normal use; the first start fills it.
  const env = { ...process.env, JOBMAN_HOME: path, NO_COLOR: '1' };
  const home: Home = {
    path,
    env,
    run: (args, code = 0) => run(args, env, code),
    controller: () => waitFor('a controller', () => pidIn(join(path, 'controller.json'))),
  };
  const cleanUp = (): void => {
    const stop = (part: string): unknown => spawnSync(jobman, [part, 'stop'], { env, timeout: 60_000 });
    // Stop the controller first: otherwise it would process the end of a thousand programs.
    if (pidIn(join(path, 'controller.json')) !== undefined) stop('controller');
    killPrograms(home);
    if (pidIn(join(path, 'emulator', 'endpoint.json')) !== undefined) stop('emulator');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return withCleanUp(cleanUp, () => measure(home));
}

const reportEveryMs = 5_000;

/** Prints progress to standard error. Standard output has only the table. */
export function report(line: string): void {
  process.stderr.write(`  ${line}\n`);
}

/** Calls `check` until it returns a value. Throws after `timeoutMs`. */
export async function waitFor<T>(
  what: string,
  check: () => T | undefined | Promise<T | undefined>,
  timeoutMs = 60_000,
  everyMs = 20,
): Promise<T> {
  const began = performance.now();
  for (;;) {
    const answer = await check();
    if (answer !== undefined) return answer;
    if (performance.now() > began + timeoutMs)
      throw new Error(`waited ${timeoutMs / 1000} s without result for ${what}`);
    await sleep(everyMs);
  }
}

/** Counts until the number is reached and reports progress. Throws after `timeoutMs`. */
export async function waitForCount(
  what: string,
  wanted: number,
  count: () => Promise<number>,
  timeoutMs = 180_000,
  everyMs = 1_000,
): Promise<void> {
  let reportedAt = performance.now();
  await waitFor(
    `${wanted} ${what}`,
    async () => {
      const now = await count();
      if (now === wanted) return true;
      if (performance.now() > reportedAt + reportEveryMs) {
        reportedAt = performance.now();
        report(`${now} of ${wanted} ${what}`);
      }
      return undefined;
    },
    timeoutMs,
    everyMs,
  );
}

export async function pause(why: string, ms: number): Promise<void> {
  report(`${why}: ${ms / 1_000} s`);
  await sleep(ms);
}

/** The pid in the file, if that process runs. */
function pidIn(file: string): number | undefined {
  try {
    const { pid } = JSON.parse(readFileSync(file, 'utf8')) as { readonly pid: number };
    return isRunning(pid) ? pid : undefined;
  } catch {
    return undefined;
  }
}

function run(args: readonly string[], env: Home['env'], code: number | null): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(jobman, args, { env: env as NodeJS.ProcessEnv, stdio: ['ignore', 'pipe', 'pipe'] });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
    }
    child.on('error', reject);
    child.on('close', (ended) => {
      if (code === null || ended === code) resolve(output.stdout);
      else reject(new Error(`jobman ${args.join(' ')} ended with ${ended}:\n${output.stdout}${output.stderr}`));
    });
  });
}

/** Kills the program of the job's first attempt and its launcher, the leader of their process group. */
export function killProgram(home: Home, id: string): void {
  const [pid] = readFileSync(join(home.path, 'runs', id, '0', 'attempt_1', 'pid'), 'utf8').split(' ');
  process.kill(-Number(pid), 'SIGKILL');
}

/** Kills every program that jobs started on this machine. */
function killPrograms(home: Home): void {
  const runs = join(home.path, 'runs');
  for (const id of existsSync(runs) ? readdirSync(runs) : []) {
    try {
      killProgram(home, id);
    } catch {
      // The program never began, or has ended.
    }
  }
}
