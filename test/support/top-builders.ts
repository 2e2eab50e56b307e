// Sample rows of `top` for tests.

import type { JobActivity } from '../../src/app/activity.ts';
import type { MeasuredWorker } from '../../src/app/top.ts';
import type { WorkerFigures } from '../../src/app/worker-figures.ts';
import { jobView, now } from '../cli/support/harness.ts';

/** The job 000042, which runs on two workers of a v5litepod-16. */
export function jobActivity(overrides: Partial<JobActivity> = {}): JobActivity {
  const view = jobView();
  const row: JobActivity = {
    id: view.id,
    name: view.name,
    owner: view.owner,
    backend: view.backend,
    accelerator: view.accelerator,
    pricing: view.pricing,
    zone: view.zone,
    hosts: view.hosts,
    worker0Address: view.worker0Address,
    phase: view.phase,
    heldCapacity: view.heldCapacity,
    message: view.message,
    desired: view.desired,
    stage: view.stage,
    attempt: view.attempt,
    attemptEnds: view.attemptEnds,
    attention: view.attention,
    tags: view.tags,
    overrides: view.overrides,
    createdAt: view.createdAt,
    phaseStartedAt: view.phaseStartedAt,
    pricePerHourUsd: view.pricePerHourUsd,
    simulated: view.simulated,
    allocation: 3,
    isRunning: true,
    tpus: [
      {
        name: 'vit-000042-3',
        project: 'lab',
        zone: 'us-west4-a',
        accelerator: 'v5litepod-16',
        chips: 16,
        pricing: 'spot',
        ownership: 'ephemeral',
        state: 'READY',
        pricePerHourUsd: 7.68,
        readyAt: now - 3_600_000,
        idleSinceAt: null,
      },
    ],
    workers: [0, 1].map((worker) => ({
      worker,
      address: `10.164.0.${7 + worker}`,
      message: 'running',
      logAt: now - 4_000 * (worker + 1),
      lastLine: `step ${40_210 - worker} loss 2.114`,
    })),
    step: 40_209,
    stepsPerSecond: 1.16,
  };
  return { ...row, ...overrides };
}

/** A worker that has just answered. */
export function measuredWorker(
  figures: Partial<WorkerFigures> = {},
  others: Partial<Omit<MeasuredWorker, 'figures'>> = {},
): MeasuredWorker {
  const gigabyte = 1_000_000_000;
  return {
    figures: {
      program: 'running',
      cpuPercent: 31,
      memoryUsedBytes: 44 * gigabyte,
      memoryTotalBytes: 100 * gigabyte,
      diskUsedBytes: 20 * gigabyte,
      diskTotalBytes: 100 * gigabyte,
      receivedBytesPerSecond: 1_200_000,
      sentBytesPerSecond: 300_000,
      dutyPercent: 93,
      programCpuPercent: 25,
      programMemoryBytes: 10 * gigabyte,
      ...figures,
    },
    measuredAt: now - 2_000,
    silentSinceAt: null,
    message: null,
    ...others,
  };
}
