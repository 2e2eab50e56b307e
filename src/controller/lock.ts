// Lock: at most one controller runs on this machine for a home. The controller holds BEGIN EXCLUSIVE on a SQLite file,
// which the kernel releases when it dies, so no lock is stale.

import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { fileModeIn, readRegularFile } from '../files/files.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';

/** Returns the release function, or undefined when another process holds the lock. */
export function takeLock(path: string): (() => void) | undefined {
  // In a shared home the next controller may belong to another login.
  closeSync(openSync(path, 'a', fileModeIn(dirname(path))));
  const database = new DatabaseSync(path);
  try {
    // Longer than a client's probe, so that a probe never keeps a controller from starting.
    database.exec('PRAGMA busy_timeout = 500');
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isBusy(error)) return undefined;
    throw lockError(path, error);
  }
  return () => database.close();
}

/** Takes a read lock for an instant. */
export function isControllerRunning(home: string): boolean {
  const path = join(home, 'controller.lock');
  let database: DatabaseSync;
  try {
    database = new DatabaseSync(path, { readOnly: true });
  } catch {
    // No file: no controller ever ran here.
    return false;
  }
  try {
    database.exec('PRAGMA busy_timeout = 0');
    database.prepare('SELECT count(*) FROM sqlite_schema').get();
    return false;
  } catch (error) {
    if (isBusy(error)) return true;
    throw lockError(path, error);
  } finally {
    database.close();
  }
}

/** SQLITE_NOTADB is 26, SQLITE_CORRUPT is 11. */
function lockError(path: string, error: unknown): unknown {
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  if (code !== 26 && code !== 11) return fileError(path, error);
  return new StoreError('broken', `${path} is damaged, so jobman cannot check whether a controller is running.`, [
    `If none is running (ps -ef | grep "controller run"), delete it: rm ${path}`,
  ]);
}

/** SQLITE_BUSY, primary code 5 (https://www.sqlite.org/rescode.html#busy). */
function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === 5;
}

/** The program of a controller. Two builds of one version may know different numbers of migrations. */
export interface ControllerProgram {
  readonly version: string;
  /** The database version that it knows. 0 for a controller that is too old to name it. */
  readonly schema: number;
}

/** `0.9.0 (database version 4)`. Different for every two programs that must replace each other. */
export function formatProgram({ version, schema }: ControllerProgram): string {
  return `${version} (database version ${schema})`;
}

/** Valid only while the lock is held. */
export interface ControllerFile extends ControllerProgram {
  readonly pid: number;
  readonly startedAt: Instant;
  /** Its name, without a password. Null for a controller that is too old to name it. */
  readonly database: string | null;
  /** True for the controller of `jobman server`. */
  readonly isServer: boolean;
}

export const heartbeatInterval: Duration = 5 * second;
const maxSilence: Duration = 20 * second;

/** The time of the last sign of life of the running controller if that is too long ago; else null. */
export function silentSince(home: string, now: Instant): Instant | null {
  const at = statSync(join(home, 'controller.json'), { throwIfNoEntry: false })?.mtimeMs ?? now;
  return now - at > maxSilence ? Math.floor(at) : null;
}

/** Different for every two controllers, also of different machines. */
export function formatController({ pid, startedAt }: Pick<ControllerFile, 'pid' | 'startedAt'>): string {
  return `${pid} ${startedAt}`;
}

export function readController(home: string): ControllerFile | null {
  if (!isControllerRunning(home)) return null;
  try {
    return parseControllerFile(JSON.parse(readRegularFile(join(home, 'controller.json'), 64 * 1024).toString('utf8')));
  } catch {
    // The file is not written yet, is about to be removed, or is a FIFO of another user.
    return null;
  }
}

/** Null for a malformed value. Callers send signals to the pid, and `kill` treats a pid below 1 as many processes. In a container it is 1. */
function parseControllerFile(value: unknown): ControllerFile | null {
  if (typeof value !== 'object' || value === null) return null;
  const {
    pid,
    version,
    schema = 0,
    startedAt,
    database = null,
    isServer = false,
  } = value as Partial<Record<keyof ControllerFile, unknown>>;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid < 1) return null;
  if (typeof startedAt !== 'number' || !(Math.abs(startedAt) <= maxTimestamp)) return null;
  if (typeof schema !== 'number' || !Number.isSafeInteger(schema)) return null;
  if (database !== null && typeof database !== 'string') return null;
  if (typeof version !== 'string') return null;
  return { pid, version, schema, startedAt, database, isServer: isServer === true };
}

/** The largest distance from 1970 that a Date can represent, in milliseconds. */
const maxTimestamp = 8.64e15;

/** Different on other machines and in other containers, which may share the database but not this home. */
export function identityOfLock(home: string): string {
  let boot = '';
  try {
    boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    // Only Linux has it.
  }
  return [hostname(), boot, fileIdentity(join(home, 'controller.lock'))].join(' ');
}

/** Device and inode. An inode is not reused while its file is open. */
export function fileIdentity(path: string): string {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : 'unknown';
  }
}
