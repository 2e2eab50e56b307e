// What it means for the terminal that a job has settled: nothing more will run without a new wish.

import type { JobRow } from '../app/client.ts';
import { exitCode } from '../app/errors.ts';
import { isSettledPhase } from '../core/phase.ts';

/** Whether that job has settled. */
export function isSettled({ phase }: Pick<JobRow, 'phase'>): boolean {
  return isSettledPhase(phase);
}

/** The exit code that stands for how a job ended. */
export function verdictCode({ phase }: Pick<JobRow, 'phase'>): number {
  return phase === 'succeeded' ? exitCode.ok : exitCode.failed;
}
