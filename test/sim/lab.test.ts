// A lab in the simulator: some afternoons. `npm run sim -- --lab` and `npm run long` simulate two days.

import assert from 'node:assert/strict';
import test from 'node:test';
import { anAfternoon } from '../../sim/lab-people.ts';
import { labFaults } from '../../sim/lab-world.ts';
import type { LabFault } from '../../sim/lab-world.ts';
import { runLab } from '../../sim/lab.ts';

test('two afternoons of a lab break no invariant, and a repeated seed gives the same world', async () => {
  const [first, second] = [
    await runLab({ seed: 17, size: anAfternoon }),
    await runLab({ seed: 21, size: anAfternoon }),
  ];
  for (const { seed, violation } of [first, second])
    assert.equal(violation, null, `npm run sim -- --lab --afternoon --seed ${seed} --trace`);
  const again = await runLab({ seed: 21, size: anAfternoon, trace: true });
  assert.equal(again.hash, second.hash);
  assert.ok(again.lines.length > 100);
  assert.notEqual(first.hash, second.hash);
});

/** The first seed that shows each bug. */
const seeds: Readonly<Record<LabFault, number>> = {
  'stage-reset': 13,
  'last-line-hidden': 2,
  'programs-left': 3,
  'same-window-number': 1,
  'kill-as-stop': 1,
  'closing-ignored': 17,
  'rule-recreates': 1,
  'hang-ignored': 4,
  'exit-code-trusted': 1,
  'empty-checkpoint-loaded': 8,
};

const invariants: Readonly<Record<LabFault, string>> = {
  'stage-reset': 'stage-correct',
  'last-line-hidden': 'loss-is-preemption',
  'programs-left': 'one-program-per-TPU',
  'same-window-number': 'window-numbers-unique',
  'kill-as-stop': 'killed-stays-killed',
  'closing-ignored': 'closed-stays-closed',
  'rule-recreates': 'no-recreation-without-rule',
  'hang-ignored': 'hang-ends',
  'exit-code-trusted': 'success-confirmed',
  'empty-checkpoint-loaded': 'load_from-correct',
};

for (const fault of Object.keys(labFaults) as LabFault[]) {
  test(`the invariant "${invariants[fault]}" finds the bug: ${labFaults[fault]}`, async () => {
    const { violation } = await runLab({ seed: seeds[fault], size: anAfternoon, fault });
    assert.ok(violation?.invariant.startsWith(invariants[fault]), violation?.invariant ?? 'no invariant is broken');
  });
}
