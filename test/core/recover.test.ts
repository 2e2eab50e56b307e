// The table of recovery rules, cell by cell, each simulated in the small world instead of read from the data.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastAllocation, lastAttempt } from '../../src/core/model/job.ts';
import { failedCallPatterns } from '../../src/core/model/log-lines.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { answerFor, budgetOf } from '../../src/core/decide/recover.ts';
import { presets } from '../../src/core/policy/presets.ts';
import type { PresetName } from '../../src/core/policy/presets.ts';
import type { RecoveryRule } from '../../src/core/model/spec.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { World, spec, step, t0, tpu } from './world.ts';

type Column =
  | 'preempted'
  | 'unreachable'
  | 'grpc'
  | 'deadline'
  | 'line_cut'
  | 'setup_failed'
  | 'command_failed'
  | 'hung'
  | 'succeeded';

/** The table of docs/recovery.md: the next step, and its allocation. */
const table: Readonly<Record<PresetName, Readonly<Record<Column, string>>>> = {
  pre: row({ preempted: 'resume on new', unreachable: 'resume on same', failed: 'fail', succeeded: 'done' }),
  pass: row({ preempted: 'fail', unreachable: 'fail', failed: 'fail', succeeded: 'done' }),
  reapply: row({ preempted: 'resume on new', unreachable: 'resume on new', failed: 'fail', succeeded: 'done' }),
  rerun: row({ preempted: 'resume on new', unreachable: 'rerun on same', failed: 'fail', succeeded: 'done' }),
  resume: row({ preempted: 'fail', unreachable: 'resume on same', failed: 'fail', succeeded: 'done' }),
  'loop: failures': row({
    preempted: 'resume on new',
    unreachable: 'resume on same',
    failed: 'resume on same',
    succeeded: 'done',
  }),
  'loop: true': row({
    preempted: 'resume on new',
    unreachable: 'resume on same',
    failed: 'resume on same',
    succeeded: 'rerun on same',
  }),
};

function row(cells: {
  preempted: string;
  unreachable: string;
  failed: string;
  succeeded: string;
}): Record<Column, string> {
  const { preempted, unreachable, failed, succeeded } = cells;
  return {
    preempted,
    unreachable,
    grpc: unreachable,
    deadline: unreachable,
    line_cut: unreachable,
    setup_failed: failed,
    command_failed: failed,
    hung: failed,
    succeeded,
  };
}

/** Brings a running job to an end of that kind. */
function bring(world: World, column: Exclude<Column, 'setup_failed'>): void {
  switch (column) {
    case 'preempted':
      world.preempt();
      return;
    case 'unreachable': {
      const host = world.node.workers[1];
      if (host === undefined) return;
      host.isAnswering = false;
      world.runUntil(() => lastAttempt(world.job)?.ending?.reason === 'unreachable', 10 * minute);
      host.isAnswering = true;
      return;
    }
    case 'grpc':
    case 'deadline':
    case 'line_cut':
      world.pattern = column;
      world.exitAll(1);
      return;
    case 'command_failed':
      world.exitAll(1);
      return;
    case 'hung':
      world.now += hour;
      return;
    case 'succeeded':
      world.exitAll(0);
      return;
  }
}

/** The continuation of the first attempt, from the second attempt or the end of the job. */
function whatCame(world: World): string {
  const [first, second_] = world.job.attempts;
  if (second_ === undefined) return world.job.finish?.verdict === 'succeeded' ? 'done' : 'fail';
  return `${second_.startMode} on ${second_.allocation === first?.allocation ? 'same' : 'new'}`;
}

for (const preset of Object.keys(presets) as PresetName[]) {
  for (const [column, expected] of Object.entries(table[preset]) as [Column, string][]) {
    test(`${preset}: ${column} is answered with ${expected}`, () => {
      const world = new World(
        spec({ preset, limits: { ...spec().limits, silenceTimeoutMs: 30 * minute, setupTries: 1 } }),
      );
      if (column === 'setup_failed') {
        world.stepResult = { kind: 'failed', evidence: { message: 'no space left' } };
        world.runUntil(() => lastAttempt(world.job)?.endedAt !== null, minute);
        assert.equal(world.job.attempts[0]?.ending?.reason, 'setup_failed');
        // Nothing ran, so there is nothing to resume from: the next attempt has the start mode of the first.
        const came = whatCame(world);
        assert.equal(came, expected === 'fail' ? 'fail' : expected.replace('resume', 'fresh'));
        return;
      }
      world.runUntilIdle();
      assert.equal(phaseOf(world.job), 'running');
      bring(world, column);
      world.runUntil(() => world.job.finish !== null || world.job.attempts.length > 1, hour);
      const reason = failedCallPatterns.includes(column) ? 'command_failed' : column;
      assert.equal(world.job.attempts[0]?.ending?.reason, reason);
      assert.equal(whatCame(world), expected);
      if (world.job.attempts.length > 1) {
        world.runUntilRunning();
        assert.equal(lastAttempt(world.job)?.stage, expected.startsWith('resume') ? 1 : 0);
      }
    });
  }
}

test('a preemption is followed at once, a failure after a delay that doubles', () => {
  const taken = new World();
  taken.runUntilIdle();
  taken.preempt();
  taken.runUntil(() => taken.job.attempts.length > 1, minute);
  assert.equal(taken.job.attempts[1]?.notBeforeAt, taken.job.attempts[0]?.endedAt);

  const failing = new World(spec({ preset: 'loop: failures' }));
  const waits: number[] = [];
  for (let count = 1; count <= 3; count += 1) {
    failing.runUntilRunning();
    failing.exitAll(1);
    failing.runUntil(() => failing.job.attempts.length > count, minute);
    const [ended, next] = failing.job.attempts.slice(-2);
    waits.push((next?.notBeforeAt ?? 0) - (ended?.endedAt ?? 0));
  }
  for (const [index, wait] of waits.entries()) {
    const expected = 10 * second * 2 ** index;
    assert.ok(wait >= expected * 0.75 && wait <= expected * 1.25, `wait ${index + 1} was ${wait} ms`);
  }
});

test('an attempt that ran longer than the longest delay resets the doubling', () => {
  const world = new World(spec({ preset: 'loop: failures' }));
  for (let count = 1; count <= 3; count += 1) {
    world.runUntilRunning();
    world.now += count === 3 ? hour : second;
    world.exitAll(1);
    world.runUntil(() => world.job.attempts.length > count, minute);
  }
  const [ended, next] = world.job.attempts.slice(-2);
  assert.ok((next?.notBeforeAt ?? 0) - (ended?.endedAt ?? 0) <= 12.5 * second);
});

test('failures and preemptions are counted separately, and each budget ends the job', () => {
  const failing = new World(spec({ preset: 'loop: failures' }));
  for (let count = 0; count < 10 && failing.job.finish === null; count += 1) {
    failing.runUntil(() => failing.job.finish !== null || phaseOf(failing.job) === 'running', hour);
    if (count === 1) failing.preempt();
    else if (failing.job.finish === null) failing.exitAll(1);
    failing.runUntilIdle();
  }
  assert.equal(phaseOf(failing.job), 'failed');
  const reasons = failing.job.attempts.map(({ ending }) => ending?.reason);
  assert.deepEqual(reasons, ['command_failed', 'preempted', 'command_failed', 'command_failed', 'command_failed']);
  const last = failing.events.findLast((event) => event.kind === 'rule_applied');
  assert.deepEqual([last?.used, last?.limit, last?.then], [4, 3, 'fail']);
});

test('a setup that cannot succeed fails the job even under a loop; the count restarts once the command runs', () => {
  for (const preset of ['loop: true', 'loop: failures'] as const) {
    const base = spec({ preset });
    const recovery = { ...base.recovery, budget: { preemptions: 1000, failures: 1000, setupFailures: 3 } };
    const world = new World({ ...base, recovery });
    world.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
    world.runUntil(() => world.job.attempts.length === 3, day);
    // The cloud takes the TPU before the setup has failed again, which does not reset the count.
    world.preempt();
    world.runUntilFinished(day);
    const reasons = world.job.attempts.map(({ ending }) => ending?.reason);
    const setup = 'setup_failed';
    assert.deepEqual(reasons, [setup, setup, 'preempted', setup, setup], preset);
    assert.deepEqual([phaseOf(world.job), world.job.finish?.reason], ['failed', setup]);
    const applied = world.events.filter((event) => event.kind === 'rule_applied' && event.reason === setup);
    assert.deepEqual(
      applied.map((event) => event.kind === 'rule_applied' && [event.used, event.limit, event.then]),
      [
        [1, 3, 'resume'],
        [2, 3, 'resume'],
        [3, 3, 'resume'],
        [4, 3, 'fail'],
      ],
    );

    const lucky = new World({ ...base, recovery });
    for (let count = 0; count < 3; count += 1) {
      lucky.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
      for (const worker of lucky.nodes.get(lucky.job.allocations.length)?.workers ?? []) worker.proofs.clear();
      lucky.runUntil(() => lucky.job.attempts.at(-2)?.ending?.reason === setup, day);
      lucky.stepResult = { kind: 'done' };
      lucky.runUntilRunning(day);
      lucky.exitAll(1);
    }
    assert.equal(lucky.job.finish, null, 'no two of its setup failures follow each other');
  }
});

test('a job from before the budget for setup failures has the default one', () => {
  const world = new World(spec({ preset: 'loop: failures' }));
  world.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
  world.runUntilFinished(day);
  assert.equal(world.job.attempts.length, 1 + 3);
});

test('a refused setup step has been tried once', () => {
  const world = new World(spec({ preset: 'pass' }));
  world.stepResult = { kind: 'refused', evidence: { message: 'no such image' } };
  world.runUntilFinished();
  assert.deepEqual(
    [world.job.attempts[0]?.ending?.reason, world.job.attempts[0]?.failures[0]?.tries],
    ['setup_failed', 1],
  );
  assert.match(world.job.attempts[0]?.ending?.evidence.message ?? '', /\(1 try\): no such image/);
});

test('a step is tried as often as setup.tries says', () => {
  const world = new World(spec({ preset: 'pass', limits: { ...spec().limits, setupTries: 4 } }));
  world.stepResult = { kind: 'failed', evidence: { message: 'exit 100' } };
  world.runUntilFinished();
  const tries = world.events.flatMap((event) =>
    event.kind === 'step_failed' && event.worker === 0 ? [event.tries] : [],
  );
  assert.deepEqual(tries, [1, 2, 3, 4]);
});

test('a command of the owner gives a job a new budget', () => {
  const world = new World(spec({ preset: 'loop: failures' }));
  while (world.job.finish === null) {
    world.runUntil(() => phaseOf(world.job) === 'running' || world.job.finish !== null, hour);
    if (world.job.finish === null) world.exitAll(1);
    world.runUntilIdle();
  }
  const before = world.job.attempts.length;
  world.command('resume');
  world.runUntilRunning();
  world.exitAll(1);
  world.runUntil(() => world.job.attempts.length === before + 2, hour);
  assert.equal(world.job.attempts.length, before + 2);
});

/** A running job with its own rules before those of `pass`. */
function ruled(rules: readonly RecoveryRule[], more: Parameters<typeof spec>[0] = {}): World {
  const base = spec({ preset: 'pass', ...more });
  const world = new World({ ...base, recovery: { ...base.recovery, rules } });
  world.runUntilRunning();
  return world;
}

/** Ends it so, and waits until it runs again or is finished; returns the phase. */
function exitAndWait(world: World, code: number): string {
  world.exitAll(code);
  const before = world.job.attempts.length;
  world.runUntil(
    () => world.job.finish !== null || (world.job.attempts.length > before && phaseOf(world.job) === 'running'),
    3 * hour,
  );
  return phaseOf(world.job);
}

const again = { then: 'resume', on: 'same' } as const;

test('a rule may name exit codes, and the next rules answer the others', () => {
  const rules: readonly RecoveryRule[] = [
    { reason: 'command_failed', exitCodes: [42, 75], answer: { then: 'rerun', on: 'same' } },
  ];
  const world = ruled(rules);
  assert.equal(exitAndWait(world, 75), 'running');
  assert.equal(lastAttempt(world.job)?.startMode, 'rerun');
  assert.equal(exitAndWait(world, 42), 'running');
  assert.equal(exitAndWait(world, 43), 'failed');
  const applied = world.events.filter((event) => event.kind === 'rule_applied');
  assert.deepEqual(
    applied.map(({ then, exitCode }) => [then, exitCode]),
    [
      ['rerun', 75],
      ['rerun', 42],
      ['fail', undefined],
    ],
  );
});

test('a rule may name a worker', () => {
  const rules: readonly RecoveryRule[] = [{ reason: 'command_failed', worker: 0, answer: again }];
  assert.equal(exitAndWait(ruled(rules), 1), 'running', 'of several exits the lowest worker is the evidence');
  assert.equal(exitAndWait(ruled([{ ...rules[0], worker: 1 } as RecoveryRule]), 1), 'failed');
});

test('a rule may name a text in the log', () => {
  const rules: readonly RecoveryRule[] = [{ reason: 'command_failed', evidence: 'NCCL*timeout', answer: again }];
  const world = ruled(rules);
  world.pattern = 'NCCL*timeout';
  assert.equal(exitAndWait(world, 1), 'running');
  world.pattern = 'grpc';
  assert.equal(exitAndWait(world, 1), 'failed');
});

test("a rule's own limit counts its own ends only, and uses no budget", () => {
  const rules: readonly RecoveryRule[] = [
    { reason: 'command_failed', exitCodes: [42], answer: again, limit: 5 },
    { reason: 'command_failed', answer: again },
  ];
  const world = ruled(rules);
  const budget = world.job.spec.recovery.budget.failures;
  assert.ok(budget < 5);
  for (let count = 0; count < 5; count += 1) assert.equal(exitAndWait(world, 42), 'running');
  for (let count = 0; count < budget; count += 1)
    assert.equal(exitAndWait(world, 1), 'running', `failure ${count + 1}`);
  assert.equal(exitAndWait(world, 42), 'failed');
  const last = world.events.findLast((event) => event.kind === 'rule_applied');
  assert.deepEqual([last?.used, last?.limit, last?.isRuleLimit, last?.then], [6, 5, true, 'fail']);
});

test('a rule may have its own delays, also after a preemption', () => {
  const waitOf = (world: World): number => {
    const [ended, next] = world.job.attempts.slice(-2);
    return (next?.notBeforeAt ?? 0) - (ended?.endedAt ?? 0);
  };
  const failing = ruled([{ reason: 'command_failed', answer: again, delayMs: 4 * minute, delayMaxMs: 5 * minute }]);
  for (const expected of [4 * minute, 5 * minute]) {
    exitAndWait(failing, 1);
    assert.ok(waitOf(failing) >= expected * 0.75 && waitOf(failing) <= expected * 1.25, `it was ${waitOf(failing)} ms`);
  }
  const taken = ruled([{ reason: 'preempted', answer: { then: 'resume', on: 'new' }, delayMs: 2 * minute }]);
  taken.preempt();
  taken.runUntil(() => taken.job.attempts.length === 2, hour);
  assert.ok(waitOf(taken) >= 90 * second, `it was ${waitOf(taken)} ms`);
});

test('a job that continues after each success waits at least a second, even without a delay', () => {
  const { recovery } = spec({ preset: 'loop: true' });
  const world = new World(spec({ recovery: { ...recovery, delayMs: 0 } }));
  world.runUntilRunning();
  for (let count = 2; count < 5; count += 1) {
    world.exitAll(0);
    world.runUntil(() => world.job.attempts.length === count, hour);
    const [ended, next] = world.job.attempts.slice(-2);
    assert.ok((next?.notBeforeAt ?? 0) - (ended?.endedAt ?? 0) >= second);
    world.runUntilRunning();
  }
});

test('a rule may avoid the zone in which an attempt ended, until the next command or success', () => {
  const alternative = (zone: string) => ({
    zone,
    accelerator: tpu.accelerator,
    pricing: tpu.pricing,
    runtimeVersion: tpu.runtimeVersion,
    pricePerHourUsd: null,
  });
  const capacity = {
    ...tpu,
    alternatives: [alternative(tpu.zone), alternative('us-east5-b'), alternative('europe-west4-b')],
  };
  const world = ruled(
    [
      { reason: 'preempted', answer: { then: 'resume', on: 'new' }, avoidZone: true },
      { reason: 'command_failed', answer: { then: 'resume', on: 'new' } },
    ],
    { capacity },
  );
  const goOn = (end: () => void): number => {
    end();
    const before = world.job.attempts.length;
    world.runUntil(() => world.job.attempts.length > before && phaseOf(world.job) === 'running', 3 * hour);
    return lastAllocation(world.job)?.alternative ?? 0;
  };
  assert.equal(
    goOn(() => world.preempt()),
    2,
    'the alternative in the same zone is skipped',
  );
  assert.equal(
    goOn(() => world.exitAll(1)),
    2,
    'a later rule does not lead back',
  );
  assert.equal(
    goOn(() => world.preempt()),
    3,
  );
  assert.equal(
    goOn(() => world.preempt()),
    0,
    'when all are avoided the first is used',
  );
});

test('a rule with a pattern beats the one without only if it comes first', () => {
  const { recovery } = spec();
  const rules = [
    { reason: 'command_failed', evidence: 'out_of_memory', answer: { then: 'fail', on: 'same' } },
    { reason: 'command_failed', answer: { then: 'resume', on: 'same' } },
  ] as const;
  const answer = (pattern?: string): string =>
    answerFor({ ...recovery, rules }, 'command_failed', { message: '', ...(pattern === undefined ? {} : { pattern }) })
      .then;
  assert.equal(answer('out_of_memory'), 'fail');
  assert.equal(answer('grpc'), 'resume');
  assert.equal(answer(), 'resume');
});

test("preemptions use the platform's budget, failures the program's", () => {
  assert.equal(budgetOf('preempted'), 'preemptions');
  assert.equal(budgetOf('unreachable'), 'preemptions');
  assert.equal(budgetOf('command_failed'), 'failures');
  assert.equal(budgetOf('setup_failed'), 'setupFailures');
  assert.equal(budgetOf('hung'), 'failures');
  assert.equal(budgetOf('succeeded'), null);
  assert.equal(budgetOf('allocation_failed'), null);
});

test('a job that loops after success waits for its delay and starts again', () => {
  const world = new World(spec({ preset: 'loop: true', steps: [step('ssh')] }));
  world.runUntilIdle();
  world.exitAll(0);
  world.runUntilIdle();
  const [first, next] = world.job.attempts;
  assert.equal(next?.notBeforeAt, (first?.endedAt ?? t0) + 10 * second);
  world.runUntilRunning(minute);
  assert.deepEqual([next?.startMode, next?.stage, world.job.finish], ['rerun', 0, null]);
});

test('a success of a looping job resets the count of failures', () => {
  const world = new World(spec({ preset: 'loop: true' }));
  for (const code of [1, 1, 1, 0, 1, 1, 1, 0, 1]) {
    world.runUntilRunning();
    world.exitAll(code);
    world.runUntilIdle();
  }
  assert.equal(phaseOf(world.job), 'recovering');
  for (let count = 0; count < 3; count += 1) {
    world.runUntilRunning();
    world.exitAll(1);
    world.runUntilIdle();
  }
  assert.equal(phaseOf(world.job), 'failed');
});

test('history names the pattern of the rule that answered, if the rule has one', () => {
  const answered = (pattern?: string): string | undefined => {
    const world = new World(spec({ preset: 'pre' }));
    world.runUntilIdle();
    world.pattern = pattern ?? 'file_missing';
    world.exitAll(1);
    world.runUntil(() => world.job.finish !== null || world.job.attempts.length > 1, hour);
    const applied = world.events.findLast((event) => event.kind === 'rule_applied');
    assert.ok(applied !== undefined);
    return applied.pattern;
  };
  assert.equal(answered('grpc'), 'grpc');
  assert.equal(answered(), undefined);
});
