// Workdir: what the job's folder says about the copies of a working directory that were frozen for it.

import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { copyOf, type Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { WorkdirView } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';

/** A working directory as it was when it was copied. */
export interface FrozenWorkdir {
  readonly from: string;
  readonly at: Instant;
  readonly files: number;
  readonly bytes: number;
  /** Null where it is in no git repository. */
  readonly git: {
    /** The whole hash; null before the first commit. */
    readonly commit: string | null;
    readonly branch: string | null;
    /** True when files that git knows differ from the commit; `changes.diff` beside this then has how. */
    readonly isChanged: boolean;
  } | null;
}

/** Copies a working directory into a folder that is made for it. Throws JobmanError with what is wrong and what to do. */
export type Freeze = (from: string, to: string) => Promise<FrozenWorkdir>;

export function workdirsOf(jobFolder: string): string {
  return join(jobFolder, 'workdir');
}

/** The folder of one copy: `files/`, `about.json`, and `changes.diff` where there are changes. Copies count from 1. */
export function workdirFolder(jobFolder: string, snapshot: number): string {
  return join(workdirsOf(jobFolder), String(snapshot));
}

export function workdirAbout(folder: string): string {
  return join(folder, 'about.json');
}

export function workdirDiff(folder: string): string {
  return join(folder, 'changes.diff');
}

export async function workdirViews(folder: string, job: Job): Promise<readonly WorkdirView[]> {
  const all = await Promise.all(
    Array.from({ length: copyOf(job) ?? 0 }, async (_, index) => {
      const about = await readFrozen(folder, index + 1);
      return about === null ? [] : [{ ...about, snapshot: index + 1, folder: workdirFolder(folder, index + 1) }];
    }),
  );
  return all.flat();
}

/** Copies the job's working directory anew; `forget` removes the files of the copy before. Throws JobmanError. */
export async function copyAnew(
  { freeze }: { readonly freeze: Freeze },
  job: Job,
  folder: string,
): Promise<{ readonly snapshot: number; readonly forget: () => Promise<void> }> {
  const { workdir } = job.spec;
  const last = copyOf(job);
  if (workdir === undefined || last === undefined)
    throw new JobmanError(
      `Job ${job.id} (${job.spec.name}) has no working directory to copy again: its manifest has no job.workdir.`,
      exitCode.usage,
    );
  const snapshot = last + 1;
  // A resume that came to nothing may have left one of that number.
  await rm(workdirFolder(folder, snapshot), { recursive: true, force: true });
  await freeze(workdir.from, workdirFolder(folder, snapshot));
  const forget = (): Promise<void> => rm(join(workdirFolder(folder, last), 'files'), { recursive: true, force: true });
  return { snapshot, forget };
}

async function readFrozen(jobFolder: string, snapshot: number): Promise<FrozenWorkdir | null> {
  try {
    return JSON.parse(await readFile(workdirAbout(workdirFolder(jobFolder, snapshot)), 'utf8')) as FrozenWorkdir;
  } catch {
    return null;
  }
}
