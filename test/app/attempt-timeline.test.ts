import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attemptLanes, eventsOf, isEventOf } from '../../src/app/attempt-timeline.ts';
import type { AllocationView, AttemptView, WorkerView } from '../../src/app/client.ts';
import { commandLosses } from '../../src/app/command-losses.ts';
import { differingFirst } from '../../src/app/worker-order.ts';
import type { Event } from '../../src/core/model/event.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import type { UsageRow } from '../../src/reports/usage.ts';

const attempt: AttemptView = {
  attempt: 1,
  stage: 0,
  startMode: 'fresh',
  startedBy: 'owner',
  commandOnly: false,
  allocation: 1,
  workers: [0],
  createdAt: 0,
  notBeforeAt: 0,
  startedAt: 20 * minute,
  endingAt: 80 * minute,
  endedAt: 81 * minute,
  reason: 'preempted',
  evidence: null,
  exits: [],
  workdirCopy: null,
};
const allocation: AllocationView = {
  allocation: 1,
  name: 'vit-1',
  ownership: 'ephemeral',
  state: 'gone',
  message: null,
  requestedAt: 0,
  readyAt: 15 * minute,
  releasedAt: 81 * minute,
  goneAt: 82 * minute,
  workers: [],
};
const next: AttemptView = {
  ...attempt,
  attempt: 2,
  allocation: 2,
  createdAt: 81 * minute,
  notBeforeAt: 83 * minute,
  startedAt: null,
  endingAt: null,
  endedAt: null,
  reason: null,
};
const pending: AllocationView = { ...allocation, allocation: 2, readyAt: null, releasedAt: null, goneAt: null };

test('a preempted attempt has waiting, provisioning, setup, running, lost and ending; the next one pauses and waits', () => {
  const events: readonly Event[] = [
    { kind: 'allocation_seen', at: 10 * minute, allocation: 1, state: 'provisioning', message: 'CREATING' },
    { kind: 'allocation_seen', at: 80 * minute, allocation: 1, state: 'lost', message: 'PREEMPTED' },
    { kind: 'command_received', at: 90 * minute, verb: 'stop', by: 'ada', desired: 'stopped' },
  ];
  const lost = { use: 'lost', attempt: 1, from: 70 * minute, until: 80 * minute } as UsageRow;
  const lanes = attemptLanes({ attempts: [attempt, next], allocations: [allocation, pending] }, 95 * minute, events, [
    lost,
  ]);
  const shown = lanes.map(({ segments }) =>
    segments.map(({ kind, from, until, isOpen }) => [kind, from / minute, until / minute, isOpen]),
  );
  assert.deepEqual(shown, [
    [
      ['waiting', 0, 10, false],
      ['provisioning', 10, 15, false],
      ['setup', 15, 20, false],
      ['running', 20, 70, false],
      ['lost', 70, 80, false],
      ['ending', 80, 81, false],
    ],
    [
      ['pause', 81, 83, false],
      ['waiting', 83, 95, true],
    ],
  ]);
  assert.deepEqual(
    lanes.map(({ markers }) => markers.map(({ kind }) => kind)),
    [['loss'], ['command']],
  );
  const [, provisioning] = lanes[0]?.segments ?? [];
  assert.ok(provisioning !== undefined);
  assert.deepEqual(eventsOf(events, provisioning), events.slice(0, 1));
});

test('an event belongs to the attempt that it names, and else to the newest one that had begun', () => {
  const ready = (at: number): Event => ({ kind: 'allocation_seen', at, allocation: 1, state: 'ready', message: '' });
  const events: readonly Event[] = [
    { kind: 'created', at: -1, by: 'ada' },
    ready(15 * minute),
    ready(81 * minute),
    { kind: 'attempt_ended', at: 82 * minute, attempt: 1, reason: 'preempted', evidence: { message: '' } },
  ];
  const eventsOfAttempt = (number: number) => events.filter(isEventOf(number, [attempt, next]));
  assert.deepEqual([1, 2, 3].map(eventsOfAttempt), [[events[1], events[3]], [events[2]], []]);
});

test('a question before a command names the lost work and the capacity', () => {
  const view = {
    accelerator: 'v4-8',
    allocations: [{ ...allocation, state: 'ready', releasedAt: null, goneAt: null }],
    attempts: [{ ...attempt, endingAt: null, endedAt: null, reason: null }],
    backend: 'tpu',
    checkpoint: { name: 'step-40', folder: { host: 'vm', path: '/c' }, savedAt: 50 * minute },
    hosts: [],
    pricePerHourUsd: 8,
    simulated: false,
    spec: { command: { checkpointDir: '/c' } },
  } as unknown as Parameters<typeof commandLosses>[0];
  const now = hour;
  assert.deepEqual(commandLosses(view, 'cancel', now), [
    'Its program ends. 10m of work is lost: the newest checkpoint is step-40.',
    'Its v4-8 is released. The same capacity may not come back.',
  ]);
  assert.deepEqual(commandLosses({ ...view, checkpoint: null }, 'stop', now), [
    'Its program ends after 40m. Work since its newest checkpoint is lost; this machine does not know the age of that checkpoint.',
    'Its v4-8 is kept and costs about $8.00/h until it is released.',
  ]);
  assert.deepEqual(commandLosses(view, 'resume', now), []);
});

test('a worker with another state, or with a much older log, differs and is first', () => {
  const worker = (number: number, message: string, logAgeMs: number): WorkerView => {
    return { worker: number, address: null, message, logAgeMs, lastLine: null };
  };
  const alike = [worker(0, 'running', 4 * second), worker(1, 'running', 5 * second)];
  assert.deepEqual(
    differingFirst(alike).map(({ isDifferent }) => isDifferent),
    [false, false],
  );
  const all = [...alike, worker(2, 'running', 10 * minute), worker(3, 'exit 1', 9 * second)];
  assert.deepEqual(
    differingFirst(all).map(({ worker: { worker: number }, isDifferent }) => [number, isDifferent]),
    [
      [3, true],
      [2, true],
      [0, false],
      [1, false],
    ],
  );
});
