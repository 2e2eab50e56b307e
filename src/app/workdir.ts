// Workdir: the copies of a working directory in the job's folder.

import { workdirCopyOf, type Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { JobFiles, JobFolders } from './ports.ts';
import type { WorkdirCopyView } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';

export interface FrozenWorkdir {
  readonly from: string;
  readonly copiedAt: Instant;
  readonly files: number;
  readonly bytes: number;
  /** Null outside a git repository. */
  readonly git: {
    /** Null before the first commit. */
    readonly commit: string | null;
    readonly branch: string | null;
    /** True if tracked files differ from the commit; the differences are in `changes.diff`. */
    readonly changed: boolean;
  } | null;
}

/** Throws JobmanError with the problem and the next step. */
export type Freeze = (from: string, to: string) => Promise<FrozenWorkdir>;

export function workdirViews({ workdirs }: JobFiles, job: Job): readonly WorkdirCopyView[] {
  const copies = Array.from({ length: workdirCopyOf(job) ?? 0 }, (_, index) => index + 1);
  return copies.flatMap((copy) => {
    const about = workdirs.about(job, copy);
    return about === null ? [] : [{ ...about, copy, folder: workdirs.folderOf(job, copy) }];
  });
}

/** `removePrevious` deletes the files of the previous copy. Throws JobmanError. */
export async function recopyWorkdir(
  folders: JobFolders,
  job: Job,
): Promise<{ readonly copy: number; readonly removePrevious: () => Promise<void> }> {
  const { workdir } = job.spec;
  const last = workdirCopyOf(job);
  if (workdir === undefined || last === undefined)
    throw new JobmanError(
      `Job ${job.id} (${job.spec.name}) has no working directory to copy: its manifest has no job.workdir.`,
      exitCode.usage,
    );
  const copy = last + 1;
  await folders.copyWorkdir(job, workdir.from, copy);
  return { copy, removePrevious: () => folders.removeWorkdirFiles(job, last) };
}
