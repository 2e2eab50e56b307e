// Running: who runs the controller of a home. Apart from the controller itself, because every look at jobs asks this.

import { join } from 'node:path';
import { readRegularFile } from '../app/regular-file.ts';
import type { Instant } from '../core/time.ts';
import { isLocked } from './lock.ts';

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
    // It holds the lock and has not yet written the file, or is about to remove it. Or another person who may write to the home has put
    // a FIFO in its place.
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

/** The furthest moment from 1970 that a Date can be. */
const furthest = 8.64e15;

/** Whether a controller of this home is running now. */
export function isControllerRunning(home: string): boolean {
  return isLocked(join(home, 'controller.lock'));
}
