// The budget of dollars: a warning, the end, and the owner's next start.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { spentUsd } from '../../src/core/decide/spending.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { spec, tpu, World } from './world.ts';

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

test('a budget also ends the time for which a finished job keeps its TPU', () => {
  const world = running(4, { finish: { capacity: 'keep', keepForMs: null } });
  world.exitAll(0);
  world.runUntilIdle();
  assert.equal(phaseOf(world.job), 'succeeded');
  passUntil(world, world.now + 30 * minute);
  assert.equal(world.job.allocations[0]?.releasedAt, null);
  passUntil(world, world.now + 40 * minute);
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  assert.equal(world.job.finish?.reason, 'succeeded');
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
  const world = running(100);
  passUntil(world, world.now + 3 * hour);
  const cost = usageOf(world.job).reduce(
    (sum, { from, until, pricePerHourUsd }) => sum + (((until ?? world.now) - from) / hour) * (pricePerHourUsd ?? 0),
    0,
  );
  assert.ok(Math.abs(spentUsd(world.job, 0, world.now) - cost) < 1e-9);
  assert.ok(cost > 11.9);
});
