// Clean: removes the files of jobs that are over.

import { stat, rm } from 'node:fs/promises';
import { heldAllocations, type Job } from '../core/job.ts';
import type { AskAnswer } from './client.ts';
import { exitCode, fileError } from './errors.ts';
import { folderOf, tracesOf } from './job-folder.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Removes the files of a finished job of that person that holds nothing; the record stays. Throws StoreError. */
export async function cleanFiles(home: string, job: Job, by: string): Promise<AskAnswer> {
  const it = `Job ${job.id} (${job.spec.name})`;
  const refused = (message: string): AskAnswer => ({ id: job.id, ok: false, message, code: exitCode.conflict });
  if (by !== job.owner)
    return { ...refused(`${it} belongs to ${job.owner}; only its owner may clean it.`), owner: job.owner };
  if (!isOver(job)) return refused(`${it} is not over yet, so its files are kept; cancel it first.`);
  if (heldAllocations(job).length > 0) {
    return refused(`${it} may still hold capacity in the cloud, so its files are kept; look again when it is gone.`);
  }
  const folders = tracesOf(home, job.owner, job.id);
  const found = (await Promise.all(folders.map(exists))).some((one) => one);
  try {
    for (const folder of folders) await removeFolder(folder);
  } catch (error) {
    throw fileError(folderOf(home, job), error);
  }
  const message = found ? `The files of job ${job.id} (${job.spec.name}) are removed.` : `${it} has no files left.`;
  return { id: job.id, ok: true, message, code: exitCode.ok };
}

/** The same for each of these jobs that is over and still has files; the others are passed over in silence. */
export async function cleanAll(home: string, jobs: readonly Job[], by: string): Promise<readonly AskAnswer[]> {
  const answers: AskAnswer[] = [];
  for (const job of jobs) {
    if (job.owner !== by || !isOver(job) || heldAllocations(job).length > 0) continue;
    if (await exists(folderOf(home, job))) answers.push(await cleanFiles(home, job, by));
  }
  return answers;
}

function isOver(job: Job): boolean {
  return (job.settled !== null && job.wish === null) || job.removed;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** Removes a folder also with paths longer than Node can remove, and with folders that their owner may not enter. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    const script = 'chmod -R u+rwx -- "$1"; rm -rf -- "$1"';
    await once(spawn('sh', ['-c', script, 'sh', folder], { stdio: 'ignore' }), 'close');
    await rm(folder, { recursive: true, force: true });
  }
}
