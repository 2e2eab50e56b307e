/**
 * The file tree of a host as its own programs see it, for this process. The kernel follows an absolute symbolic link
 * from the root of the calling process, so a plain path below `/proc/PID/root` would leave the host at the first link.
 * This file resolves links from the host's root instead.
 * A program of the host may replace a folder by a link between two steps. Therefore each folder is opened without
 * following a link, and the next name is opened relative to it (`/proc/self/fd/N/name`), never by the whole path.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readlink } from 'node:fs/promises';
import { posix } from 'node:path';

/** Linux's limit. */
const maxLinks = 40;

/** Linux's limit, in bytes. */
const maxPath = 4096;

/** O_PATH, for which Node has no name. It opens a folder that can be traversed, even if it cannot be listed. */
const pathOnlyFlag = 0o10000000;

/** A path of a host that keeps its meaning until it is released, even when programs of the host rename folders. */
interface ResolvedPath {
  readonly path: string;
  /** The path for this process. The last name may have become a symbolic link, so callers use lstat and O_NOFOLLOW. */
  readonly fdPath: string;
  release(): Promise<void>;
}

export interface FileView {
  /** The absolute, normalized path inside the host; relative paths start in the user's home folder. */
  absolute(path: string): string;
  /** The last name may be missing; with `noFollow` it may be a link. Rejects as the kernel does. */
  resolve(path: string, noFollow?: boolean): Promise<ResolvedPath>;
}

/** `root` is the host's root folder as this process sees it; `home` is a path inside the host. */
export function createFileView(root: string, home: string): FileView {
  return {
    absolute: (path) => posix.resolve(home, path),
    // Async, so that a path that is too long is a rejection as well.
    resolve: async (path, noFollow = false) =>
      resolvePath(root, pathSegments(path.startsWith('/') ? path : `${home}/${path}`), noFollow),
  };
}

/** Opens an `fdPath` for its attributes only. Rejects with ELOOP for a symbolic link. */
export async function openEntry(fdPath: string): Promise<FileHandle> {
  const entry = await open(fdPath, pathOnlyFlag | constants.O_NOFOLLOW);
  if (!(await entry.stat()).isSymbolicLink()) return entry;
  await entry.close();
  throw errnoError('ELOOP', 'too many levels of symbolic links');
}

/** Rejects with ENOTDIR for a symbolic link. */
export function openFolder(fdPath: string): Promise<FileHandle> {
  return open(fdPath, pathOnlyFlag | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

export function fdPathOf(opened: FileHandle): string {
  return `/proc/self/fd/${String(opened.fd)}`;
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

async function resolvePath(root: string, pending: string[], noFollow: boolean): Promise<ResolvedPath> {
  const openRoot = (): Promise<FileHandle> => open(root, pathOnlyFlag | constants.O_DIRECTORY);
  let folder = await openRoot();
  const names: string[] = [];
  const enter = async (name: string): Promise<void> => {
    const next = await openFolder(`${fdPathOf(folder)}/${name}`);
    await folder.close();
    folder = next;
    names.push(name);
  };
  const enterFromRoot = async (folderNames: readonly string[]): Promise<void> => {
    const next = await openRoot();
    await folder.close();
    folder = next;
    names.length = 0;
    for (const name of folderNames) await enter(name);
  };
  const resolved = (name: string): ResolvedPath => ({
    path: posix.join('/', ...names, name),
    fdPath: `${fdPathOf(folder)}/${name}`,
    release: () => folder.close(),
  });
  let links = 0;
  try {
    for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
      if (name === '..') {
        // Restart from the root: the kernel's `..` may lead out of the host when a program has moved the folder.
        const folderNames = names.slice(0, -1);
        for (; pending[0] === '..'; pending.shift()) folderNames.pop();
        await enterFromRoot(folderNames);
        continue;
      }
      const isLast = pending.length === 0;
      if (isLast && noFollow) return resolved(name);
      const target = await linkTarget(`${fdPathOf(folder)}/${name}`);
      if (target !== undefined) {
        links += 1;
        if (links > maxLinks) throw errnoError('ELOOP', 'too many levels of symbolic links');
        if (target.startsWith('/')) await enterFromRoot([]);
        pending.unshift(...pathSegments(target));
      } else if (isLast) return resolved(name);
      else await enter(name);
    }
    return resolved('.');
  } catch (error) {
    await folder.close();
    throw error;
  }
}

function linkTarget(path: string): Promise<string | undefined> {
  return readlink(path).catch((error: unknown) => {
    const code = codeOf(error);
    if (code === 'EINVAL' || code === 'ENOENT') return undefined;
    throw error;
  });
}

function pathSegments(path: string): string[] {
  if (Buffer.byteLength(path) >= maxPath) throw errnoError('ENAMETOOLONG', 'file name too long');
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function errnoError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
