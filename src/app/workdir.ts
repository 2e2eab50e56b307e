// Workdir: the copies of a working directory. A copy is a tree of blobs, and a description in the job's folder.

import type { Digest } from '../catalogue/digest.ts';
import { workdirCopyOf, type Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { OwnBlobs } from './own-blobs.ts';
import type { JobFiles, WorkdirFiles } from './ports.ts';
import type { WorkdirCopyView } from './client.ts';
import { BlobError, usageError, type JobmanError } from './errors.ts';
import { contentsOf, isFile, isLink, nameOf, readTree, type TreeEntry, type TreeFile } from './tree.ts';

export interface FrozenWorkdir {
  readonly from: string;
  readonly copiedAt: Instant;
  readonly files: number;
  readonly bytes: number;
  /** Null outside a git repository. */
  readonly git: {
    /** Null before the first commit. */
    readonly commit: string | null;
    readonly branch: string | null;
    /** True if tracked files differ from the commit; the differences are in `changes.diff`. */
    readonly changed: boolean;
  } | null;
}

/** A copy whose blobs are stored. */
export interface UploadedWorkdir {
  readonly tree: Digest;
  /** The uncommitted changes; null without any. */
  readonly changes: Digest | null;
  readonly about: FrozenWorkdir;
}

/** The description of a copy, as the job's folder has it. */
export interface WorkdirDescription {
  readonly about: FrozenWorkdir;
  readonly changes: Uint8Array | null;
}

/** The files of a copy. */
export interface WorkdirTree {
  /** Equal keys mean equal files. */
  readonly key: string;
  /** The folder of the job for this copy. It may not exist. */
  readonly folder: string;
  readonly entries: readonly TreeEntry[];
  /** The bytes, in pieces of at most `partBytes`. Throws BlobError if one is missing or damaged. */
  readonly read: (file: TreeFile) => AsyncIterable<Uint8Array>;
}

/**
 * Throws JobmanError if a content of the copy is not stored. A stored one stays for a day, and while a job needs it.
 */
export async function requireUploaded(
  blobs: OwnBlobs,
  { tree, changes, about }: UploadedWorkdir,
): Promise<WorkdirDescription> {
  const lists = changes === null ? [tree] : [tree, changes];
  const own = new Set(await blobs.has(lists));
  const absent = lists.find((digest) => !own.has(digest));
  if (absent !== undefined)
    throw usageError(`A content of the working directory, ${absent}, was not sent by this user.`);
  const entries = await readTree(blobs, tree).catch((error: unknown) => {
    throw error instanceof BlobError ? usageError(`The working directory cannot be used: ${error.problem}.`) : error;
  });
  const files = entries.filter(isFile);
  const contents = files.flatMap(contentsOf).map(({ digest }) => digest);
  const stored = new Set(await blobs.has(contents));
  const missing = files.find((file) => contentsOf(file).some(({ digest }) => !stored.has(digest)));
  if (missing !== undefined)
    throw usageError(
      `The content of ${nameOf(missing)} in the working directory (${missing.digest}) was not sent by this user.`,
    );
  return { about, changes: changes === null ? null : await blobs.read(changes) };
}

export function workdirViews({ workdirs }: JobFiles, job: Job): readonly WorkdirCopyView[] {
  const copies = Array.from({ length: workdirCopyOf(job) ?? 0 }, (_, index) => index + 1);
  return copies.flatMap((copy) => {
    const about = workdirs.about(job, copy);
    return about === null ? [] : [{ ...about, copy, folder: workdirs.folderOf(job, copy) }];
  });
}

/** The number of the next copy. Throws JobmanError. */
export function nextWorkdirCopy(job: Job): number {
  const last = workdirCopyOf(job);
  if (last !== undefined) return last + 1;
  throw noWorkdirError(job.id, job.spec.name);
}

export function noWorkdirError(id: string, name: string): JobmanError {
  return usageError(`Job ${id} (${name}) has no working directory to copy: its manifest has no job.workdir.`);
}

export async function filesByPath({ entries }: WorkdirTree): Promise<WorkdirFiles> {
  // Loaded here, because `show` does not need it.
  const { digestOf } = await import('../catalogue/digest.ts');
  return Object.fromEntries(
    entries.map((entry) => {
      if (!isLink(entry)) return [nameOf(entry), { size: entry.size, digest: entry.digest }];
      const content = contentOfLink(entry);
      return [nameOf(entry), { size: content.length, digest: digestOf(content) }];
    }),
  );
}

/** In one answer. */
const maxFileBytes = 256 * 1024 * 1024;

/**
 * The content of a file, or the target of a link after an arrow. Undefined without such a file. Throws JobmanError (2) for
 * a file that is too large to be read at once.
 */
export async function readByPath(tree: WorkdirTree, path: string): Promise<Uint8Array | undefined> {
  const entry = tree.entries.find((one) => nameOf(one) === path);
  if (entry === undefined) return undefined;
  if (isLink(entry)) return contentOfLink(entry);
  if (entry.size > maxFileBytes)
    throw usageError(`${path} has more than ${maxFileBytes / 1024 / 1024} MiB, which is too large to be shown.`);
  return Buffer.concat(await Array.fromAsync(tree.read(entry)));
}

function contentOfLink({ target }: { readonly target: string }): Uint8Array {
  return Buffer.concat([Buffer.from('-> '), Buffer.from(target, 'latin1')]);
}
