// Files: making folders, who may use what is made in them, and reading files that other people can write.
//
// A home is its owner's only, unless a group shares it (lab mode, see src/wiring/lab-home.ts): then the system gives all that is
// made in it to that group, because its folder is setgid, and so do we. Each place tells by the folder that it writes in, and
// nothing has to be remembered.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  statSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  realpathSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { StoreError, troubleWith } from './errors.ts';

/** The mode of a folder that a group shares: setgid, everything for its owner and the group, nothing for others. */
export const sharedFolderMode = 0o2770;

/** The umask of a program that works in such a home: it takes nothing from the group, and everything from others. */
export const sharedUmask = 0o007;

/** True if a group shares that folder; false if its mode cannot be read. */
export function isShared(folder: string): boolean {
  try {
    return ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & 0o7777) === sharedFolderMode;
  } catch {
    return false;
  }
}

/** Makes the home, and takes the right to write to it from others. Throws a StoreError where only another user can do that. */
export function makeHome(home: string): void {
  makeFolder(home);
  const { mode, uid } = statSync(home);
  if ((mode & 0o022) === 0 || isShared(home)) return;
  const way = [`chmod go-w ${home}`, 'To share the home with a group: tpu init-lab group=NAME'];
  // A sticky folder, such as /tmp, is meant for everybody.
  if (uid !== userInfo().uid || (mode & 0o1000) !== 0)
    throw new StoreError('broken', `Others can write to ${home}, so no jobs can be kept there.`, way);
  chmodSync(home, mode & 0o7755);
}

/** The mode for a new file in that folder: its owner's, or also the group's that shares the folder. */
export function fileModeIn(folder: string): number {
  return isShared(folder) ? 0o660 : 0o600;
}

/**
 * Makes it with what is missing above it, for their owner only, where a group shares the folder above for that too, unless
 * another mode is given (the umask counts as ever); nothing happens when it is there. Throws what the system says, or a
 * StoreError where it says nothing that helps.
 *
 * Each by itself: Node's recursive mkdir tells ENOENT on a read-only file system, and never returns where a file system
 * answers ENOENT to a folder that it will not make, as /proc does.
 */
export function makeFolder(path: string, mode?: number): void {
  makeWithin(path, mode, 2);
}

/** Another process may make or remove the folder above between two of these calls: so it is tried again. */
function makeWithin(path: string, mode: number | undefined, triesLeft: number): void {
  const above = dirname(path);
  try {
    mkdirSync(path, { mode: mode ?? (isShared(above) ? 0o770 : 0o700) });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
    if (code !== 'ENOENT') throw error;
    if (triesLeft === 0) throw troubleWith(path, 'broken', error);
    if (!existsSync(above)) makeWithin(above, mode, 2);
    makeWithin(path, mode, triesLeft - 1);
  }
}

/** Opens a regular file that no link below `root` (a resolved path) leads to. Throws for everything else; never waits for a writer. */
export function withRegularFile<T>(root: string, path: string, read: (file: number, size: number) => T): T {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file`);
    // O_NOFOLLOW is about the last name only.
    if (!path.startsWith(`${root}/`) || realpathSync(path) !== path)
      throw new Error(`${path} is reached through a symbolic link`);
    return read(file, facts.size);
  } finally {
    closeSync(file);
  }
}

const mebibyte = 1024 * 1024;

/** The content of a regular file of at most `most` bytes. Throws why it is not read. Never waits for a writer. */
export function readRegularFile(path: string, most: number = 16 * mebibyte): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = fstatSync(file);
    if (facts.isDirectory()) throw new Error(`${path} is a folder`);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file`);
    if (facts.size > most) throw new Error(`${path} is larger than ${most / mebibyte} MiB`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

export function settingsFile(home: string): string {
  return join(home, 'settings.json');
}
