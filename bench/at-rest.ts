// At rest: a thousand jobs run on this machine and nothing happens. What the controller holds for each, and what it does.
//
// The controller is the real one. It starts each program, follows each output and watches each process; then it is left
// alone for a minute, and the kernel's books tell how much processor time it used and how often it woke.

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFront } from './front.ts';
import { waitFor, withHome } from './home.ts';
import { usageOf } from './machine.ts';
import { endPrograms } from './programs.ts';
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
        // Apart from the rest, because being traced takes time.
        const waits = await waitsOf(pid, restMs);
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
        const sleeps = ((after.sleeps - before.sleeps) / tookMs) * 10_000;
        const wakeups = (waits / restMs) * 10_000;
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
            beside: `its thread stood still ${sleeps.toFixed(1)} times, the disk and the collector of garbage counted`,
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

/** How often in that time a process has waited for something to happen: each wait ends in one wakeup. */
async function waitsOf(pid: number, lengthMs: number): Promise<number> {
  const strace = spawn('strace', ['-p', String(pid), '-e', 'trace=epoll_wait,epoll_pwait'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let seen = '';
  strace.stderr.setEncoding('utf8').on('data', (text: string) => (seen += text));
  const ended = new Promise<void>((resolve, reject) => {
    strace.on('error', (error) => reject(new Error('wakeups are counted with strace', { cause: error })));
    strace.on('close', () => resolve());
  });
  await Promise.race([sleep(lengthMs), ended]);
  strace.kill('SIGINT');
  await ended;
  // epoll_pwait(13, [], 1024, 9996, NULL, 8) = 0: the fourth is how long it may wait at the most; 0 does not wait.
  const waits = [...seen.matchAll(/^epoll_p?wait\(\d+, .*, \d+, (-?\d+)(?:,.*)?\) = \d+$/gm)];
  return waits.filter(([, timeout]) => timeout !== '0').length;
}
