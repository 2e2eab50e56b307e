/** Kills a mirror at arbitrary bytes, again and again; the next one continues from the length of the copy. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { attemptFile, folderOf } from '../../src/files/job-folder.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { MirrorTask } from './mirror-child.ts';

const child = join(import.meta.dirname, 'mirror-child.ts');

/** The number of kills: few in every run of the tests, a thousand on request. */
export function killCount(env: Readonly<Record<string, string | undefined>> = process.env): number {
  return Number(env['JOBMAN_KILLS'] ?? 12);
}

/** Number of the first kill: another number gives other bytes. A long run is requested in parts. */
export function killSeed(env: Readonly<Record<string, string | undefined>> = process.env): number {
  return Number(env['JOBMAN_KILLS_SEED'] ?? 1);
}

/** A program that writes more than all mirrors together will take before they are killed, some of it while they follow. */
export function writerFor(kills: number): string {
  return `i=0; while [ $i -lt ${Math.ceil(kills / 2) + 4} ]; do head -c 65536 /dev/urandom; i=$((i + 1)); sleep 0.02; done`;
}

/** Returns the complete copy and reports progress after every hundred kills; fails if a mirror ended otherwise than by its kill or at the end. */
export async function mirrorWithKills(
  task: Omit<MirrorTask, 'killAt'>,
  options: {
    readonly kills: number;
    readonly env: Readonly<Record<string, string>>;
    readonly seed: number;
    readonly report: (line: string) => void;
  },
): Promise<Buffer> {
  const { job, worker } = task.ref;
  const files = createLogFiles({ home: task.home, history: () => Promise.resolve([]) });
  const length = (): Promise<number> => files.length(job, { attempt: task.attempt, worker, file: 'log' });
  let seed = options.seed;
  // Numerical Recipes' constants: any will do that give the same story for the same seed.
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed % below;
  };
  const mirror = async (killAt: number | null): Promise<string> => {
    const run = spawn(process.execPath, [child, JSON.stringify({ ...task, killAt })], {
      env: options.env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code, signal] = (await once(run, 'exit')) as [number | null, string | null];
    return signal ?? String(code);
  };
  for (let kill = 0; kill < options.kills; kill += 1) {
    const killAt = (await length()) + 1 + random(60_000);
    assert.equal(await mirror(killAt), 'SIGKILL', `kill ${kill} of seed ${options.seed}`);
    assert.equal(await length(), killAt);
    if ((kill + 1) % 100 === 0) options.report(`${kill + 1} of ${options.kills} kills`);
  }
  assert.equal(await mirror(null), '0');
  return readFileSync(attemptFile(folderOf(task.home, job), task.attempt, worker));
}
