// Takeover: the controller is killed, a program ends while nobody looks, and a person types the next command. How long it
// takes from that command until the new controller has everything in hand: the end of the program is in the record, and
// the new job runs. The other jobs go on meanwhile and are found running.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openFront } from './front.ts';
import { waitFor, withHome } from './home.ts';
import { isRunning } from './machine.ts';
import { endProgram, endPrograms } from './programs.ts';
import type { Result } from './result.ts';

const count = 100;
const rounds = 7;
const mostMs = 2_000;

export function measureTakeover(): Promise<readonly Result[]> {
  return withHome(
    async (home) => {
      const manifest = join(home.path, 'sleep.yaml');
      writeFileSync(manifest, 'local: {}\ncommand:\n  run: exec sleep 1000000\n');
      const front = openFront(home);
      try {
        for (let index = 0; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
        const client = await front.services.client();
        const idsOf = async (phase: 'running' | 'failed'): Promise<readonly string[]> =>
          (await client.list({ phases: [phase], all: true })).rows.map((row) => row.id);
        await waitFor('all jobs to run', async () => ((await idsOf('running')).length === count ? true : undefined));
        const times: number[] = [];
        for (let round = 0; round < rounds; round += 1) {
          const controller = await home.controller();
          process.kill(controller, 'SIGKILL');
          await waitFor('the controller to be gone', () => (isRunning(controller) ? undefined : true));
          const [victim = ''] = await idsOf('running');
          endProgram(home, victim);
          const began = performance.now();
          const id = (await home.run(['create', manifest, '--quiet'])).trim();
          await waitFor(
            'full control',
            async () => {
              const [failed, running] = [await idsOf('failed'), await idsOf('running')];
              return failed.includes(victim) && running.includes(id) && running.length === count ? true : undefined;
            },
            60_000,
            10,
          );
          times.push(performance.now() - began);
        }
        await front.close();
        times.sort((a, b) => a - b);
        const median = times[Math.floor(rounds / 2)] ?? Number.NaN;
        const longest = times.at(-1) ?? Number.NaN;
        return [
          {
            what: `kill -9 of the controller to full control by the next command, ${count} running jobs`,
            measured: `${(longest / 1_000).toFixed(2)} s`,
            budget: `${mostMs / 1_000} s`,
            beside: `the longest of ${rounds}; median ${(median / 1_000).toFixed(2)} s`,
            isKept: longest <= mostMs,
          },
        ];
      } finally {
        endPrograms(home);
      }
    },
    { local: { slots: 2 * count } },
  );
}
