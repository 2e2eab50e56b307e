// The budget of dollars: a warning, the end, and the owner's next start.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { spentUsd } from '../../src/core/decide/spending.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { local, spec, tpu, World } from './world.ts';

const atFourDollars = { ...tpu, pricePerHourUsd: 4 };

function running(budgetUsd: number, changes: Parameters<typeof spec>[0] = {}): World {
  const world = new World(spec({ capacity: atFourDollars, limits: { ...spec().limits, budgetUsd }, ...changes }));
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'running');
  return world;
}

/** Runs the passes that the job asks for, until that time. */
function passUntil(world: World, end: number): void {
  while (world.now < end) {
    world.now = Math.min(end, Math.max(world.now + 1, world.decision?.wakeAt ?? end));
    world.runUntilIdle();
  }
}

test('at 80 % the owner is warned once, at 100 % the job fails and releases its TPU', () => {
  const world = running(4);
  const readyAt = world.job.allocations[0]?.readyAt ?? 0;
  passUntil(world, readyAt + 47 * minute);
  assert.equal(world.job.budgetWarning, undefined);
  passUntil(world, readyAt + 49 * minute);
  const warned = world.events.filter(({ kind }) => kind === 'budget_warning');
  assert.equal(warned.length, 1);
  passUntil(world, readyAt + 59 * minute);
  assert.equal(phaseOf(world.job), 'running');
  passUntil(world, readyAt + 70 * minute);
  assert.deepEqual([world.job.finish?.verdict, world.job.finish?.reason], ['failed', 'budget']);
  assert.equal(world.events.filter(({ kind }) => kind === 'budget_warning').length, 1);
  assert.equal(world.job.situation, 'finished');
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  const ending = world.job.attempts[0]?.ending?.startedAt ?? 0;
  assert.ok(ending >= readyAt + hour && ending < readyAt + hour + 2 * minute, `${(ending - readyAt) / minute} min`);
});

test('the warning about a budget of some cents has the amount that is used', () => {
  const world = running(0.032);
  passUntil(world, world.now + 27 * second);
  const [warned] = world.events.flatMap((event) => (event.kind === 'budget_warning' ? [event] : []));
  assert.ok(warned !== undefined && warned.spentUsd >= 0.0256 && warned.spentUsd < 0.03, String(warned?.spentUsd));
});

test('a resume of the owner grants the budget again', () => {
  const world = running(4);
  passUntil(world, world.now + 2 * hour);
  assert.equal(world.job.finish?.reason, 'budget');
  world.command('resume');
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'running');
  assert.equal(world.job.budgetWarning, undefined);
  passUntil(world, world.now + 50 * minute);
  assert.equal(phaseOf(world.job), 'running');
});

test('a resume may set another budget, which later starts have too', () => {
  const world = running(4);
  passUntil(world, world.now + 2 * hour);
  world.command('resume', { budgetUsd: 12 });
  world.runUntilIdle();
  passUntil(world, world.now + 2 * hour);
  assert.equal(phaseOf(world.job), 'running');
  passUntil(world, world.now + 2 * hour);
  assert.equal(world.job.finish?.reason, 'budget');
  assert.deepEqual(world.job.attempts.at(-1)?.ending?.evidence.budget, { spentUsd: 12, budgetUsd: 12 });
  world.command('rerun');
  world.runUntilIdle();
  passUntil(world, world.now + 2 * hour);
  assert.equal(phaseOf(world.job), 'running');
});

test('a budget also ends the time for which a TPU is kept, with a warning before, after a stop too', () => {
  for (const how of ['succeeded', 'stopped'] as const) {
    const world = running(4, { finish: { capacity: 'keep', keepForMs: null } });
    if (how === 'succeeded') world.exitAll(0);
    else world.command('stop');
    world.runUntilIdle();
    passUntil(world, world.now + 30 * minute);
    assert.equal(phaseOf(world.job), how);
    assert.equal(world.job.allocations[0]?.releasedAt, null);
    passUntil(world, world.now + 20 * minute);
    assert.equal(world.job.allocations[0]?.releasedAt, null);
    assert.equal(world.events.filter(({ kind }) => kind === 'budget_warning').length, 1);
    passUntil(world, world.now + 20 * minute);
    assert.notEqual(world.job.allocations[0]?.releasedAt, null);
    const release = world.events.findLast((event) => event.kind === 'allocation_released');
    assert.equal(release?.message, 'its capacity has cost as much as job.budget allows');
    assert.equal(release.budget?.budgetUsd, 4);
    assert.equal(phaseOf(world.job), how);
  }
});

test('after the clock was set back, the time of a kept TPU counts from then on, for its budget and as kept', () => {
  const world = running(4, { finish: { capacity: 'keep', keepForMs: null } });
  world.exitAll(0);
  world.runUntilIdle();
  passUntil(world, world.now + 30 * minute);
  world.now -= day;
  const setBackAt = world.now;
  world.runUntilIdle();
  passUntil(world, setBackAt + 50 * minute);
  assert.equal(world.job.allocations[0]?.releasedAt, null);
  const charged = usageOf(world.job).filter(({ pricePerHourUsd }) => pricePerHourUsd !== 0);
  assert.deepEqual(
    charged.map(({ use, until }) => [use, until]),
    [['kept', null]],
  );
  passUntil(world, setBackAt + 62 * minute);
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

// ------------------------------------------------------------------------------------------ budgets of the owner

const ownerBudget = { grant: 'spot v4-*', period: 'month', endsAt: Date.UTC(2023, 11, 1) } as const;

function spend(world: World, spentUsd: number, rateUsd = 0): void {
  world.ownerSpending = known([{ spentUsd, budgetUsd: 100, rateUsd, ownerBudget }], world.now);
}

test('the owner is warned at 80 % of a budget of a grant, at 100 % the attempt ends with evidence', () => {
  const world = running(1_000);
  const warnings = () => world.events.filter((event) => event.kind === 'budget_warning');
  spend(world, 79.9);
  passUntil(world, world.now + minute);
  assert.equal(warnings().length, 0);
  spend(world, 81);
  passUntil(world, world.now + minute);
  assert.deepEqual(
    warnings().map(({ at: _at, ...event }) => event),
    [{ kind: 'budget_warning', spentUsd: 81, budgetUsd: 100, ownerBudget }],
  );
  spend(world, 99.9);
  passUntil(world, world.now + minute);
  assert.equal(warnings().length, 1);
  assert.equal(phaseOf(world.job), 'running');
  spend(world, 100.2);
  passUntil(world, world.now + minute);
  const { reason, evidence } = world.job.attempts[0]?.ending ?? {};
  assert.equal(reason, 'budget');
  assert.deepEqual(evidence, {
    message: 'the budget of alice for spot v4-* is used up until the next month begins on 2023-12-01 (UTC)',
    budget: { spentUsd: 100.2, budgetUsd: 100, ownerBudget },
  });
  assert.equal(world.job.finish?.reason, 'budget');
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
});

test('between two readings of the ledger the spending continues, and the job wakes for the warning and the end', () => {
  const world = running(1_000);
  spend(world, 70, 60);
  world.runUntilIdle();
  const readAt = world.now;
  assert.equal(world.decision?.wakeAt !== undefined && world.decision.wakeAt <= readAt + 10 * minute, true);
  passUntil(world, readAt + 9 * minute);
  assert.equal(world.job.ownerBudgetWarnings, undefined);
  passUntil(world, readAt + 11 * minute);
  assert.deepEqual(world.job.ownerBudgetWarnings, [ownerBudget]);
  passUntil(world, readAt + 29 * minute);
  assert.equal(phaseOf(world.job), 'running');
  passUntil(world, readAt + 33 * minute);
  assert.equal(world.job.finish?.reason, 'budget');
});

test('an unknown spending, one of an earlier period and a deleted budget end nothing', () => {
  const world = running(1_000_000);
  world.ownerSpending = unknown('the database is busy', world.now);
  passUntil(world, world.now + hour);
  spend(world, 500);
  world.now = ownerBudget.endsAt;
  passUntil(world, world.now + hour);
  world.ownerSpending = known([], world.now);
  passUntil(world, world.now + hour);
  assert.equal(phaseOf(world.job), 'running');
  assert.equal(world.job.ownerBudgetWarnings, undefined);
});

test('a used-up budget of the owner ends a wait for capacity, and a kept TPU is released', () => {
  const waiting = new World(spec({ capacity: atFourDollars }));
  waiting.refusal = {
    kind: 'failed',
    evidence: { message: 'none' },
    error: { kind: 'stockout', message: '', raw: '' },
  };
  waiting.runUntilIdle();
  spend(waiting, 100);
  passUntil(waiting, waiting.now + 10 * minute);
  assert.equal(waiting.job.finish?.reason, 'budget');
  const kept = running(1_000);
  kept.command('stop');
  kept.runUntilIdle();
  spend(kept, 100);
  passUntil(kept, kept.now + 5 * minute);
  assert.equal(phaseOf(kept.job), 'stopped');
  assert.match(
    kept.events.findLast((event) => event.kind === 'allocation_released')?.message ?? '',
    /^the budget of alice/,
  );
});

test('persistent capacity and capacity without a price use no budget', () => {
  for (const capacity of [
    { ...tpu, pricePerHourUsd: null },
    { ...atFourDollars, ownership: 'persistent' as const },
  ]) {
    const world = running(1, { capacity });
    passUntil(world, world.now + 10 * hour);
    assert.equal(phaseOf(world.job), 'running');
  }
});

test('the spending of a job equals the cost in the usage ledger', () => {
  for (const capacity of [atFourDollars, { ...local, pricePerHourUsd: 4 }]) {
    const world = running(100, { capacity, preset: 'loop: failures' });
    passUntil(world, world.now + hour);
    world.exitAll(1);
    world.runUntilIdle();
    passUntil(world, world.now + 2 * hour);
    world.command('stop');
    world.runUntilIdle();
    passUntil(world, world.now + hour);
    const cost = usageOf(world.job).reduce(
      (sum, { from, until, pricePerHourUsd }) => sum + (((until ?? world.now) - from) / hour) * (pricePerHourUsd ?? 0),
      0,
    );
    assert.ok(
      Math.abs(spentUsd(world.job, 0, world.now) - cost) < 1e-9,
      `${spentUsd(world.job, 0, world.now)} ${cost}`,
    );
    assert.ok(cost > 11.9);
  }
});

test('a local job with a price ends at its budget, and a stopped one spends nothing more', () => {
  const world = running(4, { capacity: { ...local, pricePerHourUsd: 4 } });
  passUntil(world, world.now + 65 * minute);
  assert.equal(world.job.finish?.reason, 'budget');
  const stopped = running(4, { capacity: { ...local, pricePerHourUsd: 4 } });
  stopped.command('stop');
  stopped.runUntilIdle();
  passUntil(stopped, stopped.now + 3 * hour);
  assert.ok(spentUsd(stopped.job, 0, stopped.now) < 0.1);
});
