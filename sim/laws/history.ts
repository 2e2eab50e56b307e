// Invariant 9: the record can be told from its events.

import { historyTellsTheState } from '../pass-history.ts';
import type { Scene, Ledger } from './scene.ts';

export function checkHistory(scene: Scene, { job, events }: Ledger): void {
  for (const sentence of historyTellsTheState(events, job)) scene.breakLaw(9, `job ${job.id}: ${sentence}`);
}
