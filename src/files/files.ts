// Files: folders, the permissions of files in them, and safe reads of files that other users can write.
//
// A home is private to its owner, unless a group shares it (lab mode, see src/wiring/lab-home.ts). A shared folder is
// setgid, so the system gives new files to the group, and jobman sets their mode accordingly. The folder's own mode
// decides; nothing is stored.

import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  statSync,
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
  type Stats,
} from 'node:fs';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { FilePart, FileState } from '../app/ports.ts';
import { StoreError, isFileMissing } from '../app/errors.ts';
import { fileError, fileStoreError } from '../app/file-errors.ts';

/** Mode of a shared folder: setgid, full access for owner and group, none for others. */
export const sharedFolderMode = 0o2770;

/** Umask in a shared home: removes nothing from the group and everything from others. */
export const sharedUmask = 0o007;

/** False if the mode cannot be read. */
export function isGroupShared(folder: string): boolean {
  try {
    return ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & 0o7777) === sharedFolderMode;
  } catch {
    return false;
  }
}

/** Creates the home and removes the write permission of others. Throws StoreError if only another user can do that. */
export function makeHome(home: string): void {
  try {
    makeFolder(home);
  } catch (error) {
    throw fileError(home, error);
  }
  const { mode, uid } = statSync(home);
  if ((mode & 0o022) === 0 || isGroupShared(home)) return;
  const instructions = [`chmod go-w ${home}`, 'To share the home with a group: tpu init-lab group=NAME'];
  // A sticky folder, such as /tmp, is writable for all users on purpose.
  if (uid !== ownUid() || (mode & 0o1000) !== 0)
    throw new StoreError('broken', `Other users can write to ${home}. jobman stores no jobs there.`, instructions);
  chmodSync(home, mode & 0o7755);
}

/** The id of this process's user, who may have no entry in the list of users: a container may run as any id. */
export function ownUid(): number {
  try {
    return userInfo().uid;
  } catch {
    return statSync('/proc/self').uid;
  }
}

export function fileModeIn(folder: string): number {
  return isGroupShared(folder) ? 0o660 : 0o600;
}

/**
 * Readers see the old text or the new one, even if two processes write. `flush`: it is on the disk afterwards. Throws the
 * system's error.
 */
export function writeAtomically(
  path: string,
  content: string | Uint8Array,
  mode = fileModeIn(dirname(path)),
  { flush = false } = {},
): void {
  // A hidden file: no reader takes it for the file of another name, such as a secret.
  const draft = join(dirname(path), `.${basename(path)}.${crypto.randomUUID()}`);
  try {
    writeFileSync(draft, content, { mode, flush });
    renameSync(draft, path);
    if (flush) flushFolder(dirname(path));
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

function flushFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Creates the file and its folder if they are missing. True if the file was empty. Throws the system's error. */
export function appendToFile(path: string, chunk: Uint8Array): boolean {
  const file = openToAppend(path);
  try {
    const wasEmpty = fstatSync(file).size === 0;
    appendFileSync(file, chunk);
    return wasEmpty;
  } finally {
    closeSync(file);
  }
}

/** As `appendToFile`, from that byte on, or from the end of a file that was truncated meanwhile. */
export function writeFileAt(path: string, chunk: Uint8Array, at: number): boolean {
  const file = openToAppend(path, constants.O_WRONLY | constants.O_CREAT);
  try {
    const { size } = fstatSync(file);
    const begin = Math.min(at, size);
    for (let written = 0; written < chunk.length;)
      written += writeSync(file, chunk, written, chunk.length - written, begin + written);
    return size === 0;
  } finally {
    closeSync(file);
  }
}

function openToAppend(path: string, flags: string | number = 'a'): number {
  try {
    return openSync(path, flags, fileModeIn(dirname(path)));
  } catch (error) {
    if (!isFileMissing(error)) throw error;
    makeFolder(dirname(path));
    return openSync(path, flags, fileModeIn(dirname(path)));
  }
}

/** Exists while a process replaces the file. */
export function lockOf(path: string): string {
  return `${path}.lock`;
}

/**
 * Writes the text only if the file still has the text `before` (undefined: no file), so that no change of another
 * process is lost. False if it has another text, or if another process is just writing it: read it again. Throws the
 * system's error.
 */
export function replaceIfUnchanged(
  path: string,
  before: string | undefined,
  text: string,
  mode = fileModeIn(dirname(path)),
): boolean {
  const lock = lockOf(path);
  try {
    writeFileSync(lock, '', { mode, flag: 'wx' });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
  try {
    const isUnchanged = (existsSync(path) ? readFileSync(path, 'utf8') : undefined) === before;
    if (isUnchanged) writeAtomically(path, text, mode);
    return isUnchanged;
  } finally {
    rmSync(lock, { force: true });
  }
}

/**
 * Creates the folder and its missing parents, by default for the owner only, or also for the group that shares the
 * parent (the umask applies). Does nothing if it exists. Throws the system's error, or a StoreError if that does not
 * help.
 *
 * Not Node's recursive mkdir: it reports ENOENT on a read-only file system, and never returns where a file system
 * answers ENOENT for a folder that cannot be created, as /proc does.
 */
export function makeFolder(path: string, mode?: number): void {
  makeFolderWithRetry(path, mode, 2);
}

/** Another process may create or remove the parent between two of these calls: retry. */
function makeFolderWithRetry(path: string, mode: number | undefined, triesLeft: number): void {
  const parent = dirname(path);
  try {
    mkdirSync(path, { mode: mode ?? (isGroupShared(parent) ? 0o770 : 0o700) });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST') {
      const existing = statSync(path, { throwIfNoEntry: false });
      if (existing?.isDirectory() === true) return;
      if (existing === undefined && lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true)
        throw new StoreError('broken', `${path} is a symbolic link to ${readlinkSync(path)}, which does not exist.`);
    }
    if (code !== 'ENOENT') throw error;
    if (triesLeft === 0) throw fileStoreError(path, 'broken', error);
    if (!existsSync(parent)) makeFolderWithRetry(parent, mode, 2);
    makeFolderWithRetry(path, mode, triesLeft - 1);
  }
}

/** A folder, FIFO or device in place of a file. */
class NotRegularFileError extends Error {}

/** Opens a regular file, even through a link. Throws NotRegularFileError or the system's error. Never blocks. */
function openRegularFile(path: string, flags = 0): { readonly file: number; readonly stats: Stats } {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  const stats = fstatSync(file);
  if (stats.isFile()) return { file, stats };
  closeSync(file);
  throw new NotRegularFileError(`${path} is ${stats.isDirectory() ? 'a folder' : 'not a regular file'}`);
}

/** Opens a regular file without symbolic links below `root` (a resolved path). Throws otherwise. Never blocks. */
export function withRegularFile<T>(root: string, path: string, read: (file: number, size: number) => T): T {
  const { file, stats } = openRegularFile(path, constants.O_NOFOLLOW);
  try {
    // O_NOFOLLOW covers only the last component.
    if (!path.startsWith(`${root}/`) || realpathSync(path) !== path)
      throw new Error(`${path} is reached through a symbolic link`);
    return read(file, stats.size);
  } finally {
    closeSync(file);
  }
}

const mebibyte = 1024 * 1024;

/** Reads a regular file of at most `maxBytes` bytes. Throws the reason if it cannot. Never waits for a writer. */
export function readRegularFile(path: string, maxBytes: number = 16 * mebibyte): Buffer {
  const { file, stats } = openRegularFile(path);
  try {
    if (stats.size > maxBytes) throw new Error(`${path} is larger than ${maxBytes / mebibyte} MiB`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** False for a file that cannot be examined; reading it reports why. */
export function isReadableByOthers(path: string): boolean {
  try {
    return (statSync(path).mode & 0o007) !== 0;
  } catch {
    return false;
  }
}

/** All bytes of a file; nothing without a regular file. `onRead` gets the bytes read so far and the size. */
export async function* readPieces(
  path: string,
  onRead: (bytes: number, size: number) => void = () => undefined,
): AsyncIterable<Buffer> {
  const opened = openIfRegular(path);
  if (opened === undefined) return;
  let bytes = 0;
  try {
    for await (const piece of createReadStream('', { fd: opened.file })) {
      bytes += (piece as Buffer).length;
      onRead(bytes, Math.max(bytes, opened.stats.size));
      yield piece as Buffer;
    }
  } catch (error) {
    throw fileError(path, error);
  }
}

/** The last bytes of a file; undefined without a regular file. */
export function readFileEnd(path: string, maxBytes: number): FilePart | undefined {
  return readFilePart(path, -maxBytes, maxBytes);
}

/**
 * Bytes from an offset on, which counts from the end if it is negative; none after the end, undefined without a regular
 * file.
 */
export function readFilePart(path: string, from: number, maxBytes: number): FilePart | undefined {
  const opened = openIfRegular(path);
  if (opened === undefined) return undefined;
  const { file, stats } = opened;
  try {
    const begin = from < 0 ? Math.max(0, stats.size + from) : from;
    const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(stats.size - begin, maxBytes)));
    const count = readSync(file, bytes, 0, bytes.length, begin);
    return { bytes: bytes.subarray(0, count), from: begin, ...stateFrom(stats) };
  } finally {
    closeSync(file);
  }
}

/** Undefined without a regular file. */
export function fileStateOf(path: string): FileState | undefined {
  try {
    const stats = statSync(path);
    return stats.isFile() ? stateFrom(stats) : undefined;
  } catch {
    return undefined;
  }
}

function stateFrom({ size, mtimeMs }: Stats): FileState {
  return { size, changedAt: Math.floor(mtimeMs) };
}

/** Undefined without a regular file. Throws StoreError if it cannot be opened. */
function openIfRegular(path: string): ReturnType<typeof openRegularFile> | undefined {
  try {
    return openRegularFile(path);
  } catch (error) {
    if (isFileMissing(error) || error instanceof NotRegularFileError) return undefined;
    throw fileError(path, error);
  }
}

export function settingsFile(home: string): string {
  return join(home, 'settings.json');
}

/** jobman's own folder. `entry` is dist/bundle/main.cjs, dist/main.js or src/main.ts; see bin/jobman. */
export function packageFolder(entry: string): string {
  const folder = dirname(entry);
  return basename(folder) === 'bundle' ? join(folder, '../..') : join(folder, '..');
}
