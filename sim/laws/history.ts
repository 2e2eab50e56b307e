// Invariant 9: the record can be told from its events.

import { retold } from '../retold.ts';
import type { Scene, Ledger } from './scene.ts';

export function checkHistory(scene: Scene, { job, events }: Ledger): void {
  const told = retold(events);
  for (const [what, fromHistory, fromRecord] of told.differences(job)) {
    scene.breakLaw(9, `job ${job.id}: ${what} is ${fromRecord} in the record and ${fromHistory} by its history`);
    return;
  }
}
