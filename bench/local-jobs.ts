// Local jobs: a thousand jobs of `true` on this machine, from the first create to the moment at which all are settled,
// with as many at once as there are cores.

import { availableParallelism } from 'node:os';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openFront } from './front.ts';
import { waitFor, withHome } from './home.ts';
import { usageOf } from './machine.ts';
import type { Result } from './result.ts';

const count = 1_000;
const mostMs = 40_000;

export function measureLocalJobs(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    const manifest = join(home.path, 'true.yaml');
    writeFileSync(manifest, 'local: {}\ncommand:\n  run: "true"\n');
    const front = openFront(home);
    const began = performance.now();
    const cpu = process.cpuUsage();
    for (let index = 0; index < count; index += 1) await front.say(['create', manifest, '--quiet']);
    const createdMs = performance.now() - began;
    const { user, system } = process.cpuUsage(cpu);
    const controller = await home.controller();
    const client = await front.services.client();
    let last = usageOf(controller);
    await waitFor(
      'all jobs to settle',
      async () => {
        const { rows } = await client.list({});
        last = usageOf(controller);
        return rows.every((row) => row.phase === 'succeeded') ? true : undefined;
      },
      600_000,
      100,
    );
    const tookMs = performance.now() - began;
    const { rows } = await client.list({ all: true });
    await front.close();
    if (rows.length !== count || rows.some((row) => row.phase !== 'succeeded'))
      throw new Error('not every job succeeded');
    return [
      {
        what: '1,000 local jobs of `true`, first create to all settled',
        measured: `${(tookMs / 1_000).toFixed(1)} s`,
        budget: `${mostMs / 1_000} s`,
        beside:
          `${availableParallelism()} slots; Slurm 19 s, pueue 177 s; creates took ${(createdMs / 1_000).toFixed(1)} s; ` +
          `processor time a job: ${((user + system) / 1_000 / count).toFixed(1)} ms to create, ` +
          `${(last.cpuMs / count).toFixed(1)} ms in the controller`,
        isKept: tookMs <= mostMs,
      },
    ];
  });
}
