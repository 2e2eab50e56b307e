// Local jobs: a thousand jobs of `true`, one per core at a time, from the first create until all are finished. The
// median of three runs counts, because other programs share the cores. Compared with programs that start the same
// commands: xargs, which records nothing and shows the machine's own share, and GNU parallel with a job log, where it
// is installed.

import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControllerService } from '../src/app/services.ts';
import { openInProcessCli } from './in-process-cli.ts';
import { report, waitForCount, withHome, type Home } from './home.ts';
import { usageOf, type Usage } from './machine.ts';
import type { Result } from './result.ts';

const count = 1_000;
const rounds = 3;
const maxMs = 40_000;
const maxCreatesMs = 10_000;

interface Round {
  readonly tookMs: number;
  readonly createdMs: number;
  /** Processor time per job in the creating process and in the controller. */
  readonly createCpuMs: number;
  readonly controllerCpuMs: number;
}

export async function measureLocalJobs(): Promise<readonly Result[]> {
  const peers: string[] = [];
  const runs: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const run = await withHome(runRound);
    runs.push(run);
    report(`round ${round + 1} of ${rounds}: ${seconds(run.tookMs)}`);
    if (round === 0) peers.push(...(await withHome(measurePeers)));
  }
  const [fastest, median, slowest] = runs.toSorted((a, b) => a.tookMs - b.tookMs);
  if (fastest === undefined || median === undefined || slowest === undefined) throw new Error('nothing was measured');
  return [
    {
      name: '1,000 local jobs of `true`, first create to all finished',
      measured: seconds(median.tookMs),
      budget: seconds(maxMs),
      comparison:
        `median of ${rounds}, ${seconds(fastest.tookMs)} to ${seconds(slowest.tookMs)}; ${availableParallelism()} slots; ` +
        `published: Slurm 19 s, pueue 177 s; ${peers.join(', ')}; creates took ${seconds(median.createdMs)}; ` +
        `processor time a job: ${median.createCpuMs.toFixed(1)} ms to create, ` +
        `${median.controllerCpuMs.toFixed(1)} ms in the controller`,
      isWithinBudget: median.tookMs <= maxMs,
    },
  ];
}

async function runRound(home: Home): Promise<Round> {
  const manifest = join(home.path, 'true.yaml');
  writeFileSync(manifest, 'local: {}\ncommand:\n  run: "true"\n');
  const cli = openInProcessCli(home);
  const began = Date.now();
  const cpu = process.cpuUsage();
  for (let index = 0; index < count; index += 1) await cli.run(['create', manifest, '--quiet']);
  const createdMs = Date.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  const controller = await home.controller();
  const client = await cli.services.client();
  let last: Usage = usageOf(controller);
  // Count rarely: a list of so many unfinished jobs takes a core for a while. The store has the exact time.
  await waitForCount('jobs have finished', count, async () => {
    last = usageOf(controller);
    return (await client.list({ phases: ['succeeded'], all: true })).rows.length;
  });
  const { rows } = await client.list({ all: true });
  await cli.close();
  return {
    tookMs: Math.max(...rows.map((row) => row.phaseStartedAt)) - began,
    createdMs,
    createCpuMs: (user + system) / 1_000 / count,
    controllerCpuMs: last.cpuMs / count,
  };
}

/** Uses bash, because it runs a job's command too. */
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
  const results = peers.map(([name, [program = '', ...args]]) => {
    const began = performance.now();
    const ended = spawnSync(program, args, {
      input,
      env: home.env as NodeJS.ProcessEnv,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    if (ended.error !== undefined) return `${name} is not here`;
    if (ended.status !== 0) throw new Error(`${name} ended with ${ended.status}`);
    return `${name} ${seconds(performance.now() - began)}`;
  });
  return Promise.resolve(results);
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** Creates a thousand durable jobs in one process. No controller runs, so that only the creation is measured. */
export function measureCreates(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    const manifest = join(home.path, 'true.yaml');
    writeFileSync(manifest, 'local: {}\ncommand:\n  run: "true"\n');
    const cli = openInProcessCli(home, { controller: () => Promise.resolve(idleController) });
    const began = performance.now();
    const cpu = process.cpuUsage();
    for (let index = 0; index < count; index += 1) await cli.run(['create', manifest, '--quiet']);
    const { user, system } = process.cpuUsage(cpu);
    const tookMs = performance.now() - began;
    const list = await cli.run(['list', '--all', '--json']);
    await cli.close();
    const made = list.trim().split('\n').length;
    if (made !== count) throw new Error(`${count} jobs were created and ${made} are listed`);
    return [
      {
        name: '1,000 creates through one process',
        measured: `${(tookMs / 1_000).toFixed(1)} s`,
        budget: `${maxCreatesMs / 1_000} s`,
        comparison: `${((user + system) / 1_000 / count).toFixed(1)} ms of processor time each`,
        isWithinBudget: tookMs <= maxCreatesMs,
      },
    ];
  });
}

/** A controller that runs and does nothing. */
const idleController: ControllerService = {
  run: () => Promise.reject(new Error('must not start')),
  start: () => Promise.resolve({ started: false, pid: 1 }),
  stop: () => Promise.resolve({ stopped: false }),
  held: () => Promise.resolve(null),
  reload: () => Promise.resolve(),
  status: () =>
    Promise.resolve({
      running: true,
      pid: 1,
      version: null,
      isServer: false,
      isOutdated: false,
      startedAt: null,
      otherDatabase: null,
      silentSinceAt: null,
      waitsFor: null,
      logFile: '',
    }),
  install: () => Promise.reject(new Error('must not be installed')),
  uninstall: () => Promise.reject(new Error('must not be installed')),
};
