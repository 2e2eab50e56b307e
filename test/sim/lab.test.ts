// The life of a lab in the simulator: some afternoons of it. `npm run sim -- --lab` plays two days of the whole lab, as
// `npm run long` does.

import assert from 'node:assert/strict';
import test from 'node:test';
import { anAfternoon } from '../../sim/lab-people.ts';
import { labFaults } from '../../sim/lab-world.ts';
import type { LabFault } from '../../sim/lab-world.ts';
import { runLab } from '../../sim/lab.ts';

test('two afternoons of a lab break no law, and one that is told again is the same', async () => {
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

/** A seed that shows each mistake early. */
const seeds: Readonly<Record<LabFault, number>> = {
  'forgets stages': 2,
  'mute scripts': 1,
  'leaves programs': 3,
  'one number': 1,
  'deaf to kill': 2,
  'deaf to closing': 1,
  'eager rule': 1,
  'patient rule': 4,
  'credulous scripts': 1,
  'loads anything': 4,
};

const laws: Readonly<Record<LabFault, string>> = {
  'forgets stages': 'stage is counted',
  'mute scripts': 'taken is preempted',
  'leaves programs': 'one program a TPU',
  'one number': 'numbers once',
  'deaf to kill': 'killed is killed',
  'deaf to closing': 'closed is over',
  'eager rule': 'pass is pass',
  'patient rule': 'hang is ended',
  'credulous scripts': 'success is confirmed',
  'loads anything': 'load_from is told',
};

for (const fault of Object.keys(labFaults) as LabFault[]) {
  test(`the law "${laws[fault]}" notices that ${labFaults[fault]}`, async () => {
    const { violation } = await runLab({ seed: seeds[fault], size: anAfternoon, fault });
    assert.ok(violation?.law.startsWith(laws[fault]), violation?.law ?? 'nothing was noticed');
  });
}
