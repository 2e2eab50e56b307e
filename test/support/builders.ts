// Sample jobs for tests: specs, allocations and attempts with every field, and overrides for a test.

import type { Orphan } from '../../src/app/ports.ts';
import type { WorkerTicket } from '../../src/app/worker-access.ts';
import type { ObservedTpu } from '../../src/app/tpus.ts';
import { plannedAllocation } from '../../src/core/decide/allocate.ts';
import { newJob, withLifecycle } from '../../src/core/model/job.ts';
import type { Allocation, AllocationFields, Attempt, Ending, Job } from '../../src/core/model/job.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { presets } from '../../src/core/policy/presets.ts';
import type { JobSpec, Pricing, TpuSpec } from '../../src/core/model/spec.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import type { UsageRow } from '../../src/reports/usage.ts';

export const noon = Date.UTC(2026, 10, 20, 12);

/** A member with a login of the same name. */
export function aMember(user: string, changes: Partial<Actor> = {}): Actor {
  return { user, role: 'member', via: 'local', logins: [user], ...changes };
}

/** A job on this machine. */
export function localSpec(changes: Partial<JobSpec> = {}): JobSpec {
  return {
    version: 2,
    name: 'iris',
    tags: [],
    capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] },
    steps: [],
    command: {
      script: 'python3 train.py',
      runsOn: 'workers',
      workers: 'all',
      env: {},
      workdir: null,
      checkpointDir: null,
    },
    recovery: {
      preset: 'pass',
      rules: [],
      budget: { preemptions: 100, failures: 3, setupFailures: 3 },
      delayMs: 10 * second,
      delayMaxMs: 10 * minute,
      unreachableGraceMs: 3 * minute,
    },
    limits: { maxRuntimeMs: null, silenceTimeoutMs: null, capacityWaitMs: null, setupTries: 3 },
    stop: { signal: 'TERM', graceMs: 30 * second },
    finish: { capacity: 'release', keepForMs: null },
    ...changes,
  };
}

/** A spot TPU of two workers, created for one job. */
export function tpuCapacity(changes: Partial<TpuSpec> = {}): TpuSpec {
  return {
    kind: 'tpu',
    ownership: 'ephemeral',
    mode: 'tpu-vm',
    project: 'p',
    zone: 'us-central2-b',
    accelerator: 'v4-16',
    name: 'iris',
    runtimeVersion: 'tpu-ubuntu2204-base',
    pricing: 'spot',
    startupScript: null,
    networkTags: [],
    metadata: {},
    remoteUser: null,
    privateKey: null,
    pricePerHourUsd: null,
    ...changes,
  };
}

/** A job on a spot TPU with 4 dollars an hour, and these steps and rules. */
export function tpuSpec(changes: Partial<JobSpec> = {}, capacity: Partial<TpuSpec> = {}): JobSpec {
  return localSpec({
    name: 'vit',
    capacity: tpuCapacity({
      mode: 'queued-resources',
      project: 'lab',
      zone: 'us-west4-a',
      accelerator: 'v5litepod-16',
      name: 'vit',
      startupScript: 'echo booted',
      metadata: { note: 'kept' },
      pricePerHourUsd: 4,
      ...capacity,
    }),
    steps: [
      { name: 'ssh', key: 'ssh-1', check: null, apply: 'true', files: [], timeoutMs: minute },
      {
        name: 'docker',
        key: 'docker-1',
        check: 'command -v docker',
        apply: 'install docker',
        files: [],
        timeoutMs: hour,
      },
    ],
    recovery: {
      preset: 'pre',
      rules: [
        { reason: 'preempted', answer: { then: 'resume', on: 'new' } },
        { reason: 'unreachable', answer: { then: 'resume', on: 'same' } },
        { reason: 'succeeded', answer: { then: 'done', on: 'same' } },
      ],
      budget: { preemptions: 100, failures: 3, setupFailures: 3 },
      delayMs: 10 * second,
      delayMaxMs: 10 * minute,
      unreachableGraceMs: 3 * minute,
    },
    ...changes,
  });
}

/** A job in the simulator's own zone, where no request is refused, with the rules of `pre` and a short delay. */
export function simulatedSpec(name: string, pricing: Pricing = 'ondemand'): JobSpec {
  const plain = localSpec();
  return {
    ...plain,
    name,
    capacity: tpuCapacity({
      project: 'simulated',
      zone: 'simulated-a',
      accelerator: 'v4-8',
      name,
      runtimeVersion: 'base',
      pricing,
      pricePerHourUsd: 1,
    }),
    recovery: { ...plain.recovery, preset: 'pre', rules: presets.pre, delayMaxMs: minute },
  };
}

/** A new job of that spec, created at noon by ada. */
export function aJob(spec: JobSpec = tpuSpec(), changes: Partial<Job> = {}): Job {
  return { ...newJob({ id: '000042', installation: 'abc123', owner: 'ada', spec, at: noon }).job, ...changes };
}

/** The job with these allocations and attempts, after its start request. */
export function withAttempts(
  job: Job,
  allocations: readonly Partial<AllocationFields>[],
  attempts: readonly Partial<Attempt>[],
): Job {
  return {
    ...job,
    startRequest: null,
    allocations: allocations.map((changes, index) => allocationOf(job, index + 1, changes)),
    attempts: attempts.map((changes, index) => attemptOf(index + 1, changes)),
  };
}

/** An allocation that was requested at noon and not observed yet. */
export function allocationOf(job: Job, ordinal: number, changes: Partial<AllocationFields> = {}): Allocation {
  const { capacity } = job.spec;
  return withLifecycle({
    ...plannedAllocation(job.spec, job.id, ordinal),
    name: capacity.kind === 'tpu' ? `${capacity.name}-${job.id}-${ordinal}` : 'this machine',
    requestedAt: noon,
    ...changes,
  });
}

/** The fields of an allocation that became ready a minute after noon, with four workers. */
export const readyAllocation: Partial<AllocationFields> = {
  confirmedAt: noon,
  readyAt: noon + minute,
  workers: 4,
  lastObserved: { state: 'ready', detail: 'READY', at: noon + minute },
  hosts: [0, 1, 2, 3].map((worker) => ({ internalIp: `10.0.0.${worker}`, externalIp: `192.0.2.${worker}` })),
};

/** An attempt that was created at noon and has not started. */
export function attemptOf(ordinal: number, changes: Partial<Attempt> = {}): Attempt {
  return {
    ordinal,
    stage: ordinal - 1,
    startMode: ordinal === 1 ? 'fresh' : 'resume',
    startedByOwner: ordinal === 1,
    allocation: ordinal,
    createdAt: noon,
    notBeforeAt: noon,
    failures: [],
    startedAt: null,
    runningAt: null,
    ending: null,
    endedAt: null,
    ...changes,
  };
}

/** The fields of an attempt that started two minutes after noon. */
export const runningAttempt: Partial<Attempt> = { startedAt: noon + minute, runningAt: noon + 2 * minute };

/** The fields of an attempt that ended for that reason, by default an hour after noon. */
export function endedAttempt(
  reason: Ending['reason'],
  evidence: Ending['evidence'],
  at: number = noon + 60 * minute,
): Partial<Attempt> {
  return { ending: { reason, evidence, startedAt: at, stopRequestedAt: null, stopConfirmedBy: [] }, endedAt: at };
}

/** A node that Google lists: a ready v5litepod-16 without a job. */
export function observedTpu(name: string, fields: Partial<ObservedTpu> = {}): ObservedTpu {
  return {
    project: 'lab',
    zone: 'us-west4-a',
    name,
    resource: `projects/lab/locations/us-west4-a/nodes/${name}`,
    nodeState: 'READY',
    queuedResourceState: null,
    accelerator: 'v5litepod-16',
    pricing: 'spot',
    nodeCount: 1,
    label: null,
    sharedByInstallation: null,
    metadataOwner: null,
    createdAt: noon - 10 * hour,
    ...fields,
  };
}

/** A TPU with the label of the job 000007, which does not claim it. */
export const anOrphan: Orphan = {
  backend: 'tpu',
  resource: 'projects/p/n',
  installation: 'abc123',
  job: '000007',
  allocation: 1,
  state: 'READY',
};

/** An hour of useful work on a spot TPU of 16 chips for $8, from midnight of that day. */
export function usageRow(fields: Partial<UsageRow> = {}): UsageRow {
  const from = noon - 12 * hour;
  return {
    job: '000001',
    uid: null,
    source: 'tpu',
    allocation: 1,
    name: 'vit-000001-1',
    owner: 'ada',
    jobName: 'vit',
    tags: [],
    project: 'lab',
    location: 'us-west4-a',
    accelerator: 'v5litepod-16',
    pricing: 'spot',
    chips: 16,
    ownership: 'ephemeral',
    use: 'useful',
    attempt: 1,
    from,
    until: from + hour,
    pricePerHourUsd: 8,
    pricesOf: '2026-08-01',
    simulated: false,
    ...fields,
  };
}

export function aTicket(workers: number, changes: Partial<WorkerTicket> = {}): WorkerTicket {
  return { job: '000042', allocation: 1, workers, container: null, logins: null, ...changes };
}
