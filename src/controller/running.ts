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
    return JSON.parse(readRegularFile(join(home, 'controller.json'), 64 * 1024).toString('utf8')) as ControllerFile;
  } catch {
    // It holds the lock and has not yet written the file, or is about to remove it. Or another person who may write to the home has put
    // a FIFO in its place.
    return null;
  }
}

/** Whether a controller of this home is running now. */
export function isControllerRunning(home: string): boolean {
  return isLocked(join(home, 'controller.lock'));
}
