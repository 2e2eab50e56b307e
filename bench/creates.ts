// Creates: how long one process takes to make a thousand durable jobs, each from its manifest: read, checked, stored,
// its files written. No controller runs meanwhile, so that only the making is measured.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControllerService } from '../src/app/services.ts';
import { openFront } from './front.ts';
import { withHome } from './home.ts';
import type { Result } from './result.ts';

const count = 1_000;
const mostMs = 10_000;

export function measureCreates(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    const manifest = join(home.path, 'true.yaml');
    writeFileSync(manifest, 'local: {}\ncommand:\n  run: "true"\n');
    const front = openFront(home, { controller: () => Promise.resolve(absent) });
    const began = performance.now();
    const cpu = process.cpuUsage();
    for (let index = 0; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
    const { user, system } = process.cpuUsage(cpu);
    const tookMs = performance.now() - began;
    const list = await front.say(['list', '--all', '--json']);
    await front.close();
    const made = list.trim().split('\n').length;
    if (made !== count) throw new Error(`${count} jobs were made and ${made} are listed`);
    return [
      {
        what: '1,000 creates through one process',
        measured: `${(tookMs / 1_000).toFixed(1)} s`,
        budget: `${mostMs / 1_000} s`,
        beside: `${((user + system) / 1_000 / count).toFixed(1)} ms of processor time each`,
        isKept: tookMs <= mostMs,
      },
    ];
  });
}

/** Stands for a controller that is there and does nothing. */
const absent: ControllerService = {
  run: () => Promise.reject(new Error('it is not to be run')),
  start: () => Promise.resolve({ started: false, pid: 1 }),
  stop: () => Promise.resolve({ stopped: false }),
  reload: () => Promise.resolve(),
  status: () => Promise.resolve({ running: true, pid: 1, version: null, startedAt: null, log: '' }),
  install: () => Promise.reject(new Error('it is not to be installed')),
  uninstall: () => Promise.reject(new Error('it is not to be installed')),
};
