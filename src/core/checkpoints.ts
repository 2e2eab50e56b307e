// Checkpoints: which folder a start from the beginning writes to, and which entries of a folder it may resume from.
//
// In jobman's own folders (`000001-k3x9ab`) each start from the beginning has a folder of its own, so every entry counts. A folder
// that the manifest names may already hold entries of another job or of an earlier start. There each worker writes a
// record at a start from the beginning: a file whose first line names the start and its job, followed by the entries that exist
// already. An entry counts if a record of this start does not list it, or if it has changed since. If there is no such
// record, nothing counts. No clocks are compared, because the folder's times are those of a bucket or a worker.
//
// Each worker has a record of its own because a mounted bucket shows a file that another worker has replaced late or not at all.

import type { Attempt, Job } from './job.ts';

/** The name of a record in a checkpoint folder, followed by the worker that wrote it. Its first line is a `checkpointOwner`. */
export const checkpointRecord = '.jobman-start.';

/**
 * The checkpoint folder of an attempt, with the placeholder for the node's name; null if the job has none. A later start from
 * the beginning gets the attempt's number as a suffix (`000001-k3x9ab-3`), unless the manifest names the folder.
 */
export function checkpointFolder(job: Job, attempt: Attempt): string | null {
  const { checkpointDir, checkpoints } = job.spec.command;
  const { ordinal } = beginningOf(job, attempt);
  const isFirst = !job.attempts.some((one) => one.ordinal < ordinal && one.startedAt !== null);
  return checkpointDir === null || checkpoints !== 'own' || isFirst ? checkpointDir : `${checkpointDir}-${ordinal}`;
}

/** `<installation>/<job id>/<attempt>`: the newest start from the beginning that this attempt continues, or is. */
export function checkpointOwner(job: Job, attempt: Attempt): string {
  return `${job.installation}/${job.id}/${beginningOf(job, attempt).ordinal}`;
}

function beginningOf(job: Job, attempt: Attempt): Attempt {
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) =>
      ordinal <= attempt.ordinal && stage === 0 && (ordinal === attempt.ordinal || startedAt !== null),
  );
  return beginning ?? attempt;
}
