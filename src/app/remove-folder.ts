// Removal of a folder that a program of a user, or an archive, has filled.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';

/**
 * Removes a folder with all that is in it; one that is not there is fine. It may hold paths that are longer than a path can be, which
 * Node does not remove, and folders that their owner may not enter. Throws what the system says where something stays.
 */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    const script = 'chmod -R u+rwx -- "$1"; rm -rf -- "$1"';
    await once(spawn('sh', ['-c', script, 'sh', folder], { stdio: 'ignore' }), 'close');
    await rm(folder, { recursive: true, force: true });
  }
}
