// At rest: memory, processor time and wakeups of the real controller while jobs run and nothing happens.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openInProcessCli } from './in-process-cli.ts';
import { pause, report, root, waitForCount, withCleanUp, withHome, type Home } from './home.ts';
import { usageOf } from './machine.ts';
import type { Result } from './result.ts';

/** Time for start effects to end: one or two lease renewals, and the garbage collector. */
const settlingMs = 20_000;
const restMs = 60_000;
const maxMb = 0.5;
const maxWakeups = 1;

/** Jobs on this machine, or on TPUs of the TPU emulator, reached over SSH like real ones. */
interface Case {
  readonly where: string;
  readonly manifest: string;
  readonly maxCoreShare: number;
  /** Starts the emulator with simulated hosts first. Their connections send pings, so wakeups have no budget. */
  readonly isSimulated: boolean;
}

const count = 1_000;
const cases: readonly Case[] = [
  { where: 'on this machine', manifest: 'local: {}\n', maxCoreShare: 0.05, isSimulated: false },
  {
    where: 'on simulated TPU hosts',
    manifest: 'tpu:\n  project: emulator\n  accelerator: v4-8\n  zone: us-central2-b\n  pricing: spot\n',
    maxCoreShare: 0.1,
    isSimulated: true,
  },
];

export async function measureAtRest(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const restCase of cases) {
    const measure = (home: Home): Promise<readonly Result[]> => measureCase(home, restCase);
    results.push(
      ...(await withHome(restCase.isSimulated ? (home) => withSimulatedHosts(home, measure) : measure, {
        local: { slots: count },
      })),
    );
  }
  return results;
}

/** Real hosts would share this machine's two cores with what is measured. */
export async function withSimulatedHosts<T>(home: Home, measure: (home: Home) => Promise<T>): Promise<T> {
  const hosts = spawn(process.execPath, [join(root, 'bench/simulated-hosts.ts'), join(home.path, 'emulator')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return withCleanUp(
    () => void hosts.kill(),
    async () => {
      await once(hosts.stdout, 'data');
      // The controller would start an emulator with real hosts.
      const ended = once(hosts, 'exit').then(() => Promise.reject(new Error('the simulated hosts have ended')));
      return Promise.race([measure(home), ended]);
    },
  );
}

async function measureCase(
  home: Home,
  { where, manifest: capacity, maxCoreShare, isSimulated }: Case,
): Promise<readonly Result[]> {
  const manifest = join(home.path, 'sleep.yaml');
  writeFileSync(manifest, `${capacity}command:\n  run: exec sleep 1000000\n`);
  const cli = openInProcessCli(home);
  await cli.run(['create', manifest, '--quiet']);
  const client = await cli.services.client();
  const running = async (): Promise<number> => (await client.list({ phases: ['running'] })).rows.length;
  await waitForCount('jobs run', 1, running);
  const pid = await home.controller();
  await pause(`one job ${where} comes to rest`, settlingMs);
  const alone = usageOf(pid);
  for (let index = 1; index < count; index += 1) await cli.run(['create', manifest, '--quiet']);
  await waitForCount(`jobs run ${where}`, count, running, 1_800_000);
  await pause('the effects of the start end', settlingMs);
  const before = usageOf(pid);
  const began = performance.now();
  await pause('nothing happens', restMs);
  const after = usageOf(pid);
  const tookMs = performance.now() - began;
  report('again, with its wakeups counted');
  // A separate measurement, because tracing takes time.
  const waits = await countWaits(pid, restMs);
  if ((await running()) !== count) throw new Error(`not all ${count} jobs still run`);
  await cli.close();

  const mb = (after.ownMb - alone.ownMb) / (count - 1);
  const share = (after.cpuMs - before.cpuMs) / tookMs;
  const voluntarySwitches = ((after.voluntarySwitches - before.voluntarySwitches) / tookMs) * 10_000;
  const wakeups = (waits / restMs) * 10_000;
  const jobs = `${count.toLocaleString('en')} running jobs ${where}`;
  return [
    {
      name: `controller, memory per job of ${jobs}`,
      measured: `${mb.toFixed(3)} MB`,
      budget: `${maxMb} MB`,
      comparison: `${after.ownMb.toFixed(0)} MB with all, ${alone.ownMb.toFixed(0)} MB with one`,
      isWithinBudget: mb <= maxMb,
    },
    {
      name: `controller at rest, ${jobs}`,
      measured: `${(share * 100).toFixed(2)} % of a core`,
      budget: `${maxCoreShare * 100} %`,
      comparison: `over ${(tookMs / 1_000).toFixed(0)} s`,
      isWithinBudget: share <= maxCoreShare,
    },
    {
      name: `wakeups of the controller in 10 s, ${jobs}`,
      measured: wakeups.toFixed(2),
      budget: isSimulated ? '-' : String(maxWakeups),
      comparison: isSimulated
        ? 'each job has a check every minute, and each connection a ping every three seconds'
        : `its thread waited ${voluntarySwitches.toFixed(1)} times, including disk and garbage collection`,
      isWithinBudget: isSimulated ? null : wakeups <= maxWakeups + 0.05,
    },
  ];
}

/** Number of waits of the process in that time; each wait ends in one wakeup. */
async function countWaits(pid: number, lengthMs: number): Promise<number> {
  const strace = spawn('strace', ['-p', String(pid), '-e', 'trace=epoll_wait,epoll_pwait'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let trace = '';
  strace.stderr.setEncoding('utf8').on('data', (text: string) => (trace += text));
  const ended = new Promise<void>((resolve, reject) => {
    strace.on('error', (error) => reject(new Error('wakeups are counted with strace', { cause: error })));
    strace.on('close', () => resolve());
  });
  await Promise.race([sleep(lengthMs), ended]);
  strace.kill('SIGINT');
  await ended;
  // epoll_pwait(13, [], 1024, 9996, NULL, 8) = 0: the fourth argument is the longest wait in ms; 0 does not wait.
  const waits = [...trace.matchAll(/^epoll_p?wait\(\d+, .*, \d+, (-?\d+)(?:,.*)?\) = \d+$/gm)];
  return waits.filter(([, timeout]) => timeout !== '0').length;
}
