// The number of lists of a zone, on a simulated clock: one list serves all its jobs, and a preemption is still noticed
// in time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSimulatedJobs } from '../../bench/simulated-jobs.ts';
import { loseMachine } from '../../sim/world.ts';
import { minute, second } from '../../src/core/model/time.ts';

const minutes = 10;

for (const jobs of [1, 40]) {
  test(`${jobs} running ${jobs === 1 ? 'job' : 'jobs'} of one zone: at most one list in ten seconds`, async () => {
    const { timeline, listCount, close } = await openSimulatedJobs(jobs, { linesDrop: true });
    const before = listCount();
    await timeline.run(timeline.now + minutes * minute, () => false);
    const each = (listCount() - before) / minutes;
    await close();
    assert.ok(each <= (jobs === 1 ? 4 : 7), `${each} lists a minute`);
    assert.ok(each >= 2, `${each} lists a minute are too few to notice a preemption in time`);
  });
}

test('a preemption at any time, without a broken connection, is released within 30 seconds', async () => {
  const { timeline, world, releasedAt: letGo, close } = await openSimulatedJobs(40, { linesDrop: false });
  const machines = world.machines.filter(({ state, isPersistent }) => state === 'ready' && !isPersistent);
  const lostAt = new Map<string, number>();
  for (const [index, machine] of machines.entries()) {
    timeline.after(index * 0.7 * second, () => {
      lostAt.set(machine.name, timeline.now);
      loseMachine(world, machine, 'preempted');
    });
  }
  await timeline.run(timeline.now + 2 * minute, () => false);
  await close();
  assert.ok(lostAt.size >= 40, `${lostAt.size} were preempted`);
  for (const [name, at] of lostAt) {
    const passed = (letGo.get(name) ?? Infinity) - at;
    assert.ok(passed <= 30 * second, `${name} was released after ${passed / second} s`);
  }
});
