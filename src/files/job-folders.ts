// Job folders: creates, changes and removes the folders of jobs in a home on this machine.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { JobmanError, fileError } from '../app/errors.ts';
import type { DraftFiles, JobDraft, JobFolders } from '../app/ports.ts';
import type { Freeze } from '../app/workdir.ts';
import type { Job } from '../core/model/job.ts';
import { fileModeIn, makeFolder, makeHome } from './files.ts';
import {
  folderOf,
  jobFolder,
  localFoldersOf,
  manifestFile,
  secretFile,
  workdirFolder,
  workdirsOf,
} from './job-folder.ts';

export function createJobFolders({ home, freeze }: { readonly home: string; readonly freeze: Freeze }): JobFolders {
  const copyFolder = (job: Job, copy: number): string => workdirFolder(folderOf(home, job), copy);
  return {
    makeHome: () => makeHome(home),

    async draft(owner, files) {
      const draft = draftIn(home, jobFolder(home, owner, `.new-${randomUUID()}`));
      try {
        await writeDraft(draft.folder, files, freeze);
        return draft;
      } catch (error) {
        await draft.discard();
        throw error instanceof JobmanError ? error : fileError(dirname(draft.folder), error);
      }
    },

    async copyWorkdir(job, from, copy) {
      // A refused resume may have left a copy with that number.
      await rm(copyFolder(job, copy), { recursive: true, force: true });
      await freeze(from, copyFolder(job, copy));
    },

    removeWorkdirFiles: (job, copy) => rm(join(copyFolder(job, copy), 'files'), { recursive: true, force: true }),

    has: (job) => exists(folderOf(home, job)),

    async remove(job) {
      const folders = localFoldersOf(home, job.owner, job.id);
      const found = (await Promise.all(folders.map(exists))).some((one) => one);
      try {
        for (const folder of folders) await removeFolder(folder);
      } catch (error) {
        throw fileError(folderOf(home, job), error);
      }
      return found;
    },
  };
}

async function writeDraft(folder: string, { manifest, secrets, workdir }: DraftFiles, freeze: Freeze): Promise<void> {
  makeFolder(folder);
  await writeFile(manifestFile(folder), manifest, { mode: fileModeIn(folder) });
  if (workdir !== null) await freeze(workdir, workdirFolder(folder, 1));
  for (const [name, value] of Object.entries(secrets)) {
    const file = secretFile(folder, name);
    makeFolder(dirname(file));
    await writeFile(file, value, { mode: 0o600 });
  }
}

function draftIn(home: string, folder: string): JobDraft & { readonly folder: string } {
  return {
    folder,
    async moveTo(job) {
      const target = folderOf(home, job);
      try {
        await moveDraft(folder, target);
      } catch (error) {
        throw fileError(target, error);
      }
    },
    // An unwritable disk may refuse the removal too.
    discard: () => rm(folder, { recursive: true, force: true }).catch(() => undefined),
  };
}

/** If the controller has already created the job's folder, the files of the draft move into it. */
async function moveDraft(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch {
    await rename(manifestFile(draft), manifestFile(folder));
    await rename(dirname(secretFile(draft, '')), dirname(secretFile(folder, ''))).catch(() => undefined);
    await rename(workdirsOf(draft), workdirsOf(folder)).catch(() => undefined);
    await rm(draft, { recursive: true, force: true });
  }
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
