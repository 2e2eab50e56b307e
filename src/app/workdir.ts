// Workdir: what the job's folder says about the copies of a working directory that were frozen for it.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Instant } from '../core/time.ts';

/** A working directory as it was when it was copied. */
export interface FrozenWorkdir {
  /** Where it was, absolute. */
  readonly from: string;
  readonly at: Instant;
  readonly files: number;
  readonly bytes: number;
  /** Null where it is in no git repository. */
  readonly git: {
    /** The whole hash; null before the first commit. */
    readonly commit: string | null;
    /** Null on no branch. */
    readonly branch: string | null;
    /** True when files that git knows differ from the commit; `changes.diff` beside this then has how. */
    readonly isChanged: boolean;
  } | null;
}

/** Copies a working directory into a folder that is made for it. Throws JobmanError with what is wrong and what to do. */
export type Freeze = (from: string, to: string) => Promise<FrozenWorkdir>;

/** The folder of all copies. */
export function workdirsOf(jobFolder: string): string {
  return join(jobFolder, 'workdir');
}

/** The folder of one copy: `files/`, `about.json`, and `changes.diff` where there are changes. Copies count from 1. */
export function workdirFolder(jobFolder: string, snapshot: number): string {
  return join(workdirsOf(jobFolder), String(snapshot));
}

/** What is known of a copy. */
export function workdirAbout(folder: string): string {
  return join(folder, 'about.json');
}

/** How the files that git knows differed from the commit. */
export function workdirDiff(folder: string): string {
  return join(folder, 'changes.diff');
}

/** What a job's folder says of that copy; null where it says nothing (any more). */
export async function readFrozen(jobFolder: string, snapshot: number): Promise<FrozenWorkdir | null> {
  try {
    return JSON.parse(await readFile(workdirAbout(workdirFolder(jobFolder, snapshot)), 'utf8')) as FrozenWorkdir;
  } catch {
    return null;
  }
}
