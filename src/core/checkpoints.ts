// Checkpoints: which entries of a checkpoint folder a job may resume from.
//
// The rule compares no clocks, because the folder's times are those of a bucket or a worker. At a start from the beginning the
// first worker writes a file into the folder: it names the start and its job, and lists the entries that exist already. Until the
// next start from the beginning an entry counts when it is not in that list, or has changed since. If the file is missing or
// names another job or start, nothing counts. So a job never resumes from an entry of another job or of an earlier start,
// whatever its name or time.

import type { Attempt, Job } from './job.ts';
import { planted } from './plant.ts';

/** The file in a checkpoint folder; its first line is the `checkpointOwner` of the newest start from the beginning. */
export const checkpointRecord = '.jobman-start';

/** `<installation>/<job id>/<attempt>`: the newest start from the beginning that this attempt continues, or is. */
export function checkpointOwner(job: Job, attempt: Attempt): string {
  const beginning = planted('rerun-resumes-old')
    ? job.attempts[0]
    : job.attempts.findLast(
        ({ ordinal, stage, startedAt }) =>
          ordinal <= attempt.ordinal && stage === 0 && (ordinal === attempt.ordinal || startedAt !== null),
      );
  return `${job.installation}/${job.id}/${(beginning ?? attempt).ordinal}`;
}
