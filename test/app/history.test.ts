// A sentence for every event, and the formats of times and amounts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatAge, formatChoices, formatDuration, formatTime, formatPricePerHour } from '../../src/app/format.ts';
import { describeCloudAnswer, describeEvent } from '../../src/app/history.ts';
import { formatBudget } from '../../src/app/phrases.ts';
import type { EventBody } from '../../src/core/model/event.ts';
import type { RecoverySpec } from '../../src/core/model/spec.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { aJob, localSpec, noon, tpuSpec } from '../support/builders.ts';

const { capacity } = tpuSpec();
assert.ok(capacity.kind === 'tpu');
const elsewhere = { ...capacity, zone: 'us-central1-a', accelerator: 'v4-8', pricing: 'ondemand' as const };
const spec = { ...tpuSpec(), capacity: { ...capacity, alternatives: [elsewhere] } };
/** A job with an on-demand alternative in another zone. */
const job = aJob(spec);
const own = `${capacity.accelerator} ${capacity.pricing} in ${capacity.zone}`;

/** At least one case for each kind; a missing kind does not compile. */
const sentences: { readonly [Kind in EventBody['kind']]: readonly (readonly [EventBody & { kind: Kind }, string])[] } =
  {
    created: [
      [{ kind: 'created', by: 'ada' }, 'created by ada; recovery pre: 100 preemptions allowed'],
      [
        { kind: 'created', by: 'ada', overrides: [{ key: 'command.lr', value: '0.01' }] },
        'created by ada with --set command.lr=0.01; recovery pre: 100 preemptions allowed',
      ],
    ],
    command_received: [
      [
        { kind: 'command_received', verb: 'stop', by: 'ada', desired: 'stopped' },
        'ada requested stop: end the program and keep the capacity',
      ],
      [
        { kind: 'command_received', verb: 'stop', by: 'ada', desired: 'stopped', keepsNothing: true },
        'ada requested stop: end the program; there is no capacity to keep',
      ],
      [
        { kind: 'command_received', verb: 'resume', by: 'ada', desired: 'running', startMode: 'resume' },
        'ada requested resume: continue from the last checkpoint',
      ],
    ],
    attempt_created: [
      [
        {
          kind: 'attempt_created',
          attempt: 2,
          stage: 1,
          startMode: 'resume',
          startedByOwner: false,
          allocation: 2,
          notBeforeAt: noon + 38 * second,
        },
        'attempt 2 created: resume, stage 1, for allocation 2, starts in 38s',
      ],
      [
        {
          kind: 'attempt_created',
          attempt: 2,
          stage: 0,
          startMode: 'fresh',
          startedByOwner: true,
          commandOnly: true,
          allocation: 1,
          notBeforeAt: noon,
        },
        'attempt 2 created: fresh start, stage 0, for allocation 1, without setup',
      ],
    ],
    attempt_moved: [
      [
        { kind: 'attempt_moved', attempt: 1, allocation: 2, notBeforeAt: noon + 38 * second },
        'attempt 1 moved to allocation 2',
      ],
    ],
    alternative_exhausted: [
      [
        { kind: 'alternative_exhausted', allocation: 1, alternative: 0, answer: 'stockout', next: 1 },
        `skipped ${own} (no capacity); next: v4-8 ondemand in us-central1-a`,
      ],
      [
        { kind: 'alternative_exhausted', allocation: 2, alternative: 1, answer: 'waiting', next: 0 },
        `skipped v4-8 ondemand in us-central1-a (waited too long); next: ${own}`,
      ],
    ],
    alternative_skipped: [
      [
        { kind: 'alternative_skipped', allocation: 1, alternative: 0, next: 1 },
        `skipped ${own} (no capacity for another job just now); next: v4-8 ondemand in us-central1-a`,
      ],
    ],
    allocation_requested: [
      [
        { kind: 'allocation_requested', allocation: 1, name: 'vit-000042-1', ownership: 'ephemeral' },
        'allocation 1 requested: v5litepod-16 spot in us-west4-a, named vit-000042-1',
      ],
      [
        { kind: 'allocation_requested', allocation: 1, name: 'lab-v4', ownership: 'persistent' },
        'allocation 1 is the existing TPU lab-v4',
      ],
    ],
    allocation_refused: [
      [
        {
          kind: 'allocation_refused',
          allocation: 1,
          error: { kind: 'stockout', message: 'There is no more\ncapacity.', raw: '' },
          nextAt: noon + minute,
        },
        'allocation 1 refused (no capacity): There is no more capacity; retry in 1m',
      ],
      [
        { kind: 'allocation_refused', allocation: 1, error: { kind: 'permission', message: 'no', raw: '' } },
        'allocation 1 refused (not allowed): no',
      ],
    ],
    allocation_seen: [
      [
        { kind: 'allocation_seen', allocation: 1, state: 'ready', message: 'READY', workers: 4 },
        'allocation 1 is ready with 4 workers (READY)',
      ],
      [{ kind: 'allocation_seen', allocation: 1, state: 'absent', message: '' }, 'allocation 1 does not exist'],
    ],
    allocation_released: [
      [{ kind: 'allocation_released', allocation: 1, message: 'it is lost' }, 'allocation 1 released: it is lost'],
    ],
    allocation_gone: [[{ kind: 'allocation_gone', allocation: 1 }, 'allocation 1 deleted']],
    budget_warning: [
      [{ kind: 'budget_warning', spentUsd: 40.25, budgetUsd: 50 }, '$40.25 of $50.00 have been used (job.budget)'],
      [{ kind: 'budget_warning', spentUsd: 0.0256, budgetUsd: 0.032 }, '$0.0256 of $0.032 have been used (job.budget)'],
      [{ kind: 'budget_warning', spentUsd: 0.024, budgetUsd: 0.03 }, '$0.024 of $0.03 have been used (job.budget)'],
    ],
    orphan_seen: [
      [{ kind: 'orphan_seen', allocation: 1, slices: ['ready'] }, 'allocation 1, an orphan, is ready and costs money'],
      [{ kind: 'orphan_seen', allocation: 1, slices: [] }, 'allocation 1, an orphan, is not ready any more'],
      [
        { kind: 'orphan_seen', allocation: 1, slices: ['ready'], alternative: 0 },
        'allocation 1, an orphan (v5litepod-16 spot in us-west4-a), is ready and costs money',
      ],
    ],
    step_failed: [
      [
        { kind: 'step_failed', attempt: 1, allocation: 1, worker: 3, step: 'docker', tries: 3, message: 'exit 100' },
        'attempt 1: setup step docker failed on worker 3 (try 3 of 3): exit 100',
      ],
    ],
    step_run_manually: [
      [
        { kind: 'step_run_manually', by: 'ada', allocation: 1, step: 'gcsfuse', force: false, workers: 4, failed: [] },
        'ada ran setup step gcsfuse: done on 4 of 4 workers',
      ],
      [
        {
          kind: 'step_run_manually',
          by: 'ada',
          allocation: 1,
          step: 'venv',
          force: true,
          workers: 2,
          failed: [{ worker: 1, message: 'exit code 1: no space' }],
        },
        'ada ran setup step venv with --force: done on 1 of 2 workers; failed on worker 1: exit code 1: no space',
      ],
    ],
    attempt_started: [
      [{ kind: 'attempt_started', attempt: 1, workers: [0, 1, 2, 3] }, 'attempt 1 started on 4 workers'],
      [{ kind: 'attempt_started', attempt: 1, workers: ['controller'] }, 'attempt 1 started on this machine'],
    ],
    attempt_running: [[{ kind: 'attempt_running', attempt: 1 }, 'attempt 1 is running']],
    attempt_resumed: [
      [
        { kind: 'attempt_resumed', attempt: 2, entry: 'step_40', savedAt: noon - 90 * second },
        'attempt 2 continues from step_40, saved 1m30s before',
      ],
      [{ kind: 'attempt_resumed', attempt: 2, entry: null, savedAt: null }, 'attempt 2 found no checkpoint'],
    ],
    exit_seen: [
      [
        { kind: 'exit_seen', attempt: 1, worker: 3, exitCode: 137, signal: 'KILL' },
        'the program exited on worker 3: killed by SIGKILL (exit code 137); the cause is not known yet',
      ],
    ],
    clock_set_back: [
      [{ kind: 'clock_set_back' }, 'the clock of this machine was set back; times in the future count as now'],
    ],
    attempt_ending: [
      [
        { kind: 'attempt_ending', attempt: 1, reason: 'hung', evidence: { message: 'no output for 10m' } },
        'ending attempt 1: hung, no output for 10m',
      ],
      [
        { kind: 'attempt_ending', attempt: 2, reason: 'succeeded', evidence: { message: 'exit code 0' } },
        'attempt 2 succeeded, exit code 0',
      ],
    ],
    attempt_ended: [
      [
        {
          kind: 'attempt_ended',
          attempt: 1,
          reason: 'command_failed',
          evidence: { message: 'exit 1', line: 'ValueError: no lr ' },
        },
        'attempt 1 ended: command failed, exit 1; its log says "ValueError: no lr"',
      ],
    ],
    rule_applied: [
      [
        { kind: 'rule_applied', attempt: 3, reason: 'preempted', then: 'resume', on: 'new', used: 4, limit: 100 },
        'rule pre: preempted -> new allocation, resume (4 of 100 used)',
      ],
      [
        { kind: 'rule_applied', attempt: 1, reason: 'hung', then: 'fail', on: 'same', used: 1, limit: 3 },
        'rule pre: hung -> fail',
      ],
      [
        { kind: 'rule_applied', attempt: 4, reason: 'hung', then: 'fail', on: 'same', used: 4, limit: 3 },
        'rule pre: hung -> fail (all 3 used)',
      ],
    ],
    unreachable: [
      [
        { kind: 'unreachable', allocation: 1, worker: 3, message: 'connection timed out' },
        'worker 3 does not answer (connection timed out)',
      ],
      [{ kind: 'unreachable', allocation: 1, message: '403' }, 'allocation 1 does not answer (403)'],
    ],
    reachable: [
      [{ kind: 'reachable', allocation: 1 }, 'allocation 1 answers again'],
      [{ kind: 'reachable', allocation: 1, who: 'workers' }, 'every worker answers again'],
    ],
    finished: [
      [{ kind: 'finished', verdict: 'failed', reason: 'setup_failed' }, 'failed: setup failed'],
      [{ kind: 'finished', verdict: 'succeeded', reason: 'succeeded' }, 'succeeded'],
    ],
    removed: [[{ kind: 'removed' }, 'removed from the list; its history and logs are kept']],
  };

for (const [kind, rows] of Object.entries(sentences)) {
  test(`history describes ${kind} in one sentence`, () => {
    for (const [body, sentence] of rows) assert.equal(describeEvent({ at: noon, ...body }, job), sentence);
  });
}

test('the history of a local job mentions no cloud', () => {
  const event = {
    at: noon,
    kind: 'allocation_requested',
    allocation: 1,
    name: 'this machine',
    ownership: 'persistent',
  } as const;
  assert.equal(describeEvent(event, aJob(localSpec())), 'allocation 1 is this machine');
});

test('durations, times and prices are short and have a unit', () => {
  assert.deepEqual([0, 59.9 * second, 9 * minute, 14.9 * hour, 3 * day, -second].map(formatAge), [
    '0s',
    '59s',
    '9m',
    '14h',
    '3d',
    '0s',
  ]);
  assert.deepEqual(
    [48 * second, 2 * minute, 150 * second, 31.9 * minute, 2 * hour + 5 * minute, 3 * day, 3 * day + 4 * hour, day].map(
      formatDuration,
    ),
    ['48s', '2m', '2m30s', '31m', '2h05m', '3d', '3d4h', '1d'],
  );
  assert.equal(formatTime(noon, noon), '20 Nov 12:00:00 UTC');
  assert.equal(formatTime(noon, noon + 400 * day), '20 Nov 2026 12:00:00 UTC', 'the year where it is not this one');
  assert.equal(formatPricePerHour(75.7), '$75.70/h');
});

test('budgets are shown if a rule uses them', () => {
  const { recovery } = tpuSpec();
  const budgetOf = (...rules: RecoverySpec['rules']) => formatBudget({ ...recovery, rules });
  const resume = { then: 'resume', on: 'same' } as const;
  assert.equal(budgetOf(), null);
  assert.equal(budgetOf({ reason: 'hung', answer: { then: 'fail', on: 'same' } }), null);
  assert.equal(budgetOf({ reason: 'hung', answer: resume }), '3 failures allowed');
  assert.equal(
    budgetOf({ reason: 'unreachable', answer: resume }, { reason: 'hung', answer: resume }),
    '100 preemptions and 3 failures allowed',
  );
  assert.equal(
    budgetOf(...(['unreachable', 'hung', 'setup_failed'] as const).map((reason) => ({ reason, answer: resume }))),
    '100 preemptions, 3 failures and 3 setup failures in a row allowed',
  );
});

test('a single item is not a list', () => {
  assert.deepEqual([[], ['ada'], [3], ['ada', 'bob', 7]].map(formatChoices), [
    'None exists yet.',
    'The only one is ada.',
    'The only one is 3.',
    'There are ada, bob, 7.',
  ]);
});

test("tpu.log has only the cloud's answers, in its own text", () => {
  const job = { allocations: [] };
  const error = {
    kind: 'stockout',
    message: 'no capacity there now',
    raw: 'RESOURCE_EXHAUSTED: no more capacity',
  } as const;
  assert.equal(
    describeCloudAnswer({ kind: 'allocation_refused', at: 0, allocation: 1, error }, job),
    'allocation 1 refused (no capacity): no capacity there now; the cloud said: RESOURCE_EXHAUSTED: no more capacity',
  );
  assert.equal(
    describeCloudAnswer({ kind: 'allocation_seen', at: 0, allocation: 1, state: 'waiting', message: 'ACCEPTED' }, job),
    'allocation 1 waits for capacity (ACCEPTED)',
  );
  assert.equal(describeCloudAnswer({ kind: 'attempt_running', at: 0, attempt: 1 }, job), null);
});
