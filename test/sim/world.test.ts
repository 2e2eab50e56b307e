// The simulated world itself, as far as the judge relies on it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { minute } from '../../src/core/time.ts';
import { createChance } from '../../sim/chance.ts';
import { createTimeline } from '../../sim/timeline.ts';
import { createWorld, lastChangeOfMachines, makeMachine, newMachine, releaseMachine } from '../../sim/world.ts';

test('a request that takes effect late and its release by a sweep are changes that the judge of rest waits for', async () => {
  const timeline = createTimeline();
  const world = createWorld(timeline, createChance(1), () => undefined, { begins: () => undefined });
  assert.equal(lastChangeOfMachines(world), 0);
  const late = newMachine({ name: 'late', labels: null, isStanding: false, workers: 1, at: 4 * minute });
  timeline.after(4 * minute, () => makeMachine(world, late));
  timeline.after(9 * minute, () => releaseMachine(world, late));
  await timeline.play(8 * minute, () => false);
  assert.equal(lastChangeOfMachines(world), late.readyAt);
  await timeline.play(20 * minute, () => false);
  assert.equal(lastChangeOfMachines(world), late.goneAt);
  assert.ok((late.goneAt ?? 0) > 9 * minute);
});
