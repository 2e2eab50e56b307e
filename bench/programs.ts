// Programs: what jobs of a measurement run on this machine, ended from outside without asking jobman.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Home } from './home.ts';

/** Kills the program of that job's first attempt, and its launcher, whose number it wrote down: it leads their group. */
export function endProgram(home: Home, id: string): void {
  const [pid] = readFileSync(join(home.path, 'runs', id, '0', 'attempt_1', 'pid'), 'utf8').split(' ');
  process.kill(-Number(pid), 'SIGKILL');
}

/** Kills every program that was started on this machine itself and still runs. */
export function endPrograms(home: Home): void {
  const runs = join(home.path, 'runs');
  for (const id of existsSync(runs) ? readdirSync(runs) : []) {
    try {
      endProgram(home, id);
    } catch {
      // It never began, or it is gone.
    }
  }
}
