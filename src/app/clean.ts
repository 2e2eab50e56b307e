import { stat, rm } from 'node:fs/promises';
import type { Job } from '../core/model/job.ts';
import type { Actor } from '../core/model/user.ts';
import { checkAction } from '../core/policy/permissions.ts';
import type { CommandResult, OnBehalf } from './client.ts';
import { refusedResult } from './commit-command.ts';
import { exitCode, fileError } from './errors.ts';
import { capitalize } from './format.ts';
import { folderOf, localFoldersOf } from './job-folder.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Refuses a job that is unfinished, holds capacity or has another owner. Its history stays. Throws StoreError. */
export async function cleanFiles(home: string, job: Job, actor: Actor, options?: OnBehalf): Promise<CommandResult> {
  const check = checkAction(job, 'clean', actor, options);
  if (check.answer !== 'allow') return refusedResult(job, check);
  const folders = localFoldersOf(home, job.owner, job.id);
  const found = (await Promise.all(folders.map(exists))).some((one) => one);
  try {
    for (const folder of folders) await removeFolder(folder);
  } catch (error) {
    throw fileError(folderOf(home, job), error);
  }
  const it = `job ${job.id} (${job.spec.name})`;
  const message = found ? `Removed the files of ${it}.` : `${capitalize(it)} has no files left.`;
  return { id: job.id, ok: true, message, exitCode: exitCode.ok };
}

/** True if the job has files and `cleanFiles` would remove them. */
export async function isCleanable(home: string, job: Job, actor: Actor): Promise<boolean> {
  return checkAction(job, 'clean', actor).answer === 'allow' && exists(folderOf(home, job));
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
