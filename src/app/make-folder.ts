// Make folder: a folder with those above it, for their owner only.

import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/** Makes it with what is missing above it; nothing happens when it is there. Throws what the system says. */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    // On a read-only file system Node's recursive mkdir says ENOENT; asking for the first missing one tells the truth.
    mkdirSync(firstMissing(path), { mode: 0o700 });
    throw error;
  }
}

function firstMissing(path: string): string {
  const above = dirname(path);
  return above === path || existsSync(above) ? path : firstMissing(above);
}
