// Detection, on the real clock with default settings: time until a job's history reports a silent host, and until a job
// acts on a preemption. The hosts are the TPU emulator's.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { report, waitFor, waitForCount, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';

const maxDetectionMs = 10_000;
const maxActionMs = 30_000;
/** Faults of one worker. A hung host keeps its connections; one without power does not close them either. */
const hostFaults = ['hang-host', 'kill-host'] as const;
const rounds = 5;
const preemptionCount = 20;

/** `at` is in ISO 8601. */
interface HistoryEvent {
  readonly seq: number;
  readonly kind: string;
  readonly at: string;
}

/** Returns the longest wait for each host fault, and the 99th percentile for preemptions. */
export async function measureDetection(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const fault of hostFaults) results.push(await withHome((home) => measureHostFault(home, fault)));
  results.push(await withHome(measurePreemptions));
  return results;
}

async function measureHostFault(home: Home, fault: (typeof hostFaults)[number]): Promise<Result> {
  const waits: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // A new job for each fault, so that no host is still recovering from the previous one.
    const id = String(round + 1);
    await create(home, 'v4-16');
    await waitForCount('jobs run', round + 1, () => running(home));
    // By now the connections are open, and the fault happens at some time between two checks.
    await sleep(5_000 + round * 3_700);
    const injectedAt = Date.now();
    await home.run(['emulator', fault, `${id}/1`]);
    waits.push((await firstEventAt(home, id, 'unreachable', injectedAt)) - injectedAt);
    report(`${fault}, round ${round + 1} of ${rounds}: ${formatSeconds(waits.at(-1))}`);
    await home.run(['emulator', 'start-host', `${id}/1`]);
  }
  return resultOf(`${fault} to the silence in the history`, waits, 1, maxDetectionMs);
}

async function measurePreemptions(home: Home): Promise<Result> {
  for (let index = 0; index < preemptionCount; index += 1) await create(home, 'v4-8');
  await waitForCount('jobs run', preemptionCount, () => running(home));
  const waits: number[] = [];
  for (let index = 0; index < preemptionCount; index += 1) {
    const id = String(index + 1);
    await sleep(700);
    const preemptedAt = Date.now();
    await home.run(['emulator', 'preempt', id]);
    // The controller applies the recovery rule in the same pass in which it releases the preempted TPU.
    waits.push((await firstEventAt(home, id, 'attempt_ending', preemptedAt)) - preemptedAt);
    report(`preemption ${index + 1} of ${preemptionCount}: ${formatSeconds(waits.at(-1))}`);
  }
  return resultOf(`preemption to action, ${preemptionCount} jobs`, waits, 0.99, maxActionMs);
}

function resultOf(name: string, waits: readonly number[], share: number, budgetMs: number): Result {
  const sorted = waits.toSorted((one, other) => one - other);
  const at = (part: number): number | undefined => sorted[Math.ceil((sorted.length - 1) * part)];
  return {
    name: share === 1 ? `${name}, longest of ${waits.length}` : `${name}, 99th percentile`,
    measured: formatSeconds(at(share)),
    budget: formatSeconds(budgetMs),
    comparison: `median ${formatSeconds(at(0.5))}`,
    isWithinBudget: (at(share) ?? Infinity) <= budgetMs,
  };
}

async function create(home: Home, accelerator: string): Promise<void> {
  const manifest = join(home.path, 'detection.yaml');
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

function firstEventAt(home: Home, id: string, kind: string, after: number): Promise<number> {
  return waitFor(
    `${kind} in the history of ${id}`,
    async () => {
      const lines = (await home.run(['history', id, '--json'])).trim().split('\n');
      const times = lines
        .map((line) => JSON.parse(line) as HistoryEvent)
        .filter((event) => event.kind === kind)
        .map((event) => Date.parse(event.at));
      return times.find((time) => time >= after);
    },
    60_000,
    500,
  );
}

function formatSeconds(ms: number | undefined): string {
  return ms === undefined ? '-' : `${(ms / 1_000).toFixed(1)} s`;
}
