// Workdir copies: reads the copies of working directories in the folders of jobs.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readRegularFile } from './files.ts';
import { folderOf, workdirAbout, workdirDiff, workdirFolder } from './job-folder.ts';
import type { WorkdirCopies } from '../app/ports.ts';
import type { FrozenWorkdir } from '../app/workdir.ts';
import type { Job } from '../core/model/job.ts';

/** Larger than any file that a copy of a working directory writes. */
const maxChangesBytes = 64 * 1024 * 1024;

export function workdirCopiesIn(home: string): WorkdirCopies {
  const copyFolder = (job: Job, copy: number): string => workdirFolder(folderOf(home, job), copy);
  const filesFolder = (job: Job, copy: number): string => join(copyFolder(job, copy), 'files');
  return {
    folderOf: (job, copy) => ({ host: hostname(), path: copyFolder(job, copy) }),
    about(job, copy) {
      try {
        return JSON.parse(readFileSync(workdirAbout(copyFolder(job, copy)), 'utf8')) as FrozenWorkdir;
      } catch {
        return null;
      }
    },
    changes: (job, copy) => readRegularFile(workdirDiff(copyFolder(job, copy)), maxChangesBytes).toString('utf8'),
    async files(job, copy) {
      const folder = filesFolder(job, copy);
      if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return null;
      // Loaded here, because no other command needs it.
      const { createHash } = await import('node:crypto');
      const entries = pathsIn(folder).map((path) => {
        const content = contentOf(join(folder, path));
        const sha256 = createHash('sha256').update(content).digest('hex');
        return [path, { size: content.length, sha256 }] as const;
      });
      return Object.fromEntries(entries);
    },
    read(job, copy, path) {
      const folder = filesFolder(job, copy);
      const isKept = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
      return isKept && pathsIn(folder).includes(path) ? contentOf(join(folder, path)) : undefined;
    },
  };
}

function pathsIn(folder: string): readonly string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() || entry.isSymbolicLink());
  return files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
}

function contentOf(path: string): Buffer {
  try {
    return Buffer.from(`-> ${readlinkSync(path)}`);
  } catch {
    return readFileSync(path);
  }
}
