// Invariant 13: this machine never runs more jobs at once than it has slots.

import { isAlive, runName } from '../world.ts';
import type { Run } from '../world.ts';
import { slots } from './scene.ts';
import type { Scene, Ledger } from './scene.ts';

/** No more jobs of this machine's own capacity have a program alive at once than there are slots. */
export function checkSlots(scene: Scene, run: Run, { job }: Ledger): void {
  if (job.spec.capacity.kind !== 'local') return;
  const alive = new Set(
    scene
      .world()
      .runs.filter((one) => one === run || isAlive(one))
      .filter((one) => scene.ledgerOf(one.job).job.spec.capacity.kind === 'local')
      .map((one) => one.job),
  );
  if (alive.size > slots)
    scene.breakLaw(13, `${runName(run)} begins as one of ${alive.size}, and there are ${slots} slots`);
}
