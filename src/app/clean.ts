import { stat, rm } from 'node:fs/promises';
import { heldAllocations, type Job } from '../core/model/job.ts';
import type { CommandResult } from './client.ts';
import { exitCode, fileError } from './errors.ts';
import { folderOf, localFoldersOf } from './job-folder.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Refuses a job that is unfinished, holds capacity or has another owner. Its history stays. Throws StoreError. */
export async function cleanFiles(home: string, job: Job, by: string): Promise<CommandResult> {
  const it = `Job ${job.id} (${job.spec.name})`;
  const refused = (message: string): CommandResult => ({ id: job.id, ok: false, message, exitCode: exitCode.conflict });
  if (by !== job.owner)
    return { ...refused(`${it} belongs to ${job.owner}; only its owner may clean it.`), owner: job.owner };
  if (!isFinished(job)) return refused(`${it} has not finished. Cancel it first.`);
  if (heldAllocations(job).length > 0) {
    return refused(`${it} still holds its TPU. Try again once it is released.`);
  }
  const folders = localFoldersOf(home, job.owner, job.id);
  const found = (await Promise.all(folders.map(exists))).some((one) => one);
  try {
    for (const folder of folders) await removeFolder(folder);
  } catch (error) {
    throw fileError(folderOf(home, job), error);
  }
  const message = found ? `Removed the files of job ${job.id} (${job.spec.name}).` : `${it} has no files left.`;
  return { id: job.id, ok: true, message, exitCode: exitCode.ok };
}

/** True if the job has files and `cleanFiles` would remove them. */
export async function isCleanable(home: string, job: Job): Promise<boolean> {
  return isFinished(job) && heldAllocations(job).length === 0 && exists(folderOf(home, job));
}

function isFinished(job: Job): boolean {
  return (job.finish !== null && job.startRequest === null) || job.removed;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** Also removes paths too long for Node and folders that their owner may not enter. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    const script = 'chmod -R u+rwx -- "$1"; rm -rf -- "$1"';
    await once(spawn('sh', ['-c', script, 'sh', folder], { stdio: 'ignore' }), 'close');
    await rm(folder, { recursive: true, force: true });
  }
}
