// Setup: a step that only waits, on 64 workers and on one of the built-in cloud. The workers go side by side, so many should
// take as long as one; what is more is what the controller, 64 logins and 64 shells cost on this machine.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';

const waitSeconds = 20;
const ratioMost = 1.5;

/** Resolves with how long 64 workers took beside one. */
export async function measureSetup(): Promise<readonly Result[]> {
  const one = await withHome((home) => setupMs(home, 'v4-8'));
  const many = await withHome((home) => setupMs(home, 'v4-512'));
  const ratio = many / one;
  return [
    {
      what: `a setup step that waits ${waitSeconds} s, on 64 workers beside one`,
      measured: `${ratio.toFixed(2)} times`,
      budget: `${ratioMost} times`,
      beside: `${(many / 1_000).toFixed(1)} s and ${(one / 1_000).toFixed(1)} s from ready to started`,
      isKept: ratio <= ratioMost,
    },
  ];
}

/** From the first look that saw the TPU ready to the start of its command, by the job's own history. */
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
