import { capacityTraits } from '../core/decide/allocate.ts';
import { isLost, lastAllocation, type Job } from '../core/model/job.ts';
import { isOnThisMachine } from '../core/model/spec.ts';
import type { Actor } from '../core/model/user.ts';
import { checkAction } from '../core/policy/permissions.ts';
import type { CommandResult, OnBehalf } from './client.ts';
import { refusedResult } from './commit-command.ts';
import { exitCode } from './errors.ts';
import { capitalize } from './format.ts';
import type { JobFolders } from './ports.ts';
import type { WorkerRoutes } from './worker-access.ts';

/** Refuses a job that is unfinished, holds capacity or has another owner. Its history stays. Throws StoreError. */
export async function cleanFiles(
  folders: Pick<JobFolders, 'remove'>,
  routes: () => Promise<Pick<WorkerRoutes, 'removeRunFolders'>>,
  job: Job,
  actor: Actor,
  options: OnBehalf | undefined,
  record: () => Promise<void>,
): Promise<CommandResult> {
  const check = checkAction(job, 'clean', actor, options);
  if (check.answer !== 'allow') return refusedResult(job, check, options);
  await record();
  const kept = await removeRunFolders(routes, job);
  // An empty folder makes the next `clean --all` try the hosts again. A TPU may be deleted, and its disks with it.
  const isRepeated = !capacityTraits(job.spec.capacity).givenUpWhenSilent;
  const found = await folders.remove(job, { keepsFolder: isRepeated && kept.length > 0 });
  const next = isRepeated ? `Repeat: jobman clean ${Number(job.id)}` : 'They are deleted with the TPU.';
  const it = `job ${job.id} (${job.spec.name})`;
  const message =
    kept.length > 0
      ? `Removed the files of ${it} here, but not those on ${kept.join('; ')}. ${next}`
      : found
        ? `Removed the files of ${it}.`
        : `${capitalize(it)} has no files left.`;
  return { id: job.id, ok: true, message, exitCode: exitCode.ok };
}

/** Machines that are deleted with the job take its run folders with them; others keep them. */
async function removeRunFolders(
  routes: () => Promise<Pick<WorkerRoutes, 'removeRunFolders'>>,
  job: Job,
): Promise<readonly string[]> {
  const allocation = lastAllocation(job);
  if (allocation === undefined || isOnThisMachine(job.spec)) return [];
  // The disks of a TPU are deleted with it; a host that jobman gave up may still be there.
  const isDeleted = capacityTraits(job.spec.capacity).replaceable && isLost(allocation);
  if (allocation.ownership === 'ephemeral' || isDeleted) return [];
  return (await routes()).removeRunFolders({ job, allocation });
}

/** True if the job has files and `cleanFiles` would remove them. */
export async function isCleanable(folders: JobFolders, job: Job, actor: Actor): Promise<boolean> {
  return checkAction(job, 'clean', actor).answer === 'allow' && folders.has(job);
}
