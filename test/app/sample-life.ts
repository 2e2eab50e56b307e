// Lives for tests: a job as a record that some passes have gone through, put together from its pieces.

import { newJob } from '../../src/core/create.ts';
import type { Allocation, Attempt, Ending, Job } from '../../src/core/job.ts';
import type { JobSpec } from '../../src/core/spec.ts';
import { minute } from '../../src/core/time.ts';
import { noon, tpuSpec } from '../store/sample-job.ts';

export { localSpec, noon, tpuSpec } from '../store/sample-job.ts';

/** A new job of that spec, made at noon by ada. */
export function aJob(spec: JobSpec = tpuSpec(), changes: Partial<Job> = {}): Job {
  return { ...newJob({ id: '000042', installation: 'abc123', owner: 'ada', spec, at: noon }).job, ...changes };
}

/** The job with these allocations and attempts, whose wish has been answered. */
export function living(
  job: Job,
  allocations: readonly Partial<Allocation>[],
  attempts: readonly Partial<Attempt>[],
): Job {
  return {
    ...job,
    wish: null,
    allocations: allocations.map((changes, index) => anAllocation(job, index + 1, changes)),
    attempts: attempts.map((changes, index) => anAttempt(index + 1, changes)),
  };
}

function anAllocation(job: Job, ordinal: number, changes: Partial<Allocation>): Allocation {
  const isLocal = job.spec.capacity.kind === 'local';
  return {
    ordinal,
    ownership: job.spec.capacity.ownership,
    name: isLocal ? 'this machine' : `vit-000042-${ordinal}`,
    requestedAt: noon,
    acceptedAt: null,
    requestFailures: 0,
    lastFailure: null,
    seen: null,
    readyAt: null,
    workers: null,
    hosts: null,
    missedAt: null,
    silentSince: null,
    silentWho: null,
    releasedAt: null,
    goneAt: null,
    ...changes,
  };
}

/** The fields of an allocation that has been ready since a minute after noon, with four workers. */
export const ready: Partial<Allocation> = {
  acceptedAt: noon,
  readyAt: noon + minute,
  workers: 4,
  seen: { state: 'ready', detail: 'READY', at: noon + minute },
  hosts: [0, 1, 2, 3].map((worker) => ({ internalIp: `10.0.0.${worker}`, externalIp: `192.0.2.${worker}` })),
};

function anAttempt(ordinal: number, changes: Partial<Attempt>): Attempt {
  return {
    ordinal,
    stage: ordinal - 1,
    how: ordinal === 1 ? 'fresh' : 'resume',
    asked: ordinal === 1,
    allocation: ordinal,
    createdAt: noon,
    notBefore: noon,
    stepFailures: {},
    startedAt: null,
    runningAt: null,
    ending: null,
    endedAt: null,
    ...changes,
  };
}

/** The fields of an attempt that has been running since two minutes after noon. */
export const running: Partial<Attempt> = { startedAt: noon + minute, runningAt: noon + 2 * minute };

/** The fields of an attempt that ended for that reason, an hour after noon when nothing else is said. */
export function ended(
  reason: Ending['reason'],
  evidence: Ending['evidence'],
  at: number = noon + 60 * minute,
): Partial<Attempt> {
  return { ending: { reason, evidence, since: at, stopAskedAt: null, told: [] }, endedAt: at };
}
