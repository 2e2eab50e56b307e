// Rows and whys, phase by phase: each row of the table is a life, and what people read of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Why } from '../../src/app/client.ts';
import { allocationViews, jobRow, lastingRow, reasonLongest } from '../../src/app/views.ts';
import { whyOf } from '../../src/app/why.ts';
import { ask } from '../../src/core/commands.ts';
import type { Event } from '../../src/core/decision.ts';
import { withLife, type Ending, type Job, type Settled } from '../../src/core/job.ts';
import type { Phase } from '../../src/core/phase.ts';
import type { JobSpec } from '../../src/core/spec.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { presets } from '../../src/core/recover.ts';
import { aJob, ended, living, localSpec, noon, ready, running, tpuSpec } from '../support/builders.ts';

interface Case {
  readonly life: string;
  /** Otherwise the usual one of a TPU. */
  readonly spec?: JobSpec;
  readonly changes?: Partial<Job>;
  /** Otherwise one that is ready. */
  readonly allocations?: Parameters<typeof living>[1];
  /** Otherwise one that has not begun; with none, the job is as it was created. */
  readonly attempts?: Parameters<typeof living>[2];
  readonly settled?: Settled;
  readonly now: number;
  readonly events?: readonly Event[];
  /** Of its row; the status is the phase, and there is no price, unless one is given. */
  readonly row: {
    readonly phase: Phase;
    readonly reason: string;
    readonly status?: string;
    readonly price?: number;
  };
  readonly why: Partial<Omit<Why, 'id'>>;
}

const gone = { releasedAt: noon + hour, goneAt: noon + hour + minute };
const preempted = ended('preempted', { detail: 'the queued resource is SUSPENDED' });
const failedExit = ended('command_failed', { detail: 'exit 1', exitCode: 1, worker: 3, line: 'ValueError: no lr' });
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
  evidence: { detail: '' },
  since: noon + hour,
  stopAskedAt: noon + hour + second,
  told: [],
};

const toStop = { desired: 'hold', desiredAt: noon + hour } as const;
const askedToStop: Event = { kind: 'asked', at: noon + hour, verb: 'stop', by: 'ada', desired: 'hold' };
/** The attempt after a preemption. */
const onceMore = [
  { ...running, ...preempted },
  { asked: false, createdAt: noon + hour, notBefore: noon + hour },
];
/** A step of the setup failed on worker 3. */
const dockerFailed = (tries: number, lastAt: number, detail: string) => [
  { task: { kind: 'step', worker: 3, step: 'docker' }, tries, lastAt, detail } as const,
];

const repairing = { state: 'interrupted', detail: 'REPAIRING', at: noon + 30 * minute } as const;

const setupOnly = { ...tpuSpec().command, script: '', isSetupOnly: true } as const;
const stockout = { kind: 'stockout', message: 'There is no more capacity in the zone.', raw: 'code 8' } as const;

const cases: readonly Case[] = [
  {
    life: 'it succeeded and kept its TPU, and the cloud took that later',
    allocations: [{ ...ready, releasedAt: noon + 2 * hour, goneAt: noon + 2 * hour + minute }],
    attempts: [{ ...running, ...ended('succeeded', { detail: 'exit code 0 on every worker' }) }],
    settled: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    events: [
      { kind: 'allocation_seen', at: noon + minute, allocation: 1, state: 'ready', detail: 'READY' },
      { kind: 'allocation_seen', at: noon + 2 * hour, allocation: 1, state: 'lost', detail: 'SUSPENDING' },
      { kind: 'allocation_released', at: noon + 2 * hour, allocation: 1, why: 'it is lost' },
    ],
    now: noon + 3 * hour,
    row: { phase: 'succeeded', reason: 'ran 58m' },
    why: {
      sentence: '000042 succeeded 2h ago.',
      because:
        'exit code 0 on every worker; at 20 Nov 13:00:00 UTC; the v5litepod-16 that it kept was lost (SUSPENDING) at 20 Nov 14:00:00 UTC',
    },
  },
  {
    life: 'a TPU was in the making when the cloud refused it',
    allocations: [
      {
        seen: { state: 'provisioning', detail: 'CREATING', at: noon + second },
        requestFailures: 1,
        lastFailure: { at: noon + 3 * second, error: stockout },
      },
    ],
    now: noon + 20 * second,
    row: { phase: 'queued', reason: 'no capacity for 20s' },
    why: {
      sentence: '000042 is queued: no capacity for v5litepod-16 spot in us-west4-a so far.',
      next: 'it is asked for again',
    },
  },
  {
    life: 'it was refused once and is in the making now',
    allocations: [
      {
        acceptedAt: noon + minute,
        seen: { state: 'provisioning', detail: 'CREATING', at: noon + minute },
        requestFailures: 1,
        lastFailure: { at: noon + 3 * second, error: stockout },
      },
    ],
    now: noon + 2 * minute,
    row: { phase: 'provisioning', reason: 'being made for 1m' },
    why: { sentence: '000042 is provisioning: its v5litepod-16 is being made.' },
  },
  {
    life: 'its setup failed, and the next attempt follows after a pause',
    attempts: [
      ended('setup_failed', { detail: 'step docker failed on worker 3 (4 tries): exit 100', worker: 3 }, noon + hour),
      { asked: false, allocation: 1, createdAt: noon + hour, notBefore: noon + hour + 20 * second },
    ],
    now: noon + hour + 8 * second,
    row: { phase: 'setup', reason: 'setup failed, retry in 12s', price: 4 },
    why: {
      sentence: '000042 is in setup: its attempt ended 8s ago (setup failed); attempt 2 follows after a pause.',
      next: 'its setup begins again on 4 workers',
      nextAt: noon + hour + 20 * second,
    },
  },
  {
    life: 'its TPU was preempted, and the cloud has no capacity for the next one',
    allocations: [gone, { seen: { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + hour + 5 * second } }],
    attempts: onceMore,
    now: noon + hour + 4 * minute,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'no capacity for 4m' },
    why: {
      sentence:
        '000042 is recovering: its v5litepod-16 was preempted 4m ago; no capacity for v5litepod-16 spot in us-west4-a so far.',
    },
  },
  {
    life: 'nobody has looked at it yet',
    spec: localSpec(),
    attempts: [],
    now: noon + 9 * minute,
    row: { phase: 'queued', reason: 'waits for its turn, 9m' },
    why: { sentence: '000042 is queued: it waits for its turn.' },
  },
  {
    life: 'the cloud has no capacity',
    allocations: [
      {
        requestFailures: 3,
        lastFailure: {
          at: noon + 9 * minute,
          error: stockout,
        },
      },
    ],
    now: noon + 9 * minute + 5 * second,
    row: { phase: 'queued', reason: 'no capacity for 9m' },
    why: {
      sentence: '000042 is queued: no capacity for v5litepod-16 spot in us-west4-a so far.',
      because: 'There is no more capacity in the zone, 5s ago; 3 requests in vain; the cloud said: code 8',
      next: 'it is asked for again',
    },
  },
  {
    life: 'a login was missing when it was asked for',
    allocations: [
      {
        requestFailures: 1,
        lastFailure: {
          at: noon + 9 * minute,
          error: { kind: 'unreachable', message: 'no login; log in', raw: 'no login; log in', noLogin: true },
        },
      },
    ],
    now: noon + 9 * minute + second,
    row: { phase: 'queued', reason: 'no login for 9m' },
    why: {
      sentence: '000042 is queued: v5litepod-16 spot in us-west4-a was not given (no login).',
      because: 'no login; log in, 1s ago',
    },
  },
  {
    life: 'it stands in the queue of the cloud, and has a limit on waiting',
    spec: tpuSpec({ limits: { ...tpuSpec().limits, capacityWait: hour } }),
    allocations: [{ acceptedAt: noon, seen: { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + minute } }],
    now: noon + 11 * minute,
    row: { phase: 'queued', reason: 'no capacity for 11m' },
    why: {
      sentence: '000042 is queued: no capacity for v5litepod-16 spot in us-west4-a so far.',
      because: 'vit-000042-1 WAITING_FOR_RESOURCES since 20 Nov 12:01:00 UTC, 10m ago',
      next: 'it is set up as soon as it is there; it gives up in 49m, by its limit on waiting',
    },
  },
  {
    life: 'it has just come to the queue of the cloud, which says nothing yet',
    allocations: [{ acceptedAt: noon, seen: { state: 'waiting', detail: 'CREATING', at: noon } }],
    now: noon + 20 * second,
    row: { phase: 'queued', reason: 'asked 20s ago' },
    why: { sentence: '000042 is queued: it waits for v5litepod-16 spot in us-west4-a.' },
  },
  {
    life: 'it goes on after a stop, and what it held before is not gone yet',
    allocations: [
      { ...ready, releasedAt: noon + hour, seen: { state: 'releasing', detail: 'DELETING', at: noon + hour } },
      { requestedAt: null },
    ],
    attempts: [ended('stopped', { detail: 'asked by the owner' }), { allocation: 2, createdAt: noon + hour }],
    now: noon + hour + 8 * second,
    row: { phase: 'queued', reason: 'lets go of its last, 8s', price: 4 },
    why: {
      sentence: '000042 is queued: what it held before is to be seen gone first.',
      because: 'vit-000042-1 told to go 8s ago (DELETING), not seen gone yet',
      next: 'v5litepod-16 spot in us-west4-a is asked for then',
    },
  },
  {
    life: 'its machines are being made',
    allocations: [{ acceptedAt: noon, seen: { state: 'provisioning', detail: 'CREATING', at: noon + minute } }],
    now: noon + 3 * minute,
    row: { phase: 'provisioning', reason: 'being made for 2m' },
    why: { sentence: '000042 is provisioning: its v5litepod-16 is being made.' },
  },
  {
    life: 'it is being set up',
    now: noon + 2 * minute,
    row: { phase: 'setup', reason: 'setting up for 1m', price: 4 },
    why: {
      sentence: '000042 is in setup: ssh, docker on 4 workers.',
      next: 'the command starts on 4 workers when all steps hold',
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
      sentence: '000042 is in setup: step docker on worker 3 failed and is tried again.',
      because: 'exit 100: no such package, 1m ago; 2 of 3 tries',
      rule: 'pre: setup failed -> fail',
      next: 'the command starts on 4 workers when all steps hold; what the step printed: jobman logs 42 --step docker',
    },
  },
  {
    life: 'a step fails under a loop, after two attempts have failed in their setup',
    attempts: [
      { allocation: 1, ...ended('setup_failed', { detail: 'exit 100', worker: 3 }) },
      { allocation: 1, ...ended('setup_failed', { detail: 'exit 100', worker: 3 }) },
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
    life: 'nobody said how a step ended',
    attempts: [
      {
        failures: dockerFailed(0, noon + 2 * minute, '127.0.0.7 closed the connection'),
      },
    ],
    now: noon + 3 * minute,
    row: { phase: 'setup', reason: 'docker broken off', price: 4 },
    why: {
      sentence: '000042 is in setup: step docker on worker 3 was broken off and is tried again.',
      because: '127.0.0.7 closed the connection, 1m ago; it does not count as a try',
      rule: 'pre: setup failed -> fail',
      next: 'the command starts on 4 workers when all steps hold; what the step printed: jobman logs 42 --step docker',
    },
  },
  {
    life: 'it runs, after a preemption',
    allocations: [gone, ready],
    attempts: [
      { ...running, ...preempted },
      { ...running, runningAt: noon + 2 * hour },
    ],
    now: noon + 4 * hour + 5 * minute,
    row: { phase: 'running', reason: '2h05m, 1 preemption', price: 4 },
    why: {
      sentence: '000042 has been running for 2h05m on 4 workers.',
      rule: 'pre: preempted -> new allocation, resume (1 of 100 used)',
      next: 'it ends when its program does',
      nextAt: null,
    },
  },
  {
    life: 'it runs on this machine, under a limit of time',
    spec: localSpec({ limits: { ...localSpec().limits, maxRuntime: hour } }),
    allocations: [{ ...ready, hosts: null, workers: 1 }],
    attempts: [running],
    now: noon + 3 * minute,
    row: { phase: 'running', reason: '1m' },
    why: {
      sentence: '000042 has been running for 1m on this machine.',
      rule: 'pass: command failed -> fail',
      next: 'its program is ended when its time is over',
      nextAt: noon + 2 * minute + hour,
    },
  },
  {
    life: 'a worker has fallen silent',
    allocations: [{ ...ready, silentSince: noon + 10 * minute, silentWho: 'worker' }],
    attempts: [running],
    now: noon + 12 * minute,
    row: { phase: 'running', reason: 'no answer for 2m', price: 4 },
    why: {
      sentence: '000042 ran when it was last seen; a worker has not answered for 2m. Nothing is changed.',
      rule: 'pre: unreachable -> same allocation, resume (0 of 100 used)',
      nextAt: noon + 13 * minute,
    },
  },
  {
    life: 'its TPU was preempted, and a new one is asked for',
    allocations: [gone, {}],
    attempts: onceMore,
    now: noon + hour + 4 * minute,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'preempted, 4m ago' },
    why: {
      sentence:
        '000042 is recovering: its v5litepod-16 was preempted 4m ago; v5litepod-16 spot in us-west4-a is asked for.',
      rule: 'pre: preempted -> new allocation, resume (1 of 100 used)',
    },
  },
  {
    life: 'it was preempted once, and now a worker of its next TPU has been given up',
    allocations: [
      gone,
      {
        ...ready,
        releasedAt: noon + hour + 9 * second,
        seen: { state: 'releasing', detail: 'DELETING', at: noon + hour },
      },
    ],
    attempts: [
      { ...running, ...preempted },
      {
        ...running,
        allocation: 2,
        ending: {
          reason: 'unreachable',
          evidence: { detail: 'worker 3 does not answer', worker: 3 },
          since: noon + hour,
          stopAskedAt: null,
          told: [],
        },
      },
    ],
    now: noon + hour + 29 * second,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'unreachable, 29s ago', price: 4 },
    why: {
      sentence: '000042 is recovering: its attempt ended 29s ago (unreachable); what is left of it is being ended.',
      rule: 'pre: unreachable -> same allocation, resume (2 of 100 used)',
      next: 'the next attempt begins when nothing of it is alive',
    },
  },
  {
    life: 'its owner wants it stopped, and the program has its grace',
    changes: toStop,
    attempts: [
      {
        ...running,
        ending: stopping,
      },
    ],
    now: noon + hour + 11 * second,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'asked 11s ago', price: 4 },
    why: {
      sentence: '000042 is stopping: ada said stop 11s ago.',
      because: 'TERM sent at 20 Nov 13:00:01 UTC, 10s ago',
      next: 'it is killed if it is still there',
      nextAt: noon + hour + 31 * second,
    },
  },
  {
    life: 'its owner wants it stopped, and a worker does not answer',
    changes: toStop,
    allocations: [{ ...ready, silentSince: noon + hour - 2 * minute, silentWho: 'worker' }],
    attempts: [{ ...running, ending: stopping }],
    now: noon + hour + 5 * minute,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'no answer for 7m', price: 4 },
    why: {
      sentence: '000042 is stopping: ada said stop 5m ago; a worker has not answered for 7m.',
      because: 'no answer since 20 Nov 12:58:00 UTC; TERM sent at 20 Nov 13:00:01 UTC, 4m ago',
      next: 'to let its v5litepod-16 go now: jobman cancel 42; else it ends when the worker answers, or is let go',
      nextAt: noon + hour + 30 * minute,
    },
  },
  {
    life: 'its owner wants it stopped, and nobody answers on a TPU that is not its own',
    spec: tpuSpec({}, { ownership: 'standing' }),
    changes: toStop,
    allocations: [{ ...ready, silentSince: noon + hour - 2 * minute, silentWho: 'worker' }],
    attempts: [{ ...running, ending: stopping }],
    now: noon + hour + 5 * minute,
    row: { phase: 'stopping', reason: 'no answer for 7m' },
    why: {
      next: 'it ends when the worker answers or its TPU is seen gone; else it ends without that, and the TPU stays as it is; to wait no longer: jobman delete 42 --force',
      nextAt: noon + hour + 28 * minute,
    },
  },
  {
    life: 'its owner wants it stopped, and the cloud does not answer',
    changes: toStop,
    allocations: [{ ...ready, silentSince: noon + hour - 2 * minute, silentWho: 'allocation' }],
    attempts: [{ ...running, ending: stopping }],
    now: noon + hour + 5 * minute,
    row: { phase: 'stopping', reason: 'no answer for 7m', price: 4 },
    why: {
      next: 'the controller keeps asking, without limit; to release its v5litepod-16 as soon as the cloud answers: jobman cancel 42',
      nextAt: null,
    },
  },
  {
    life: 'its program cannot be killed',
    changes: toStop,
    attempts: [
      {
        ...running,
        ending: stopping,
        failures: [
          {
            task: { kind: 'stop', worker: 2 },
            tries: 3,
            lastAt: noon + hour + minute,
            detail: 'on worker 2 these processes do not die: 77',
          },
        ],
      },
    ],
    now: noon + hour + 2 * minute,
    row: { phase: 'stopping', reason: 'asked 2m ago', price: 4 },
    why: {
      because:
        'TERM sent at 20 Nov 13:00:01 UTC, 1m ago; the stop of the command on worker 2 failed 1m ago: on worker 2 these processes do not die: 77',
    },
  },
  {
    life: 'its TPU is under maintenance while it is stopped',
    changes: toStop,
    allocations: [{ ...ready, seen: repairing }],
    attempts: [{ ...running, ending: stopping }],
    now: noon + hour + 5 * minute,
    events: [askedToStop],
    row: { phase: 'stopping', reason: 'interrupted for 35m', price: 4 },
    why: {
      sentence:
        '000042 is stopping: ada said stop 5m ago; its v5litepod-16 has been interrupted for 35m (REPAIRING) and comes back by itself.',
      next: 'it ends when its v5litepod-16 is back, which is waited for without limit; to let it go now: jobman cancel 42',
    },
  },
  {
    life: 'its TPU is under maintenance while it runs',
    allocations: [{ ...ready, seen: repairing }],
    attempts: [running],
    now: noon + hour,
    row: { phase: 'running', reason: 'interrupted for 30m', price: 4 },
    why: {
      sentence:
        '000042 ran when it was last seen; its v5litepod-16 has been interrupted for 30m (REPAIRING) and comes back by itself.',
      because: 'vit-000042-1 REPAIRING since 20 Nov 12:30:00 UTC, 30m ago',
      rule: 'pre: unreachable -> same allocation, resume (0 of 100 used)',
      next: 'the command goes on, or is judged, when it is back, which is waited for without limit; to let it go: jobman cancel 42',
      nextAt: null,
    },
  },
  {
    life: 'its TPU is under maintenance before it has begun',
    allocations: [{ ...ready, seen: repairing }],
    now: noon + hour,
    row: { phase: 'provisioning', reason: 'interrupted for 30m', price: 4 },
    why: {
      sentence:
        '000042 is provisioning: its v5litepod-16 has been interrupted for 30m (REPAIRING) and comes back by itself.',
      next: 'it is set up when it is back, which is waited for without limit; to let it go: jobman cancel 42',
    },
  },
  {
    life: 'its TPU is under maintenance while it recovers',
    allocations: [gone, { ...ready, seen: repairing }],
    attempts: onceMore,
    now: noon + 2 * hour,
    events: [ruleApplied],
    row: { phase: 'recovering', reason: 'interrupted for 1h', price: 4 },
    why: {
      sentence:
        '000042 is recovering: its v5litepod-16 was preempted 1h ago; the next one has been interrupted for 1h30m (REPAIRING) and comes back by itself.',
      next: 'it is set up when it is back, which is waited for without limit; to let it go: jobman cancel 42',
    },
  },
  {
    life: 'the queue of the cloud has failed twice, and it is asked again in a while',
    allocations: [
      { ...gone, readyAt: null, lastFailure: { at: noon + minute, error: stockout } },
      { ...gone, readyAt: null, lastFailure: { at: noon + 3 * minute, error: stockout } },
      { requestedAt: null },
    ],
    attempts: [{ allocation: 3, notBefore: noon + 4 * minute }],
    now: noon + 3 * minute + 30 * second,
    row: { phase: 'queued', reason: 'asks again in 30s' },
    why: {
      sentence: '000042 is queued: no capacity for v5litepod-16 spot in us-west4-a so far.',
      because: 'There is no more capacity in the zone, 30s ago; 2 requests in vain; the cloud said: code 8',
      next: 'it is asked for again',
      nextAt: noon + 4 * minute,
    },
  },
  {
    life: 'no controller has looked at a job for the cloud yet',
    attempts: [],
    now: noon + minute,
    row: { phase: 'queued', reason: 'waits for its first look, 1m' },
    why: { sentence: '000042 is queued: no controller has looked at it yet.' },
  },
  {
    life: 'it was stopped and keeps its TPU',
    changes: toStop,
    attempts: [{ ...running, ...ended('stopped', { detail: 'its owner stopped it' }) }],
    settled: { at: noon + hour, verdict: 'stopped', reason: 'stopped' },
    now: noon + 2 * hour,
    row: { phase: 'stopped', reason: 'by its owner', status: 'stopped, holds v5litepod-16', price: 4 },
    why: {
      sentence: '000042 was stopped by its owner 1h ago; it still holds v5litepod-16, which costs about $4.00/h.',
      next: 'nothing by itself; to go on: jobman resume 42; from the beginning: jobman rerun 42; to let its v5litepod-16 go: jobman stop 42 --release',
    },
  },
  {
    life: 'it was deleted by force, and nobody has looked what became of its TPU',
    changes: { desired: 'delete', removed: true, cancelled: true },
    attempts: [running],
    settled: { at: noon + hour, verdict: 'cancelled', reason: 'stopped' },
    now: noon + 2 * hour,
    row: { phase: 'cancelled', reason: 'by its owner' },
    why: {
      sentence: '000042 was cancelled by its owner 1h ago.',
      next: 'nothing: it was taken off the list; what it held was never seen gone; to look for it: jobman gc',
    },
  },
  {
    life: 'its program failed and its TPU is on its way out',
    allocations: [{ ...ready, releasedAt: noon + hour }],
    attempts: [{ ...running, ...failedExit }],
    settled: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
    now: noon + hour + minute,
    row: { phase: 'failed', reason: 'exit 1, worker 3', price: 4 },
    why: {
      because:
        'exit code 1 on worker 3; its log says "ValueError: no lr"; at 20 Nov 13:00:00 UTC; vit-000042-1 told to go 1m ago, not seen gone yet',
      next: 'the controller looks until its v5litepod-16 is seen gone',
    },
  },
  {
    life: 'its program failed',
    allocations: [{ ...ready, ...gone }],
    attempts: [{ ...running, ...failedExit }],
    settled: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
    now: noon + 25 * hour,
    row: { phase: 'failed', reason: 'exit 1, worker 3' },
    why: {
      sentence: '000042 failed (command failed) 1d ago.',
      because: 'exit code 1 on worker 3; its log says "ValueError: no lr"; at 20 Nov 13:00:00 UTC',
      next: 'nothing by itself; all that it printed: jobman logs 42; to go on: jobman resume 42; from the beginning: jobman rerun 42',
    },
  },
  {
    life: 'its setup failed for good',
    allocations: [{ ...ready, ...gone }],
    attempts: [
      {
        failures: dockerFailed(4, noon + hour, 'exit 100'),
        ...ended('setup_failed', { detail: 'step docker failed on worker 3 (4 tries): exit 100', worker: 3 }),
      },
    ],
    settled: { at: noon + hour, verdict: 'failed', reason: 'setup_failed' },
    now: noon + 2 * hour,
    row: { phase: 'failed', reason: 'setup failed, worker 3' },
    why: {
      next: 'nothing by itself; what the step printed: jobman logs 42 --step docker; to go on: jobman resume 42; from the beginning: jobman rerun 42',
    },
  },
  {
    life: 'it succeeded on the built-in cloud, which does not let go of its TPU',
    spec: tpuSpec({}, { project: 'emulator' }),
    allocations: [
      {
        ...ready,
        releasedAt: noon + hour,
        seen: { state: 'releasing', detail: 'DELETING', at: noon + hour + second },
        lastFailure: { at: noon + hour, error: { kind: 'internal', message: 'Internal error.', raw: 'code 13' } },
      },
    ],
    attempts: [{ ...running, ...ended('succeeded', { detail: 'exit 0 everywhere' }) }],
    settled: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + 12 * minute,
    row: { phase: 'succeeded', reason: 'still letting go, for 12m', price: 4 },
    why: {
      because:
        'exit 0 everywhere; at 20 Nov 13:00:00 UTC; vit-000042-1 told to go 12m ago (DELETING), not seen gone yet, last answer: Internal error',
    },
  },
  {
    life: 'it succeeded on the built-in cloud after a preemption, and keeps its TPU',
    spec: tpuSpec({ finish: { capacity: 'keep', keepFor: null } }, { project: 'emulator' }),
    allocations: [gone, ready],
    attempts: [
      { ...running, ...preempted },
      { ...running, runningAt: noon + 2 * hour, ...ended('succeeded', { detail: '' }, noon + 3 * hour) },
    ],
    settled: { at: noon + 3 * hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + 4 * hour,
    row: { phase: 'succeeded', reason: 'ran 1h58m in 2 attempts', status: 'succeeded, holds v5litepod-16', price: 4 },
    why: {
      sentence:
        '000042 succeeded 1h ago; it still holds v5litepod-16, which costs about $4.00/h at Google and nothing here.',
    },
  },
  {
    life: 'it is set up and has no command',
    spec: tpuSpec({ command: setupOnly, finish: { capacity: 'keep', keepFor: null } }),
    attempts: [{ ...running, ...ended('succeeded', { detail: '' }) }],
    settled: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'set up; no command', status: 'succeeded, holds v5litepod-16', price: 4 },
    why: {},
  },
  {
    life: 'it was set up, and its TPU has gone since',
    spec: tpuSpec({ command: setupOnly, finish: { capacity: 'keep', keepFor: null } }),
    allocations: [gone],
    attempts: [{ ...running, ...ended('succeeded', { detail: '' }) }],
    settled: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'its TPU is gone' },
    why: {},
  },
  {
    life: 'it succeeded and keeps its TPU for a while',
    spec: tpuSpec({ finish: { capacity: 'keep', keepFor: hour } }),
    attempts: [{ ...running, ...ended('succeeded', { detail: 'exit 0 everywhere' }) }],
    settled: { at: noon + hour, verdict: 'succeeded', reason: 'succeeded' },
    now: noon + hour + minute,
    row: { phase: 'succeeded', reason: 'ran 58m', status: 'succeeded, holds v5litepod-16', price: 4 },
    why: { next: 'what it still holds is let go; at once: jobman stop 42 --release', nextAt: noon + 2 * hour },
  },
  {
    life: 'the cloud will never give it',
    allocations: [
      {
        requestFailures: 1,
        lastFailure: { at: noon, error: { kind: 'permission', message: 'may not', raw: '403' } },
        goneAt: noon,
      },
    ],
    attempts: [ended('allocation_failed', { detail: 'tpu.nodes.create is missing', raw: '403' })],
    settled: { at: noon + hour, verdict: 'failed', reason: 'allocation_failed' },
    now: noon + 2 * hour,
    row: { phase: 'failed', reason: 'not allowed' },
    why: { sentence: '000042 failed (allocation failed) 1h ago.' },
  },
];

/** The job of that case. */
function jobIn({ spec, changes, allocations = [ready], attempts = [{}], settled }: Case): Job {
  const created = aJob(spec, changes);
  return attempts.length === 0 ? created : { ...living(created, allocations, attempts), settled: settled ?? null };
}

for (const one of cases) {
  const { life, now, events = [], row: sees, why } = one;
  test(`what people see when ${life}`, () => {
    const job = jobIn(one);
    const row = jobRow(job, now);
    assert.equal(row.phase, sees.phase);
    assert.equal(row.status, sees.status ?? sees.phase);
    assert.equal(row.reason, sees.reason);
    assert.ok(row.reason.length <= reasonLongest);
    assert.equal(row.pricePerHour, sees.price ?? null);
    const answer = whyOf(job, now, { events });
    for (const [name, value] of Object.entries(why)) assert.deepEqual(answer[name as keyof Why], value, name);
  });
}

test('why names the situation of the newest pass, and says so where none is known', () => {
  const situation = (name: string | undefined) => {
    const job = { ...aJob(), ...(name !== undefined && { situation: name }) };
    return whyOf(job, noon, { events: [] }).situation;
  };
  assert.equal(situation(undefined), null);
  assert.deepEqual(situation('of-a-later-version'), { name: 'of-a-later-version', means: null });
  assert.equal(
    situation('request-refused')?.means,
    'the cloud refused the request for good, or the persistent TPU to use does not exist',
  );
});

test('an imported job whose end is unknown is not reported as stopped by its owner', () => {
  const ending = ended('stopped', { detail: 'imported, was RUNNING' });
  const stopped = { at: noon + hour, verdict: 'stopped', reason: 'stopped' } as const;
  const job: Job = { ...living(aJob(), [{ ...gone, requestedAt: null }], [ending]), settled: stopped };
  assert.equal(jobRow(job, noon + 2 * hour).reason, 'imported, was RUNNING');
  assert.match(
    whyOf(job, noon + 2 * hour, { events: [] }).sentence,
    /^000042 counts as stopped \(imported, was RUNNING\)/,
  );
});

test('a job that another user ended names that user', () => {
  const life = living(aJob(localSpec()), [{}], [{ ...running, allocation: 1 }]);
  const by = (user: string): string => {
    const { job } = ask(life, 'cancel', { by: user, onBehalf: true }, noon + hour);
    const settled = { at: noon + hour, verdict: 'cancelled', reason: 'stopped' } as const;
    return jobRow({ ...job, settled }, noon + 2 * hour).reason;
  };
  assert.equal(by('bob'), 'by bob');
  assert.equal(by('ada'), 'by its owner');
});

test('a job that waits for its turn is told how many places are taken, and how many jobs are ahead', () => {
  const job = aJob(localSpec());
  const turn = (taken: number, ahead: number) =>
    whyOf(job, noon + minute, { events: [], turn: { slots: 2, taken, ahead } });
  assert.equal(turn(2, 3).sentence, '000042 is queued: 2 of 2 places of this machine are taken, and 3 jobs are ahead.');
  assert.equal(turn(2, 1).sentence, '000042 is queued: 2 of 2 places of this machine are taken, and 1 job is ahead.');
  assert.equal(turn(2, 0).sentence, '000042 is queued: 2 of 2 places of this machine are taken.');
  assert.equal(
    turn(2, 0).next,
    'it is the next to begin, as soon as a place is free (local.slots says how many there are)',
  );
  assert.equal(turn(1, 0).sentence, '000042 is queued: it is its turn, and no controller has looked at it yet.');
});

test('every why names its job and says what comes next', () => {
  for (const one of cases) {
    const { now, events = [] } = one;
    const why = whyOf(jobIn(one), now, { events });
    assert.match(why.sentence, /^000042[ :].*\.$/);
    assert.notEqual(why.next, '');
    assert.equal(/undefined|null|NaN/.test(JSON.stringify(why).replaceAll(/:null/g, '')), false);
  }
});

test('which worker failed is said where there are several', () => {
  const failed = (workers: number) =>
    jobRow(
      {
        ...living(aJob(), [{ ...ready, ...gone, workers }], [{ ...running, ...failedExit }]),
        settled: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
      },
      noon + 2 * hour,
    ).reason;
  assert.equal(failed(4), 'exit 1, worker 3');
  assert.equal(failed(1), 'exit 1');
});

test('a row says where to log in while there is somewhere, and whether its price is paid', () => {
  const host0 = (...allocations: Parameters<typeof living>[1]) =>
    jobRow(living(aJob(), allocations, [running]), noon + hour).host0;
  assert.equal(host0(ready), '192.0.2.0');
  assert.equal(host0({ ...ready, releasedAt: noon }), null);
  assert.equal(host0({ ...ready, ...gone }), null);
  assert.equal(host0(), null);
  assert.equal(jobRow(aJob(), noon).pretended, false);
  assert.equal(jobRow(aJob(tpuSpec({}, { project: 'emulator' })), noon).pretended, true);
  assert.equal(jobRow(aJob(localSpec()), noon).pretended, false);
});

test('an allocation says what the cloud last said of it, while there is something to wait for', () => {
  const says = (job: Job) => allocationViews(job, noon + 2 * hour).map((allocation) => allocation.says);
  const refused = { requestFailures: 2, lastFailure: { at: noon + hour, error: stockout } };
  assert.deepEqual(says(living(aJob(), [refused], [{}])), [
    'There is no more capacity in the zone, 1h ago; 2 requests in vain',
  ]);
  const states = (job: Job) => allocationViews(job, noon + 2 * hour).map(({ state }) => state);
  const asked = { acceptedAt: null, seen: null, readyAt: null } as const;
  assert.deepEqual(states(living(aJob(), [{ ...asked, ...refused }], [{}])), ['refused']);
  assert.deepEqual(states(living(aJob(), [{ ...asked, ...refused, isAsking: true }], [{}])), ['asked']);
  assert.deepEqual(says(living(aJob(), [{}], [{}])), ['asked 2h ago, not seen yet']);
  assert.deepEqual(says(living(aJob(), [ready], [running])), [null]);
  assert.deepEqual(says(living(aJob(), [{ ...ready, silentSince: noon + hour, silentWho: 'worker' }], [running])), [
    'no answer for 1h',
  ]);
  const leaving = { ...ready, releasedAt: noon + hour };
  const coming = { seen: { state: 'waiting', detail: 'CREATING', at: noon + hour } } as const;
  assert.deepEqual(says(living(aJob(), [gone, leaving, coming], [running, running, {}])), [
    null,
    'told to go, not seen gone yet',
    'CREATING for 1h',
  ]);
});

test('the row of an ended job lasts: nothing of it changes with time', () => {
  let lasting = 0;
  for (const one of cases) {
    const [job, now] = [jobIn(one), one.now];
    const row = lastingRow(job);
    if (row === null) continue;
    lasting += 1;
    assert.deepEqual(row, jobRow(job, now));
    assert.deepEqual(row, jobRow(job, now + 100 * hour));
  }
  assert.equal(lasting, 5);
});

test('what costs money or may still change is never taken for lasting', () => {
  const settled = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;
  assert.equal(lastingRow({ ...living(aJob(), [ready], []), settled }), null);
  assert.equal(lastingRow({ ...living(aJob(), [{ ...ready, releasedAt: noon }], []), settled }), null);
  assert.equal(lastingRow({ ...aJob(), settled }), null);
  assert.notEqual(lastingRow({ ...living(aJob(), [{ ...ready, ...gone }], []), settled }), null);
});

/** A job in each phase with a cloud that has not been heard of since half past twelve. */
const unheard = { silentSince: noon + 30 * minute, silentWho: 'allocation' } as const;
const lookFailed: Event = {
  kind: 'silent',
  at: noon + 30 * minute,
  allocation: 1,
  detail: 'this machine has no login that Google Cloud accepts; log in with: gcloud auth application-default login',
};

for (const [word, job] of [
  ['queued', living(aJob(), [{ ...unheard }], [{}])],
  [
    'provisioning',
    living(aJob(), [{ ...unheard, seen: { state: 'provisioning', detail: 'CREATING', at: noon } }], [{}]),
  ],
  ['in setup', living(aJob(), [{ ...ready, ...unheard }], [{}])],
  ['running', living(aJob(), [{ ...ready, ...unheard }], [running])],
] as const) {
  test(`a job that was ${word} when the login ended is not known for lack of a login, and why says how to log in`, () => {
    const now = noon + 32 * minute;
    const silentWho = 'login' as const;
    const allocations = job.allocations.map((one) => withLife({ ...one, silentWho }));
    const without = { ...job, allocations };
    assert.equal(jobRow(without, now).reason, 'no login for 2m');
    const why = whyOf(without, now, { events: [lookFailed] });
    assert.equal(
      why.sentence,
      `000042: not known since 20 Nov 12:30:00 UTC (2m), for lack of a login. It was ${word} then; nothing is changed.`,
    );
    assert.equal(
      why.because,
      'no login since 20 Nov 12:30:00 UTC: this machine has no login that Google Cloud accepts; log in with: gcloud auth application-default login',
    );
    assert.equal(why.next, 'the job goes on by itself after you have logged in');
  });

  test(`a job that was ${word} when the cloud fell silent is not known, and the failed look is told in its own words`, () => {
    const now = noon + 32 * minute;
    const why = whyOf(job, now, { events: [lookFailed], nextLook: now + 16 * second });
    assert.equal(
      why.sentence,
      `000042: not known since 20 Nov 12:30:00 UTC (2m). It was ${word} then; nothing is changed.`,
    );
    assert.equal(
      why.because,
      'no answer about vit-000042-1 since 20 Nov 12:30:00 UTC: this machine has no login that Google Cloud accepts; log in with: gcloud auth application-default login',
    );
    assert.equal(why.rule, null);
    assert.equal(why.lookAt, now + 16 * second);
    assert.equal(jobRow(job, now).reason, 'no answer for 2m');
  });
}

test('a program that may hang is told with the line of its log, and when it is ended', () => {
  const job = living(aJob(), [ready], [running]);
  const endsAt = noon + 20 * minute;
  const hang = { line: 'E0000 GRPC error: reset', means: 'a call between workers failed', endsAt };
  const { sentence, because, next, nextAt } = whyOf(job, noon + 12 * minute, { events: [], hang });
  assert.match(sentence, /^000042 has been running for 10m on .*, and may hang: a call between workers failed\.$/);
  assert.equal(because, 'its log says "E0000 GRPC error: reset", and nothing of progress after that');
  assert.deepEqual([next, nextAt], ['its program is ended if it prints nothing until then', endsAt]);
});

test('a silent worker is named, with what came instead of an answer', () => {
  const job = living(aJob(), [{ ...ready, silentSince: noon + 30 * minute, silentWho: 'worker' }], [running]);
  const events: readonly Event[] = [
    // Of another allocation, and of the cloud: neither is about this worker.
    { kind: 'silent', at: noon, allocation: 1, detail: '403' },
    { kind: 'silent', at: noon + 30 * minute, allocation: 1, worker: 3, detail: 'worker 3: connection timed out' },
  ];
  const why = whyOf(job, noon + 31 * minute, { events });
  assert.equal(why.sentence, '000042 ran when it was last seen; worker 3 has not answered for 1m. Nothing is changed.');
  assert.equal(why.because, 'no answer since 20 Nov 12:30:00 UTC: connection timed out');
  assert.equal(why.nextAt, noon + 33 * minute);
});

test('the usual wait is told while capacity is waited for, and the next look where a look is waited for', () => {
  const usual = { median: 41 * minute, ninetieth: 2 * hour, waits: 12 };
  const around = { events: [], usual, nextLook: noon + 2 * minute };
  const waiting = whyOf(living(aJob(), [{}], [{}]), noon + minute, around);
  assert.equal(waiting.usually, '41m here (median of 12 waits in 30 days; 9 of 10 within 2h00m)');
  assert.equal(waiting.lookAt, noon + 2 * minute);
  const runs = whyOf(living(aJob(), [ready], [running]), noon + 10 * minute, around);
  assert.deepEqual([runs.usually, runs.lookAt], [null, null]);
  const standing = living(aJob(tpuSpec({}, { ownership: 'standing' })), [{}], [{}]);
  assert.equal(whyOf(standing, noon + minute, around).usually, null);
});

test('the end of the log is told where the program failed, and nowhere else', () => {
  const log = ['ValueError: no lr'];
  const settled = (verdict: 'failed' | 'succeeded', reason: 'command_failed' | 'succeeded') =>
    ({
      ...living(aJob(localSpec()), [ready], [{ ...running, ...ended(reason, { detail: 'exit code 1', exitCode: 1 }) }]),
      settled: { at: noon + hour, verdict, reason },
    }) as const;
  const why = (job: Job) => whyOf(job, noon + 2 * hour, { events: [], log });
  assert.deepEqual(why(settled('failed', 'command_failed')).log, log);
  assert.deepEqual(why(settled('succeeded', 'succeeded')).log, []);
  const again = living(
    aJob(),
    [ready, ready],
    [{ ...running, ...failedExit, ...ended('command_failed', { detail: 'exit code 1' }) }, running],
  );
  assert.deepEqual(why(again).log, []);
});

test('a rule that matched by what the log says is told with that', () => {
  const job = {
    ...living(
      aJob(),
      [{ ...ready, ...gone }],
      [
        {
          ...running,
          ...ended('command_failed', {
            detail: 'exit code 1 on worker 0',
            worker: 0,
            exitCode: 1,
            pattern: 'out_of_memory',
            line: 'RESOURCE_EXHAUSTED: 16G',
          }),
        },
      ],
    ),
    settled: { at: noon + hour, verdict: 'failed', reason: 'command_failed' },
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
  assert.equal(why.rule, 'pre: command failed (its log says out_of_memory) -> fail');
  assert.equal(
    why.because,
    'exit code 1 on worker 0; its log says "RESOURCE_EXHAUSTED: 16G"; the accelerator ran out of memory; at 20 Nov 13:00:00 UTC',
  );
});

test('a program that was killed where the cloud may take the machine is told not to be judged yet', () => {
  const exitSeen = { at: noon + hour, worker: 0, exitCode: 137, signal: 'KILL' } as const;
  const job = living(aJob(), [ready], [{ ...running, exitSeen }]);
  const why = whyOf(job, noon + hour + 12 * second, { events: [] });
  assert.equal(
    why.sentence,
    '000042: its program has ended on worker 0 and is not judged yet: the cloud may be about to say that it took the machine.',
  );
  assert.equal(
    why.because,
    'killed by SIGKILL (exit code 137), seen 20 Nov 13:00:00 UTC, 12s ago; mostly the machine ran out of memory, or somebody killed it',
  );
  assert.equal(why.rule, 'pre: preempted -> new allocation, resume (0 of 100 used); else pre: command failed -> fail');
  const { reason } = jobRow(job, noon + hour + 12 * second);
  assert.ok(reason.length <= reasonLongest);
  assert.equal(reason, 'killed by SIGKILL just now');
  // What its log says decides which rule would answer it.
  const driven = aJob(tpuSpec({ recovery: { ...tpuSpec().recovery, rules: presets.pre } }));
  const cut = living(driven, [ready], [{ ...running, exitSeen: { ...exitSeen, exitCode: 1, pattern: 'grpc' } }]);
  const { rule } = whyOf(cut, noon + hour + 12 * second, { events: [] });
  assert.match(rule ?? '', /; else pre: command failed \(its log says grpc\) -> same allocation, resume/);
});

/** That local job whose first attempt has failed, and whose second begins with a pause until then. */
function pausing(notBefore: number): Job {
  const here = { ...ready, workers: 1, hosts: null };
  return living(
    aJob(localSpec()),
    [here],
    [
      { ...running, ...ended('command_failed', { detail: 'exit 1', exitCode: 1, worker: 0 }) },
      { allocation: 1, createdAt: noon + hour, notBefore },
    ],
  );
}

test('a job whose pause is over and whose place others have taken meanwhile says that it waits for one', () => {
  const turn = { slots: 1, taken: 1, ahead: 0 };
  const { sentence, next } = whyOf(pausing(noon + 2 * hour), noon + 3 * hour, { events: [], turn });
  assert.match(sentence, /waits for a place: 1 of 1 place of this machine are taken\.$/);
  assert.match(next, /it is the next to begin, as soon as a place is free/);
  const before = whyOf(pausing(noon + 4 * hour), noon + 3 * hour, { events: [], turn });
  assert.match(before.sentence, /follows after a pause\.$/);
});

test('a multislice says how many TPUs it holds', () => {
  const spec = tpuSpec();
  const capacity = spec.capacity.kind === 'tpu' ? { ...spec.capacity, nodeCount: 2 } : spec.capacity;
  const held = living(aJob({ ...spec, capacity }), [ready], [ended('stopped', { detail: '' })]);
  const job: Job = { ...held, desired: 'hold', settled: { at: noon + hour, verdict: 'stopped', reason: 'stopped' } };
  assert.equal(jobRow(job, noon + hour).status, 'stopped, holds 2 × v5litepod-16');
  assert.match(whyOf(job, noon + hour, { events: [] }).sentence, /it still holds 2 × v5litepod-16/);
});

test('of several places the next is announced as soon as one has been refused, and not the same one again', () => {
  const spec = tpuSpec();
  const other = { accelerator: 'v4-8', pricing: 'spot', runtimeVersion: 'base', pricePerHour: 1 } as const;
  const capacity =
    spec.capacity.kind === 'tpu' ? { ...spec.capacity, alternatives: [{ zone: 'us-central2-b', ...other }] } : null;
  assert.ok(capacity !== null);
  const refused = { requestFailures: 1, lastFailure: { at: noon + minute, error: stockout } };
  const [here, elsewhere] = [spec, { ...spec, capacity }].map((one) =>
    whyOf(living(aJob(one), [refused], [{}]), noon + minute + second, { events: [] }),
  );
  assert.equal(here?.next, 'it is asked for again');
  assert.equal(elsewhere?.next, 'v4-8 spot in us-central2-b is asked for');
  assert.equal(elsewhere?.nextAt, null);
});

test('a program of which nothing is left was not unreachable', () => {
  const detail =
    'the program vanished on worker 0: its processes were killed from outside, and no exit code was written';
  const ending = ended('unreachable', { detail, worker: 0 });
  const here = { ...ready, workers: 1, hosts: null };
  const job: Job = {
    ...living(aJob(localSpec()), [here], [ending]),
    settled: { at: noon + hour, verdict: 'failed', reason: 'unreachable' },
  };
  assert.equal(jobRow(job, noon + hour).reason, 'program vanished');
  assert.match(whyOf(job, noon + hour, { events: [] }).sentence, /^000042 failed \(program vanished\)/);
  const silent = ended('unreachable', { detail: 'worker 0 does not answer', worker: 0 });
  assert.equal(jobRow({ ...job, attempts: living(job, [here], [silent]).attempts }, noon + hour).reason, 'unreachable');
});
