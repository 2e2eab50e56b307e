// Home: a place for one measurement, and jobman as a person starts it, from bin/jobman on the built bundle.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning } from './machine.ts';

/** The repository. */
export const root = join(import.meta.dirname, '..');
/** The Node that bin/jobman runs on, as a program and not through its link, so that both start alike. */
export const node = join(root, 'node_modules/node/bin/node');
/** What a user runs. */
export const jobman = join(root, 'bin/jobman');

/** A home that belongs to one measurement. */
export interface Home {
  /** `$JOBMAN_HOME`. */
  readonly path: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Runs jobman to its end. Throws with its words when it does not end with `code`, which is 0 unless said. */
  run(words: readonly string[], code?: number): Promise<string>;
  /** The pid of its controller; waits for one to begin. */
  controller(): Promise<number>;
}

/** Makes a home, hands it over, and leaves nothing of it behind: its controller and cloud are asked to end, its files go. */
export async function withHome<T>(measure: (home: Home) => Promise<T>, settings: object = {}): Promise<T> {
  if (!existsSync(join(root, 'dist/bundle/main.cjs'))) throw new Error('there is no bundle to measure: npm run build');
  const folder = mkdtempSync(join(tmpdir(), 'jobman-bench-'));
  const path = join(folder, 'home');
  mkdirSync(path, { mode: 0o700 });
  writeFileSync(join(path, 'settings.json'), JSON.stringify(settings), { mode: 0o600 });
  // The cache of compiled code is the user's own, as it is in use; the first start of all fills it.
  const env = { ...process.env, JOBMAN_HOME: path, NO_COLOR: '1' };
  const home: Home = {
    path,
    env,
    run: (words, code = 0) => run(words, env, code),
    controller: () => waitFor('a controller', () => pidIn(join(path, 'controller.json'))),
  };
  try {
    return await measure(home);
  } finally {
    const controller = pidIn(join(path, 'controller.json'));
    const cloud = pidIn(join(path, 'emulator', 'endpoint.json'));
    if (controller !== undefined) await run(['controller', 'stop'], env, null).catch(() => undefined);
    if (cloud !== undefined) await run(['emulator', 'stop'], env, null).catch(() => undefined);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Asks again every so many milliseconds until there is an answer. Throws after a long time without one. */
export async function waitFor<T>(
  what: string,
  ask: () => T | undefined | Promise<T | undefined>,
  mostMs = 300_000,
  everyMs = 20,
): Promise<T> {
  const end = performance.now() + mostMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > end) throw new Error(`waited ${mostMs / 1000} s in vain for ${what}`);
    await sleep(everyMs);
  }
}

/** The pid that such a file names, if a process of that number runs. */
function pidIn(file: string): number | undefined {
  try {
    const { pid } = JSON.parse(readFileSync(file, 'utf8')) as { readonly pid: number };
    return isRunning(pid) ? pid : undefined;
  } catch {
    return undefined;
  }
}

function run(words: readonly string[], env: Home['env'], code: number | null): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(jobman, words, { env: env as NodeJS.ProcessEnv, stdio: ['ignore', 'pipe', 'pipe'] });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => (said[name] += text));
    }
    child.on('error', reject);
    child.on('close', (ended) => {
      if (code === null || ended === code) resolve(said.stdout);
      else reject(new Error(`jobman ${words.join(' ')} ended with ${ended}:\n${said.stdout}${said.stderr}`));
    });
  });
}
