// Activity: what each active job holds and does, from the store and from the copies of its logs. Nothing remote is
// observed, and nothing is written.

import { chipCount } from '../catalogue/accelerators.ts';
import {
  capacityOf,
  heldAllocations,
  isLost,
  lastAttempt,
  openAttempt,
  type Allocation,
  type Job,
} from '../core/model/job.ts';
import type { Pricing, WorkerId } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { Actor } from '../core/model/user.ts';
import { permissionOf } from '../core/policy/permissions.ts';
import type { JobRow } from './client.ts';
import { workerViews } from './logs.ts';
import type { JobFiles, Store } from './ports.ts';
import { mapConcurrent } from './concurrency.ts';
import { createEndReader } from './file-ends.ts';
import { currentPaceOf } from './progress.ts';
import { maxFinishedJobs, usageOf } from './tpus.ts';
import { jobRow, priceOf } from './views.ts';

/** A TPU that a job holds or waits for. */
export interface JobTpu {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly accelerator: string;
  /** Of all its nodes; null for a type that jobman does not know. */
  readonly chips: number | null;
  readonly pricing: Pricing;
  /** `ephemeral`: released with the job. `persistent`: it existed before the job and stays after it. */
  readonly ownership: Allocation['ownership'];
  /** Its state at the newest check, that of the cloud if it has one; null before the first check. */
  readonly state: string | null;
  /** Estimated dollars per hour of all its nodes; null without a known price. */
  readonly pricePerHourUsd: number | null;
  /** Null while the job waits for it. */
  readonly readyAt: Instant | null;
  /** Since when it is ready without a command; null while it is in use or not ready. */
  readonly idleSinceAt: Instant | null;
}

/** A worker of the newest attempt. */
interface WorkerActivity {
  readonly worker: WorkerId;
  readonly address: string | null;
  /** Its state, for people. */
  readonly message: string;
  /** Time of the newest output; null without any. */
  readonly logAt: Instant | null;
  readonly lastLine: string | null;
}

/** An unfinished job, or a finished one that still holds capacity. */
export interface JobActivity extends JobRow {
  /** Of the newest attempt; null without one. */
  readonly allocation: number | null;
  /** True while the command of the newest attempt runs, so that its workers can be measured. */
  readonly isRunning: boolean;
  readonly tpus: readonly JobTpu[];
  readonly workers: readonly WorkerActivity[];
  /** The count of the slowest worker in the program's own output, for example its step; null without one. */
  readonly step: number | null;
  readonly stepsPerSecond: number | null;
}

const maxConcurrent = 16;

/** The jobs that the actor may read, newest first. */
export async function activeJobs(
  {
    store,
    files,
    now,
  }: {
    readonly store: Store;
    readonly files: JobFiles;
    readonly now: () => Instant;
  },
  actor: Actor,
): Promise<readonly JobActivity[]> {
  const { jobs } = await store.list({ maxFinished: maxFinishedJobs });
  const active = jobs
    .filter((job) => job.finish === null || heldAllocations(job).length > 0)
    .filter((job) => permissionOf(actor, job, 'read') === 'allow');
  await mapConcurrent(active, maxConcurrent, (job) => files.refresh(job).catch(() => undefined));
  return active.map((job) => activityOf(files, job, now())).toSorted((one, other) => Number(other.id) - Number(one.id));
}

function activityOf(files: JobFiles, job: Job, now: Instant): JobActivity {
  const row = jobRow(job, now);
  const attempt = lastAttempt(job);
  const isRunning = row.phase === 'running' && attempt?.ending === null && attempt.runningAt !== null;
  const read = createEndReader(files, job);
  const pace = isRunning ? currentPaceOf(job, read) : { step: null, stepsPerSecond: null };
  return {
    ...row,
    allocation: attempt?.allocation ?? null,
    isRunning,
    tpus: tpusOf(job),
    workers: (isRunning ? workerViews(job, now, read) : []).map(({ logAgeMs, ...worker }) => ({
      ...worker,
      logAt: logAgeMs === null ? null : now - logAgeMs,
    })),
    ...pace,
  };
}

function tpusOf(job: Job): readonly JobTpu[] {
  const used = openAttempt(job)?.allocation;
  const held = heldAllocations(job);
  const open = job.allocations.filter((one) => one.ordinal === used && one.goneAt === null && !held.includes(one));
  return [...held, ...open].flatMap((allocation) => tpuOf(job, allocation));
}

function tpuOf(job: Job, allocation: Allocation): readonly JobTpu[] {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind !== 'tpu' || allocation.releasedAt !== null || isLost(allocation)) return [];
  const { project, zone, accelerator, nodeCount, pricing } = capacity;
  const { readyAt, name, ownership, lastObserved } = allocation;
  const usage = usageOf(job, name);
  return [
    {
      name,
      project,
      zone,
      accelerator,
      chips: chipCount(accelerator, nodeCount),
      pricing,
      ownership,
      state: lastObserved?.detail ?? null,
      pricePerHourUsd: priceOf(job, allocation),
      readyAt,
      idleSinceAt: readyAt === null || usage?.isBusy === true ? null : (usage?.lastEndedAt ?? readyAt),
    },
  ];
}
