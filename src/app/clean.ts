import type { Job } from '../core/model/job.ts';
import type { Actor } from '../core/model/user.ts';
import { checkAction } from '../core/policy/permissions.ts';
import type { CommandResult, OnBehalf } from './client.ts';
import { refusedResult } from './commit-command.ts';
import { exitCode } from './errors.ts';
import { capitalize } from './format.ts';
import type { JobFolders } from './ports.ts';

/** Refuses a job that is unfinished, holds capacity or has another owner. Its history stays. Throws StoreError. */
export async function cleanFiles(
  folders: JobFolders,
  job: Job,
  actor: Actor,
  options?: OnBehalf,
): Promise<CommandResult> {
  const check = checkAction(job, 'clean', actor, options);
  if (check.answer !== 'allow') return refusedResult(job, check);
  const found = await folders.remove(job);
  const it = `job ${job.id} (${job.spec.name})`;
  const message = found ? `Removed the files of ${it}.` : `${capitalize(it)} has no files left.`;
  return { id: job.id, ok: true, message, exitCode: exitCode.ok };
}

/** True if the job has files and `cleanFiles` would remove them. */
export async function isCleanable(folders: JobFolders, job: Job, actor: Actor): Promise<boolean> {
  return checkAction(job, 'clean', actor).answer === 'allow' && folders.has(job);
}
