// What it means for the terminal that a job has settled: nothing more will run without a new wish.

import type { JobRow } from '../app/client.ts';
import { exitCode } from '../app/errors.ts';

export function isSettled({ phase }: Pick<JobRow, 'phase'>): boolean {
  return phase === 'succeeded' || phase === 'failed' || phase === 'stopped' || phase === 'cancelled';
}

/** The exit code that stands for how a job ended. */
export function verdictCode({ phase }: Pick<JobRow, 'phase'>): number {
  return phase === 'succeeded' ? exitCode.ok : exitCode.failed;
}
