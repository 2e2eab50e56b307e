// The simulated world itself, as far as the invariants rely on it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { minute } from '../../src/core/model/time.ts';
import { createChance } from '../../sim/chance.ts';
import { createTimeline } from '../../sim/timeline.ts';
import { createWorld, lastChangeOfMachines, requestMachine, newMachine, releaseMachine } from '../../sim/world.ts';

test('the check of rest waits for a late request and for its release by the orphan collection', async () => {
  const timeline = createTimeline();
  const world = createWorld(timeline, createChance(1), () => undefined, { runBegins: () => undefined });
  assert.equal(lastChangeOfMachines(world), 0);
  const late = newMachine({ name: 'late', labels: null, isPersistent: false, workers: 1, at: 4 * minute });
  timeline.after(4 * minute, () => requestMachine(world, late));
  timeline.after(9 * minute, () => releaseMachine(world, late));
  await timeline.run(8 * minute, () => false);
  assert.equal(lastChangeOfMachines(world), late.readyAt);
  await timeline.run(20 * minute, () => false);
  assert.equal(lastChangeOfMachines(world), late.goneAt);
  assert.ok((late.goneAt ?? 0) > 9 * minute);
});
