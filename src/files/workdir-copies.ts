// Workdir copies: reads the copies of working directories. Their files are blobs; those of version 1 are in the job's folder.

import { readFileSync } from 'node:fs';
import { lstat, readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { mapConcurrent } from '../app/concurrency.ts';
import { BlobError } from '../app/errors.ts';
import type { Blobs, WorkdirCopies } from '../app/ports.ts';
import type { TreeEntry } from '../app/tree.ts';
import type { FrozenWorkdir, WorkdirTree } from '../app/workdir.ts';
import { workdirCopyOf, workdirTreeOf, type Job } from '../core/model/job.ts';
import { readRegularFile } from './files.ts';
import { folderOf, workdirAbout, workdirDiff, workdirFolder } from './job-folder.ts';
import { bytesOf, listFolder } from './workdir-paths.ts';

/** Larger than any file that describes a copy. */
const maxChangesBytes = 64 * 1024 * 1024;

const maxConcurrent = 16;

/** By default, the contents are in the home too. */
export function workdirCopiesIn(
  home: string,
  openBlobs: () => Promise<Pick<Blobs, 'read'>> = async () => (await import('./blobs.ts')).createBlobs(home),
): WorkdirCopies {
  const copyFolder = (job: Job, copy: number): string => workdirFolder(folderOf(home, job), copy);
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
    async open(job, copy) {
      const tree = copy === workdirCopyOf(job) ? workdirTreeOf(job) : null;
      const folder = copyFolder(job, copy);
      if (tree === null) return openFolder(folder);
      // Loaded here, because few commands need them.
      const [blobs, { contentsOf, nameOf, readTree }] = await Promise.all([openBlobs(), import('../app/tree.ts')]);
      const named = (what: string) => (error: unknown) => {
        throw error instanceof BlobError ? new BlobError(`${what} of job.workdir, ${error.problem}`) : error;
      };
      return {
        key: tree,
        folder,
        entries: await readTree(blobs, tree).catch(named('the list of the files')),
        async *read(file) {
          for (const { digest } of contentsOf(file))
            yield await blobs.read(digest).catch(named(`the content of ${nameOf(file)}`));
        },
      };
    },
  };
}

/** The files of a copy of version 1. Null if they are not kept. */
async function openFolder(folder: string): Promise<WorkdirTree | null> {
  const top = join(folder, 'files');
  const paths = await listFolder(top, '').catch(() => null);
  if (paths === null) return null;
  const { digestOf } = await import('../catalogue/digest.ts');
  const contentAt = (path: string): Promise<Uint8Array> => readFile(bytesOf(top, path));
  const entries = await mapConcurrent(paths, maxConcurrent, async (path): Promise<TreeEntry> => {
    const stats = await lstat(bytesOf(top, path));
    if (stats.isSymbolicLink()) return { path, target: await readlink(bytesOf(top, path), 'latin1') };
    const content = await contentAt(path);
    const changedAtSeconds = Math.floor(stats.mtimeMs / 1000);
    return { path, mode: stats.mode & 0o7777, size: content.length, changedAtSeconds, digest: digestOf(content) };
  });
  return {
    key: folder,
    folder,
    entries,
    async *read({ path }) {
      yield await contentAt(path);
    },
  };
}
