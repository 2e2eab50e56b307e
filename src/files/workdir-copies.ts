// Workdir copies: reads the copies of working directories in the folders of jobs.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readRegularFile } from '../app/files.ts';
import { folderOf } from '../app/job-folder.ts';
import type { WorkdirCopies } from '../app/ports.ts';
import { workdirAbout, workdirDiff, workdirFolder, type FrozenWorkdir } from '../app/workdir.ts';
import type { Job } from '../core/model/job.ts';

/** Larger than any file that a copy of a working directory writes. */
const maxChangesBytes = 64 * 1024 * 1024;

export function workdirCopiesIn(home: string): WorkdirCopies {
  const copyFolder = (job: Job, copy: number): string => workdirFolder(folderOf(home, job), copy);
  const filesFolder = (job: Job, copy: number): string => join(copyFolder(job, copy), 'files');
  return {
    folderOf: copyFolder,
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
      const isKept = (await stat(folder).catch(() => undefined))?.isDirectory() === true;
      if (!isKept) return null;
      const entries: [string, { size: number; sha256: string }][] = [];
      for (const path of await pathsIn(folder)) {
        const content = await contentOf(join(folder, path));
        const sha256 = createHash('sha256').update(content).digest('hex');
        entries.push([path, { size: content.length, sha256 }]);
      }
      return Object.fromEntries(entries);
    },
    async read(job, copy, path) {
      const folder = filesFolder(job, copy);
      const paths: readonly string[] = await pathsIn(folder).catch(() => []);
      return paths.includes(path) ? contentOf(join(folder, path)) : undefined;
    },
  };
}

async function pathsIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() || entry.isSymbolicLink());
  return files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
}

async function contentOf(path: string): Promise<Buffer> {
  const target = await readlink(path).catch(() => null);
  return target === null ? readFile(path) : Buffer.from(`-> ${target}`);
}
