// Setup: a step that only waits, on 64 workers and on one worker of the TPU emulator. The workers run in parallel, so
// both should take the same time; the difference is the cost of the controller, 64 logins and 64 shells.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';

const waitSeconds = 20;
const maxRatio = 1.5;

export async function measureSetup(): Promise<readonly Result[]> {
  const one = await withHome((home) => setupMs(home, 'v4-8'));
  const many = await withHome((home) => setupMs(home, 'v4-512'));
  const ratio = many / one;
  return [
    {
      name: `a setup step that waits ${waitSeconds} s, on 64 workers and on one`,
      measured: `${ratio.toFixed(2)} times`,
      budget: `${maxRatio} times`,
      comparison: `${(many / 1_000).toFixed(1)} s and ${(one / 1_000).toFixed(1)} s from ready to started`,
      isWithinBudget: ratio <= maxRatio,
    },
  ];
}

/** Time in the job's history from the first observation of a ready TPU to the start of its command. */
async function setupMs(home: Home, accelerator: string): Promise<number> {
  const manifest = join(home.path, 'setup.yaml');
  writeFileSync(
    manifest,
    `job: {name: setup}
tpu: {project: emulator, accelerator: ${accelerator}, zone: us-central2-b, pricing: ondemand}
gcsfuse: {bucket_name: a-bucket, mount_path: ~/bucket, cache: {prefix: sleep ${waitSeconds}}}
command: {run: sleep 1000000}
`,
  );
  await home.run(['create', manifest]);
  return waitFor(
    `the command on ${accelerator} to start`,
    async () => {
      const lines = (await home.run(['history', '1', '--json'])).trim().split('\n');
      const events = lines.map((line) => JSON.parse(line) as { kind: string; state?: string; at: number | string });
      const at = (kind: string, state?: string): number | undefined => {
        const event = events.find((one) => one.kind === kind && one.state === state);
        return event === undefined ? undefined : new Date(event.at).getTime();
      };
      const ready = at('allocation_seen', 'ready');
      const started = at('attempt_started');
      return ready === undefined || started === undefined ? undefined : started - ready;
    },
    300_000,
    1_000,
  );
}
