// Rows and `why` answers, phase by phase. Each case is the state of a job and what people read about it.

import { formatStatus } from '../../src/app/format.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Why } from '../../src/app/client.ts';
import { allocationViews, jobRow, finalRows, maxReasonLength } from '../../src/app/views.ts';
import { whyOf } from '../../src/app/why.ts';
import { applyCommand } from '../../src/core/decide/commands.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Budget } from '../../src/core/decide/spending.ts';
import { withLifecycle, type Allocation, type Ending, type Job, type Finish } from '../../src/core/model/job.ts';
import type { Phase } from '../../src/core/decide/phase.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { presets } from '../../src/core/policy/presets.ts';
import {
  aJob,
  endedAttempt,
  withAttempts,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
} from '../support/builders.ts';

interface Case {
  readonly life: string;
  /** Default: a TPU job. */
  readonly spec?: JobSpec;
  readonly changes?: Partial<Job>;
  /** Default: one that is ready. */
  readonly allocations?: Parameters<typeof withAttempts>[1];
  /** Default: one that has not started; with an empty list, the job is new. */
  readonly attempts?: Parameters<typeof withAttempts>[2];
  readonly finish?: Finish;
  readonly now: number;
  readonly events?: readonly Event[];
  /** The row. Defaults: the status is the phase, and no price. */
  readonly row: {
    readonly phase: Phase;
    readonly reason: string;
    readonly status?: string;
    readonly price?: number;
  };
  readonly why: Partial<Omit<Why, 'id'>>;
}

const gone = { releasedAt: noon + hour, goneAt: noon + hour + minute };
const preempted = endedAttempt('preempted', { message: 'the queued resource is SUSPENDED' });
const failedExit = endedAttempt('command_failed', {
  message: 'exit 1',
  exitCode: 1,
  worker: 3,
  line: 'ValueError: no lr',
});
const ruleApplied: Event = {
  kind: 'rule_applied',
  at: noon + hour,
  attempt: 1,
  reason: 'preempted',
  then: 'resume',
  on: 'new',
  used: 1,
  limit: 100,
};

const stopping: Ending = {
  reason: 'stopped',
  evidence: { message: '' },
  startedAt: noon + hour,
  stopRequestedAt: noon + hour + second,
  stopConfirmedBy: [],
};

const stopSent: Ending = { ...stopping, stopSentAt: [{ worker: 0, at: noon + hour + second }] };

const toStop = { desired: 'stopped', desiredAt: noon + hour } as const;
const askedToStop: Event = { kind: 'command_received', at: noon + hour, verb: 'stop', by: 'ada', desired: 'stopped' };
/** A preempted attempt and the next one. */
const onceMore = [
  { ...runningAttempt, ...preempted },
  { startedByOwner: false, createdAt: noon + hour, notBeforeAt: noon + hour },
];
/** A setup step failed on worker 3. */
const dockerFailed = (tries: number, lastAt: number, message: string) => [
  { task: { kind: 'step', worker: 3, step: 'docker' }, tries, lastAt, message } as const,
];

const repairing = { state: 'interrupted', detail: 'REPAIRING', at: noon + 30 * minute } as const;

const setupOnly = { ...tpuSpec().command, script: '', isSetupOnly: true } as const;
const stockout = { kind: 'stockout', message: 'There is no more capacity in the zone.', raw: 'code 8' } as const;

const cases: readonly Case[] = [
  {
    life: 'it succeeded and kept its TPU, which was preempted later',
    allocations: [{ ...readyAllocation, releasedAt: noon + 2 * hour, goneAt: noon + 2 * hour + minute }],
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit code 0 on every worker' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    events: [
      { kind: 'allocation_seen', at: noon + minute, allocation: 1, state: 'ready', message: 'READY' },
      { kind: 'allocation_seen', at: noon + 2 * hour, allocation: 1, state: 'lost', message: 'SUSPENDING' },
      { kind: 'allocation_released', at: noon + 2 * hour, allocation: 1, message: 'it is lost' },
    ],
    now: noon + 3 * hour,
    row: { phase: 'succeeded', reason: 'ran for 58m' },
    why: {
      message: 'Job 000042 succeeded 2h ago.',
      evidence:
        'exit code 0 on every worker (20 Nov 13:00:00 UTC); the v5litepod-16 that it kept was lost (SUSPENDING) at 20 Nov 14:00:00 UTC',
    },
  },
  {
    life: 'the cloud refused a TPU during its creation',
    allocations: [
      {
        lastObserved: { state: 'provisioning', detail: 'CREATING', at: noon + second },
        errorCount: 1,
        lastError: { at: noon + 3 * second, error: stockout },
      },
    ],
    now: noon + 20 * second,
    row: { phase: 'queued', reason: 'no capacity for 20s' },
    why: {
      message: 'Job 000042 is queued: no capacity for v5litepod-16 spot in us-west4-a.',
      next: 'The controller requests it again.',
    },
  },
  {
    life: 'its TPU was refused once and is being created now',
    allocations: [
      {
        confirmedAt: noon + minute,
        lastObserved: { state: 'provisioning', detail: 'CREATING', at: noon + minute },
        errorCount: 1,
        lastError: { at: noon + 3 * second, error: stockout },
      },
    ],
    now: noon + 2 * minute,
    row: { phase: 'provisioning', reason: 'creating the TPU for 1m' },
    why: { message: 'Job 000042 is provisioning: its v5litepod-16 is being created.' },
  },
  {
    life: 'its setup failed, and the next attempt starts after a pause',
    attempts: [
      endedAttempt(
        'setup_failed',
        { message: 'step docker failed on worker 3 (4 tries): exit 100', worker: 3 },
        noon + hour,
      ),
      { startedByOwner: false, allocation: 1, createdAt: noon + hour, notBeforeAt: noon + hour + 20 * second },
    ],
    now: noon + hour + 8 * second,
    row: { phase: 'setup', reason: 'setup failed, retry in 12s', price: 4 },
    why: {
      message: 'Job 000042 is in setup: its last attempt ended 8s ago (setup failed). Attempt 2 starts after a pause.',
      next: 'Setup starts again on 4 workers.',
      nextAt: noon + hour + 20 * second,
    },
  },
  {
    life: 'its TPU was preempted, and the cloud has no capacity for the next one',
    allocations: [
      gone,
      { lastObserved: { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + hour + 5 * second } },
    ],
    attempts: onceMore,
    now: noon + hour + 4 * minute,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'no capacity for 4m' },
    why: {
      message:
        'Job 000042 is recovering: its v5litepod-16 was preempted 4m ago. No capacity for v5litepod-16 spot in us-west4-a.',
    },
  },
  {
    life: 'no controller has checked it yet',
    spec: localSpec(),
    attempts: [],
    now: noon + 9 * minute,
    row: { phase: 'queued', reason: 'waiting for a slot, 9m' },
    why: { message: 'Job 000042 is queued: it waits for a slot.' },
  },
  {
    life: 'the cloud has no capacity',
    allocations: [
      {
        errorCount: 3,
        lastError: {
          at: noon + 9 * minute,
          error: stockout,
        },
      },
    ],
    now: noon + 9 * minute + 5 * second,
    row: { phase: 'queued', reason: 'no capacity for 9m' },
    why: {
      message: 'Job 000042 is queued: no capacity for v5litepod-16 spot in us-west4-a.',
      evidence: 'There is no more capacity in the zone, 5s ago; 3 failed requests; the cloud said: code 8',
      next: 'The controller requests it again.',
    },
  },
  {
    life: 'the request failed without a login',
    allocations: [
      {
        errorCount: 1,
        lastError: {
          at: noon + 9 * minute,
          error: { kind: 'unreachable', message: 'no login; log in', raw: 'no login; log in', noLogin: true },
        },
      },
    ],
    now: noon + 9 * minute + second,
    row: { phase: 'queued', reason: 'no login for 9m' },
    why: {
      message: 'Job 000042 is queued: the request for v5litepod-16 spot in us-west4-a failed (no login).',
      evidence: 'no login; log in, 1s ago',
    },
  },
  {
    life: 'it is in the queue of the cloud, with a limit on the wait',
    spec: tpuSpec({ limits: { ...tpuSpec().limits, capacityWaitMs: hour } }),
    allocations: [
      { confirmedAt: noon, lastObserved: { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + minute } },
    ],
    now: noon + 11 * minute,
    row: { phase: 'queued', reason: 'no capacity for 11m' },
    why: {
      message: 'Job 000042 is queued: no capacity for v5litepod-16 spot in us-west4-a.',
      evidence: 'vit-000042-1: WAITING_FOR_RESOURCES since 20 Nov 12:01:00 UTC (10m)',
      next: 'Setup starts once the TPU is ready. The wait ends in 49m (job.capacity_wait).',
    },
  },
  {
    life: 'it has just entered the queue of the cloud',
    allocations: [{ confirmedAt: noon, lastObserved: { state: 'waiting', detail: 'CREATING', at: noon } }],
    now: noon + 20 * second,
    row: { phase: 'queued', reason: 'requested 20s ago' },
    why: { message: 'Job 000042 is queued: waiting for v5litepod-16 spot in us-west4-a.' },
  },
  {
    life: 'it is resumed, and its old TPU is not deleted yet',
    allocations: [
      {
        ...readyAllocation,
        releasedAt: noon + hour,
        lastObserved: { state: 'releasing', detail: 'DELETING', at: noon + hour },
      },
      { requestedAt: null },
    ],
    attempts: [endedAttempt('stopped', { message: 'asked by the owner' }), { allocation: 2, createdAt: noon + hour }],
    now: noon + hour + 8 * second,
    row: { phase: 'queued', reason: 'deleting the old TPU, 8s', price: 4 },
    why: {
      message: 'Job 000042 is queued: deleting the old TPU.',
      evidence: 'deleting TPU vit-000042-1 (requested 8s ago, state DELETING)',
      next: 'The controller requests v5litepod-16 spot in us-west4-a once the old TPU is deleted.',
    },
  },
  {
    life: 'its TPU is being created',
    allocations: [
      { confirmedAt: noon, lastObserved: { state: 'provisioning', detail: 'CREATING', at: noon + minute } },
    ],
    now: noon + 3 * minute,
    row: { phase: 'provisioning', reason: 'creating the TPU for 2m' },
    why: { message: 'Job 000042 is provisioning: its v5litepod-16 is being created.' },
  },
  {
    life: 'it is in setup',
    now: noon + 2 * minute,
    row: { phase: 'setup', reason: 'setting up for 1m', price: 4 },
    why: {
      message: 'Job 000042 is in setup on 4 workers: ssh, docker.',
      next: 'The command starts on 4 workers when all steps are done.',
    },
  },
  {
    life: 'a step fails',
    attempts: [
      {
        failures: dockerFailed(2, noon + 2 * minute, 'exit 100: no such package.'),
      },
    ],
    now: noon + 3 * minute,
    row: { phase: 'setup', reason: 'docker failed, 2 of 3 tries', price: 4 },
    why: {
      message: 'Job 000042 is in setup: step docker on worker 3 failed (2 of 3 tries). Retrying.',
      evidence: 'exit 100: no such package, 1m ago',
      rule: 'pre: setup failed -> fail',
      next: 'The command starts on 4 workers when all steps are done. Log: jobman logs 42 --step docker',
    },
  },
  {
    life: 'a step fails after two attempts with failed setup',
    attempts: [
      { allocation: 1, ...endedAttempt('setup_failed', { message: 'exit 100', worker: 3 }) },
      { allocation: 1, ...endedAttempt('setup_failed', { message: 'exit 100', worker: 3 }) },
      {
        allocation: 1,
        failures: dockerFailed(1, noon + 2 * minute, 'exit 100: no such package.'),
      },
    ],
    now: noon + 3 * minute,
    row: { phase: 'setup', reason: 'setup failed 2 times: docker', price: 4 },
    why: {},
  },
  {
    life: 'the result of a step is unknown',
    attempts: [
      {
        failures: dockerFailed(0, noon + 2 * minute, '127.0.0.7 closed the connection'),
      },
    ],
    now: noon + 3 * minute,
    row: { phase: 'setup', reason: 'docker interrupted', price: 4 },
    why: {
      message: 'Job 000042 is in setup: step docker on worker 3 was interrupted. Retrying.',
      evidence: '127.0.0.7 closed the connection, 1m ago; this does not count as a try',
      rule: 'pre: setup failed -> fail',
      next: 'The command starts on 4 workers when all steps are done. Log: jobman logs 42 --step docker',
    },
  },
  {
    life: 'it runs, after a preemption',
    allocations: [gone, readyAllocation],
    attempts: [
      { ...runningAttempt, ...preempted },
      { ...runningAttempt, runningAt: noon + 2 * hour },
    ],
    now: noon + 4 * hour + 5 * minute,
    row: { phase: 'running', reason: 'running for 2h, 1 preemption', price: 4 },
    why: {
      message: 'Job 000042 has been running for 2h05m on 4 workers.',
      rule: 'pre: preempted -> new allocation, resume (1 of 100 used)',
      next: 'The job runs until its program exits.',
      nextAt: null,
    },
  },
  {
    life: 'it runs on this machine, with a time limit',
    spec: localSpec({ limits: { ...localSpec().limits, maxRuntimeMs: hour } }),
    allocations: [{ ...readyAllocation, hosts: null, workers: 1 }],
    attempts: [runningAttempt],
    now: noon + 3 * minute,
    row: { phase: 'running', reason: 'running for 1m' },
    why: {
      message: 'Job 000042 has been running for 1m on this machine.',
      rule: 'pass: command failed -> fail',
      next: 'The controller ends the program at its time limit (job.max_runtime).',
      nextAt: noon + 2 * minute + hour,
    },
  },
  {
    life: 'a worker does not answer',
    allocations: [{ ...readyAllocation, unreachableAt: noon + 10 * minute, unreachableWho: 'worker' }],
    attempts: [runningAttempt],
    now: noon + 12 * minute,
    row: { phase: 'running', reason: 'no answer for 2m', price: 4 },
    why: {
      message: 'Job 000042 was running when last checked: a worker has not answered for 2m.',
      rule: 'pre: unreachable -> same allocation, resume (0 of 100 used)',
      nextAt: noon + 13 * minute,
    },
  },
  {
    life: 'its TPU was preempted, and a new one is requested',
    allocations: [gone, {}],
    attempts: onceMore,
    now: noon + hour + 4 * minute,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'preempted, 4m ago' },
    why: {
      message:
        'Job 000042 is recovering: its v5litepod-16 was preempted 4m ago. Waiting for v5litepod-16 spot in us-west4-a.',
      rule: 'pre: preempted -> new allocation, resume (1 of 100 used)',
    },
  },
  {
    life: 'it was preempted once, and a worker of its next TPU was lost',
    allocations: [
      gone,
      {
        ...readyAllocation,
        releasedAt: noon + hour + 9 * second,
        lastObserved: { state: 'releasing', detail: 'DELETING', at: noon + hour },
      },
    ],
    attempts: [
      { ...runningAttempt, ...preempted },
      {
        ...runningAttempt,
        allocation: 2,
        ending: {
          reason: 'unreachable',
          evidence: { message: 'worker 3 does not answer', worker: 3 },
          startedAt: noon + hour,
          stopRequestedAt: null,
          stopConfirmedBy: [],
        },
      },
    ],
    now: noon + hour + 29 * second,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'unreachable, worker 3, 29s ago', price: 4 },
    why: {
      message: 'Job 000042 is recovering: its last attempt ended 29s ago (unreachable). Deleting the old TPU.',
      rule: 'pre: unreachable -> same allocation, resume (2 of 100 used)',
      next: 'A new attempt starts once the old TPU is deleted.',
    },
  },
  {
    life: 'its owner stops it, and the program is in its grace period',
    changes: toStop,
    attempts: [
      {
        ...runningAttempt,
        ending: stopSent,
      },
    ],
    now: noon + hour + 11 * second,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'stop requested 11s ago', price: 4 },
    why: {
      message: 'Job 000042 is stopping: stop requested by ada 11s ago.',
      evidence: 'SIGTERM sent at 20 Nov 13:00:01 UTC',
      next: 'The controller kills the remaining processes.',
      nextAt: noon + hour + 31 * second,
    },
  },
  {
    life: 'its owner cancels it while its preempted TPU is being deleted',
    changes: { desired: 'cancelled', desiredAt: noon + hour + 5 * second },
    allocations: [{ ...readyAllocation, releasedAt: noon + hour }],
    attempts: [
      {
        ...runningAttempt,
        ending: { ...stopping, reason: 'preempted', evidence: { message: 'the cloud took it (SUSPENDING)' } },
      },
    ],
    now: noon + hour + 8 * second,
    row: { phase: 'stopping', reason: 'cancel requested 3s ago', price: 4 },
    why: {
      message: 'Job 000042 is stopping: cancel requested 3s ago.',
      evidence: 'its v5litepod-16 was preempted; deleting the old TPU',
      next: 'Cancelled once the TPU is deleted.',
    },
  },
  {
    life: 'its owner deletes it after its end, and its TPU is being deleted',
    changes: { desired: 'deleted', desiredAt: noon + hour },
    allocations: [{ ...readyAllocation, releasedAt: noon + hour }],
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit code 0 on every worker' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + 5 * second,
    row: { phase: 'succeeded', reason: 'being deleted', price: 4 },
    why: { message: 'Job 000042 succeeded 5s ago.' },
  },
  {
    life: 'its owner cancelled it after a preemption',
    changes: { desired: 'cancelled', desiredAt: noon + hour + 5 * second },
    allocations: [{ ...readyAllocation, releasedAt: noon + hour, goneAt: noon + hour + minute }],
    attempts: [{ ...runningAttempt, ...preempted }],
    finish: { at: noon + hour + minute, verdict: 'cancelled', reason: 'preempted' },
    now: noon + 2 * hour,
    row: { phase: 'cancelled', reason: 'by its owner' },
    why: {
      message: 'Job 000042 was cancelled by its owner 59m ago.',
      evidence: 'requested by the owner; its TPU had been preempted at 20 Nov 13:00:00 UTC',
    },
  },
  {
    life: 'its owner stops it, and a worker does not answer',
    changes: toStop,
    allocations: [{ ...readyAllocation, unreachableAt: noon + hour - 2 * minute, unreachableWho: 'worker' }],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * minute,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'no answer for 7m', price: 4 },
    why: {
      message: 'Job 000042 is stopping: stop requested by ada 5m ago. A worker has not answered for 7m.',
      evidence: 'no answer since 20 Nov 12:58:00 UTC',
      next: 'The controller releases the TPU if the worker stays silent. Release it now: jobman cancel 42',
      nextAt: noon + hour + 30 * minute,
    },
  },
  {
    life: 'its owner cancels it, and a worker does not answer',
    changes: { ...toStop, desired: 'cancelled' },
    allocations: [{ ...readyAllocation, unreachableAt: noon + hour - 2 * minute, unreachableWho: 'worker' }],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * second,
    row: { phase: 'stopping', reason: 'no answer for 2m', price: 4 },
    why: { next: 'The controller releases the TPU.', nextAt: noon + hour + 31 * second },
  },
  {
    life: 'its owner stops it, and a worker of a persistent TPU does not answer',
    spec: tpuSpec({}, { ownership: 'persistent' }),
    changes: toStop,
    allocations: [{ ...readyAllocation, unreachableAt: noon + hour - 2 * minute, unreachableWho: 'worker' }],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * minute,
    row: { phase: 'stopping', reason: 'no answer for 7m' },
    why: {
      next: 'The job ends if the worker stays silent. The TPU stays unchanged. Skip the wait: jobman delete 42 --force',
      nextAt: noon + hour + 28 * minute,
    },
  },
  {
    life: 'its owner stops it, and a host does not answer',
    spec: localSpec(),
    changes: toStop,
    allocations: [
      { ...readyAllocation, workers: 1, unreachableAt: noon + hour - 2 * minute, unreachableWho: 'worker' },
    ],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * minute,
    row: { phase: 'stopping', reason: 'no answer for 7m' },
    why: {
      next: 'Its slot stays held until the host answers, because its program may still run there. If the machine is gone: jobman delete 42 --force',
    },
  },
  {
    life: 'its owner stops it, and the cloud does not answer',
    changes: toStop,
    allocations: [{ ...readyAllocation, unreachableAt: noon + hour - 2 * minute, unreachableWho: 'cloud' }],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * minute,
    row: { phase: 'stopping', reason: 'no answer for 7m', price: 4 },
    why: {
      next: 'The controller keeps checking without a time limit. Release the TPU once the cloud answers: jobman cancel 42',
      nextAt: null,
    },
  },
  {
    life: 'its program cannot be killed',
    changes: toStop,
    attempts: [
      {
        ...runningAttempt,
        ending: stopSent,
        failures: [
          {
            task: { kind: 'stop', worker: 2 },
            tries: 3,
            lastAt: noon + hour + minute,
            message: 'these processes on worker 2 do not end after a kill: 77',
          },
        ],
      },
    ],
    now: noon + hour + 2 * minute,
    row: { phase: 'stopping', reason: 'stop requested 2m ago', price: 4 },
    why: {
      evidence:
        'SIGTERM sent at 20 Nov 13:00:01 UTC; stopping the command on worker 2 failed 1m ago: these processes on worker 2 do not end after a kill: 77',
    },
  },
  {
    life: 'its TPU is under maintenance while it is stopping',
    changes: toStop,
    allocations: [{ ...readyAllocation, lastObserved: repairing }],
    attempts: [{ ...runningAttempt, ending: stopping }],
    now: noon + hour + 5 * minute,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'interrupted for 35m', price: 4 },
    why: {
      message:
        'Job 000042 is stopping: stop requested by ada 5m ago. Its v5litepod-16 has been interrupted for 35m (REPAIRING).',
      next: 'The attempt ends when the TPU is back (no time limit). Release it now: jobman cancel 42',
    },
  },
  {
    life: 'its TPU is under maintenance while it runs',
    allocations: [{ ...readyAllocation, lastObserved: repairing }],
    attempts: [runningAttempt],
    now: noon + hour,
    row: { phase: 'running', reason: 'interrupted for 30m', price: 4 },
    why: {
      message: 'Job 000042 was running when last checked: its v5litepod-16 has been interrupted for 30m (REPAIRING).',
      evidence: 'vit-000042-1: REPAIRING since 20 Nov 12:30:00 UTC (30m)',
      rule: 'pre: unreachable -> same allocation, resume (0 of 100 used)',
      next: 'The controller checks the command when the TPU is back (no time limit). Release it now: jobman cancel 42',
      nextAt: null,
    },
  },
  {
    life: 'its TPU is under maintenance before the start',
    allocations: [{ ...readyAllocation, lastObserved: repairing }],
    now: noon + hour,
    row: { phase: 'provisioning', reason: 'interrupted for 30m', price: 4 },
    why: {
      message: 'Job 000042 is provisioning: its v5litepod-16 has been interrupted for 30m (REPAIRING).',
      next: 'Setup starts when the TPU is back (no time limit). Release it now: jobman cancel 42',
    },
  },
  {
    life: 'its TPU is under maintenance while it recovers',
    allocations: [gone, { ...readyAllocation, lastObserved: repairing }],
    attempts: onceMore,
    now: noon + 2 * hour,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'interrupted for 1h', price: 4 },
    why: {
      message:
        'Job 000042 is recovering: its v5litepod-16 was preempted 1h ago. The new v5litepod-16 has been interrupted for 1h30m (REPAIRING).',
      next: 'Setup starts when the TPU is back (no time limit). Release it now: jobman cancel 42',
    },
  },
  {
    life: 'two requests failed, and the next one follows after a pause',
    allocations: [
      { ...gone, readyAt: null, lastError: { at: noon + minute, error: stockout } },
      { ...gone, readyAt: null, lastError: { at: noon + 3 * minute, error: stockout } },
      { requestedAt: null },
    ],
    attempts: [{ allocation: 3, notBeforeAt: noon + 4 * minute }],
    now: noon + 3 * minute + 30 * second,
    row: { phase: 'queued', reason: 'retry in 30s' },
    why: {
      message: 'Job 000042 is queued: no capacity for v5litepod-16 spot in us-west4-a.',
      evidence: 'There is no more capacity in the zone, 30s ago; 2 failed requests; the cloud said: code 8',
      next: 'The controller requests it again.',
      nextAt: noon + 4 * minute,
    },
  },
  {
    life: 'no controller has checked a TPU job yet',
    attempts: [],
    now: noon + minute,
    row: { phase: 'queued', reason: 'waiting for the controller, 1m' },
    why: { message: 'Job 000042 is queued: no controller has checked it yet.' },
  },
  {
    life: 'it was stopped and keeps its TPU',
    changes: toStop,
    attempts: [{ ...runningAttempt, ...endedAttempt('stopped', { message: 'its owner stopped it' }) }],
    finish: { at: noon + hour, verdict: 'stopped', reason: 'stopped' },
    now: noon + 2 * hour,
    row: { phase: 'stopped', reason: 'by its owner', status: 'stopped, holds v5litepod-16', price: 4 },
    why: {
      message: 'Job 000042 was stopped by its owner 1h ago. It keeps its v5litepod-16, which costs about $4.00/h.',
      next: 'Nothing. Resume: jobman resume 42 · Start over: jobman rerun 42 · Release: jobman stop 42 --release',
    },
  },
  {
    life: 'it was force-deleted, and the state of its TPU is unknown',
    changes: { desired: 'deleted', removed: true, cancelRequested: true },
    attempts: [runningAttempt],
    finish: { at: noon + hour, verdict: 'cancelled', reason: 'stopped' },
    now: noon + 2 * hour,
    row: { phase: 'cancelled', reason: 'by its owner' },
    why: {
      message: 'Job 000042 was cancelled by its owner 1h ago.',
      next: 'Nothing: the job has left the list. Find its TPU: jobman gc',
    },
  },
  {
    life: 'its program failed, and its TPU is being released',
    allocations: [{ ...readyAllocation, releasedAt: noon + hour }],
    attempts: [{ ...runningAttempt, ...failedExit }],
    finish: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
    now: noon + hour + minute,
    row: { phase: 'failed', reason: 'exit 1, worker 3', price: 4 },
    why: {
      evidence:
        'exit code 1 on worker 3; its log says "ValueError: no lr" (20 Nov 13:00:00 UTC); deleting TPU vit-000042-1 (requested 1m ago)',
      next: 'The controller waits until its v5litepod-16 is deleted.',
    },
  },
  {
    life: 'its program failed',
    allocations: [{ ...readyAllocation, ...gone }],
    attempts: [{ ...runningAttempt, ...failedExit }],
    finish: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
    now: noon + 25 * hour,
    row: { phase: 'failed', reason: 'exit 1, worker 3' },
    why: {
      message: 'Job 000042 failed 1d ago (command failed).',
      evidence: 'exit code 1 on worker 3; its log says "ValueError: no lr" (20 Nov 13:00:00 UTC)',
      next: 'Nothing. Log: jobman logs 42 · Resume: jobman resume 42 · Start over: jobman rerun 42',
    },
  },
  {
    life: 'its setup failed permanently',
    allocations: [{ ...readyAllocation, ...gone }],
    attempts: [
      {
        failures: dockerFailed(4, noon + hour, 'exit 100'),
        ...endedAttempt('setup_failed', { message: 'step docker failed on worker 3 (4 tries): exit 100', worker: 3 }),
      },
    ],
    finish: { at: noon + hour, verdict: 'failed', reason: 'setup_failed' },
    now: noon + 2 * hour,
    row: { phase: 'failed', reason: 'setup failed, worker 3' },
    why: {
      next: 'Nothing. Log: jobman logs 42 --step docker · Resume: jobman resume 42 · Start over: jobman rerun 42',
    },
  },
  {
    life: 'it succeeded on the TPU emulator, which does not delete its TPU',
    spec: tpuSpec({}, { project: 'emulator' }),
    allocations: [
      {
        ...readyAllocation,
        releasedAt: noon + hour,
        lastObserved: { state: 'releasing', detail: 'DELETING', at: noon + hour + second },
        lastError: { at: noon + hour, error: { kind: 'internal', message: 'Internal error.', raw: 'code 13' } },
      },
    ],
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit 0 everywhere' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + 12 * minute,
    row: { phase: 'succeeded', reason: 'deleting its TPU for 12m', price: 4 },
    why: {
      evidence:
        'exit 0 everywhere (20 Nov 13:00:00 UTC); deleting TPU vit-000042-1 (requested 12m ago, state DELETING); last error: Internal error',
    },
  },
  {
    life: 'it succeeded on the TPU emulator after a preemption, and keeps its TPU',
    spec: tpuSpec({ finish: { capacity: 'keep', keepForMs: null } }, { project: 'emulator' }),
    allocations: [gone, readyAllocation],
    attempts: [
      { ...runningAttempt, ...preempted },
      { ...runningAttempt, runningAt: noon + 2 * hour, ...endedAttempt('succeeded', { message: '' }, noon + 3 * hour) },
    ],
    finish: { at: noon + 3 * hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + 4 * hour,
    row: {
      phase: 'succeeded',
      reason: 'ran for 1h58m in 2 attempts',
      status: 'succeeded, holds v5litepod-16',
      price: 4,
    },
    why: {
      message:
        'Job 000042 succeeded 1h ago. It keeps its v5litepod-16, which costs about $4.00/h on Google Cloud (simulated: free).',
    },
  },
  {
    life: 'it is set up and has no command to run',
    spec: tpuSpec({ command: setupOnly, finish: { capacity: 'keep', keepForMs: null } }),
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: '' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'set up; no command', status: 'succeeded, holds v5litepod-16', price: 4 },
    why: {},
  },
  {
    life: 'it was set up, and its TPU was deleted later',
    spec: tpuSpec({ command: setupOnly, finish: { capacity: 'keep', keepForMs: null } }),
    allocations: [gone],
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: '' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'its TPU is gone' },
    why: {},
  },
  {
    life: 'it succeeded and keeps its TPU for a while',
    spec: tpuSpec({ finish: { capacity: 'keep', keepForMs: hour } }),
    attempts: [{ ...runningAttempt, ...endedAttempt('succeeded', { message: 'exit 0 everywhere' }) }],
    finish: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'ran for 58m', status: 'succeeded, holds v5litepod-16', price: 4 },
    why: {
      next: 'The controller releases its v5litepod-16. Release it now: jobman stop 42 --release',
      nextAt: noon + 2 * hour,
    },
  },
  {
    life: 'the cloud refused it permanently',
    allocations: [
      {
        errorCount: 1,
        lastError: { at: noon, error: { kind: 'permission', message: 'may not', raw: '403' } },
        goneAt: noon,
      },
    ],
    attempts: [endedAttempt('allocation_failed', { message: 'tpu.nodes.create is missing', raw: '403' })],
    finish: { at: noon + hour, verdict: 'failed', reason: 'allocation_failed' },
    now: noon + 2 * hour,
    row: { phase: 'failed', reason: 'not allowed' },
    why: { message: 'Job 000042 failed 1h ago (allocation failed).' },
  },
];

/** The job of a case. */
function jobIn({ spec, changes, allocations = [readyAllocation], attempts = [{}], finish }: Case): Job {
  const created = aJob(spec, changes);
  return attempts.length === 0 ? created : { ...withAttempts(created, allocations, attempts), finish: finish ?? null };
}

for (const one of cases) {
  const { life, now, events = [], row: sees, why } = one;
  test(`what people see when ${life}`, () => {
    const job = jobIn(one);
    const row = jobRow(job, now);
    assert.equal(row.phase, sees.phase);
    assert.equal(formatStatus(row), sees.status ?? sees.phase);
    assert.equal(row.message, sees.reason);
    assert.ok(row.message.length <= maxReasonLength);
    assert.equal(row.pricePerHourUsd, sees.price ?? null);
    const answer = whyOf(job, now, { events });
    for (const [name, value] of Object.entries(why)) assert.deepEqual(answer[name as keyof Why], value, name);
  });
}

test('why names the situation of the newest pass, or none', () => {
  const situation = (name: string | undefined) => {
    const job = { ...aJob(), ...(name !== undefined && { situation: name }) };
    return whyOf(job, noon, { events: [] }).situation;
  };
  assert.equal(situation(undefined), null);
  assert.deepEqual(situation('of-a-later-version'), { name: 'of-a-later-version', description: null });
  assert.equal(
    situation('capacity-unobtainable')?.description,
    'the cloud permanently refuses the request or the release, or the persistent TPU does not exist',
  );
});

test('an imported job whose end is unknown is not reported as stopped by its owner', () => {
  const ending = endedAttempt('stopped', { message: 'imported, was RUNNING' });
  const stopped = { at: noon + hour, verdict: 'stopped', reason: 'stopped' } as const;
  const job: Job = { ...withAttempts(aJob(), [{ ...gone, requestedAt: null }], [ending]), finish: stopped };
  assert.equal(jobRow(job, noon + 2 * hour).message, 'imported, was RUNNING');
  assert.match(
    whyOf(job, noon + 2 * hour, { events: [] }).message,
    /^Job 000042 counts as stopped \(imported, was RUNNING\)/,
  );
});

test('a job that another user ended names that user', () => {
  const life = withAttempts(aJob(localSpec()), [{}], [{ ...runningAttempt, allocation: 1 }]);
  const by = (user: string): string => {
    const { job } = applyCommand(life, 'cancel', { by: user, onBehalf: user !== life.owner }, noon + hour);
    const finish = { at: noon + hour, verdict: 'cancelled', reason: 'stopped' } as const;
    return jobRow({ ...job, finish }, noon + 2 * hour).message;
  };
  assert.equal(by('bob'), 'by bob');
  assert.equal(by('ada'), 'by its owner');
});

test('why of a job that waits for a slot has the used slots and the jobs ahead', () => {
  const job = aJob(localSpec());
  const turn = (taken: number, ahead: number) =>
    whyOf(job, noon + minute, {
      events: [],
      queuePosition: { pool: 'localhost', slots: 2, slotsUsed: taken, usedBy: [], ahead, after: [] },
    });
  assert.equal(turn(2, 3).message, 'Job 000042 is queued: 2 of 2 slots on this machine in use, 3 jobs ahead.');
  assert.equal(turn(2, 1).message, 'Job 000042 is queued: 2 of 2 slots on this machine in use, 1 job ahead.');
  assert.equal(turn(2, 0).message, 'Job 000042 is queued: 2 of 2 slots on this machine in use.');
  assert.equal(turn(2, 0).next, 'An attempt starts when a slot is free. The number of slots: jobman hosts');
  assert.equal(turn(1, 0).message, 'Job 000042 is queued: a slot is free, and no controller has checked it yet.');
});

test('why says that a request can never fit its quota, and which jobs here use a quota that is used up', () => {
  const refused = (limit: number, otherJobs: readonly Job[] = [], region = 'us-west4') => {
    const raw = `RESOURCE_EXHAUSTED: Quota 'TPUV5sPreemptibleLitepodPerProjectPerRegionForTPUAPI' exhausted. Limit ${limit} in region ${region}`;
    const error = { kind: 'quota', message: 'the quota is used up', raw } as const;
    const refusal = { requestedAt: null, errorCount: 1, lastError: { at: noon, error } };
    const job = withAttempts(aJob(), [refusal], [{}]);
    return whyOf(job, noon + second, { events: [], quotaJobs: [job, ...otherJobs] });
  };
  const small = refused(8);
  assert.equal(
    small.message,
    'Job 000042 is queued: v5litepod-16 spot in us-west4-a can never fit its quota: it has 16 chips, and the limit of v5e spot in region us-west4 is 8.',
  );
  assert.match(small.evidence ?? '', /^the cloud said 1s ago: RESOURCE_EXHAUSTED/);
  assert.match(small.next, /Ask Google for more quota, or .* another type, zone or pricing.* jobman cancel 42$/);
  assert.doesNotMatch(refused(8, [], 'us-east1').message, /never fit/);

  const another = (id: string, allocation: Parameters<typeof withAttempts>[1][number], changes: Partial<Job> = {}) =>
    withAttempts(aJob(tpuSpec(), { id, ...changes }), [allocation], [runningAttempt]);
  const finish: Finish = { at: noon, verdict: 'stopped', reason: 'stopped' };
  const full = refused(32, [
    another('000007', readyAllocation),
    another('000008', readyAllocation, { finish, desired: 'stopped' }),
    another('000009', { ...readyAllocation, ...gone }),
  ]);
  assert.match(
    full.evidence ?? '',
    /^32 of the 32 chips of v5e spot in region us-west4 are used by job 000007 \(vit-000007-1, 16 chips, running\) and job 000008 \(vit-000008-1, 16 chips, stopped and kept\); this job needs 16, 16 more than are free; the quota is used up/,
  );
  assert.match(full.next, /Release: jobman stop 8 --release · To see what uses the quota: jobman quota$/);
  assert.doesNotMatch(full.next, /missing/);
  const tooLittle = refused(24, [
    another('000007', readyAllocation),
    another('000008', readyAllocation, { finish, desired: 'stopped' }),
  ]);
  assert.match(tooLittle.evidence ?? '', /this job needs 16, 24 more than are free/);
  assert.match(tooLittle.next, / · Releasing all kept TPUs frees 16 of the 24 missing chips · /);
});

test('why names the other login of the controller once the job has failed', () => {
  const spec = localSpec();
  const job = { ...withAttempts(aJob(spec), [readyAllocation], [runningAttempt]), finish: null };
  const next = (of: Job) => whyOf(of, noon + hour, { events: [], controllerLogin: 'nada' }).next;
  assert.doesNotMatch(next(job), /nada/);
  const failed = { ...runningAttempt, ...endedAttempt('command_failed', { message: '' }) };
  const finish = { at: noon, verdict: 'failed', reason: 'command_failed' } as const;
  assert.match(
    next({ ...withAttempts(aJob(spec), [readyAllocation], [failed]), finish }),
    /The controller runs as the login nada, so the program reads and writes files as nada\.$/,
  );
});

test('why names the budget that ends the job: one that is used up before one that will be', () => {
  const own = { spentUsd: 10, budgetUsd: 50, rateUsd: 4 };
  const ownerBudget = { grant: 'spot v4-*', period: 'month', endsAt: noon + 200 * hour } as const;
  const job = withAttempts(aJob(), [readyAllocation], [runningAttempt]);
  const nextOf = (spentUsd: number, isControllerRunning = true) => {
    const budgets = [own, { spentUsd, budgetUsd: 100, rateUsd: 4, ownerBudget }];
    const { next, nextAt } = whyOf(job, noon + hour, { events: [], budgets, isControllerRunning });
    return [next, nextAt];
  };
  assert.deepEqual(nextOf(20), ['The controller ends the job when job.budget is used up.', noon + 11 * hour]);
  const overspent = "The controller ends the job because its owner's budget of spot v4-* for this month is used up.";
  assert.deepEqual(nextOf(101), [overspent, noon + hour]);
  assert.deepEqual(nextOf(101, false), [
    `${overspent} No controller runs, so jobman does nothing for this job until you start one: jobman controller start`,
    noon + hour,
  ]);
});

test('a row says in few characters that most of a budget is used', () => {
  const at = noon + 67 * second;
  const running = { ...runningAttempt, runningAt: noon };
  const spec = tpuSpec();
  const job = withAttempts(aJob({ ...spec, limits: { ...spec.limits, budgetUsd: 100 } }), [readyAllocation], [running]);
  const ownerBudget = { grant: 'spot v4-*', period: 'month', endsAt: noon + 200 * hour } as const;
  assert.match(
    jobRow({ ...job, budgetWarning: { spentUsd: 80, budgetUsd: 100 } }, at).message,
    /^running for 1m, \d+% of budget$/,
  );
  assert.equal(jobRow({ ...job, ownerBudgetWarnings: [ownerBudget] }, at).message, 'running for 1m, user budget low');
});

test('a row says why its job needs attention, and how its newest attempts ended', () => {
  const running = (allocation: Partial<Allocation>, changes: Partial<Job> = {}): Job =>
    withAttempts({ ...aJob(), ...changes }, [{ ...readyAllocation, ...allocation }], [runningAttempt]);
  const at = noon + hour;
  const attentionOf = (job: Job) => jobRow(job, at).attention;
  assert.equal(attentionOf(running({})), null);
  const unreachable = (who: Allocation['unreachableWho'], age: number) =>
    running({ unreachableAt: at - age, unreachableWho: who });
  assert.equal(attentionOf(unreachable('worker', second)), 'silent');
  assert.equal(attentionOf(unreachable('cloud', 5 * minute - 1)), null);
  assert.equal(attentionOf(unreachable('cloud', 5 * minute)), 'unchecked');
  assert.equal(attentionOf(unreachable('machine', hour)), null, 'another controller runs it');
  assert.equal(attentionOf(running({}, { budgetWarning: { spentUsd: 9, budgetUsd: 10 } })), 'budget');
  const failed = withAttempts(
    aJob(),
    [{ ...readyAllocation, ...gone }],
    [
      { ...preempted, allocation: 1 },
      { ...failedExit, allocation: 1 },
    ],
  );
  const row = jobRow({ ...failed, finish: { verdict: 'failed', reason: 'command_failed', at: noon } }, at);
  assert.equal(row.attention, 'failed');
  assert.deepEqual(row.attemptEnds, ['preempted', 'command_failed']);
});

test('why says until when the budget of the owner refuses a new start', () => {
  const ownerBudget = { grant: 'spot v4-*', period: 'month', endsAt: noon + 200 * hour } as const;
  const evidence = { message: 'used up', budget: { spentUsd: 100, budgetUsd: 100, ownerBudget } };
  const ending: Ending = { ...stopping, reason: 'budget', evidence };
  const attempt = { ...runningAttempt, ending, endedAt: noon };
  const job: Job = {
    ...withAttempts(aJob(), [{ ...readyAllocation, ...gone }], [attempt]),
    finish: { at: noon, verdict: 'failed', reason: 'budget' },
  };
  const hints = /Resume: jobman resume 42 · Start over: jobman rerun 42$/;
  const before = whyOf(job, noon + hour, { events: [] }).next;
  assert.match(
    before,
    /^Nothing\. Until \d+ \w+ \(UTC\), a new start needs a higher budgetUsd in that grant, or a higher usd-per-day\. /,
  );
  assert.match(before, hints);
  const after = whyOf(job, ownerBudget.endsAt, { events: [] }).next;
  assert.match(after, /^Nothing\. (?!Until)/);
  assert.match(after, hints);
});

test('why mentions a missing controller only if the job needs one', () => {
  const finish: Finish = { at: noon, verdict: 'stopped', reason: 'stopped' };
  const nextOf = (changes: Partial<Allocation>, budgets: readonly Budget[] = []) => {
    const stopped = { finish, desired: 'stopped' as const };
    const job = { ...withAttempts(aJob(), [{ ...readyAllocation, ...changes }], [runningAttempt]), ...stopped };
    return whyOf(job, noon + hour, { events: [], budgets, isControllerRunning: false }).next;
  };
  const budget = { spentUsd: 10, budgetUsd: 50, rateUsd: 4 };
  assert.match(nextOf({}, [budget]), /when job.budget is used up.* stop 42 --release · No controller runs, .* start$/);
  assert.match(nextOf({ releasedAt: noon }), /is deleted. No controller runs/);
  for (const changes of [{}, gone]) assert.doesNotMatch(nextOf(changes), /No controller runs/);
});

test('every why names its job and the next step', () => {
  for (const one of cases) {
    const { now, events = [] } = one;
    const why = whyOf(jobIn(one), now, { events });
    assert.match(why.message, /^Job 000042 .*\.$/);
    assert.notEqual(why.next, '');
    assert.equal(/undefined|null|NaN/.test(JSON.stringify(why).replaceAll(/:null/g, '')), false);
  }
});

test('the failed worker is named if there are several', () => {
  const failed = (workers: number) =>
    jobRow(
      {
        ...withAttempts(aJob(), [{ ...readyAllocation, ...gone, workers }], [{ ...runningAttempt, ...failedExit }]),
        finish: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
      },
      noon + 2 * hour,
    ).message;
  assert.equal(failed(4), 'exit 1, worker 3');
  assert.equal(failed(1), 'exit 1');
});

test('a row has the address of worker 0 while it exists, and a flag for simulated prices', () => {
  const host0 = (...allocations: Parameters<typeof withAttempts>[1]) =>
    jobRow(withAttempts(aJob(), allocations, [runningAttempt]), noon + hour).worker0Address;
  assert.equal(host0(readyAllocation), '192.0.2.0');
  assert.equal(host0({ ...readyAllocation, releasedAt: noon }), null);
  assert.equal(host0({ ...readyAllocation, ...gone }), null);
  const lost = { state: 'lost', detail: 'the node was deleted', at: noon } as const;
  assert.equal(host0({ ...readyAllocation, lastObserved: lost }), null);
  assert.equal(host0(), null);
  assert.equal(jobRow(aJob(), noon).simulated, false);
  assert.equal(jobRow(aJob(tpuSpec({}, { project: 'emulator' })), noon).simulated, true);
  assert.equal(jobRow(aJob(localSpec()), noon).simulated, false);
});

test("an allocation has the cloud's last status while a job waits for it", () => {
  const messagesOf = (job: Job) => allocationViews(job, noon + 2 * hour).map((allocation) => allocation.message);
  const refused = { errorCount: 2, lastError: { at: noon + hour, error: stockout } };
  assert.deepEqual(messagesOf(withAttempts(aJob(), [refused], [{}])), [
    'There is no more capacity in the zone, 1h ago; 2 failed requests',
  ]);
  const states = (job: Job) => allocationViews(job, noon + 2 * hour).map(({ state }) => state);
  const asked = { confirmedAt: null, lastObserved: null, readyAt: null } as const;
  assert.deepEqual(states(withAttempts(aJob(), [{ ...asked, ...refused }], [{}])), ['refused']);
  assert.deepEqual(states(withAttempts(aJob(), [{ ...asked, ...refused, isRequestInFlight: true }], [{}])), [
    'requested',
  ]);
  assert.deepEqual(messagesOf(withAttempts(aJob(), [{}], [{}])), ['requested 2h ago, not listed yet']);
  assert.deepEqual(messagesOf(withAttempts(aJob(), [readyAllocation], [runningAttempt])), [null]);
  assert.deepEqual(
    messagesOf(
      withAttempts(
        aJob(),
        [{ ...readyAllocation, unreachableAt: noon + hour, unreachableWho: 'worker' }],
        [runningAttempt],
      ),
    ),
    ['no answer for 1h'],
  );
  const leaving = { ...readyAllocation, releasedAt: noon + hour };
  const coming = { lastObserved: { state: 'waiting', detail: 'CREATING', at: noon + hour } } as const;
  assert.deepEqual(messagesOf(withAttempts(aJob(), [gone, leaving, coming], [runningAttempt, runningAttempt, {}])), [
    null,
    'deletion requested',
    'CREATING for 1h',
  ]);
});

test('the row of a finished job does not change with time', () => {
  let lasting = 0;
  for (const one of cases) {
    const [job, now] = [jobIn(one), one.now];
    const row = finalRows.rowOf(job);
    if (row === null) continue;
    lasting += 1;
    assert.deepEqual(row, jobRow(job, now));
    assert.deepEqual(row, jobRow(job, now + 100 * hour));
  }
  assert.equal(lasting, 6);
});

test('a row with capacity or pending changes is not final', () => {
  const finish = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;
  assert.equal(finalRows.rowOf({ ...withAttempts(aJob(), [readyAllocation], []), finish }), null);
  assert.equal(
    finalRows.rowOf({ ...withAttempts(aJob(), [{ ...readyAllocation, releasedAt: noon }], []), finish }),
    null,
  );
  assert.equal(finalRows.rowOf({ ...aJob(), finish }), null);
  assert.notEqual(finalRows.rowOf({ ...withAttempts(aJob(), [{ ...readyAllocation, ...gone }], []), finish }), null);
});

/** A job in each phase, with a cloud that has not answered since 12:30. */
const unheard = { unreachableAt: noon + 30 * minute, unreachableWho: 'cloud' } as const;
const checkFailed: Event = {
  kind: 'unreachable',
  at: noon + 30 * minute,
  allocation: 1,
  message:
    'the machine login1 has no login that Google Cloud accepts; log in there with: gcloud auth application-default login',
};

for (const [phase, job] of [
  ['queued', withAttempts(aJob(), [{ ...unheard }], [{}])],
  [
    'provisioning',
    withAttempts(aJob(), [{ ...unheard, lastObserved: { state: 'provisioning', detail: 'CREATING', at: noon } }], [{}]),
  ],
  ['setup', withAttempts(aJob(), [{ ...readyAllocation, ...unheard }], [{}])],
  ['running', withAttempts(aJob(), [{ ...readyAllocation, ...unheard }], [runningAttempt])],
] as const) {
  test(`a job in ${phase} without a login has an unknown state, and why says how to log in`, () => {
    const now = noon + 32 * minute;
    const allocations = job.allocations.map((one) => withLifecycle({ ...one, unreachableWho: 'login' }));
    const without = { ...job, allocations };
    assert.equal(jobRow(without, now).message, 'no login for 2m');
    const why = whyOf(without, now, { events: [checkFailed] });
    assert.equal(
      why.message,
      `Job 000042 has an unknown state: there has been no Google Cloud login for 2m. Its last known phase is ${phase}.`,
    );
    assert.equal(
      why.evidence,
      'no login since 20 Nov 12:30:00 UTC: the machine login1 has no login that Google Cloud accepts; log in there with: gcloud auth application-default login',
    );
    assert.equal(why.next, 'The job continues once there is a login.');
  });

  test(`a job in ${phase} without an answer from the cloud has an unknown state, and why has the error`, () => {
    const now = noon + 32 * minute;
    const why = whyOf(job, now, { events: [checkFailed], nextCheckAt: now + 16 * second });
    assert.equal(
      why.message,
      `Job 000042 has an unknown state: the cloud has not answered for 2m. Its last known phase is ${phase}.`,
    );
    assert.equal(
      why.evidence,
      'no answer about vit-000042-1 since 20 Nov 12:30:00 UTC: the machine login1 has no login that Google Cloud accepts; log in there with: gcloud auth application-default login',
    );
    assert.equal(why.rule, null);
    assert.equal(why.nextCheckAt, now + 16 * second);
    assert.equal(jobRow(job, now).message, 'no answer for 2m');
  });
}

test('why of a program that may hang has the log line and the time of its end', () => {
  const job = withAttempts(aJob(), [readyAllocation], [runningAttempt]);
  const timeoutAt = noon + 20 * minute;
  const hangEvidence = { line: 'E0000 GRPC error: reset', description: 'a call between workers failed', timeoutAt };
  const { message, evidence, next, nextAt } = whyOf(job, noon + 12 * minute, { events: [], hangEvidence });
  assert.match(message, /^Job 000042 has been running for 10m on .* and may hang: a call between workers failed\.$/);
  assert.equal(evidence, 'its log says "E0000 GRPC error: reset" and shows no progress since');
  assert.deepEqual([next, nextAt], ['The controller ends the program if it prints nothing until then.', timeoutAt]);
});

test('a silent worker is named, with the error', () => {
  const job = withAttempts(
    aJob(),
    [{ ...readyAllocation, unreachableAt: noon + 30 * minute, unreachableWho: 'worker' }],
    [runningAttempt],
  );
  const events: readonly Event[] = [
    // Of another allocation, and of the cloud: neither is about this worker.
    { kind: 'unreachable', at: noon, allocation: 1, message: '403' },
    {
      kind: 'unreachable',
      at: noon + 30 * minute,
      allocation: 1,
      worker: 3,
      message: 'worker 3: connection timed out',
    },
  ];
  const why = whyOf(job, noon + 31 * minute, { events });
  assert.equal(why.message, 'Job 000042 was running when last checked: worker 3 has not answered for 1m.');
  assert.equal(why.evidence, 'no answer since 20 Nov 12:30:00 UTC: connection timed out');
  assert.equal(why.nextAt, noon + 33 * minute);
});

test('why has the typical wait during a wait for capacity, and the next check if only a check brings news', () => {
  const typicalWait = { median: 41 * minute, percentile90: 2 * hour, samples: 12 };
  const context = { events: [], typicalWait, nextCheckAt: noon + 2 * minute };
  const waiting = whyOf(withAttempts(aJob(), [{}], [{}]), noon + minute, context);
  assert.equal(waiting.typicalWait, '41m (median of 12 waits in 30 days; 9 of 10 within 2h00m)');
  assert.equal(waiting.nextCheckAt, noon + 2 * minute);
  const runs = whyOf(withAttempts(aJob(), [readyAllocation], [runningAttempt]), noon + 10 * minute, context);
  assert.deepEqual([runs.typicalWait, runs.nextCheckAt], [null, null]);
  const persistentJob = withAttempts(aJob(tpuSpec({}, { ownership: 'persistent' })), [{}], [{}]);
  assert.equal(whyOf(persistentJob, noon + minute, context).typicalWait, null);
});

test('why has the end of the log only if the program failed', () => {
  const log = ['ValueError: no lr'];
  const finishedJob = (verdict: 'failed' | 'succeeded', reason: 'command_failed' | 'succeeded') =>
    ({
      ...withAttempts(
        aJob(localSpec()),
        [readyAllocation],
        [{ ...runningAttempt, ...endedAttempt(reason, { message: 'exit code 1', exitCode: 1 }) }],
      ),
      finish: { at: noon + hour, verdict, reason },
    }) as const;
  const why = (job: Job) => whyOf(job, noon + 2 * hour, { events: [], logTail: log });
  assert.deepEqual(why(finishedJob('failed', 'command_failed')).logTail, log);
  assert.deepEqual(why(finishedJob('succeeded', 'succeeded')).logTail, []);
  const again = withAttempts(
    aJob(),
    [readyAllocation, readyAllocation],
    [
      { ...runningAttempt, ...failedExit, ...endedAttempt('command_failed', { message: 'exit code 1' }) },
      runningAttempt,
    ],
  );
  assert.deepEqual(why(again).logTail, []);
});

test('a rule that matched by log has the pattern', () => {
  const job = {
    ...withAttempts(
      aJob(),
      [{ ...readyAllocation, ...gone }],
      [
        {
          ...runningAttempt,
          ...endedAttempt('command_failed', {
            message: 'exit code 1 on worker 0',
            worker: 0,
            exitCode: 1,
            pattern: 'out_of_memory',
            line: 'RESOURCE_EXHAUSTED: 16G',
          }),
        },
      ],
    ),
    finish: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
  } as const;
  const events: readonly Event[] = [
    {
      kind: 'rule_applied',
      at: noon + hour,
      attempt: 1,
      reason: 'command_failed',
      then: 'fail',
      on: 'same',
      used: 1,
      limit: 3,
      pattern: 'out_of_memory',
    },
  ];
  const why = whyOf(job, noon + 2 * hour, { events });
  assert.equal(why.rule, 'pre: command failed (log matches out_of_memory) -> fail');
  assert.equal(
    why.evidence,
    'exit code 1 on worker 0; its log says "RESOURCE_EXHAUSTED: 16G"; the accelerator ran out of memory (20 Nov 13:00:00 UTC)',
  );
});

test('the exit of a killed program on a spot TPU is not decided yet', () => {
  const exitSeen = { at: noon + hour, worker: 0, exitCode: 137, signal: 'KILL' } as const;
  const job = withAttempts(aJob(), [readyAllocation], [{ ...runningAttempt, exitSeen }]);
  const why = whyOf(job, noon + hour + 12 * second, { events: [] });
  assert.equal(
    why.message,
    'Job 000042 waits for the cloud: its program has exited on worker 0, and the cloud may be preempting the TPU.',
  );
  assert.equal(
    why.evidence,
    'killed by SIGKILL (exit code 137) at 20 Nov 13:00:00 UTC; usually the machine ran out of memory, or a user killed the program',
  );
  assert.equal(why.rule, 'pre: preempted -> new allocation, resume (0 of 100 used); else pre: command failed -> fail');
  const { message: reason } = jobRow(job, noon + hour + 12 * second);
  assert.ok(reason.length <= maxReasonLength);
  assert.equal(reason, 'killed by SIGKILL just now');
  // The log pattern decides which rule would apply.
  const driven = aJob(tpuSpec({ recovery: { ...tpuSpec().recovery, rules: presets.pre } }));
  const cut = withAttempts(
    driven,
    [readyAllocation],
    [{ ...runningAttempt, exitSeen: { ...exitSeen, exitCode: 1, pattern: 'grpc' } }],
  );
  const { rule } = whyOf(cut, noon + hour + 12 * second, { events: [] });
  assert.match(rule ?? '', /; else pre: command failed \(log matches grpc\) -> same allocation, resume/);
});

/** A local job whose first attempt failed and whose second waits until that time. */
function pausing(notBefore: number): Job {
  const here = { ...readyAllocation, workers: 1, hosts: null };
  return withAttempts(
    aJob(localSpec()),
    [here],
    [
      { ...runningAttempt, ...endedAttempt('command_failed', { message: 'exit 1', exitCode: 1, worker: 0 }) },
      { allocation: 1, createdAt: noon + hour, notBeforeAt: notBefore },
    ],
  );
}

test('a job whose pause is over waits for a slot if other jobs took it', () => {
  const queuePosition = { pool: 'localhost', slots: 1, slotsUsed: 1, usedBy: ['000001'], ahead: 0, after: [] };
  const { message: sentence, next } = whyOf(pausing(noon + 2 * hour), noon + 3 * hour, {
    events: [],
    queuePosition,
  });
  assert.match(sentence, /waits for a slot: 1 of 1 slot on this machine in use\.$/);
  assert.match(next, /when a slot is free/);
  const before = whyOf(pausing(noon + 4 * hour), noon + 3 * hour, { events: [], queuePosition });
  assert.match(before.message, /starts after a pause\.$/);
});

test('a multislice shows its number of TPUs', () => {
  const spec = tpuSpec();
  const capacity = spec.capacity.kind === 'tpu' ? { ...spec.capacity, nodeCount: 2 } : spec.capacity;
  const held = withAttempts(aJob({ ...spec, capacity }), [readyAllocation], [endedAttempt('stopped', { message: '' })]);
  const job: Job = { ...held, desired: 'stopped', finish: { at: noon + hour, verdict: 'stopped', reason: 'stopped' } };
  assert.equal(jobRow(job, noon + hour).heldCapacity, '2 × v5litepod-16');
  assert.match(whyOf(job, noon + hour, { events: [] }).message, /It keeps its 2 × v5litepod-16/);
});

test('the next alternative is announced after a refusal, and never the same one', () => {
  const spec = tpuSpec();
  const other = { accelerator: 'v4-8', pricing: 'spot', runtimeVersion: 'base', pricePerHourUsd: 1 } as const;
  const capacity =
    spec.capacity.kind === 'tpu' ? { ...spec.capacity, alternatives: [{ zone: 'us-central2-b', ...other }] } : null;
  assert.ok(capacity !== null);
  const refused = { errorCount: 1, lastError: { at: noon + minute, error: stockout } };
  const [here, elsewhere] = [spec, { ...spec, capacity }].map((one) =>
    whyOf(withAttempts(aJob(one), [refused], [{}]), noon + minute + second, { events: [] }),
  );
  assert.equal(here?.next, 'The controller requests it again.');
  assert.equal(elsewhere?.next, 'The controller requests v4-8 spot in us-central2-b.');
  assert.equal(elsewhere?.nextAt, null);
});

test('a vanished program was not unreachable', () => {
  const detail = 'the program vanished on worker 0: another program killed its processes, so there is no exit code';
  const ending = endedAttempt('unreachable', { message: detail, worker: 0 });
  const here = { ...readyAllocation, workers: 1, hosts: null };
  const job: Job = {
    ...withAttempts(aJob(localSpec()), [here], [ending]),
    finish: { at: noon + hour, verdict: 'failed', reason: 'unreachable' },
  };
  assert.equal(jobRow(job, noon + hour).message, 'program vanished');
  assert.match(whyOf(job, noon + hour, { events: [] }).message, /^Job 000042 failed 0s ago \(program vanished\)/);
  const silent = endedAttempt('unreachable', { message: 'worker 0 does not answer', worker: 0 });
  assert.equal(
    jobRow({ ...job, attempts: withAttempts(job, [here], [silent]).attempts }, noon + hour).message,
    'unreachable',
  );
});
