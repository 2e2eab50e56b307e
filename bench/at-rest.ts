// At rest: a thousand jobs run on this machine and nothing happens. What the controller holds for each, and what it does.
//
// The controller is the real one. It starts each program, follows each output and watches each process; then it is left
// alone for a minute, and the kernel's books tell how much processor time it used and how often it woke.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFront } from './front.ts';
import { waitFor, withHome, type Home } from './home.ts';
import { usageOf } from './machine.ts';
import type { Result } from './result.ts';

const count = 1_000;
const restMs = 60_000;
const mbMost = 0.5;
const coreMost = 0.05;
const wakeupsMost = 1;

export function measureAtRest(): Promise<readonly Result[]> {
  return withHome(
    async (home) => {
      const manifest = join(home.path, 'sleep.yaml');
      writeFileSync(manifest, 'local: {}\ncommand:\n  run: exec sleep 1000000\n');
      const front = openFront(home);
      try {
        await front.say(['create', manifest, '--quiet']);
        const client = await front.services.client();
        await running(1);
        const pid = await home.controller();
        await sleep(5_000);
        const alone = usageOf(pid);
        for (let index = 1; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
        await running(count);
        // What was set off by the starting comes to its end.
        await sleep(30_000);
        const before = usageOf(pid);
        const began = performance.now();
        await sleep(restMs);
        const after = usageOf(pid);
        const tookMs = performance.now() - began;
        await front.close();

        async function running(wanted: number): Promise<void> {
          await waitFor(
            `${wanted} running jobs`,
            async () => {
              const { rows } = await client.list({ phases: ['running'] });
              return rows.length === wanted ? true : undefined;
            },
            600_000,
            500,
          );
        }

        const mb = (after.ownMb - alone.ownMb) / (count - 1);
        const share = (after.cpuMs - before.cpuMs) / tookMs;
        const wakeups = ((after.sleeps - before.sleeps) / tookMs) * 10_000;
        const ofThreads = ((after.sleepsOfThreads - before.sleepsOfThreads) / tookMs) * 10_000;
        return [
          {
            what: 'controller, memory for each of 1,000 supervised jobs',
            measured: `${mb.toFixed(3)} MB`,
            budget: `${mbMost} MB`,
            beside: `${after.ownMb.toFixed(0)} MB with 1,000 jobs, ${alone.ownMb.toFixed(0)} MB with one`,
            isKept: mb <= mbMost,
          },
          {
            what: 'controller at rest, 1,000 running local jobs',
            measured: `${(share * 100).toFixed(2)} % of a core`,
            budget: `${coreMost * 100} %`,
            beside: `over ${(tookMs / 1_000).toFixed(0)} s`,
            isKept: share <= coreMost,
          },
          {
            what: 'wakeups of the controller at rest, in 10 s',
            measured: wakeups.toFixed(2),
            budget: String(wakeupsMost),
            beside: `${ofThreads.toFixed(1)} with its helper threads`,
            isKept: wakeups <= wakeupsMost + 0.05,
          },
        ];
      } finally {
        endPrograms(home);
      }
    },
    { local: { slots: count } },
  );
}

/** Kills every program that was started, by the number that its launcher wrote down: it leads a session of its own. */
function endPrograms(home: Home): void {
  const runs = join(home.path, 'runs');
  for (const job of readdirSync(runs)) {
    try {
      const [pid] = readFileSync(join(runs, job, '0', 'attempt_1', 'pid'), 'utf8').split(' ');
      process.kill(-Number(pid), 'SIGKILL');
    } catch {
      // It never began, or it is gone.
    }
  }
}
