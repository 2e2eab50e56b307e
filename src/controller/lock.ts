// Lock: one controller at most runs on this machine for a home. An SQLite file is held by BEGIN EXCLUSIVE, and the kernel releases it
// on any death of its holder, so no lock is stale. Every command that shows jobs asks here who runs the controller.

import { closeSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreError, fileError } from '../app/errors.ts';
import { fileModeIn, readRegularFile } from '../app/files.ts';
import type { Instant } from '../core/time.ts';

/** Takes the lock and returns what lets it go, or undefined when another process holds it. Throws when the file cannot be made. */
export function takeLock(path: string): (() => void) | undefined {
  // SQLite would make it writable by its owner only; in a shared home the next controller may be another login's.
  closeSync(openSync(path, 'a', fileModeIn(dirname(path))));
  const database = new DatabaseSync(path);
  try {
    // Longer than a client's probe holds its shared lock, so that a probe never keeps a controller from starting.
    database.exec('PRAGMA busy_timeout = 500');
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isBusy(error)) return undefined;
    throw troubleWithLock(path, error);
  }
  return () => database.close();
}

/** Whether some process holds the lock now. Takes a read lock for an instant. */
function isLocked(path: string): boolean {
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
    throw troubleWithLock(path, error);
  } finally {
    database.close();
  }
}

/** SQLITE_NOTADB is 26, SQLITE_CORRUPT is 11. */
function troubleWithLock(path: string, error: unknown): unknown {
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  if (code !== 26 && code !== 11) return fileError(path, error);
  return new StoreError('broken', `${path} is damaged, so nothing can tell whether a controller runs.`, [
    `If none runs (ps -ef | grep "controller run"), delete it: rm ${path}`,
  ]);
}

/** SQLITE_BUSY, primary code 5 (https://www.sqlite.org/rescode.html#busy). */
function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === 5;
}

/** Who runs, as `controller.json` says. True only while the lock is held. */
export interface ControllerFile {
  readonly pid: number;
  readonly version: string;
  readonly startedAt: Instant;
}

/** Who runs the controller of this home, or null. Reads only. */
export function readController(home: string): ControllerFile | null {
  if (!isControllerRunning(home)) return null;
  try {
    return controllerIn(JSON.parse(readRegularFile(join(home, 'controller.json'), 64 * 1024).toString('utf8')));
  } catch {
    // The file is not written yet, about to be removed, or another person has put a FIFO in its place.
    return null;
  }
}

/** Null for values of other kinds. The pid is one that signals are sent to, and `kill` takes one below 1 for many processes. */
function controllerIn(value: unknown): ControllerFile | null {
  if (typeof value !== 'object' || value === null) return null;
  const { pid, version, startedAt } = value as Partial<Record<keyof ControllerFile, unknown>>;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 1) return null;
  if (typeof startedAt !== 'number' || !(Math.abs(startedAt) <= furthest)) return null;
  return typeof version === 'string' ? { pid, version, startedAt } : null;
}

/** The furthest time from 1970 that a Date can be. */
const furthest = 8.64e15;

/** Whether a controller of this home is running now. */
export function isControllerRunning(home: string): boolean {
  return isLocked(join(home, 'controller.lock'));
}
