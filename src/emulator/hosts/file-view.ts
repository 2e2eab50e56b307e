/**
 * The file tree of a host, as its own programs see it, for this process. The kernel follows an absolute symbolic link from
 * the root of the process that asks, so a plain path below `/proc/PID/root` would lead out of the host at the first link:
 * links are resolved here, from the host's root.
 *
 * A program of the host may replace a folder by a link between two steps. So each folder is opened without following a
 * link, and the next name is found in the open folder (`/proc/self/fd/N/name`), never by the whole path.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readlink } from 'node:fs/promises';
import { posix } from 'node:path';

/** As many symbolic links as Linux follows in one path. */
const maxLinks = 40;

/** As many bytes as Linux takes in one path. */
const maxPath = 4096;

/** Opens a folder for its names only, also one that may be passed through and not listed. Linux has it, Node has no name for it. */
const openPath = 0o10000000;

/** A place in the tree of a host that stays the same place until it is released, whatever the host's programs rename. */
interface Place {
  /** The path inside, without symbolic links. */
  readonly path: string;
  /**
   * Where this process finds it. The last name may have become a symbolic link: it is not to be followed, so callers use
   * lstat and O_NOFOLLOW.
   */
  readonly outside: string;
  release(): Promise<void>;
}

export interface FileView {
  /** The absolute path inside the host, normalized; relative paths begin in the user's home folder. */
  absolute(path: string): string;
  /**
   * Finds the place that a path names. The last name may be missing; with `keepLast` it may be a link itself.
   * Rejects with ENOENT, ENOTDIR, ENAMETOOLONG or ELOOP as the kernel does.
   */
  find(path: string, keepLast?: boolean): Promise<Place>;
}

/** `root` is where this process sees the root folder of the host, and `home` a path inside. */
export function createFileView(root: string, home: string): FileView {
  return {
    absolute: (path) => posix.resolve(home, path),
    // Async, so that a path which is too long is a rejection as well.
    find: async (path, keepLast = false) =>
      findPlace(root, namesOf(path.startsWith('/') ? path : `${home}/${path}`), keepLast),
  };
}

/** Opens the `outside` of a place for its attributes only. It rejects with ELOOP for a symbolic link. */
export async function openEntry(outside: string): Promise<FileHandle> {
  const entry = await open(outside, openPath | constants.O_NOFOLLOW);
  if (!(await entry.stat()).isSymbolicLink()) return entry;
  await entry.close();
  throw failure('ELOOP', 'too many levels of symbolic links');
}

/** Opens the `outside` of a place that is a folder. It rejects with ENOTDIR for a symbolic link. */
export function openFolder(outside: string): Promise<FileHandle> {
  return open(outside, openPath | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

/** Where this process finds what it has open. */
export function pathOf(opened: FileHandle): string {
  return `/proc/self/fd/${String(opened.fd)}`;
}

/** The `code` of an error of the system, such as ENOENT. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

async function findPlace(root: string, pending: string[], keepLast: boolean): Promise<Place> {
  const openRoot = (): Promise<FileHandle> => open(root, openPath | constants.O_DIRECTORY);
  let folder = await openRoot();
  /** The names that lead from the root to `folder`. */
  const names: string[] = [];
  const enter = async (name: string): Promise<void> => {
    const next = await openFolder(`${pathOf(folder)}/${name}`);
    await folder.close();
    folder = next;
    names.push(name);
  };
  const enterFromRoot = async (way: readonly string[]): Promise<void> => {
    const next = await openRoot();
    await folder.close();
    folder = next;
    names.length = 0;
    for (const name of way) await enter(name);
  };
  const place = (name: string): Place => ({
    path: posix.join('/', ...names, name),
    outside: `${pathOf(folder)}/${name}`,
    release: () => folder.close(),
  });
  let links = 0;
  try {
    for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
      if (name === '..') {
        // The kernel's `..` may lead out of the host when a program has moved the folder meanwhile.
        const way = names.slice(0, -1);
        for (; pending[0] === '..'; pending.shift()) way.pop();
        await enterFromRoot(way);
        continue;
      }
      const isLast = pending.length === 0;
      if (isLast && keepLast) return place(name);
      const target = await linkTarget(`${pathOf(folder)}/${name}`);
      if (target !== undefined) {
        links += 1;
        if (links > maxLinks) throw failure('ELOOP', 'too many levels of symbolic links');
        if (target.startsWith('/')) await enterFromRoot([]);
        pending.unshift(...namesOf(target));
      } else if (isLast) return place(name);
      else await enter(name);
    }
    return place('.');
  } catch (error) {
    await folder.close();
    throw error;
  }
}

/** Undefined for what is no symbolic link, or is missing. */
function linkTarget(path: string): Promise<string | undefined> {
  return readlink(path).catch((error: unknown) => {
    const code = codeOf(error);
    if (code === 'EINVAL' || code === 'ENOENT') return undefined;
    throw error;
  });
}

function namesOf(path: string): string[] {
  if (Buffer.byteLength(path) >= maxPath) throw failure('ENAMETOOLONG', 'file name too long');
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
