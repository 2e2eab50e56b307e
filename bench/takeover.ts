// Takeover: the controller is killed, a program ends meanwhile, and the user runs the next command. Measures the time
// from that command until the new controller has stored the end and the new job runs. The other programs continue.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../src/app/client.ts';
import { openInProcessCli } from './in-process-cli.ts';
import { killProgram, report, waitFor, waitForCount, withHome, type Home } from './home.ts';
import { isRunning } from './machine.ts';
import type { Result } from './result.ts';

const counts = [100, 1_000];
const rounds = 7;
const maxMs = 2_000;

export async function measureTakeover(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const count of counts) {
    // Slots for the jobs and one new job per round.
    results.push(await withHome((home) => measureWith(home, count), { local: { slots: count + rounds } }));
  }
  return results;
}

async function measureWith(home: Home, count: number): Promise<Result> {
  const manifest = join(home.path, 'sleep.yaml');
  writeFileSync(manifest, 'local: {}\ncommand:\n  run: exec sleep 1000000\n');
  const cli = openInProcessCli(home);
  for (let index = 0; index < count; index += 1) await cli.run(['create', manifest, '--quiet']);
  const client = await cli.services.client();
  await waitForCount('jobs run', count, async () => (await idsRunning(client)).length);
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const controller = await home.controller();
    process.kill(controller, 'SIGKILL');
    await waitFor('the end of the controller', () => (isRunning(controller) ? undefined : true));
    const [victim = ''] = await idsRunning(client);
    killProgram(home, victim);
    const began = performance.now();
    const id = (await home.run(['create', manifest, '--quiet'])).trim();
    const isIn = async (job: string, phase: string): Promise<boolean> => (await client.show(job)).phase === phase;
    await waitFor(
      'full control',
      async () => ((await isIn(victim, 'failed')) && (await isIn(id, 'running')) ? true : undefined),
      60_000,
      10,
    );
    const tookMs = performance.now() - began;
    times.push(tookMs);
    report(`${count} jobs, round ${round + 1} of ${rounds}: ${(tookMs / 1_000).toFixed(2)} s`);
    const running = await idsRunning(client);
    if (running.length !== count) throw new Error(`${running.length} jobs run, not ${count}`);
  }
  await cli.close();
  times.sort((a, b) => a - b);
  const median = times[Math.floor(rounds / 2)] ?? Number.NaN;
  const longest = times.at(-1) ?? Number.NaN;
  return {
    name: `kill -9 of the controller to full control by the next command, ${count} running jobs`,
    measured: `${(longest / 1_000).toFixed(2)} s`,
    budget: `${maxMs / 1_000} s`,
    comparison: `the longest of ${rounds}; median ${(median / 1_000).toFixed(2)} s`,
    isWithinBudget: longest <= maxMs,
  };
}

async function idsRunning(client: Client): Promise<readonly string[]> {
  return (await client.list({ phases: ['running'], all: true })).rows.map((row) => row.id);
}
