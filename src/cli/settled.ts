// Settled jobs: nothing more runs without a new command.

import type { JobRow } from '../app/client.ts';
import { exitCode } from '../app/errors.ts';
import { isSettledPhase } from '../core/phase.ts';

/** True for a job of which nothing more runs without a new command. */
export function isSettled({ phase }: Pick<JobRow, 'phase'>): boolean {
  return isSettledPhase(phase);
}

/** The exit code that stands for how a job ended. */
export function verdictCode({ phase }: Pick<JobRow, 'phase'>): number {
  return phase === 'succeeded' ? exitCode.ok : exitCode.failed;
}
