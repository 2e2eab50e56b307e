// Job folders: creates, changes and removes the folders of jobs in a home on this machine.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileError } from '../app/file-errors.ts';
import type { DraftFiles, JobDraft, JobFolders } from '../app/ports.ts';
import type { WorkdirDescription } from '../app/workdir.ts';
import { fileModeIn, makeFolder, makeHome } from './files.ts';
import {
  folderOf,
  jobFolder,
  localFoldersOf,
  manifestFile,
  secretFile,
  workdirAbout,
  workdirDiff,
  workdirFolder,
  workdirsOf,
} from './job-folder.ts';

export function createJobFolders(home: string): JobFolders {
  return {
    makeHome: () => makeHome(home),

    async draft(owner, files) {
      const draft = draftIn(home, jobFolder(home, owner, `.new-${randomUUID()}`));
      try {
        await writeDraft(draft.folder, files);
        return draft;
      } catch (error) {
        await draft.discard();
        throw fileError(dirname(draft.folder), error);
      }
    },

    async describeWorkdir(job, copy, description) {
      const folder = workdirFolder(folderOf(home, job), copy);
      try {
        // A refused resume may have left a copy with that number.
        await rm(folder, { recursive: true, force: true });
        await writeDescription(folder, description);
      } catch (error) {
        throw fileError(folder, error);
      }
    },

    has: (job) => exists(folderOf(home, job)),

    async remove(job, { keepsFolder } = { keepsFolder: false }) {
      const folders = localFoldersOf(home, job.owner, job.id);
      const found = (await Promise.all(folders.map(exists))).some((one) => one);
      try {
        for (const folder of folders) await removeFolder(folder);
        if (keepsFolder) makeFolder(folderOf(home, job));
      } catch (error) {
        throw fileError(folderOf(home, job), error);
      }
      return found;
    },
  };
}

async function writeDraft(folder: string, { manifest, secrets, workdir }: DraftFiles): Promise<void> {
  makeFolder(folder);
  await writeFile(manifestFile(folder), manifest, { mode: fileModeIn(folder) });
  if (workdir !== null) await writeDescription(workdirFolder(folder, 1), workdir);
  for (const [name, value] of Object.entries(secrets)) {
    const file = secretFile(folder, name);
    makeFolder(dirname(file));
    await writeFile(file, value, { mode: 0o600 });
  }
}

async function writeDescription(folder: string, { about, changes }: WorkdirDescription): Promise<void> {
  makeFolder(folder);
  const mode = fileModeIn(folder);
  if (changes !== null) await writeFile(workdirDiff(folder), changes, { mode });
  await writeFile(workdirAbout(folder), `${JSON.stringify(about, null, 2)}\n`, { mode });
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
