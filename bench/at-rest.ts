// At rest: jobs run and nothing happens. What the controller holds for each, and what it does.
//
// The controller is the real one. It starts each program, follows each output and watches each process; then it is left
// alone for a minute, and the kernel's books tell how much processor time it used and how often it woke.

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFront } from './front.ts';
import { rest, tell, waitForCount, withHome, type Home } from './home.ts';
import { usageOf } from './machine.ts';
import type { Result } from './result.ts';

/** How long it is given to settle: a renewal of the lease or two, and the collector of garbage. */
const settleMs = 20_000;
const restMs = 60_000;
const mbMost = 0.5;
const coreMost = 0.05;
const wakeupsMost = 1;

/** What rests: jobs on this machine, or on TPUs of the built-in cloud, which are reached over SSH as real ones are. */
interface Case {
  readonly where: string;
  readonly manifest: string;
  readonly count: number;
  /** Whether the budgets of the issue are about it. */
  readonly isJudged: boolean;
}

const cases: readonly Case[] = [
  { where: 'on this machine', manifest: 'local: {}\n', count: 1_000, isJudged: true },
  // Fewer: here all hosts are one machine, whose two cores also run the cloud and what each host does by itself.
  {
    where: 'on TPUs of the built-in cloud',
    manifest: 'tpu:\n  project: emulator\n  accelerator: v4-8\n  zone: us-central2-b\n  pricing: spot\n',
    count: 50,
    isJudged: false,
  },
];

export async function measureAtRest(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const one of cases) {
    results.push(...(await withHome((home) => measureCase(home, one), { local: { slots: one.count } })));
  }
  return results;
}

async function measureCase(
  home: Home,
  { where, manifest: capacity, count, isJudged }: Case,
): Promise<readonly Result[]> {
  const manifest = join(home.path, 'sleep.yaml');
  writeFileSync(manifest, `${capacity}command:\n  run: exec sleep 1000000\n`);
  const front = openFront(home);
  await front.say(['create', manifest, '--quiet']);
  const client = await front.services.client();
  const running = async (): Promise<number> => (await client.list({ phases: ['running'] })).rows.length;
  await waitForCount('jobs run', 1, running);
  const pid = await home.controller();
  await rest(`one job ${where} comes to rest`, settleMs);
  const alone = usageOf(pid);
  for (let index = 1; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
  await waitForCount(`jobs run ${where}`, count, running);
  await rest('what was set off by the starting comes to its end', settleMs);
  const before = usageOf(pid);
  const began = performance.now();
  await rest('nothing happens', restMs);
  const after = usageOf(pid);
  const tookMs = performance.now() - began;
  tell('the same again, with its wakeups counted');
  // Apart from the rest, because being traced takes time.
  const waits = await waitsOf(pid, restMs);
  if ((await running()) !== count) throw new Error(`not all ${count} jobs still run`);
  await front.close();

  const mb = (after.ownMb - alone.ownMb) / (count - 1);
  const share = (after.cpuMs - before.cpuMs) / tookMs;
  const sleeps = ((after.sleeps - before.sleeps) / tookMs) * 10_000;
  const wakeups = (waits / restMs) * 10_000;
  const jobs = `${count.toLocaleString('en')} running jobs ${where}`;
  return [
    {
      what: `controller, memory for each of ${jobs}`,
      measured: `${mb.toFixed(3)} MB`,
      budget: `${mbMost} MB`,
      beside: `${after.ownMb.toFixed(0)} MB with all, ${alone.ownMb.toFixed(0)} MB with one`,
      isKept: mb <= mbMost,
    },
    {
      what: `controller at rest, ${jobs}`,
      measured: `${(share * 100).toFixed(2)} % of a core`,
      budget: `${coreMost * 100} %`,
      beside: `over ${(tookMs / 1_000).toFixed(0)} s`,
      isKept: share <= coreMost,
    },
    {
      what: `wakeups of the controller in 10 s, ${jobs}`,
      measured: wakeups.toFixed(2),
      budget: isJudged ? String(wakeupsMost) : '-',
      beside: isJudged
        ? `its thread stood still ${sleeps.toFixed(1)} times, the disk and the collector of garbage counted`
        : 'each job has a look due every ten seconds, and each line its pings',
      isKept: isJudged ? wakeups <= wakeupsMost + 0.05 : null,
    },
  ];
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
