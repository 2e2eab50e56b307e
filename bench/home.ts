// Home: a place for one measurement, and jobman as a person starts it, from bin/jobman on the built bundle.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

/** Undo what was begun, for a measurement that is broken off from outside. */
const cleanUps = new Set<() => void>();

/** Runs `measure`, then `undo`; also when the measurement is broken off from outside. */
export async function withCleanUp<T>(undo: () => void, measure: () => Promise<T>): Promise<T> {
  cleanUps.add(undo);
  try {
    return await measure();
  } finally {
    cleanUps.delete(undo);
    undo();
  }
}

/** Leaves nothing behind of the measurement that is under way. Blocks until it is done, since the process ends next. */
export function cleanUpAll(): void {
  for (const cleanUp of cleanUps) cleanUp();
}

/** Makes a home, hands it over, and leaves nothing of it behind: its programs, controller and cloud end, its files go. */
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
  const cleanUp = (): void => {
    const stop = (word: string): unknown => spawnSync(jobman, [word, 'stop'], { env, timeout: 60_000 });
    // The controller first: a thousand programs that end at once would be a thousand things for it to see to.
    if (pidIn(join(path, 'controller.json')) !== undefined) stop('controller');
    endPrograms(home);
    if (pidIn(join(path, 'emulator', 'endpoint.json')) !== undefined) stop('emulator');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return withCleanUp(cleanUp, () => measure(home));
}

/** How often somebody who waits is told what for. */
const tellEveryMs = 5_000;

/** Tells whoever watches how far it is. The table alone goes to standard output. */
export function tell(line: string): void {
  process.stderr.write(`  ${line}\n`);
}

/** Asks again every so many milliseconds until there is an answer. Throws after a long time without one. */
export async function waitFor<T>(
  what: string,
  ask: () => T | undefined | Promise<T | undefined>,
  mostMs = 60_000,
  everyMs = 20,
): Promise<T> {
  const began = performance.now();
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > began + mostMs) throw new Error(`waited ${mostMs / 1000} s in vain for ${what}`);
    await sleep(everyMs);
  }
}

/** Counts again until there are as many, and tells how many there are meanwhile. Throws after a long time. */
export async function waitForCount(
  what: string,
  wanted: number,
  count: () => Promise<number>,
  mostMs = 180_000,
  everyMs = 1_000,
): Promise<void> {
  let toldAt = performance.now();
  await waitFor(
    `${wanted} ${what}`,
    async () => {
      const now = await count();
      if (now === wanted) return true;
      if (performance.now() > toldAt + tellEveryMs) {
        toldAt = performance.now();
        tell(`${now} of ${wanted} ${what}`);
      }
      return undefined;
    },
    mostMs,
    everyMs,
  );
}

/** Lets that time go by, and tells why. */
export async function rest(why: string, ms: number): Promise<void> {
  tell(`${why}: ${ms / 1_000} s`);
  await sleep(ms);
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

/** Kills the program of that job's first attempt, and its launcher, whose number it wrote down: it leads their group. */
export function endProgram(home: Home, id: string): void {
  const [pid] = readFileSync(join(home.path, 'runs', id, '0', 'attempt_1', 'pid'), 'utf8').split(' ');
  process.kill(-Number(pid), 'SIGKILL');
}

/** Kills every program that was started on this machine itself and still runs. */
function endPrograms(home: Home): void {
  const runs = join(home.path, 'runs');
  for (const id of existsSync(runs) ? readdirSync(runs) : []) {
    try {
      endProgram(home, id);
    } catch {
      // It never began, or it is gone.
    }
  }
}
