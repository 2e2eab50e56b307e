// Local jobs: a thousand jobs of `true` on this machine, from the first create to the moment at which all are settled,
// with as many at once as there are cores. Three times, for the two cores may be shared; the median counts. Beside it, in
// the same run, what programs take that start the same thing and remember nothing or little: xargs, which is what the
// machine itself needs, and GNU parallel with a log of its jobs, where it is installed.

import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControllerService } from '../src/app/services.ts';
import { openFront } from './front.ts';
import { tell, waitForCount, withHome, type Home } from './home.ts';
import { usageOf, type Usage } from './machine.ts';
import type { Result } from './result.ts';

const count = 1_000;
const rounds = 3;
const mostMs = 40_000;
const createsMostMs = 10_000;

interface Round {
  readonly tookMs: number;
  readonly createdMs: number;
  /** Processor time of a job in the process that creates, and in the controller. */
  readonly createCpuMs: number;
  readonly controllerCpuMs: number;
}

export async function measureLocalJobs(): Promise<readonly Result[]> {
  const peers: string[] = [];
  const runs: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const run = await withHome(playRound);
    runs.push(run);
    tell(`round ${round + 1} of ${rounds}: ${seconds(run.tookMs)}`);
    if (round === 0) peers.push(...(await withHome(measurePeers)));
  }
  const [least, median, most] = runs.toSorted((a, b) => a.tookMs - b.tookMs);
  if (least === undefined || median === undefined || most === undefined) throw new Error('nothing was measured');
  return [
    {
      what: '1,000 local jobs of `true`, first create to all settled',
      measured: seconds(median.tookMs),
      budget: seconds(mostMs),
      beside:
        `median of ${rounds}, ${seconds(least.tookMs)} to ${seconds(most.tookMs)}; ${availableParallelism()} slots; ` +
        `published: Slurm 19 s, pueue 177 s; ${peers.join(', ')}; creates took ${seconds(median.createdMs)}; ` +
        `processor time a job: ${median.createCpuMs.toFixed(1)} ms to create, ` +
        `${median.controllerCpuMs.toFixed(1)} ms in the controller`,
      isKept: median.tookMs <= mostMs,
    },
  ];
}

async function playRound(home: Home): Promise<Round> {
  const manifest = join(home.path, 'true.yaml');
  writeFileSync(manifest, 'local: {}\ncommand:\n  run: "true"\n');
  const front = openFront(home);
  const began = Date.now();
  const cpu = process.cpuUsage();
  for (let index = 0; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
  const createdMs = Date.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  const controller = await home.controller();
  const client = await front.services.client();
  let last: Usage = usageOf(controller);
  // Seldom: the list of so many that are not settled takes a core for a while. The record knows when the last one settled.
  await waitForCount('jobs have settled', count, async () => {
    last = usageOf(controller);
    return (await client.list({ phases: ['succeeded'], all: true })).rows.length;
  });
  const { rows } = await client.list({ all: true });
  await front.close();
  return {
    tookMs: Math.max(...rows.map((row) => row.since)) - began,
    createdMs,
    createCpuMs: (user + system) / 1_000 / count,
    controllerCpuMs: last.cpuMs / count,
  };
}

/** How long others take to run as many scripts of `true` with bash, which is what a job's command is run with. */
function measurePeers(home: Home): Promise<readonly string[]> {
  const slots = String(availableParallelism());
  const input = Array.from({ length: count }, (_, index) => `${index}\n`).join('');
  const log = join(home.path, 'peer.log');
  const script = join(home.path, 'true.sh');
  writeFileSync(script, 'true\n');
  const peers: readonly (readonly [name: string, argv: readonly string[]])[] = [
    ['xargs', ['xargs', '-n', '1', '-P', slots, 'bash', script]],
    ['GNU parallel --joblog', ['parallel', '--will-cite', '--joblog', log, '-j', slots, 'bash', script]],
  ];
  const told = peers.map(([name, [program = '', ...words]]) => {
    const began = performance.now();
    const ended = spawnSync(program, words, {
      input,
      env: home.env as NodeJS.ProcessEnv,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    if (ended.error !== undefined) return `${name} is not here`;
    if (ended.status !== 0) throw new Error(`${name} ended with ${ended.status}`);
    return `${name} ${seconds(performance.now() - began)}`;
  });
  return Promise.resolve(told);
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/**
 * Creates: how long one process takes to make a thousand durable jobs, each from its manifest: read, checked, stored, its files
 * written. No controller runs meanwhile, so that only the making is measured.
 */
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
        budget: `${createsMostMs / 1_000} s`,
        beside: `${((user + system) / 1_000 / count).toFixed(1)} ms of processor time each`,
        isKept: tookMs <= createsMostMs,
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
