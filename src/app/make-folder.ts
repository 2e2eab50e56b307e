// Make folder: a folder with those above it.

import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { troubleWith } from './file-trouble.ts';

/**
 * Makes it with what is missing above it, for their owner only unless another mode is given (the umask counts as ever);
 * nothing happens when it is there. Throws what the system says, or a StoreError where it says nothing that helps.
 *
 * Each by itself: Node's recursive mkdir tells ENOENT on a read-only file system, and never returns where a file system
 * answers ENOENT to a folder that it will not make, as /proc does.
 */
export function makeFolder(path: string, mode = 0o700): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
    if (code !== 'ENOENT') throw error;
    const above = dirname(path);
    if (existsSync(above)) throw troubleWith(path, 'broken', error);
    makeFolder(above, mode);
    // Not mkdir alone: another process may make the same folders at the same moment.
    makeFolder(path, mode);
  }
}
