// Noticed: how long it takes, on the real clock and with the settings as they are, until the history of a job tells that a
// host of it fell silent, and until a job whose TPU was taken away acts on that. The hosts are those of the built-in cloud.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { tell, waitFor, waitForCount, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';

const silentMostMs = 10_000;
const actedMostMs = 30_000;
/** What strikes one worker, and how often. A hung host keeps its connections; one without power cuts none of them either. */
const strikes = ['hang-host', 'kill-host'] as const;
const rounds = 5;
const preempted = 20;

/** An event of a job's history; `at` is an instant in ISO 8601. */
interface Told {
  readonly seq: number;
  readonly kind: string;
  readonly at: string;
}

/** Resolves with the longest wait for each strike, and the 99th percentile for preemptions. */
export async function measureNoticed(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const strike of strikes) results.push(await withHome((home) => measureSilence(home, strike)));
  results.push(await withHome(measurePreempted));
  return results;
}

async function measureSilence(home: Home, strike: (typeof strikes)[number]): Promise<Result> {
  const waits: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // A job for each strike, so that no host is still recovering from the one before.
    const id = String(round + 1);
    await create(home, 'v4-16');
    await waitForCount('jobs run', round + 1, () => running(home));
    // Its lines stand, and it is somewhere between two looks.
    await sleep(5_000 + round * 3_700);
    const struckAt = Date.now();
    await home.run(['emulator', strike, `${id}/1`]);
    waits.push((await first(home, id, 'silent', struckAt)) - struckAt);
    tell(`${strike}, round ${round + 1} of ${rounds}: ${secondsText(waits.at(-1))}`);
    await home.run(['emulator', 'start-host', `${id}/1`]);
  }
  return resultOf(`${strike} to the silence in the history`, waits, 1, silentMostMs);
}

async function measurePreempted(home: Home): Promise<Result> {
  for (let index = 0; index < preempted; index += 1) await create(home, 'v4-8');
  await waitForCount('jobs run', preempted, () => running(home));
  const waits: number[] = [];
  for (let index = 0; index < preempted; index += 1) {
    const id = String(index + 1);
    await sleep(700);
    const struckAt = Date.now();
    await home.run(['emulator', 'preempt', id]);
    // The rule is applied in the pass that lets go of what the cloud has taken.
    waits.push((await first(home, id, 'attempt_ending', struckAt)) - struckAt);
    tell(`preemption ${index + 1} of ${preempted}: ${secondsText(waits.at(-1))}`);
  }
  return resultOf(`preemption to action, ${preempted} jobs`, waits, 0.99, actedMostMs);
}

function resultOf(what: string, waits: readonly number[], share: number, most: number): Result {
  const sorted = waits.toSorted((one, other) => one - other);
  const at = (part: number): number | undefined => sorted[Math.ceil((sorted.length - 1) * part)];
  return {
    what: share === 1 ? `${what}, longest of ${waits.length}` : `${what}, 99th percentile`,
    measured: secondsText(at(share)),
    budget: secondsText(most),
    beside: `median ${secondsText(at(0.5))}`,
    isKept: (at(share) ?? Infinity) <= most,
  };
}

async function create(home: Home, accelerator: string): Promise<void> {
  const manifest = join(home.path, 'noticed.yaml');
  writeFileSync(
    manifest,
    `tpu: {project: emulator, accelerator: ${accelerator}, zone: us-central2-b, pricing: spot}
command: {run: sleep 1000000}
`,
  );
  await home.run(['create', manifest, '--quiet']);
}

async function running(home: Home): Promise<number> {
  const lines = (await home.run(['list', '--json'])).trim().split('\n');
  return lines.filter((line) => line !== '' && (JSON.parse(line) as { phase: string }).phase === 'running').length;
}

/** When the first event of that kind after that moment happened. */
function first(home: Home, id: string, kind: string, after: number): Promise<number> {
  return waitFor(
    `${kind} in the history of ${id}`,
    async () => {
      const lines = (await home.run(['history', id, '--json'])).trim().split('\n');
      const moments = lines
        .map((line) => JSON.parse(line) as Told)
        .filter((event) => event.kind === kind)
        .map((event) => Date.parse(event.at));
      return moments.find((moment) => moment >= after);
    },
    60_000,
    500,
  );
}

function secondsText(ms: number | undefined): string {
  return ms === undefined ? '-' : `${(ms / 1_000).toFixed(1)} s`;
}
