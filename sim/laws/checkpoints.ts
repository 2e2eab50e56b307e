// Invariant 14: a job resumes only from a checkpoint that it wrote, or that its owner named.

import { checkpointsIn } from '../checkpoints.ts';
import type { Checkpoint } from '../checkpoints.ts';
import { runName } from '../world.ts';
import type { Run } from '../world.ts';
import type { Scene, Ledger } from './scene.ts';

/**
 * A program resumes from a checkpoint that its own job has written since its newest start from the beginning, or from one that
 * its owner has named, and from no other. If its job has one, a resumed program gets it.
 */
export function checkCheckpoint(scene: Scene, run: Run, { job }: Ledger): void {
  const { checkpoints, resumedFrom: from } = run;
  const { command } = job.spec;
  if (checkpoints === undefined || checkpoints.checkpointDir === null || command.checkpoints === 'shared') return;
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) => ordinal <= run.attempt && stage === 0 && startedAt !== null,
  );
  // The start from the beginning may never have reached its worker: then the first later run began the work.
  const first = beginning?.ordinal ?? Infinity;
  const starts = scene
    .world()
    .runs.filter((one) => one.job === run.job && one.attempt >= first && one !== run)
    .map(({ startedAt }) => startedAt ?? Infinity);
  const begunAt = Math.min(...starts);
  const isOwn = ({ writer, at }: Checkpoint): boolean => writer.job === run.job && at >= begunAt;
  const named = command.resumeFrom?.kind === 'folder' ? command.resumeFrom.job : undefined;
  if (from !== null && !isOwn(from) && from.writer.job !== named)
    scene.breakLaw(14, `${runName(run)} resumes from ${from.name}, which ${runName(from.writer)} wrote`);
  const isResume = (job.attempts[run.attempt - 1]?.stage ?? 0) > 0;
  const own = checkpointsIn(scene.world(), checkpoints.checkpointDir).filter((one) => isOwn(one) && one.writer !== run);
  if (isResume && own.length > 0 && (from === null || !isOwn(from)))
    scene.breakLaw(14, `${runName(run)} does not resume from ${own.at(-1)?.name}, which its job wrote`);
}
